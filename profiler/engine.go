package profiler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
)

// engine is a profiler with its vendor's types.
type engine[E any, S comparable] struct {
	api    events.EventApi[E, S]
	cfg    config
	query  events.Querier[E]
	rounds events.RoundQuerier[E]
	asker  events.CaptureAsker[S]
	full   *nowhere
	// asksAtStart: elapsed on an event that was recorded in a capture would read
	// older stamps, so a capture that ends before Stop must be seen too.
	asksAtStart bool

	base  time.Time
	slack time.Duration // how far off base may be
	clock func() int64  // nil: the machine's

	device *Device

	lastStream atomic.Uint64
	count      counters
	fault      atomic.Pointer[nowhere]
	clockState struct {
		sync.Mutex
		known ClockStats
	}
	closed   atomic.Bool
	prepared atomic.Int64 // windows that events exist for, or are being made for

	changes bell
	sinks   sinkSet

	mu      sync.RWMutex // taken before a stream's lock, never after
	streams map[S]*stream[E, S]
	past    tally // of streams that are gone

	asks struct { // what is asked of the harvester; taken after every other lock
		sync.Mutex
		growing []*stream[E, S]
		mending []*stream[E, S]
	}
	growing []*stream[E, S] // what housekeep took of it last

	flushing struct { // taken before a stream's lock
		sync.Mutex
		all []*flush[E, S]
	}

	harvest  harvest[E, S]
	idle     atomic.Bool
	eager    atomic.Int64 // readers and flushes waiting
	waiters  atomic.Int64 // goroutines in EventWait
	making   atomic.Int64 // goroutines in lane, which makes and frees events
	wakeup   chan struct{}
	quit     chan struct{}
	finished chan struct{}
	closing  sync.Once
	over     chan struct{} // closed when Close is done
	failures errorLog

	growthWarned sync.Once
}

var errClosed = fmt.Errorf("profiler: %w", events.ErrClosed)

func newEngine[E any, S comparable](api events.EventApi[E, S], cfg config) (*engine[E, S], error) {
	e := &engine[E, S]{
		api: api, cfg: cfg, clock: cfg.clock,
		full: &nowhere{fmt.Errorf("profiler: %w: no window of the stream is free, and of at most %d over all streams none can be spared; raise WithWindows, or WithPrepared for bursts",
			events.ErrFull, cfg.windows)},
		streams:  map[S]*stream[E, S]{},
		wakeup:   make(chan struct{}, 1),
		quit:     make(chan struct{}),
		finished: make(chan struct{}),
		over:     make(chan struct{}),
	}
	// A host second lasts at most this much longer than a device second.
	e.cfg.maxRate = cfg.maxRate / (1 - cfg.maxRate)
	e.query, _ = events.Ability[events.Querier[E]](api)
	e.rounds, _ = events.Ability[events.RoundQuerier[E]](api)
	e.asker, _ = events.Ability[events.CaptureAsker[S]](api)
	if stale, ok := events.Ability[events.StaleReader](api); ok {
		e.asksAtStart = e.asker != nil && stale.ElapsedAfterCapture()
	}
	if hc, ok := events.Ability[events.HostClocker](api); ok && e.clock == nil {
		e.clock = hc.HostClock()
	}
	e.device = &Device{Backend: api.Backend()}
	if who, ok := events.Ability[events.Identifier](api); ok {
		e.device.Identity = who.Identity()
	}
	e.base, e.slack = originOf(e.clock)
	e.harvest.engine = e
	if err := e.openPlacer(); err != nil {
		return nil, err
	}
	e.sinks.limit, e.sinks.count, e.sinks.log = cfg.sinkQueue, &e.count, cfg.log
	for _, sink := range cfg.sinks {
		if _, err := e.sinks.add(sink); err != nil {
			return nil, err // not reached: the options were checked
		}
	}
	go e.run()
	return e, nil
}

// at is an instant of the host's clock as the program sees it.
func (e *engine[E, S]) at(host int64) time.Time { return e.base.Add(time.Duration(host)) }

// openPlacer is the first use of the device, in which a driver may hang. What comes
// of it too late is freed where it was made.
func (e *engine[E, S]) openPlacer() error {
	var decided atomic.Bool
	opened := make(chan error, 1)
	go func() {
		err := e.harvest.placer.open(e)
		if decided.CompareAndSwap(false, true) {
			opened <- err
		} else if err == nil {
			e.harvest.placer.close()
		}
	}()
	timer := time.NewTimer(e.cfg.openLimit)
	defer timer.Stop()
	select {
	case err := <-opened:
		return err
	case <-timer.C:
	}
	if !decided.CompareAndSwap(false, true) {
		return <-opened // at the last moment
	}
	return fmt.Errorf("profiler: %w: the first use of the device (%s) has not returned within %v; the device hangs, or something holds it",
		events.ErrExpired, e.api.Backend(), e.cfg.openLimit)
}

// originOf is when a clock read 0, give or take slack: the narrowest of some
// readings between two of the machine's clock. No clock means the machine's.
func originOf(clock func() int64) (origin time.Time, slack time.Duration) {
	if clock == nil {
		return time.Now(), 0
	}
	for i := range 16 {
		before := time.Now()
		at := clock()
		half := (time.Since(before) + 1) / 2
		if i == 0 || half < slack {
			origin, slack = before.Add(half-time.Duration(at)), half
		}
	}
	return origin, slack
}

// now is the host's monotonic clock in nanoseconds.
func (e *engine[E, S]) now() int64 {
	if e.clock != nil {
		return e.clock()
	}
	return int64(time.Since(e.base))
}

func (e *engine[E, S]) origin() time.Time  { return e.base }
func (e *engine[E, S]) present() time.Time { return e.at(e.now()) }
func (e *engine[E, S]) stats() Stats       { return e.count.snapshot(e.tally()) }

func (e *engine[E, S]) clockStats() ClockStats {
	e.clockState.Lock()
	known := e.clockState.known
	e.clockState.Unlock()
	known.Anchors, known.Rejected, known.Clamped = e.count.anchors.Load(), e.count.anchorsMissed.Load(), e.count.clamped.Load()
	return known
}

func (e *engine[E, S]) tally() tally {
	e.mu.RLock()
	defer e.mu.RUnlock()
	sum := e.past
	for _, s := range e.streams {
		s.mu.Lock()
		sum.add(s.count)
		s.mu.Unlock()
	}
	return sum
}

// unreadNow is the number of windows that are stopped and have no outcome yet.
func (e *engine[E, S]) unreadNow() int { return e.tally().unread + int(e.count.placing.Load()) }

// refuse says why no window can be opened any more.
func (e *engine[E, S]) refuse() *nowhere {
	if e.closed.Load() {
		return closed
	}
	return e.fault.Load()
}

// noteFault remembers that the device has failed for good, and reports whether
// the error says so.
func (e *engine[E, S]) noteFault(err error) bool {
	if !errors.Is(err, events.ErrDeviceFault) && !errors.Is(err, events.ErrContextLost) {
		return false
	}
	fault := &nowhere{fmt.Errorf("profiler: the device failed: %w", err)}
	if e.fault.CompareAndSwap(nil, fault) {
		e.failures.add(fault.err)
		e.cfg.log.Error("the device has failed; profiling stops, and every window resolves with this error",
			zap.String("backend", e.api.Backend()), zap.Error(err))
		e.hurry()
	}
	return true
}

// noteFailure keeps an error of a background path for Close. A fault of the
// device is kept once, however many calls it fails.
func (e *engine[E, S]) noteFailure(err error) {
	if err != nil && !e.noteFault(err) {
		e.failures.add(err)
	}
}

// capturing asks whether a stream is being captured. An error means that nobody
// knows, so that the stream's events must not be asked about.
func (e *engine[E, S]) capturing(s S) (bool, error) {
	yes, err := e.asker.StreamCapturing(s)
	switch {
	case err == nil, errors.Is(err, events.ErrCapturing):
		return yes || err != nil, nil
	case e.noteFault(err):
		return false, e.fault.Load().err
	}
	return false, fmt.Errorf("profiler: asking whether the stream is being captured: %w", err)
}

func (e *engine[E, S]) canAsk() bool { return e.query != nil || e.rounds != nil }

// reached reports whether the device has reached a stamp, without blocking. On
// a backend that cannot query, a goroutine waits in the driver for it. The
// harvest's lock is held, or nothing else knows of the stamp yet.
func (e *engine[E, S]) reached(s *stamp[E]) (bool, error) {
	if e.query != nil {
		return e.query.EventQuery(s.event)
	}
	if s.asked == nil {
		if e.waiters.Add(1) > int64(e.cfg.threads) {
			e.waiters.Add(-1)
			return false, nil
		}
		asked := make(chan error, 1)
		s.asked = asked
		event := s.event
		go func() {
			defer e.waiters.Add(-1)
			asked <- e.api.EventWait(event)
		}()
	}
	select {
	case err := <-s.asked:
		s.asked = nil
		return err == nil, err
	default:
		runtime.Gosched()
		return false, nil
	}
}

// lane finds or makes the stream's windows, for so many tracks more. If there is no
// room for windows at present the stream gets some when there is.
func (e *engine[E, S]) lane(handle S, tracks int) (lane, error) {
	e.making.Add(1)
	defer e.making.Add(-1)
	if reason := e.refuse(); reason != nil {
		return nil, reason.err
	}
	if err := e.usable(handle); err != nil {
		return nil, err
	}
	e.mu.Lock()
	if reason := e.refuse(); reason != nil { // looked at again where Close cannot miss the stream
		e.mu.Unlock()
		return nil, reason.err
	}
	s, known := e.streams[handle]
	if !known {
		s = newStream(e, handle)
		e.streams[handle] = s
	}
	s.mu.Lock() // within e.mu, so that the stream is not reaped meanwhile
	s.tracks += tracks
	s.dead = false
	if len(s.spoilt) > 0 {
		e.wantMending(s)
	}
	empty := len(s.windows) == 0 && !s.growing
	s.growing = s.growing || empty
	s.mu.Unlock()
	e.mu.Unlock()
	if empty {
		if e.unprepared() < e.cfg.windows/2 {
			// Streams may come and go faster than the harvester frees them.
			e.harvest.try()
			e.reap()
		}
		if err := s.grow(); err != nil && !errors.Is(err, events.ErrFull) {
			e.noteFault(err)
			s.leave(tracks)
			return nil, err
		}
	}
	return s, nil
}

// usable refuses a stream that no call would take, where the backend can be asked
// without queueing anything.
func (e *engine[E, S]) usable(handle S) error {
	if e.asker == nil {
		return nil
	}
	_, err := e.asker.StreamCapturing(handle)
	for _, wrong := range []error{events.ErrInvalid, events.ErrDeviceMismatch, events.ErrDestroyed} {
		if errors.Is(err, wrong) {
			return err
		}
	}
	return nil
}

func (e *engine[E, S]) laneOf(handle S) lane {
	e.mu.RLock()
	s := e.streams[handle]
	e.mu.RUnlock()
	if s == nil {
		return nil
	}
	return s
}

func (e *engine[E, S]) reserve(n int) int {
	for {
		have := e.prepared.Load()
		n = min(n, e.cfg.windows-int(have))
		if n <= 0 {
			return 0
		}
		if e.prepared.CompareAndSwap(have, have+int64(n)) {
			return n
		}
	}
}

func (e *engine[E, S]) unprepared() int { return e.cfg.windows - int(e.prepared.Load()) }

func (e *engine[E, S]) unreserve(n int) { e.prepared.Add(-int64(n)) }

// newStamps makes a window's two events.
func (e *engine[E, S]) newStamps(w *window[E]) error {
	a, err := e.api.EventCreate()
	if err != nil {
		return err
	}
	b, err := e.api.EventCreate()
	if err != nil {
		return errors.Join(err, e.api.EventDestroy(a))
	}
	w.own = [2]stamp[E]{{event: a}, {event: b}}
	w.made = true
	return nil
}

func (e *engine[E, S]) destroyStamps(w *window[E]) {
	if w == nil || !w.made {
		return
	}
	for i := range w.own {
		if err := e.api.EventDestroy(w.own[i].event); err != nil {
			e.noteFailure(err)
			e.count.destroyFailed.Add(1)
		}
	}
	w.made = false
}

func (e *engine[E, S]) wantGrowth(s *stream[E, S]) {
	e.asks.Lock()
	e.asks.growing = append(e.asks.growing, s)
	e.asks.Unlock()
	e.hurry()
}

// wantMending asks for new events for the stream's spoilt windows. The stream's
// lock is held.
func (e *engine[E, S]) wantMending(s *stream[E, S]) {
	e.asks.Lock()
	e.asks.mending = append(e.asks.mending, s)
	e.asks.Unlock()
	e.nudge()
}

// nudge wakes the harvester if it sleeps for want of work.
func (e *engine[E, S]) nudge() {
	if e.idle.Load() {
		e.hurry()
	}
}

// hurry wakes the harvester also from its pause between two looks.
func (e *engine[E, S]) hurry() {
	select {
	case e.wakeup <- struct{}{}:
	default:
	}
}

// settle gives a stopped window its outcome without a span.
func (e *engine[E, S]) settle(r *results, position uint64, err error) {
	if errors.Is(err, events.ErrCapturing) {
		e.count.captured.Add(1)
	} else {
		e.count.failed.Add(1)
	}
	r.put(position, Span{}, err)
}

// run is the harvester: it reads windows back while there are any, and sleeps
// otherwise.
func (e *engine[E, S]) run() {
	defer close(e.finished)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	// How many windows were started when nothing but open ones was left, and for how
	// many anchors more those are waited for.
	var quiet uint64
	left := 0
	for {
		e.housekeep()
		e.harvest.once()
		if busy, _ := e.busy(); !busy {
			e.idle.Store(true)
			if busy, open := e.busy(); !busy { // looked at again, so that a nudge in between is not lost
				// While windows are open the clocks are compared as if they were unread:
				// a window is placed by what was known when it began.
				var next <-chan time.Time
				if open != quiet {
					quiet, left = open, openPatience
				}
				if open > 0 && left > 0 {
					left--
					timer.Reset(e.cfg.anchorEvery)
					next = timer.C
				}
				select {
				case <-next:
				case <-e.wakeup:
				case <-e.quit:
					return
				}
			}
			e.idle.Store(false)
			continue
		}
		pause := e.cfg.poll
		if e.eager.Load() > 0 {
			pause = min(pause, 50*time.Microsecond)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-e.wakeup:
		case <-e.quit:
			return
		}
	}
}

// openPatience is for how many anchors windows are kept in mind that stay open while
// nothing else happens: a minute of them.
const openPatience = 600

// busy reports whether the harvester has something to do or to wait for; if not, open is
// 0 without open windows, and else a number that changes with every start.
func (e *engine[E, S]) busy() (yes bool, open uint64) {
	if e.count.placing.Load() > 0 {
		return true, 0
	}
	e.asks.Lock()
	asked := len(e.asks.growing) > 0 || len(e.asks.mending) > 0
	e.asks.Unlock()
	if asked {
		return true, 0
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	started, opened := uint64(0), false
	for _, s := range e.streams {
		s.mu.Lock()
		work := s.dead || s.count.unread > 0
		started += s.count.started
		opened = opened || s.count.open > 0
		s.mu.Unlock()
		if work {
			return true, 0
		}
	}
	if !opened {
		return false, 0
	}
	return false, started
}

// housekeep makes and frees events, off everybody's hot path.
func (e *engine[E, S]) housekeep() {
	e.asks.Lock()
	growing, mending := e.asks.growing, e.asks.mending
	e.asks.growing, e.asks.mending = e.growing[:0], nil // starts append there and must not allocate
	e.growing = growing
	e.asks.Unlock()
	for i, s := range growing {
		//nolint:errorlint // our own bound is no failure; the driver may be full as well
		if err := s.grow(); err != nil && err != e.full.err && !errors.Is(err, events.ErrClosed) {
			e.noteFailure(err)
			e.growthWarned.Do(func() {
				e.cfg.log.Warn("events for more windows cannot be made; windows are dropped, and it is tried again", zap.String("backend", e.api.Backend()), zap.Error(err))
			})
		}
		growing[i] = nil
	}
	for _, s := range mending {
		s.mend()
	}
	e.reap()
}

// reap frees the streams that have no tracks and nothing to be read back.
func (e *engine[E, S]) reap() {
	var left []*window[E]
	n := 0
	e.mu.Lock()
	for handle, s := range e.streams {
		s.mu.Lock()
		if s.dead && s.count.unread == 0 && s.innermost < 0 && s.idleWindows() {
			delete(e.streams, handle)
			e.past.add(s.count)
			// Taken out of the stream, so that whoever has it from an earlier look
			// finds nothing to be spared.
			n += len(s.windows) - len(s.vacant)
			left = append(left, s.windows...)
			s.windows, s.free, s.vacant, s.spoilt = nil, nil, nil, nil
		}
		s.mu.Unlock()
	}
	e.mu.Unlock()
	for _, w := range left {
		e.destroyStamps(w)
	}
	e.unreserve(n)
}

// idleWindows reports whether no window of the stream is used. The lock is held.
func (s *stream[E, S]) idleWindows() bool {
	return len(s.free)+len(s.spoilt)+len(s.vacant) == len(s.windows) && !s.growing
}

func (e *engine[E, S]) snapshot() []*stream[E, S] { return e.appendStreams(nil) }

func (e *engine[E, S]) appendStreams(all []*stream[E, S]) []*stream[E, S] {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, s := range e.streams {
		all = append(all, s)
	}
	return all
}

// wait waits for an outcome.
func (e *engine[E, S]) wait(ctx context.Context, r *results, position uint64) (Span, error) {
	if out, found := r.get(position); found {
		return out.span, out.err
	}
	if ctx.Err() != nil {
		return Span{}, e.gaveUp(ctx)
	}
	// The driver is called by the harvester alone: a call that hangs must not keep
	// the reader from giving up.
	e.eager.Add(1)
	r.readers.Add(1)
	defer func() {
		r.readers.Add(-1)
		e.eager.Add(-1)
	}()
	e.hurry()
	for {
		changed := e.changes.wait()
		if out, found := r.get(position); found {
			return out.span, out.err
		}
		select {
		case <-changed:
		case <-e.over:
			if out, found := r.get(position); found {
				return out.span, out.err
			}
			return Span{}, errClosed // a call into the driver has not returned
		case <-ctx.Done():
			return Span{}, e.gaveUp(ctx)
		}
	}
}

func (e *engine[E, S]) gaveUp(ctx context.Context) error {
	return fmt.Errorf("profiler: waiting for a window on %s: %w", e.api.Backend(), ctxerr.Of(ctx))
}

// flush implements core.
func (e *engine[E, S]) flush(ctx context.Context) error {
	tails := map[*stream[E, S]]uint64{}
	for _, s := range e.snapshot() {
		s.mu.Lock()
		tails[s] = s.tail
		s.mu.Unlock()
	}
	e.eager.Add(1)
	defer e.eager.Add(-1)
	f := &flush[E, S]{tails: tails, done: make(chan struct{})}
	e.flushing.Lock()
	e.flushing.all = append(e.flushing.all, f)
	e.flushing.Unlock()
	defer e.forget(f)
	e.hurry()
	select {
	case <-f.done:
		return nil
	case <-e.over:
		if e.harvest.finished(tails) {
			return nil
		}
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("profiler: flushing windows on %s: %w", e.api.Backend(), ctxerr.Of(ctx))
	}
}

// flush is a call of Flush in progress. The harvester ends it after the pass that
// gave the last of its windows an outcome.
type flush[E any, S comparable] struct {
	tails map[*stream[E, S]]uint64
	done  chan struct{}
}

func (e *engine[E, S]) forget(f *flush[E, S]) {
	e.flushing.Lock()
	e.flushing.all = slices.DeleteFunc(e.flushing.all, func(o *flush[E, S]) bool { return o == f })
	e.flushing.Unlock()
}

// addSink implements core.
func (e *engine[E, S]) addSink(s Sink) (*Attachment, error) { return e.sinks.add(s) }

// fail implements core.
func (e *engine[E, S]) fail(err error) {
	for _, s := range e.snapshot() {
		s.failOpen(err)
	}
}

// close implements core. Whoever calls it meanwhile waits for its end, too.
func (e *engine[E, S]) close() error {
	e.closing.Do(e.shut)
	return e.failures.join()
}

func (e *engine[E, S]) shut() {
	defer close(e.over)
	e.closed.Store(true)
	for _, s := range e.snapshot() {
		s.mu.Lock()
		s.abandonOpen()
		s.mu.Unlock()
	}
	// What is stopped is read back, as far as the device is done in time.
	deadline := time.Now().Add(e.cfg.closeTimeout)
	e.eager.Add(1)
	e.hurry()
	for e.fault.Load() == nil && e.unreadNow() > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Microsecond)
	}
	close(e.quit)
	// Destroys may hang as well as any other call: on a goroutine of their own.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-e.finished
		e.harvest.last()
	}()
	if !over(ended, deadline, grace) {
		e.failures.add(fmt.Errorf("profiler: %w: a call into %s's driver has not returned within %v of Close; what it holds is freed if it does",
			events.ErrExpired, e.api.Backend(), e.cfg.closeTimeout))
	}
	left := e.waiters.Load() + e.making.Load()
	for ; left > 0 && time.Now().Before(deadline); left = e.waiters.Load() + e.making.Load() {
		time.Sleep(50 * time.Microsecond)
	}
	if left > 0 {
		e.failures.add(fmt.Errorf("profiler: %w: %d calls wait in %s's driver for events that the device has not reached within %v of Close",
			events.ErrExpired, left, e.api.Backend(), e.cfg.closeTimeout))
	}
	for _, late := range e.sinks.close(deadline, e.cfg.closeTimeout) {
		e.failures.add(late)
	}
}

// grace is what Close may take beyond its timeout for what is not waiting for the
// device.
const grace = 100 * time.Millisecond

// over waits until something is over, for no longer than the deadline says, but for
// a moment at least.
func over(what <-chan struct{}, deadline time.Time, least time.Duration) bool {
	timer := time.NewTimer(max(time.Until(deadline), least))
	defer timer.Stop()
	select {
	case <-what:
		return true
	case <-timer.C:
	}
	select {
	case <-what: // both at once
		return true
	default:
		return false
	}
}

// end settles what is left of a stream of a closed profiler, and gives the windows
// whose events are to be destroyed. It makes no call of the driver.
func (e *engine[E, S]) end(s *stream[E, S]) []*window[E] {
	s.mu.Lock()
	s.abandonOpen()
	s.ended = true
	pending, windows := s.pending, s.windows
	s.pending = nil
	s.count.unread -= len(pending)
	s.mu.Unlock()
	reason := errClosed
	if fault := e.fault.Load(); fault != nil {
		reason = fault.err
	}
	for _, w := range pending {
		e.settle(&s.results, w.position, reason)
	}
	e.changes.ring()
	return windows
}

// errorLog keeps the first errors of background paths for Close.
type errorLog struct {
	mu    sync.Mutex
	kept  []error
	count int
}

const errorsKept = 8

func (l *errorLog) add(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; len(l.kept) < errorsKept {
		l.kept = append(l.kept, err)
	}
}

func (l *errorLog) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.kept)
	if l.count > len(l.kept) {
		all = append(all, fmt.Errorf("profiler: and %d more errors", l.count-len(l.kept)))
	}
	return errors.Join(all...)
}
