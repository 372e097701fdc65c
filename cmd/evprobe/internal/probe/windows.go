package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/profiler"
)

const nestRounds = 20

func checkProfiler[E any, S comparable](e *env[E, S]) error {
	stream, err := e.stream()
	if err != nil {
		return err
	}
	before := e.alive()
	prof, err := profiler.New(e.EventApi)
	if err != nil {
		return err
	}
	e.giveBack = append(e.giveBack, prof.Close)
	n := nest[S]{
		outer: prof.Track(stream, "outer"), middle: prof.Track(stream, "middle"), inner: prof.Track(stream, "inner"),
	}

	ctx, stop := e.limited()
	defer stop()
	var costs []time.Duration // of a record, which an empty window shows
	over := make([][]time.Duration, nestSize)
	unmeasured := error(nil)
	for i := range nestRounds {
		if err := e.at("nested windows, %d of %d", i+1, nestRounds); err != nil {
			return err
		}
		round, err := e.nested(ctx, n, stream)
		if err != nil {
			return err
		}
		costs = append(costs, round.empty)
		for j, w := range round.windows {
			over[j] = append(over[j], w.span.Duration-w.work)
		}
		unmeasured = round.unmeasured
	}
	cost := newSample(costs).median()
	e.nanoseconds("empty_window_median", cost)
	wrong := e.compare(over, cost, unmeasured != nil)
	if err := errors.Join(wrong, e.endProfiler(prof, nestRounds*(nestSize+1), before)); err != nil {
		return err
	}
	return unmeasured
}

// nest is one pattern of windows:
//
//	outer   |---------------------------|
//	middle     |------------|  |------|
//	inner         |------|
//	work           100us         50us
type nest[S comparable] struct{ outer, middle, inner *profiler.Track }

const (
	nestSize   = 4
	firstWork  = 100 * time.Microsecond
	secondWork = 50 * time.Microsecond
	nestLead   = time.Millisecond // many times what it takes to queue a nest
)

// nestPlan is the windows of a nest in the order in which they open.
var nestPlan = [nestSize]struct {
	name    string
	parent  int // in this list, -1 for none
	depth   int
	works   int // pieces of work inside
	windows int // inside
}{
	{"outer", -1, 0, 2, 3},
	{"middle", 0, 1, 1, 1},
	{"inner", 1, 2, 1, 0},
	{"middle", 0, 1, 1, 0},
}

type nestedWindow struct {
	token profiler.Window
	stop  profiler.Measurement
	span  profiler.Span
	work  time.Duration // inside, by the device's own timer
}

type nestRound struct {
	windows    [nestSize]nestedWindow
	empty      time.Duration
	unmeasured error // why there is no work inside
}

// nested opens and closes windows on a busy stream, waits for them, and looks at
// how they lie in each other.
func (e *env[E, S]) nested(ctx context.Context, n nest[S], stream S) (round nestRound, err error) {
	release, err := e.busy(stream)
	if err != nil {
		return round, err
	}
	defer func() { _ = release() }()
	empty := n.inner.Stop(n.inner.Start())
	w := &round.windows
	w[0].token = n.outer.Start()
	w[1].token = n.middle.Start()
	w[2].token = n.inner.Start()
	first, err := e.spin(firstWork, stream)
	if round.unmeasured = err; err != nil && !errors.Is(err, errNoSpin) {
		return round, err
	}
	w[2].stop = n.inner.Stop(w[2].token)
	w[1].stop = n.middle.Stop(w[1].token)
	w[3].token = n.middle.Start()
	second, err := e.spin(secondWork, stream)
	if err != nil && !errors.Is(err, errNoSpin) {
		return round, err
	}
	w[3].stop = n.middle.Stop(w[3].token)
	w[0].stop = n.outer.Stop(w[0].token)
	if err := release(); err != nil {
		return round, fmt.Errorf("the stream was let go while windows were queued: %w", err)
	}

	span, err := empty.Wait(ctx)
	if err != nil {
		return round, fmt.Errorf("an empty window: %w", err)
	}
	round.empty = span.Duration
	for i := range w {
		if w[i].span, err = w[i].stop.Wait(ctx); err != nil {
			return round, fmt.Errorf("window %q: %w", nestPlan[i].name, err)
		}
	}
	if round.unmeasured == nil {
		if w[2].work, err = first.Measured(); err != nil {
			return round, fmt.Errorf("asking the device's timer: %w", err)
		}
		if w[3].work, err = second.Measured(); err != nil {
			return round, fmt.Errorf("asking the device's timer: %w", err)
		}
		w[1].work, w[0].work = w[2].work, w[2].work+w[3].work
	}
	return round, round.judge()
}

// busy keeps the host's queueing out of what is measured: behind a little work, or
// behind a gate until release is called, or not at all. Work is better, because
// what is queued behind it lies ready on the device, while a driver may hold back
// what waits for a gate and submit it piece by piece afterwards (OpenCL on an H200:
// 9.7us for an empty window behind a gate).
func (e *env[E, S]) busy(stream S) (release func() error, err error) {
	_, err = e.spin(nestLead, stream)
	switch {
	case err == nil:
		return func() error { return nil }, nil
	case !errors.Is(err, errNoSpin):
		return nil, err
	}
	if e.gate != nil {
		return e.hold(stream)
	}
	return func() error { return nil }, nil
}

// judge says what is wrong with how windows lie in each other.
func (r *nestRound) judge() error {
	w := &r.windows
	for i, plan := range nestPlan {
		parent := uint64(0)
		if plan.parent >= 0 {
			parent = w[plan.parent].token.ID()
		}
		got := w[i].span
		if got.ID != w[i].token.ID() || got.Name != plan.name || got.Parent != parent || got.Depth != plan.depth {
			return fmt.Errorf("window %d, %q, in window %d at depth %d, comes back as window %d, %q, in window %d at depth %d",
				w[i].token.ID(), plan.name, parent, plan.depth, got.ID, got.Name, got.Parent, got.Depth)
		}
	}
	// Readings are rounded to the nanosecond, each on its own.
	const rounding = 4 * time.Nanosecond
	outer, first, inner, second := w[0].span.Duration, w[1].span.Duration, w[2].span.Duration, w[3].span.Duration
	if first+second > outer+rounding || inner > first+rounding {
		return fmt.Errorf("windows inside others read longer than those: %v and %v in %v, and %v in %v", first, second, outer, inner, first)
	}
	return nil
}

// compare says which windows read too far away from the work in them.
func (e *env[E, S]) compare(over [][]time.Duration, cost time.Duration, unmeasured bool) error {
	if unmeasured {
		e.measured("%d nests of %d windows; an empty one reads %v", nestRounds, nestSize, cost)
		return nil
	}
	tolerance := e.tolerance(cost)
	var wrong []error
	var said [nestSize]time.Duration
	for i, plan := range nestPlan {
		off := newSample(over[i]).median()
		said[i] = off
		allowed := time.Duration(plan.works)*tolerance + time.Duration(2*plan.windows)*cost
		if off < -tolerance || off > allowed {
			wrong = append(wrong, fmt.Errorf("window %q, with %d pieces of work and %d windows in it, reads %s away from the device's own timer",
				plan.name, plan.works, plan.windows, signed(off)))
		}
	}
	e.nanoseconds("outer_difference_median", said[0])
	e.nanoseconds("middle_difference_median", said[1])
	e.nanoseconds("inner_difference_median", said[2])
	e.measured("%d nests of %d windows minus the device's timer, median: outermost %s, within it %s, innermost %s; an empty one reads %v",
		nestRounds, nestSize, signed(said[0]), signed(said[1]), signed(said[2]), cost)
	return errors.Join(wrong...)
}

// endProfiler closes a profiler that has measured n windows, all of which have
// been read back, and looks at what it counted and at what is left.
func (e *env[E, S]) endProfiler(prof *profiler.Profiler[S], n int, before events.Stats) error {
	if err := e.at("closing the profiler"); err != nil {
		return err
	}
	if err := prof.Close(); err != nil {
		return err
	}
	st := prof.Stats()
	e.count("windows", n)
	e.number("windows_finished", float64(st.Finished))
	e.number("windows_dropped", float64(st.Dropped))
	e.number("anchors", float64(st.Anchors))
	e.number("anchors_missed", float64(st.AnchorsMissed))
	e.number("contradictions", float64(st.Contradictions))
	if st.Started != uint64(n) || st.Finished != st.Started {
		return fmt.Errorf("%d windows were opened and closed, and the profiler counts %d started, %d finished, %d failed, %d abandoned, %d captured, %d dropped, %d open and %d unread",
			n, st.Started, st.Finished, st.Failed, st.Abandoned, st.Captured, st.Dropped, st.Open, st.Pending)
	}
	if st.DestroyFailed != 0 {
		return fmt.Errorf("%d events of the profiler could not be destroyed", st.DestroyFailed)
	}
	if err := e.noneLeft(before); err != nil {
		return err
	}
	if st.Contradictions != 0 {
		return fmt.Errorf("the device's clock and the host's contradicted each other %d times", st.Contradictions)
	}
	return nil
}
