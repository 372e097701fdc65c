package profiler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/profiler/internal/clock"
)

// Profiler measures windows of device work on one device. S is the vendor's
// stream type, which only Track, Start and Stop take; what a program keeps per
// stream is a *Track, which names no vendor.
//
// It is safe for concurrent use. A nil *Profiler is a working no-op.
type Profiler[S comparable] struct {
	core coreOf[S]
}

// coreOf hides the vendor's event type.
type coreOf[S comparable] interface {
	core
	lane(stream S, tracks int) (lane, error)
	laneOf(stream S) lane
}

// core is a profiler without its types.
type core interface {
	flush(ctx context.Context) error
	addSink(s Sink) (*Attachment, error)
	fail(err error)
	close() error
	stats() Stats
	clockStats() ClockStats
	origin() time.Time
	present() time.Time
}

// lane is one stream of a profiler.
type lane interface {
	inside(w Window) *nested
	start(ctx context.Context, t *Track) Window // the context is the window's; nothing waits on it
	stop(w Window) Measurement
	lap(w Window, t *Track) (Measurement, Window)
	abandon(w Window) error
	release()
}

// outcome is where a stopped window's result will be.
type outcome interface {
	wait(ctx context.Context, position uint64) (Span, error)
}

// nowhere is the lane of an inert token: every use answers with its reason. The
// reasons that come again and again have one each, made beforehand, so that a
// refused start allocates no more than a granted one.
type nowhere struct{ err error }

var (
	disabled   = &nowhere{errDisabled}
	closed     = &nowhere{errClosed}
	stale      = &nowhere{errStale}
	captured   = &nowhere{errCaptured}
	lastTrack  = &nowhere{errTrackClosed}
	zeroWindow = &nowhere{errZero}
	elsewhere  = &nowhere{errOtherStream}
)

func (n *nowhere) window() Window                       { return Window{lane: n} }
func (n *nowhere) measurement(id uint64) Measurement    { return Measurement{outcome: n, id: id} }
func (n *nowhere) start(context.Context, *Track) Window { return n.window() }
func (n *nowhere) inside(Window) *nested                { return nil }
func (n *nowhere) stop(w Window) Measurement            { return n.measurement(w.id) }
func (n *nowhere) lap(w Window, _ *Track) (Measurement, Window) {
	return n.measurement(w.id), n.window()
}
func (n *nowhere) abandon(Window) error                       { return nil }
func (n *nowhere) release()                                   {}
func (n *nowhere) wait(context.Context, uint64) (Span, error) { return Span{}, n.err }

// New makes a profiler for one device. It takes the first comparison of the two
// clocks, so it initialises the device and waits for it: some hundred microseconds, up
// to 20 ms where stamps are coarse, and as long as the first use takes. A device that
// has not answered after 30 s is given up with ErrExpired. Options out of range are
// ErrInvalid.
func New[E any, S comparable](api events.EventApi[E, S], opts ...Option) (*Profiler[S], error) {
	cfg := defaults()
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("profiler: %w: option %d is nil", events.ErrInvalid, i)
		}
		o.apply(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.disabled {
		return nil, nil //nolint:nilnil // a nil profiler is the documented no-op
	}
	if api == nil {
		return nil, fmt.Errorf("profiler: %w: no device", events.ErrInvalid)
	}
	c, err := newEngine(api, cfg)
	if err != nil {
		return nil, fmt.Errorf("profiler: %w", err)
	}
	return &Profiler[S]{core: c}, nil
}

// errDisabled is the reason of every inert token of a no-op.
var errDisabled = fmt.Errorf("profiler: %w: profiling is switched off", events.ErrUnsupported)

// Track names windows on one stream. Make it once and keep it: Start on a Track
// looks nothing up. Several tracks may share a stream; nesting is by stream.
//
// A failure to prepare (the device refuses events) does not stop the program:
// the Track's windows are then inert, and Err says why.
func (p *Profiler[S]) Track(stream S, name string) *Track {
	if p == nil {
		return nil
	}
	l, err := p.core.lane(stream, 1)
	if err != nil {
		l = &nowhere{err}
	}
	return &Track{lane: l, name: name, err: err}
}

// Start opens a window on stream, which is looked up; a Track is faster. The
// stream's events are then kept until Close, or until the last track that the stream
// has is closed.
func (p *Profiler[S]) Start(stream S) Window {
	if p == nil {
		return disabled.window()
	}
	if l := p.core.laneOf(stream); l != nil {
		if w := l.start(noContext, unnamed); w.lane != lastTrack {
			return w
		}
	}
	l, err := p.core.lane(stream, 0)
	if err != nil {
		return (&nowhere{err}).window()
	}
	return l.start(noContext, unnamed)
}

var (
	unnamed   = &Track{}
	noContext context.Context
)

// Stop closes a window opened with Start on the same stream.
func (p *Profiler[S]) Stop(stream S, w Window) Measurement {
	if p == nil {
		return disabled.measurement(0)
	}
	return stopOn(p.core.laneOf(stream), w)
}

// stopOn stops a window that was opened on the given lane.
func stopOn(l lane, w Window) Measurement {
	if wrong := w.misplaced(l); wrong != nil {
		return wrong.measurement(w.id)
	}
	return w.lane.stop(w)
}

// misplaced refuses a token that was opened on another lane than the given one.
// An inert token fits anywhere.
func (w Window) misplaced(l lane) *nowhere {
	switch {
	case w.lane == nil:
		return zeroWindow
	case w.id != 0 && w.lane != l:
		return elsewhere
	}
	return nil
}

var (
	errZero        = fmt.Errorf("profiler: %w: a zero window was never opened", events.ErrInvalid)
	errOtherStream = fmt.Errorf("profiler: %w: the window was opened on another stream", events.ErrInvalid)
)

// Fail makes every open window invalid: when it is stopped it resolves to err
// instead of a time, so that work which failed early never looks fast.
func (p *Profiler[S]) Fail(err error) {
	if p == nil {
		return
	}
	if err == nil {
		err = fmt.Errorf("profiler: %w: failed without a reason", events.ErrInvalid)
	}
	p.core.fail(err)
}

// Flush waits until every window stopped before the call has been read back,
// placed and handed to the sinks' queues. It blocks until the device is done
// with them or ctx is.
func (p *Profiler[S]) Flush(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("profiler: flush: %w: nil context", events.ErrInvalid)
	}
	if p == nil {
		return nil
	}
	return p.core.flush(ctx)
}

// AddSink attaches a receiver of the spans that finish from now on. A profile or a trace of
// some seconds attaches one, waits, flushes and removes it. After Close it is ErrClosed; a
// nil sink is ErrInvalid. It does not block. On a nil Profiler it gives a nil Attachment.
func (p *Profiler[S]) AddSink(s Sink) (*Attachment, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // a nil attachment is the documented no-op
	}
	return p.core.addSink(s)
}

// Close ends the profiler: it reads back what the device is done with, waiting
// at most the close timeout for what it is not, resolves the rest to ErrClosed,
// destroys every event, and stops its goroutines. Open windows count as
// abandoned. It is idempotent, and returns what went wrong on background paths.
func (p *Profiler[S]) Close() error {
	if p == nil {
		return nil
	}
	return p.core.close()
}

// Stats is a snapshot of the counters.
func (p *Profiler[S]) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	return p.core.stats()
}

// ClockStats is what is known of the device's clock at this moment. It makes no call of
// the driver and waits for none.
func (p *Profiler[S]) ClockStats() ClockStats {
	if p == nil {
		return ClockStats{}
	}
	return p.core.clockStats()
}

// Origin is the instant that the host's clock counts from: when New was called,
// or the zero of a clock given to it. Span.Start carries its monotonic reading, so
// the two can be subtracted.
func (p *Profiler[S]) Origin() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.core.origin()
}

// Now is the present on the clock of Span.Start and Origin, which is the machine's unless
// the device is simulated or WithHostClock was given. On a nil Profiler it is the zero time.
func (p *Profiler[S]) Now() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.core.present()
}

// Track is a named place on a stream where windows open. Make it with
// Profiler.Track; nil is a working no-op. It is safe for concurrent use.
type Track struct {
	lane   lane
	name   string
	err    error
	closed atomic.Pointer[nowhere] // why, once it is
}

// Name is the name given to Profiler.Track.
func (t *Track) Name() string {
	if t == nil {
		return ""
	}
	return t.name
}

// Err says why the track's windows are inert; nil if they are not.
func (t *Track) Err() error {
	switch {
	case t == nil:
		return errDisabled
	case t.err != nil:
		return t.err
	}
	if closed := t.closed.Load(); closed != nil {
		return closed.err
	}
	return nil
}

// Start opens a window: a timestamp is queued on the stream here. It neither
// waits nor allocates. If it cannot be opened the token is inert, and Err of the
// token says why; stopping it is harmless.
func (t *Track) Start() Window {
	return t.opening().start(noContext, t)
}

// StartContext is Start with a context that the window carries to the sinks, for what
// they find in it: the span of a trace, the labels of a profile. It is not waited on, and
// its end changes nothing. nil is none.
func (t *Track) StartContext(ctx context.Context) Window {
	return t.opening().start(ctx, t)
}

// opening is where a window of the track opens.
func (t *Track) opening() lane {
	if t == nil {
		return disabled
	}
	if closed := t.closed.Load(); closed != nil {
		return closed
	}
	return t.lane
}

// Stop closes a window and returns at once; the result comes later. A token that
// was used before, or never issued, gives a Measurement with ErrInvalid.
func (t *Track) Stop(w Window) Measurement {
	if t == nil {
		return disabled.measurement(0)
	}
	return stopOn(t.lane, w)
}

// Lap closes a window and opens the next, one of this track, at the same
// instant, on one shared timestamp, so that no time falls between the two. If the
// window is inert, only the next is opened; if it fails, there is no next.
func (t *Track) Lap(w Window) (Measurement, Window) {
	if t == nil {
		return disabled.measurement(0), disabled.window()
	}
	if w.lane == nil {
		return (&nowhere{errZero}).measurement(0), t.opening().start(noContext, t)
	}
	if wrong := w.misplaced(t.lane); wrong != nil {
		return wrong.measurement(w.id), wrong.window()
	}
	if w.id == 0 || t.closed.Load() != nil {
		return w.lane.stop(w), t.opening().start(noContext, t)
	}
	return w.lane.lap(w, t)
}

// Abandon drops a window: nothing is measured. Abandoning an inert token does
// nothing; one that was stopped already, or opened on another stream, is
// ErrInvalid.
func (t *Track) Abandon(w Window) error {
	if t == nil || w.lane == nil {
		return nil
	}
	if wrong := w.misplaced(t.lane); wrong != nil {
		return wrong.err
	}
	return w.lane.abandon(w)
}

// Close gives the track up. With the last track of a stream its open windows are
// abandoned, those of Profiler.Start included, and its events are freed once what was
// stopped is read back. It is idempotent.
func (t *Track) Close() {
	if t == nil {
		return
	}
	closed := &nowhere{fmt.Errorf("profiler: track %q: %w", t.name, events.ErrClosed)}
	if t.closed.CompareAndSwap(nil, closed) {
		t.lane.release()
	}
}

// Window is the token of an open window. It is a small value; keep it wherever
// the work ends. The zero value is inert.
type Window struct {
	lane lane
	id   uint64 // 0 for an inert token
	slot int32
}

// Err says why the token is inert; nil for an open window.
func (w Window) Err() error {
	if w.lane == nil {
		return errZero
	}
	if n, ok := w.lane.(*nowhere); ok {
		return n.err
	}
	return nil
}

// ID is unique within one profiler and grows with the starts on one stream; 0 for
// an inert token. Span.ID and Span.Parent are such numbers.
func (w Window) ID() uint64 { return w.id }

// Measurement is a window that was stopped.
type Measurement struct {
	outcome  outcome
	id       uint64
	position uint64
}

// ID is the window's number; 0 if it was never open.
func (m Measurement) ID() uint64 { return m.id }

// Wait blocks until the window is read back, and gives its span. It may be
// called any number of times and from anywhere. Cancelling ctx ends the wait,
// not the measurement. Errors: what made the window fail; ErrCapturing if the
// stream was being captured; ErrExpired if the result was kept for as many
// windows as promised; ErrClosed if the profiler ended first.
func (m Measurement) Wait(ctx context.Context) (Span, error) {
	if m.outcome == nil {
		return Span{}, fmt.Errorf("profiler: %w: a zero measurement", events.ErrInvalid)
	}
	if ctx == nil {
		return Span{}, fmt.Errorf("profiler: wait for a window: %w: nil context", events.ErrInvalid)
	}
	return m.outcome.wait(ctx, m.position)
}

// Span is a finished window.
type Span struct {
	ID uint64 // unique in the profiler; grows with the starts on one stream
	// Parent is the window it lay in, 0 if none: the one whose context it was opened with
	// (Begin, Do), else the innermost that was open on its stream.
	Parent uint64
	Root   uint64   // the outermost window round it; its own ID if there is none
	Depth  int      // how many windows it lay in
	Within []string // their names, outermost first, of the innermost 8; shared, not to be changed
	Name   string   // of its track
	// Start is where the window opened on the host's monotonic clock, give or
	// take Bound. The truth lies within the bound, as far as the clocks' rates
	// differ by no more than WithMaxClockRate says; it never precedes the call
	// that opened the window.
	Start time.Time
	Bound time.Duration
	// Duration is the span between the window's own two timestamps, on the
	// device's clock.
	Duration time.Duration
	// Epoch changes when the clocks contradicted each other (suspend, reset):
	// starts of different epochs must not be compared by the device's order.
	Epoch uint32
	// Quality says what Start and Bound rest on.
	Quality Quality

	// Device is where the window's stream is; the same for every span of a profiler.
	Device *Device

	// Called and Stopped are the host's times before Start and after Stop recorded their
	// timestamps, on the same clock as Start and exact: what was queued between them lies in
	// the window. A Lap is the end of one and the start of the next. Stopped is zero in a
	// profiler without sinks, which saves reading the clock once more.
	Called, Stopped time.Time
	// Context is what StartContext was given, and a Lap hands on; nil otherwise. Sinks alone
	// get it: kept results would keep it alive.
	Context context.Context
	// Stack holds the program counters of the calls that led to Start, innermost first, as
	// runtime.CallersFrames takes them; nil unless WithStacks. It is shared and must not be changed.
	Stack []uintptr
}

// Device names the device of a profiler. What the backend cannot tell is empty.
type Device struct {
	Backend string // "cuda", "hip", "opencl", ...
	events.Identity
}

// Quality says what a placement on the host's clock rests on. More is better.
type Quality uint8

const (
	// QualityAlone is a window of which nothing is known but when the host recorded it
	// and when it saw that the device had passed it.
	QualityAlone Quality = Quality(clock.Alone)
	// QualityCausal is one that was placed before enough comparisons of the clocks
	// followed it: for a reader who does not wait, for Flush, or on a device too busy
	// for more. Its bound is as true, and wider.
	QualityCausal Quality = Quality(clock.Causal)
	// QualitySettled is one between comparisons of the clocks, with enough of them on
	// both sides to tell how the clocks' rates behaved.
	QualitySettled Quality = Quality(clock.Settled)
)

// String names a quality.
func (q Quality) String() string {
	switch q {
	case QualityAlone:
		return "alone"
	case QualityCausal:
		return "causal"
	case QualitySettled:
		return "settled"
	}
	return fmt.Sprintf("Quality(%d)", uint8(q))
}

// ClockStats is what a profiler knows of the device's clock.
type ClockStats struct {
	Tick        time.Duration // the step of the device's stamps, as far as it shows
	BestBracket time.Duration // the narrowest of the comparisons of the clocks that are kept, up to 256
	LastBracket time.Duration // the last one's
	// DriftPPM is by how many millionths the host's clock is faster than the device's,
	// over those comparisons, give or take DriftUncertaintyPPM.
	DriftPPM            float64
	DriftUncertaintyPPM float64
	Epoch               uint32 // how often the clocks were set apart

	Anchors  uint64 // comparisons made
	Rejected uint64 // comparisons given up because the device did not answer in time
	Clamped  uint64 // windows whose own times set the estimate right
}

// End is Start plus Duration, within the same Bound and what the clocks drifted over
// Duration: some microseconds a second (ClockStats.DriftPPM).
func (s Span) End() time.Time { return s.Start.Add(s.Duration) }

// Stream is the number of the window's stream in its profiler: streams are counted, from 1,
// as they get their first track. One that lost all its tracks gets another number when it
// gets one again.
func (s Span) Stream() uint64 { return s.ID >> streamShift }

// Stats counts windows. Started = Finished + Failed + Abandoned + Captured +
// Dropped + Open + Pending, at rest.
type Stats struct {
	Started   uint64 // calls of Start and Lap on a live profiler
	Finished  uint64 // measured
	Failed    uint64 // an event was refused, the device failed, Fail was called, or unread at Close
	Abandoned uint64 // dropped by Abandon, or open at Close
	Captured  uint64 // the stream was being captured
	Dropped   uint64 // the bound of windows was reached, or events for more could not be had
	Open      uint64
	Pending   uint64 // stopped, not read back

	SinkDropped    uint64 // spans that a sink lost, over all sinks there were
	SinkFailed     uint64 // calls of sinks that returned an error or panicked
	Anchors        uint64 // comparisons of the clocks
	AnchorsMissed  uint64 // comparisons given up because the device did not answer in time
	Contradictions uint64 // new epochs
	DestroyFailed  uint64 // events that could not be destroyed
}

// counters are the Stats that are counted off the hot path. What Start and Stop
// count is in each stream's tally.
type counters struct {
	finished, failed, captured                            atomic.Uint64
	placing                                               atomic.Int64 // read back, not placed yet
	sinkDropped, sinkFailed                               atomic.Uint64
	anchors, anchorsMissed, contradictions, destroyFailed atomic.Uint64
	clamped                                               atomic.Uint64
}

// tally is what one stream counts, under its lock: an atomic counter shared by
// all streams would cost more than the lock does.
type tally struct {
	started, failed, abandoned, captured, dropped uint64
	open, unread                                  int
}

func (t *tally) add(o tally) {
	t.started += o.started
	t.failed += o.failed
	t.abandoned += o.abandoned
	t.captured += o.captured
	t.dropped += o.dropped
	t.open += o.open
	t.unread += o.unread
}

func (c *counters) snapshot(t tally) Stats {
	return Stats{
		Started: t.started, Finished: c.finished.Load(), Failed: t.failed + c.failed.Load(),
		Abandoned: t.abandoned, Captured: t.captured + c.captured.Load(), Dropped: t.dropped,
		Open: uint64(t.open), Pending: uint64(t.unread) + uint64(max(c.placing.Load(), 0)),
		SinkDropped: c.sinkDropped.Load(), SinkFailed: c.sinkFailed.Load(),
		Anchors: c.anchors.Load(), AnchorsMissed: c.anchorsMissed.Load(),
		Contradictions: c.contradictions.Load(), DestroyFailed: c.destroyFailed.Load(),
	}
}
