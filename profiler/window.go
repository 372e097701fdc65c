package profiler

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// A stream is prepared for firstChunk windows when its first track is made, so
// that a burst or a deep nest finds room at once, and for fewer where the bound of
// all windows nears; leastChunk is the least. WithPrepared has the last word.
const (
	firstChunk = 128
	leastChunk = 8
	// retryPause is how long nothing more is tried after no window could be had.
	retryPause = 2 * time.Millisecond
)

// stamp is one event of the device that windows record into. Two windows share
// one where a lap lies between them.
type stamp[E any] struct {
	event E
	// spoilt: the last record may have gone into a graph capture. Asking about
	// such an event can break the capture, so it is destroyed and never asked.
	spoilt bool
	// asked is the wait in progress on a backend that cannot query.
	asked chan error
}

const (
	// maxStack is how many calls of a stack are kept.
	maxStack = 64
	// skipToCaller leaves out of a stack what of this package is called on the way to it:
	// runtime.Callers, startWithCalls, start, Start; the same number for each door.
	skipToCaller = 4
)

type windowState uint8

const (
	windowFree windowState = iota
	windowOpen
	windowStopped // its end is recorded, or about to be
	windowZombie  // read back, but the next window still needs its end stamp
)

// window is one slot of a stream: a pair of events and what is known of the
// window that uses them now. The stream's lock guards it.
//
// Starts and the harvester usually run on different cores, so what stays the
// same from use to use lies apart from what each of them writes.
type window[E any] struct {
	own   [2]stamp[E]
	index int32
	made  bool // own holds live events

	_ [64]byte

	id       uint64
	began    int64     // host clock before the call that recorded the start
	start    *stamp[E] // of own[0], or the end of the window before across a lap
	end      *stamp[E] // of own[1]
	track    *Track
	ctx      context.Context // for the sinks
	stack    []uintptr       // of the call of start; room for maxStack where stacks are wanted
	stopped  int64           // host clock after the call that recorded the end; 0 without sinks
	place    place
	newer    int32 // the chain of open windows, -1 at its ends
	older    int32
	lender   int32 // the window whose end is our start, -1 for none
	lent     bool
	captured bool
	state    windowState

	position uint64 // the number of its stop on this stream, from 1
	note     uint64 // every window before this position was stopped when the end was recorded
	ready    atomic.Bool
	taken    bool // found reached; the harvester's alone
	failed   error
}

// stream is one stream of the device with its windows.
type stream[E any, S comparable] struct {
	engine *engine[E, S]
	handle S

	mu        sync.Mutex
	windows   []*window[E]
	free      []int32 // a stack: what was used last is still in the caches
	innermost int32
	pending   []*window[E] // stopped, not read back, in the order of their stops
	settled   int          // how many of pending, from the first, are known to be ready
	tail      uint64       // positions given to stopped windows
	lastID    uint64
	count     tally
	results   results
	tracks    int
	dead      bool // no track left; reaped when nothing is pending
	ended     bool // the profiler is closed
	growing   bool
	spoilt    []*window[E] // whose events have to be replaced
	vacant    []int32      // places in windows that hold none
	short     *nowhere     // why the last try to get more windows failed
	retry     time.Time    // when to try again
}

// streamShift is where the number of a stream stands in its windows' IDs: each
// counts its own windows without asking the others.
const streamShift = 40

func newStream[E any, S comparable](e *engine[E, S], handle S) *stream[E, S] {
	return &stream[E, S]{
		engine: e, handle: handle, innermost: -1,
		lastID:  e.lastStream.Add(1) << streamShift,
		results: results{limit: e.cfg.results},
	}
}

// grow gets the stream more windows: a chunk at first, then as many as it has, but
// only a part of what is left, so that other streams find some too. Where too little
// is left, streams that have more than they use give some up. Events are made
// without the lock.
func (s *stream[E, S]) grow() error {
	e := s.engine
	s.mu.Lock()
	have := len(s.windows) - len(s.vacant)
	s.mu.Unlock()
	want, due := min(have, e.unprepared()/2), have
	if have == 0 {
		want, due = min(firstChunk, e.unprepared()/16), e.share()
		if e.cfg.prepared > 0 {
			want = e.cfg.prepared
		}
	}
	var spared []*window[E]
	n, failed := 0, error(nil)
	if reason := e.refuse(); reason != nil {
		failed = reason.err
	} else {
		n = e.reserve(max(leastChunk, want))
		spared = e.spare(s, max(leastChunk, due)-n)
		if n+len(spared) == 0 {
			failed = e.full.err
		}
	}
	made := make([]*window[E], 0, n)
	for range n {
		w := &window[E]{newer: -1, older: -1, lender: -1}
		if e.cfg.stacks {
			w.stack = make([]uintptr, 0, maxStack)
		}
		if failed = e.newStamps(w); failed != nil {
			break
		}
		made = append(made, w)
	}
	e.unreserve(n - len(made))
	made = append(made, spared...)
	s.mu.Lock()
	s.growing = false
	ended := s.ended
	if !ended {
		for _, w := range made {
			s.house(w)
		}
	}
	s.short = nil
	if len(made) == 0 && failed != nil {
		s.short, s.retry = e.full, time.Now().Add(retryPause)
		if failed != e.full.err { //nolint:errorlint // the driver may be full as well
			s.short = &nowhere{fmt.Errorf("profiler: no window of the stream is free, and making more failed: %w", failed)}
		}
	}
	s.mu.Unlock()
	if ended { // Close has destroyed what it saw, which these are not among
		for _, w := range made {
			e.destroyStamps(w)
		}
		return errClosed
	}
	if len(made) > 0 {
		return nil
	}
	return failed
}

// house gives a new window a place. The lock is held.
func (s *stream[E, S]) house(w *window[E]) {
	if n := len(s.vacant); n > 0 {
		w.index, s.vacant = s.vacant[n-1], s.vacant[:n-1]
		s.windows[w.index] = w
	} else {
		w.index = int32(len(s.windows))
		s.windows = append(s.windows, w)
	}
	s.push(w)
}

// share is what each stream may have at least, so that all have as much.
func (e *engine[E, S]) share() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return min(firstChunk, e.cfg.windows/(2*max(1, len(e.streams))))
}

// spare takes n free windows from other streams, first from those that have most.
// Every stream keeps one, and none is left with less than the needy one gets. Of what
// a stream has free it gives half at a time, so that one that is busy again soon is
// not stripped by others. Their events may still be pending on the device; recording
// over that is legal on any stream.
func (e *engine[E, S]) spare(needy *stream[E, S], n int) (spared []*window[E]) {
	for n > 0 {
		var rich *stream[E, S]
		most := max(1, len(spared))
		for _, s := range e.snapshot() {
			if s == needy {
				continue
			}
			s.mu.Lock()
			if free := len(s.free); free > most && !s.ended {
				rich, most = s, free
			}
			s.mu.Unlock()
		}
		if rich == nil {
			break
		}
		taken := rich.giveUp(min(n, max(most/2, 1)))
		if len(taken) == 0 {
			break // it has just become busy
		}
		n -= len(taken)
		spared = append(spared, taken...)
	}
	return spared
}

// giveUp takes up to n free windows out, and leaves one.
func (s *stream[E, S]) giveUp(n int) (taken []*window[E]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.free)-1)
	if n <= 0 || s.ended {
		return nil
	}
	taken = make([]*window[E], 0, n)
	for _, i := range s.free[:n] { // used longest ago
		w := s.windows[i]
		s.vacate(w)
		taken = append(taken, w)
	}
	s.free = slices.Delete(s.free, 0, n)
	return taken
}

// vacate leaves a window's place empty: a token of it is stale from now on. The
// lock is held.
func (s *stream[E, S]) vacate(w *window[E]) {
	s.windows[w.index] = nil
	s.vacant = append(s.vacant, w.index)
}

// push frees a window. Both events of a free window may still be pending on the
// device; recording over that is legal.
func (s *stream[E, S]) push(w *window[E]) {
	w.state, w.track, w.failed = windowFree, nil, nil
	s.free = append(s.free, w.index)
}

func (s *stream[E, S]) pop() *window[E] {
	n := len(s.free)
	if n == 0 {
		return nil
	}
	w := s.windows[s.free[n-1]]
	s.free = s.free[:n-1]
	return w
}

// open takes a window and puts it innermost. The lock is held.
func (s *stream[E, S]) open(t *Track, began int64, from *nested) *window[E] {
	w := s.pop()
	if w == nil {
		return nil
	}
	w.start, w.end = &w.own[0], &w.own[1]
	w.state, w.track, w.began = windowOpen, t, began
	s.lastID++
	w.id = s.lastID
	w.lender, w.lent, w.captured = -1, false, false
	w.ctx, w.stack, w.stopped = nil, w.stack[:0], 0
	w.older, w.newer = s.innermost, -1
	var outer *window[E]
	if s.innermost >= 0 {
		outer = s.windows[s.innermost]
		outer.newer = w.index
	}
	switch {
	case from != nil:
		w.place = from.place
	case outer != nil:
		w.place.inside(outer.id, outer.track, &outer.place)
	default:
		w.place.alone(w.id)
	}
	s.innermost = w.index
	s.count.open++
	return w
}

// unlink takes a window out of the chain of open ones. The lock is held.
func (s *stream[E, S]) unlink(w *window[E]) {
	s.count.open--
	if w.newer >= 0 {
		s.windows[w.newer].older = w.older
	} else {
		s.innermost = w.older
	}
	if w.older >= 0 {
		s.windows[w.older].newer = w.newer
	}
	w.newer, w.older = -1, -1
}

// done gives a window back once nobody needs its events any more. The lock is
// held.
func (s *stream[E, S]) done(w *window[E]) {
	w.ctx = nil
	if s.ended {
		return // Close destroys every event itself
	}
	if w.lender >= 0 {
		lender := s.windows[w.lender]
		w.lender = -1
		lender.lent = false
		if lender.state == windowZombie {
			s.recycle(lender)
		}
	}
	if w.lent {
		w.state = windowZombie
		return
	}
	s.recycle(w)
}

// recycle queues a window for reuse, unless its events are spoilt and have to be
// replaced first.
func (s *stream[E, S]) recycle(w *window[E]) {
	if w.own[0].spoilt || w.own[1].spoilt {
		w.state = windowZombie
		if s.spoilt = append(s.spoilt, w); len(s.spoilt) == 1 {
			s.engine.wantMending(s)
		}
		return
	}
	s.push(w)
}

// mend replaces the events of spoilt windows. A stream without tracks is left as
// it is: it is freed as a whole, or mended when a track takes it over.
func (s *stream[E, S]) mend() {
	e := s.engine
	s.mu.Lock()
	var todo []*window[E]
	if !s.dead {
		todo, s.spoilt = s.spoilt, nil
	}
	s.mu.Unlock()
	for _, w := range todo {
		e.destroyStamps(w)
		err := errClosed
		if e.refuse() == nil {
			if err = e.newStamps(w); err != nil {
				e.noteFailure(err)
			}
		}
		if err != nil {
			e.unreserve(1)
		}
		s.mu.Lock()
		if err == nil {
			s.push(w)
		} else {
			s.vacate(w)
		}
		s.mu.Unlock()
	}
}

// start implements lane.
func (s *stream[E, S]) start(ctx context.Context, t *Track) Window {
	if s.engine.cfg.stacks {
		return s.startWithCalls(ctx, t)
	}
	return s.startFrom(ctx, t, nil)
}

// startWithCalls is apart, so that room for a stack is cleared only where one is wanted.
func (s *stream[E, S]) startWithCalls(ctx context.Context, t *Track) Window {
	var calls [maxStack]uintptr
	return s.startFrom(ctx, t, calls[:runtime.Callers(skipToCaller, calls[:])])
}

func (s *stream[E, S]) startFrom(ctx context.Context, t *Track, calls []uintptr) Window {
	e := s.engine
	from := e.openedIn(ctx)
	if reason := e.refuse(); reason != nil {
		return reason.window()
	}
	began := e.now()
	s.mu.Lock()
	if gone := s.gone(); gone != nil {
		s.mu.Unlock()
		return gone.window()
	}
	s.count.started++
	w := s.open(t, began, from)
	low := s.low()
	if w == nil {
		s.count.dropped++
		why := s.why()
		s.mu.Unlock()
		if low {
			e.wantGrowth(s)
		}
		return why.window()
	}
	w.ctx, w.stack = ctx, append(w.stack[:0], calls...)
	token := Window{lane: s, id: w.id, slot: w.index}
	event := w.start.event // Close may take the window before it is recorded
	s.mu.Unlock()
	if low {
		e.wantGrowth(s)
	}
	if err := e.api.EventRecord(event, s.handle); err != nil {
		e.noteFault(err)
		s.cancel(token, &s.count.failed)
		return (&nowhere{fmt.Errorf("profiler: start: %w", err)}).window()
	}
	if e.asksAtStart {
		if yes, err := e.capturing(s.handle); yes || err != nil {
			s.mu.Lock()
			if w := s.opened(token); w != nil {
				w.captured = true
			}
			s.mu.Unlock()
		}
	}
	e.nudge() // the clocks are compared while it is open
	return token
}

// gone says why no window can be open on the stream any more. The lock is held.
func (s *stream[E, S]) gone() *nowhere {
	switch {
	case s.ended || s.engine.closed.Load():
		return closed
	case s.dead:
		return lastTrack
	}
	return nil
}

// why says why no window is free. The lock is held.
func (s *stream[E, S]) why() *nowhere {
	if s.short != nil {
		return s.short
	}
	return s.engine.full
}

// low asks for more windows before they run out; once they have, also where other
// streams would have to spare some. The lock is held.
func (s *stream[E, S]) low() bool {
	if len(s.free) >= max(leastChunk/2, (len(s.windows)-len(s.vacant))/4) || s.growing {
		return false
	}
	if len(s.free) > 0 && s.engine.unprepared() <= 0 || s.short != nil && time.Now().Before(s.retry) {
		return false
	}
	s.growing = true
	return true
}

// cancel drops an open window and counts why, unless Close has done so already.
func (s *stream[E, S]) cancel(t Window, why *uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.opened(t)
	if w == nil {
		return false
	}
	s.unlink(w)
	*why++
	s.done(w)
	return true
}

var (
	errTrackClosed = fmt.Errorf("profiler: %w: every track of the stream is closed", events.ErrClosed)
	errStale       = fmt.Errorf("profiler: %w: the token was used before, or never issued", events.ErrInvalid)
	errCaptured    = fmt.Errorf("profiler: %w: its timestamps went into the graph, which is unharmed; measure the graph's launch instead", events.ErrCapturing)
)

// stale says why a token's window is not open. The lock is held.
func (s *stream[E, S]) stale() *nowhere {
	if gone := s.gone(); gone != nil {
		return gone
	}
	return stale
}

// stop implements lane.
func (s *stream[E, S]) stop(t Window) Measurement {
	s.mu.Lock()
	w := s.opened(t)
	if w == nil {
		why := s.stale()
		s.mu.Unlock()
		return why.measurement(t.id)
	}
	s.unlink(w)
	position := s.enqueue(w)
	s.mu.Unlock()
	if failed := s.finish(w); failed != nil {
		return failed.measurement(t.id)
	}
	return Measurement{outcome: s, id: t.id, position: position}
}

// enqueue puts a window among the stopped ones before its end is recorded, which
// saves taking the lock again afterwards. The lock is held.
//
// The device passes the windows in the order of their records, which is not the
// order of their places here when goroutines share the stream. What is certain is
// that a window found ready now has its record behind it.
func (s *stream[E, S]) enqueue(w *window[E]) uint64 {
	for s.settled < len(s.pending) && s.pending[s.settled].ready.Load() {
		s.settled++
	}
	s.tail++
	w.state, w.taken, w.position = windowStopped, false, s.tail
	w.note = s.tail
	if s.settled < len(s.pending) {
		w.note = s.pending[s.settled].position
	}
	w.ready.Store(false)
	s.pending = append(s.pending, w)
	s.count.unread++
	return w.position
}

// finish records a stopped window's end and makes it ready to be read back. If
// that settles the window its outcome is returned, and the window given back.
func (s *stream[E, S]) finish(w *window[E]) *nowhere {
	e := s.engine
	if w.failed != nil {
		return s.withdraw(w, &nowhere{w.failed}, false)
	}
	if fault := e.fault.Load(); fault != nil {
		return s.withdraw(w, fault, false)
	}
	if err := e.api.EventRecord(w.end.event, s.handle); err != nil {
		e.noteFault(err)
		return s.withdraw(w, &nowhere{fmt.Errorf("profiler: stop: %w", err)}, false)
	}
	if e.sinks.some() {
		w.stopped = e.now()
	}
	if e.asker != nil {
		// Asked after the record: a capture that began before it is then seen.
		yes, err := e.capturing(s.handle)
		if err != nil {
			return s.withdraw(w, &nowhere{err}, true)
		}
		if yes || w.captured {
			return s.withdraw(w, captured, true)
		}
	}
	w.ready.Store(true)
	e.nudge()
	return nil
}

// withdraw takes a window back from the stopped ones. If Close or a fault of the
// device has settled it meanwhile, that outcome stands.
func (s *stream[E, S]) withdraw(w *window[E], why *nowhere, spoilt bool) *nowhere {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.pending, w)
	if i < 0 {
		return why
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	s.settled = min(s.settled, i)
	s.count.unread--
	*s.counterOf(why)++
	if spoilt {
		w.start.spoilt, w.end.spoilt = true, true
	}
	s.results.put(w.position, Span{}, why.err)
	s.done(w)
	return why
}

// counterOf is what a window without a result counts as.
func (s *stream[E, S]) counterOf(why *nowhere) *uint64 {
	if why == captured {
		return &s.count.captured
	}
	return &s.count.failed
}

// wait implements outcome.
func (s *stream[E, S]) wait(ctx context.Context, position uint64) (Span, error) {
	return s.engine.wait(ctx, &s.results, position)
}

// lap implements lane.
func (s *stream[E, S]) lap(t Window, track *Track) (Measurement, Window) {
	if s.engine.cfg.stacks {
		return s.lapWithCalls(t, track)
	}
	return s.lapFrom(t, track, nil)
}

func (s *stream[E, S]) lapWithCalls(t Window, track *Track) (Measurement, Window) {
	var calls [maxStack]uintptr
	return s.lapFrom(t, track, calls[:runtime.Callers(skipToCaller, calls[:])])
}

func (s *stream[E, S]) lapFrom(t Window, track *Track, calls []uintptr) (Measurement, Window) {
	e := s.engine
	if reason := e.refuse(); reason != nil {
		return s.stop(t), reason.window()
	}
	began := e.now()
	s.mu.Lock()
	w := s.opened(t)
	if w == nil {
		why := s.stale()
		s.mu.Unlock()
		return why.measurement(t.id), why.window()
	}
	s.count.started++
	next := s.succeed(w, track, began)
	low := s.low()
	var why *nowhere
	if next == nil {
		s.count.dropped++
		why = s.why()
		s.unlink(w)
	} else {
		next.ctx, next.stack = w.ctx, append(next.stack[:0], calls...)
	}
	position := s.enqueue(w)
	s.mu.Unlock()
	if low {
		e.wantGrowth(s)
	}
	failed := s.finish(w)
	m := Measurement{outcome: s, id: t.id, position: position}
	if failed != nil {
		m = failed.measurement(t.id)
	}
	if next == nil {
		return m, why.window()
	}
	token := Window{lane: s, id: next.id, slot: next.index}
	if failed == nil {
		return m, token
	}
	// There is no stamp that the next window could begin at.
	s.cancel(token, s.counterOf(failed))
	return m, failed.window()
}

// succeed opens the next window in the place of one that ends, with the one's
// end as the other's start. It is nil when none is free. The lock is held.
func (s *stream[E, S]) succeed(w *window[E], track *Track, began int64) *window[E] {
	next := s.open(track, began, nil)
	if next == nil {
		return nil
	}
	s.unlink(next)
	next.place = w.place
	if w.place.root == w.id {
		next.place.root = next.id
	}
	next.older, next.newer = w.older, w.newer
	if next.newer >= 0 {
		s.windows[next.newer].older = next.index
	} else {
		s.innermost = next.index
	}
	if next.older >= 0 {
		s.windows[next.older].newer = next.index
	}
	w.older, w.newer = -1, -1
	next.lender, next.start, w.lent = w.index, w.end, true
	return next // as many windows are open as before
}

// opened finds a token's window, nil if it is not open any more. The lock is
// held.
func (s *stream[E, S]) opened(t Window) *window[E] {
	if t.slot < 0 || int(t.slot) >= len(s.windows) {
		return nil
	}
	if w := s.windows[t.slot]; w != nil && w.state == windowOpen && w.id == t.id {
		return w
	}
	return nil
}

// abandon implements lane.
func (s *stream[E, S]) abandon(t Window) error {
	if s.cancel(t, &s.count.abandoned) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale().err
}

// failOpen marks every open window.
func (s *stream[E, S]) failOpen(err error) {
	s.mu.Lock()
	for i := s.innermost; i >= 0; i = s.windows[i].older {
		if s.windows[i].failed == nil {
			s.windows[i].failed = err
		}
	}
	s.mu.Unlock()
}

// release implements lane: a track on this stream was closed.
func (s *stream[E, S]) release() { s.leave(1) }

// leave gives up so many tracks, and the stream with the last one.
func (s *stream[E, S]) leave(tracks int) {
	s.mu.Lock()
	s.tracks -= tracks
	if s.dead = s.tracks == 0; s.dead {
		s.abandonOpen() // not later: another track may take the stream over at once
	}
	s.mu.Unlock()
	s.engine.hurry()
}

// abandonOpen drops every open window of a stream that ends. Somebody may be
// recording the start of one at this moment, so their events are not used again.
// The lock is held.
func (s *stream[E, S]) abandonOpen() {
	for s.innermost >= 0 {
		w := s.windows[s.innermost]
		s.unlink(w)
		s.count.abandoned++
		w.own[0].spoilt = true
		s.done(w)
	}
}
