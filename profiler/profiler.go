package profiler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
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
	lane(stream S) (lane, error)
	laneOf(stream S) lane
}

// core is what tokens and results need of a profiler.
type core interface {
	wait(ctx context.Context, seq uint64) (Span, error)
	flush(ctx context.Context) error
	fail(err error)
	close() error
	stats() Stats
	origin() time.Time
}

// lane is one stream of a profiler.
type lane interface {
	start(t *Track) Window
	stop(w Window) Measurement
	lap(w Window) (Measurement, Window)
	abandon(w Window) error
	release()
}

// New makes a profiler for one device. It takes the first comparison of the two
// clocks, so it initialises the device and may wait some hundred microseconds
// for it. Options out of range are ErrInvalid.
func New[E any, S comparable](api events.EventApi[E, S], opts ...Option) (*Profiler[S], error) {
	cfg := defaults()
	for _, o := range opts {
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
	l, err := p.core.lane(stream)
	return &Track{lane: l, name: name, err: err}
}

// Start opens a window on stream, which is looked up; a Track is faster.
func (p *Profiler[S]) Start(stream S) Window {
	if p == nil {
		return Window{err: errDisabled}
	}
	l := p.core.laneOf(stream)
	if l == nil {
		var err error
		if l, err = p.core.lane(stream); err != nil {
			return Window{err: err}
		}
	}
	return l.start(unnamed)
}

var unnamed = &Track{}

// Stop closes a window opened with Start on the same stream.
func (p *Profiler[S]) Stop(stream S, w Window) Measurement {
	switch {
	case p == nil:
		return Measurement{err: errDisabled}
	case w.lane == nil:
		return Measurement{err: w.Err()}
	case p.core.laneOf(stream) != w.lane:
		return Measurement{err: fmt.Errorf("profiler: %w: the window was opened on another stream", events.ErrInvalid)}
	}
	return w.lane.stop(w)
}

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
	if p == nil {
		return nil
	}
	return p.core.flush(ctx)
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

// Origin is the host time that New was called at. Span.Start carries its
// monotonic reading, so the two can be subtracted.
func (p *Profiler[S]) Origin() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.core.origin()
}

// Track is a named place on a stream where windows open. Make it with
// Profiler.Track; nil is a working no-op. It is safe for concurrent use.
type Track struct {
	lane   lane
	name   string
	err    error
	closed atomic.Bool
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
	case t.closed.Load():
		return fmt.Errorf("profiler: track %q: %w", t.name, events.ErrClosed)
	}
	return nil
}

// Start opens a window: a timestamp is queued on the stream here. It neither
// waits nor allocates. If it cannot be opened the token is inert, and Err of the
// token says why; stopping it is harmless.
func (t *Track) Start() Window {
	if t == nil || t.lane == nil || t.closed.Load() {
		return Window{err: t.Err()}
	}
	return t.lane.start(t)
}

// Stop closes a window and returns at once; the result comes later. A token that
// was used before, or never issued, gives a Measurement with ErrInvalid.
func (t *Track) Stop(w Window) Measurement {
	if w.lane == nil {
		return Measurement{err: w.Err()}
	}
	if t != nil && t.lane != w.lane {
		return Measurement{err: fmt.Errorf("profiler: %w: the window was opened on another stream", events.ErrInvalid)}
	}
	return w.lane.stop(w)
}

// Lap closes a window and opens the next at the same instant, on one shared
// timestamp, so that no time falls between the two.
func (t *Track) Lap(w Window) (Measurement, Window) {
	if w.lane == nil {
		return Measurement{err: w.Err()}, t.Start()
	}
	if t != nil && t.lane != w.lane {
		err := fmt.Errorf("profiler: %w: the window was opened on another stream", events.ErrInvalid)
		return Measurement{err: err}, Window{err: err}
	}
	return w.lane.lap(w)
}

// Abandon drops a window: nothing is measured. Abandoning an inert token does
// nothing; one that was stopped already is ErrInvalid.
func (t *Track) Abandon(w Window) error {
	if w.lane == nil {
		return nil
	}
	return w.lane.abandon(w)
}

// Close gives the track up. The events of a stream are freed when its last track
// is closed and its windows are read back. It is idempotent.
func (t *Track) Close() {
	if t == nil || t.lane == nil || t.closed.Swap(true) {
		return
	}
	t.lane.release()
}

// Window is the token of an open window. It is a small value; keep it wherever
// the work ends. The zero value is inert.
type Window struct {
	lane lane
	id   uint64
	slot int32
	err  error
}

// Err says why the token is inert; nil for an open window.
func (w Window) Err() error {
	if w.lane == nil && w.err == nil {
		return fmt.Errorf("profiler: %w: a zero window was never opened", events.ErrInvalid)
	}
	return w.err
}

// ID numbers windows from 1 within one profiler; 0 for an inert token. Span.ID
// and Span.Parent are such numbers.
func (w Window) ID() uint64 { return w.id }

// Measurement is a window that was stopped.
type Measurement struct {
	core core
	id   uint64
	seq  uint64 // the number of its stop, which results are kept by
	err  error
}

// ID is the window's number; 0 if it was never open.
func (m Measurement) ID() uint64 { return m.id }

// Wait blocks until the window is read back, and gives its span. It may be
// called any number of times and from anywhere. Cancelling ctx ends the wait,
// not the measurement. Errors: what made the window fail; ErrCapturing if the
// stream was being captured; ErrExpired if the result was kept for as many
// windows as promised; ErrClosed if the profiler ended first.
func (m Measurement) Wait(ctx context.Context) (Span, error) {
	if m.err != nil {
		return Span{}, m.err
	}
	if m.core == nil {
		return Span{}, fmt.Errorf("profiler: %w: a zero measurement", events.ErrInvalid)
	}
	return m.core.wait(ctx, m.seq)
}

// Span is a finished window.
type Span struct {
	ID     uint64 // from 1, in the order of starts
	Parent uint64 // the innermost window open on the stream when this one opened; 0 if none
	Depth  int    // how many windows it lay in
	Name   string // of its track
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
}

// End is Start plus Duration, within the same Bound.
func (s Span) End() time.Time { return s.Start.Add(s.Duration) }

// Stats counts windows. Started = Finished + Failed + Abandoned + Captured +
// Dropped + Open + Pending, at rest.
type Stats struct {
	Started   uint64 // calls of Start and Lap on a live profiler
	Finished  uint64 // measured
	Failed    uint64 // an event was refused, the device failed, or Fail was called
	Abandoned uint64 // dropped by Abandon, or open at Close
	Captured  uint64 // the stream was being captured
	Dropped   uint64 // the bound of windows was reached
	Open      uint64
	Pending   uint64 // stopped, not read back

	SinkDropped    uint64 // spans that a sink lost, over all sinks
	SinkFailed     uint64 // calls of sinks that returned an error or panicked
	Anchors        uint64 // comparisons of the clocks
	AnchorsMissed  uint64 // comparisons given up because the device did not answer in time
	Contradictions uint64 // new epochs
	DestroyFailed  uint64 // events that could not be destroyed
}

// counters are the Stats that are counted.
type counters struct {
	started, finished, failed, abandoned, captured, dropped atomic.Uint64
	open, pending                                           atomic.Int64
	sinkDropped, sinkFailed                                 atomic.Uint64
	anchors, anchorsMissed, contradictions, destroyFailed   atomic.Uint64
}

func (c *counters) snapshot() Stats {
	return Stats{
		Started: c.started.Load(), Finished: c.finished.Load(), Failed: c.failed.Load(),
		Abandoned: c.abandoned.Load(), Captured: c.captured.Load(), Dropped: c.dropped.Load(),
		Open: uint64(max(c.open.Load(), 0)), Pending: uint64(max(c.pending.Load(), 0)),
		SinkDropped: c.sinkDropped.Load(), SinkFailed: c.sinkFailed.Load(),
		Anchors: c.anchors.Load(), AnchorsMissed: c.anchorsMissed.Load(),
		Contradictions: c.contradictions.Load(), DestroyFailed: c.destroyFailed.Load(),
	}
}
