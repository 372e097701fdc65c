package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// env is what one check works with. It notes what was measured, and gives back
// the handles that it handed out. A check uses it from one goroutine.
type env[E any, S comparable] struct {
	*device[E, S]
	ctx         context.Context
	name        string // of the check
	step        atomic.Pointer[string]
	measurement []string
	numbers     map[string]any
	series      []Series
	giveBack    []func() error
}

func newEnv[E any, S comparable](ctx context.Context, d *device[E, S], name string) *env[E, S] {
	e := &env[E, S]{device: d, ctx: ctx, name: name, numbers: map[string]any{}}
	start := "start"
	e.step.Store(&start)
	return e
}

// skipError says why a check does not apply here.
type skipError struct{ reason string }

func (s *skipError) Error() string { return s.reason }

func skipf(format string, args ...any) error {
	return &skipError{fmt.Sprintf(format, args...)}
}

func (e *env[E, S]) execute(c check[E, S]) finished {
	err := guard(func() error {
		e.prepared.Do(e.prepare)
		return c.run(e)
	})
	if back := guard(e.close); err == nil && back != nil {
		err = fmt.Errorf("handles could not be given back: %w", back)
	}
	return finished{err: err, measurement: strings.Join(e.measurement, "; "), numbers: e.numbers, series: e.series}
}

// guard turns a panic, which no backend may let out, into an error.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the backend panicked: %v", p)
		}
	}()
	return call()
}

// close gives the handles back, newest first.
func (e *env[E, S]) close() error {
	var errs []error
	for _, back := range slices.Backward(e.giveBack) {
		errs = append(errs, back())
	}
	e.giveBack = nil
	return errors.Join(errs...)
}

// at notes what the check is about to do, for progress and for the report of a
// hang, and says whether the run has ended.
func (e *env[E, S]) at(format string, args ...any) error {
	s := fmt.Sprintf(format, args...)
	e.step.Store(&s)
	if e.settings.Step != nil {
		e.settings.Step(e.name, s)
	}
	return e.ctx.Err()
}

func (e *env[E, S]) lastStep() string { return *e.step.Load() }

// measured adds to the measurement's text.
func (e *env[E, S]) measured(format string, args ...any) {
	e.measurement = append(e.measurement, fmt.Sprintf(format, args...))
}

// number adds to the measurement's numbers. The unit is the last part of key.
func (e *env[E, S]) number(key string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		e.numbers[key] = nil // JSON has no other word for it
		return
	}
	e.numbers[key] = value
}

func (e *env[E, S]) count(key string, n int)                 { e.number(key, float64(n)) }
func (e *env[E, S]) nanoseconds(key string, d time.Duration) { e.number(key+"_ns", float64(d)) }
func (e *env[E, S]) clamped() uint64                         { return e.stats.EventStats().Clamped }

// maxReadings bounds what a series has.
const maxReadings = 1000

// readings keeps single readings for a picture, the first of them where there are
// many. at has the time of each, or is nil.
func (e *env[E, S]) readings(name string, at []float64, values []time.Duration) {
	s := Series{Name: name, Unit: "ns", At: at}
	for _, v := range values[:min(len(values), maxReadings)] {
		s.Values = append(s.Values, float64(v))
	}
	e.series = append(e.series, s)
}

// stream makes a stream that goes when the check is over.
func (e *env[E, S]) stream() (S, error) {
	s, err := e.StreamCreateNonBlocking()
	if err != nil {
		return s, fmt.Errorf("making a stream: %w", err)
	}
	e.giveBack = append(e.giveBack, func() error { return e.StreamDestroy(s) })
	return s, nil
}

// events makes n timed events that go when the check is over.
func (e *env[E, S]) events(n int) ([]E, error) {
	made := make([]E, 0, n)
	for range n {
		v, err := e.EventCreate()
		if err != nil {
			return nil, fmt.Errorf("making event %d of %d: %w", len(made)+1, n, err)
		}
		made = append(made, v)
		e.giveBack = append(e.giveBack, func() error { return e.EventDestroy(v) })
	}
	return made, nil
}

// streamAndEvents is what most checks begin with.
func (e *env[E, S]) streamAndEvents(n int) (S, []E, error) {
	s, err := e.stream()
	if err != nil {
		return s, nil, err
	}
	made, err := e.events(n)
	return s, made, err
}

// recordAndWait records an event and waits until it is reached.
func (e *env[E, S]) recordAndWait(event E, stream S) error {
	if err := e.EventRecord(event, stream); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if err := e.EventWait(event); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	return nil
}

// How long a stream stays held at most: a gate opens when it is told to, and
// its watchdog only limits the harm of a probe that dies; a spin lasts to its end.
const (
	gateWatchdog = 10 * time.Second
	holdingSpin  = 400 * time.Millisecond
)

// spin queues work of a known length. Where the backend has none, the error is
// errNoSpin.
func (e *env[E, S]) spin(length time.Duration, stream S) (events.Spin, error) {
	if e.scratch == nil {
		return nil, errNoSpin
	}
	spin, err := e.scratch.ScratchSpin(length, stream)
	switch {
	case errors.Is(err, events.ErrUnsupported):
		return nil, errNoSpin
	case err != nil:
		return nil, fmt.Errorf("queueing work: %w", err)
	}
	return spin, nil
}

// hold keeps a stream from going on until release is called, which says with
// ErrExpired that the stream went on before. It may be called more than once.
// Where the backend cannot do that, the error is errNoHold.
func (e *env[E, S]) hold(stream S) (release func() error, err error) {
	if e.gate != nil {
		h, err := e.gate.GateClose(stream, gateWatchdog)
		if err == nil {
			return h.Open, nil
		}
		if !errors.Is(err, events.ErrUnsupported) {
			return nil, fmt.Errorf("holding the stream back: %w", err)
		}
	}
	spin, err := e.spin(holdingSpin, stream)
	switch {
	case errors.Is(err, errNoSpin):
		return nil, errNoHold
	case err != nil:
		return nil, fmt.Errorf("holding the stream back: %w", err)
	}
	return func() error {
		if _, err := spin.Measured(); !errors.Is(err, events.ErrNotReady) {
			return fmt.Errorf("%w: the work that held the stream back for %v was over too soon", events.ErrExpired, holdingSpin)
		}
		return nil
	}, nil
}

// Each skips a check, or a part of one.
var (
	errNoSpin = skipf("the backend cannot queue work of a known length (Scratch with ScratchSpin)")
	errNoHold = skipf("the backend can neither hold a stream back (Gate) nor keep it busy (Scratch with ScratchSpin)")
)

// limited bounds what must come soon, so that what never comes is a failure of
// the check and not the end of the run.
func (e *env[E, S]) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, e.settings.Patience)
}

// clock reads the host's clock that the device's is to be compared with. A
// simulated one counts from origin.
func (e *env[E, S]) clock(origin time.Time) func() time.Time {
	if e.host == nil {
		return time.Now
	}
	return func() time.Time { return origin.Add(time.Duration(e.host())) }
}

// alive is what the backend counts, nothing where it does not count.
func (e *env[E, S]) alive() events.Stats {
	if e.stats == nil {
		return events.Stats{}
	}
	return e.stats.EventStats()
}

// noneLeft fails if more is alive than before, and says nothing where nobody
// counts.
func (e *env[E, S]) noneLeft(before events.Stats) error {
	if e.stats == nil {
		e.measured("the backend does not count what is alive")
		return nil
	}
	after, err := e.settled(before)
	if err != nil {
		return err
	}
	more := after.LiveEvents - before.LiveEvents
	e.number("live_events_delta", float64(more))
	e.measured("%d more events alive than before", more)
	if more != 0 || after.LiveStreams != before.LiveStreams {
		return fmt.Errorf("%d events and %d streams were alive before, and %d and %d are afterwards",
			before.LiveEvents, before.LiveStreams, after.LiveEvents, after.LiveStreams)
	}
	return nil
}
