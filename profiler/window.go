package profiler

import (
	"errors"
	"fmt"
	"sync"

	"example.com/devevents/events"
)

// chunk is how many windows a stream is prepared for at a time.
const chunk = 32

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

type windowState uint8

const (
	windowFree windowState = iota
	windowOpen
	windowClosing // its end is being recorded
	windowPending // stopped, not read back
	windowZombie  // read back, but the next window still needs its end stamp
)

// window is one slot of a stream: a pair of events and what is known of the
// window that uses them now. The stream's lock guards it.
type window[E any] struct {
	own   [2]*stamp[E]
	start *stamp[E] // own[0], or the end of the window before across a lap
	end   *stamp[E] // own[1]

	state    windowState
	id       uint64
	seq      uint64
	parent   uint64
	depth    int
	track    *Track
	began    int64 // host clock before the call that recorded the start
	position uint64
	note     uint64 // the stream's tail before the end was recorded
	failed   error
	captured bool

	index    int32
	newer    int32 // the chain of open windows, -1 at its ends
	older    int32
	lender   int32 // the window whose end is our start, -1 for none
	lent     bool
	nextFree int32
}

// stream is one stream of the device with its windows.
type stream[E any, S comparable] struct {
	engine *engine[E, S]
	handle S

	mu        sync.Mutex
	windows   []*window[E]
	firstFree int32 // a queue: the window used longest ago comes first
	lastFree  int32
	free      int
	innermost int32
	pending   []*window[E] // in the order of their stops
	tail      uint64       // positions given to stopped windows
	tracks    int
	dead      bool // no track left; reaped when nothing is pending
	ended     bool // the profiler is closed
	growing   bool
}

func newStream[E any, S comparable](e *engine[E, S], handle S) *stream[E, S] {
	return &stream[E, S]{engine: e, handle: handle, firstFree: -1, lastFree: -1, innermost: -1}
}

// grow makes events for another chunk of windows. The events are made without
// the lock.
func (s *stream[E, S]) grow() error {
	e := s.engine
	n := e.reserve(chunk)
	if n == 0 {
		return fmt.Errorf("profiler: %w: %d windows are prepared for over all streams", events.ErrFull, e.cfg.windows)
	}
	made := make([]*window[E], 0, n)
	var failed error
	for range n {
		w := &window[E]{newer: -1, older: -1, lender: -1, nextFree: -1}
		if failed = e.newStamps(w); failed != nil {
			break
		}
		made = append(made, w)
	}
	e.unreserve(n - len(made))
	s.mu.Lock()
	for _, w := range made {
		w.index = int32(len(s.windows))
		s.windows = append(s.windows, w)
		s.push(w)
	}
	s.growing = false
	s.mu.Unlock()
	if len(made) > 0 {
		return nil
	}
	return failed
}

// push puts a window at the end of the free queue. Both events of a free window
// may still be pending on the device; recording over that is legal.
func (s *stream[E, S]) push(w *window[E]) {
	w.state, w.nextFree, w.track, w.failed, w.captured = windowFree, -1, nil, nil, false
	if s.lastFree < 0 {
		s.firstFree = w.index
	} else {
		s.windows[s.lastFree].nextFree = w.index
	}
	s.lastFree = w.index
	s.free++
}

func (s *stream[E, S]) pop() *window[E] {
	if s.firstFree < 0 {
		return nil
	}
	w := s.windows[s.firstFree]
	s.firstFree = w.nextFree
	if s.firstFree < 0 {
		s.lastFree = -1
	}
	s.free--
	return w
}

// open takes a window and puts it innermost. The lock is held.
func (s *stream[E, S]) open(t *Track, began int64) *window[E] {
	w := s.pop()
	if w == nil {
		return nil
	}
	w.start, w.end = w.own[0], w.own[1]
	w.state, w.track, w.began = windowOpen, t, began
	w.id = s.engine.lastID.Add(1)
	w.parent, w.depth = 0, 0
	w.lender, w.lent = -1, false
	w.older, w.newer = s.innermost, -1
	if s.innermost >= 0 {
		outer := s.windows[s.innermost]
		outer.newer = w.index
		w.parent, w.depth = outer.id, outer.depth+1
	}
	s.innermost = w.index
	s.engine.count.open.Add(1)
	return w
}

// unlink takes a window out of the chain of open ones. The lock is held.
func (s *stream[E, S]) unlink(w *window[E]) {
	s.engine.count.open.Add(-1)
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
		s.engine.respoil(s, w)
		return
	}
	s.push(w)
}

// start implements lane.
func (s *stream[E, S]) start(t *Track) Window {
	e := s.engine
	if reason := e.refuse(); reason != nil {
		return Window{err: reason}
	}
	e.count.started.Add(1)
	began := e.now()
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		e.count.dropped.Add(1)
		return Window{err: fmt.Errorf("profiler: stream: %w", events.ErrClosed)}
	}
	w := s.open(t, began)
	low := s.low()
	s.mu.Unlock()
	if low {
		e.wantGrowth(s)
	}
	if w == nil {
		e.count.dropped.Add(1)
		return Window{err: e.errFull}
	}
	token := Window{lane: s, id: w.id, slot: w.index}
	if err := e.api.EventRecord(w.start.event, s.handle); err != nil {
		e.noteFault(err)
		// Close may have taken the window meanwhile, and has counted it then.
		if w, stale := s.take(token); stale == nil {
			s.give(w)
			e.count.failed.Add(1)
		}
		return Window{err: fmt.Errorf("profiler: start: %w", err)}
	}
	if e.asksAtStart && e.capturing(s.handle) {
		s.mu.Lock()
		w.captured = true
		s.mu.Unlock()
	}
	return token
}

// low asks for more windows before they run out. The lock is held.
func (s *stream[E, S]) low() bool {
	low := s.free < chunk/2 && !s.growing
	s.growing = s.growing || low
	return low
}

// give is done without the lock.
func (s *stream[E, S]) give(w *window[E]) {
	s.mu.Lock()
	s.done(w)
	s.mu.Unlock()
}

// take checks a token and moves its window from open to closing.
func (s *stream[E, S]) take(t Window) (*window[E], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.opened(t)
	if w == nil {
		if s.ended {
			return nil, errClosed
		}
		return nil, errStale
	}
	w.state = windowClosing
	w.note = s.tail
	s.unlink(w)
	return w, nil
}

var errStale = fmt.Errorf("profiler: %w: the token was used before, or never issued", events.ErrInvalid)

// stop implements lane.
func (s *stream[E, S]) stop(t Window) Measurement {
	w, err := s.take(t)
	if err != nil {
		return Measurement{err: err}
	}
	e := s.engine
	if err := s.finish(w); err != nil {
		return Measurement{core: e, id: t.id, err: err}
	}
	return Measurement{core: e, id: t.id, seq: s.queue(w)}
}

// finish records a window's end. If that settles the window its outcome is
// returned, and the window given back.
func (s *stream[E, S]) finish(w *window[E]) error {
	e := s.engine
	err := w.failed
	if err == nil {
		if fault := e.fault.Load(); fault != nil {
			err = *fault
		}
	}
	if err == nil {
		if err = e.api.EventRecord(w.end.event, s.handle); err != nil {
			e.noteFault(err)
			err = fmt.Errorf("profiler: stop: %w", err)
		}
	}
	if err != nil {
		e.count.failed.Add(1)
		s.give(w)
		return err
	}
	// Asked after the record: a capture that began before it is then seen.
	if e.asker != nil && (e.capturing(s.handle) || w.captured) {
		e.count.captured.Add(1)
		s.mu.Lock()
		w.start.spoilt, w.end.spoilt = true, true
		s.done(w)
		s.mu.Unlock()
		return errCaptured
	}
	return nil
}

var errCaptured = fmt.Errorf("profiler: %w: its timestamps went into the graph, which is unharmed; measure the graph's launch instead", events.ErrCapturing)

// queue hands a stopped window to the harvester.
func (s *stream[E, S]) queue(w *window[E]) uint64 {
	e := s.engine
	seq := e.lastSeq.Add(1)
	e.count.pending.Add(1)
	s.mu.Lock()
	if s.ended { // Close has read back for the last time
		s.done(w)
		s.mu.Unlock()
		e.settle(seq, errClosed)
		return seq
	}
	w.seq = seq
	w.position = s.tail
	s.tail++
	w.state = windowPending
	s.pending = append(s.pending, w)
	s.mu.Unlock()
	e.nudge()
	return seq
}

// lap implements lane.
func (s *stream[E, S]) lap(t Window) (Measurement, Window) {
	e := s.engine
	if reason := e.refuse(); reason != nil {
		return s.stop(t), Window{err: reason}
	}
	e.count.started.Add(1)
	began := e.now()
	w, next, err := s.succeed(t, began)
	switch {
	case err != nil:
		e.count.dropped.Add(1)
		return Measurement{err: err}, Window{err: err}
	case next == nil:
		e.count.dropped.Add(1)
		return s.stop(t), Window{err: e.errFull}
	}
	token := Window{lane: s, id: next.id, slot: next.index}
	if err := s.finish(w); err != nil {
		// There is no stamp that the next window could begin at.
		if next, stale := s.take(token); stale == nil {
			s.give(next)
			if errors.Is(err, events.ErrCapturing) {
				e.count.captured.Add(1)
			} else {
				e.count.failed.Add(1)
			}
		}
		return Measurement{core: e, id: t.id, err: err}, Window{err: err}
	}
	return Measurement{core: e, id: t.id, seq: s.queue(w)}, token
}

// succeed moves an open window to closing and opens the next in its place, with
// the one's end as the other's start. There is no next when none is free.
func (s *stream[E, S]) succeed(t Window, began int64) (w, next *window[E], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w = s.opened(t); w == nil {
		return nil, nil, errStale
	}
	next = s.open(w.track, began)
	if s.low() {
		s.engine.wantGrowth(s)
	}
	if next == nil {
		return w, nil, nil
	}
	s.unlink(next)
	next.parent, next.depth = w.parent, w.depth
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
	w.state, w.note = windowClosing, s.tail
	next.lender, next.start, w.lent = w.index, w.end, true
	return w, next, nil
}

// opened finds a token's window, nil if it is not open any more. The lock is
// held.
func (s *stream[E, S]) opened(t Window) *window[E] {
	if t.slot < 0 || int(t.slot) >= len(s.windows) {
		return nil
	}
	if w := s.windows[t.slot]; w.state == windowOpen && w.id == t.id {
		return w
	}
	return nil
}

// abandon implements lane.
func (s *stream[E, S]) abandon(t Window) error {
	w, err := s.take(t)
	if err != nil {
		return err
	}
	s.engine.count.abandoned.Add(1)
	s.give(w)
	return nil
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
func (s *stream[E, S]) release() {
	s.mu.Lock()
	s.tracks--
	last := s.tracks == 0
	s.dead = s.dead || last
	s.mu.Unlock()
	if last {
		s.engine.forget(s)
	}
}

// abandonOpen drops every open window of a stream that ends.
func (s *stream[E, S]) abandonOpen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.innermost >= 0 {
		w := s.windows[s.innermost]
		s.unlink(w)
		s.engine.count.abandoned.Add(1)
		s.done(w)
	}
}
