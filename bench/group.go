package bench

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Iters is what a function is asked to do in one sample.
type Iters struct {
	N     int64 // how many operations
	Index int   // number of the sample in its stage, from 0
	First int64 // number of its first operation in the case, from 0: for buffers used in turn, see Rotate
}

// Done is what a function says that it did in one sample.
type Done struct {
	Operations int64    // 0 stands for Iters.N
	Metrics    []Metric // of this sample; the runner does not change or keep the slice
}

// GroupOf is a set of cases over contexts of type C. It is valid inside the function
// given to Group.
//
// A case passes through four scopes, of which only the last is timed: the process
// (the code round Group), the case (Context), the sample (PerSample, Round) and the
// iteration (the function).
type GroupOf[C any] struct {
	runner  *Runner
	name    string
	set     settings
	axes    []axis
	context func(*Case) (C, error)
	each    func(*Case) (C, error)
	before  func(C) error
	after   func(C) error
	verify  func(C) error
	passes  []pass[C]
	cases   []caseOf[C]
	matches [][]string // names of cases that are compared, the base first
	along   string     // an axis whose values are
	errs    []error
}

type caseOf[C any] struct {
	name string
	fn   func(C, Iters) (Done, error)
	opts []Option
}

type pass[C any] struct {
	name string
	fn   func(C) ([]Metric, error)
}

// Group defines cases and runs them once define has returned, in the order of
// definition or of Shuffle, for all points of the group's axes. A failure ends a case and is a row
// of the report; it does not end the group.
func Group[C any](r *Runner, name string, define func(g *GroupOf[C])) {
	g := &GroupOf[C]{runner: r, name: name, set: r.set}
	define(g)
	g.run()
}

// Set sets what holds for the group's cases.
func (g *GroupOf[C]) Set(opts ...Option) { g.set = g.set.with(opts) }

// Axis adds a parameter. Each case runs for every combination of the axes' values;
// -a name=... on the command line replaces the values. Values are shown as fmt does.
func (g *GroupOf[C]) Axis(name string, values ...any) {
	a := axis{name: name}
	for _, v := range values {
		a.values = append(a.values, fmt.Sprint(v))
	}
	if name == "" || len(values) == 0 {
		g.errs = append(g.errs, fmt.Errorf("axis %q of group %q has no name or no values", name, g.name))
		return
	}
	g.axes = append(g.axes, a)
}

// Context makes what the functions of a case work on, once a case. If C has a method
// Close() error, it is called when the case is over, whatever happened. An error of
// Skip skips the case.
func (g *GroupOf[C]) Context(open func(c *Case) (C, error)) { g.context, g.each = open, nil }

// PerSample makes a context for every sample, outside the interval, and closes it
// after the sample. It costs what it costs between the samples, where the device idles
// meanwhile; Context is the better choice where the state may be shared.
func (g *GroupOf[C]) PerSample(open func(c *Case) (C, error)) { g.each, g.context = open, nil }

// Round sets what runs before and after each sample, outside the interval. Either may
// be nil. An error of one fails the sample.
func (g *GroupOf[C]) Round(before, after func(C) error) { g.before, g.after = before, after }

// Verify checks what the function has made: after the first call, and once more
// after the last sample. An error fails the case, so that a fast wrong answer never
// looks like a good one.
func (g *GroupOf[C]) Verify(check func(C) error) { g.verify = check }

// Diagnose adds a pass that runs after the samples, untimed, and whose metrics
// have a namespace of their own: they never mix with those of the samples. A pass
// may fail; its error is reported, and the next pass and the case are not harmed.
func (g *GroupOf[C]) Diagnose(name string, fn func(C) ([]Metric, error)) {
	g.passes = append(g.passes, pass[C]{name, fn})
}

// Bench adds a case. fn does it.N operations and returns when they are queued, or
// done where they are the host's; the backend waits for a device.
func (g *GroupOf[C]) Bench(name string, fn func(ctx C, it Iters) error, opts ...Option) {
	g.BenchSample(name, func(ctx C, it Iters) (Done, error) { return Done{}, fn(ctx, it) }, opts...)
}

// BenchSample adds a case whose function also says how many operations it did, and
// gives metrics of the sample.
func (g *GroupOf[C]) BenchSample(name string, fn func(ctx C, it Iters) (Done, error), opts ...Option) {
	g.cases = append(g.cases, caseOf[C]{name, fn, opts})
}

// Case is one case at one point of the axes, as Context and PerSample see it.
type Case struct {
	group, name string
	axes        []AxisValue
	set         *settings
	flags       []Option
}

// Group is the group's name.
func (c *Case) Group() string { return c.group }

// Name is the case's name.
func (c *Case) Name() string { return c.name }

// Axis is the value on an axis, and whether there is such an axis.
func (c *Case) Axis(name string) (string, bool) {
	for _, a := range c.axes {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Int is the value on an axis as an integer. An axis that is not there, or a value
// that is no integer, is an error to return from Context.
func (c *Case) Int(name string) (int64, error) {
	text, ok := c.Axis(name)
	if !ok {
		return 0, fmt.Errorf("there is no axis %q", name)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("axis %s=%s: not an integer", name, text)
	}
	return v, nil
}

// Set sets what depends on the point of the axes, as Bytes and Flops do. From
// Context it holds for the case; from PerSample it has no effect on samples.
func (c *Case) Set(opts ...Option) { *c.set = c.set.with(opts).with(c.flags) }

// skipped is the error that skips a case.
type skipped struct{ reason string }

func (s *skipped) Error() string { return "skipped: " + s.reason }

// Skip is an error for Context and PerSample, and for the first call of a function,
// that skips the case. A skipped case is a row with the reason.
func Skip(reason string) error { return &skipped{reason} }

// closeContext calls the Close of a context that has one.
func closeContext(ctx any) error {
	if c, ok := ctx.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// run runs the group's cases.
func (g *GroupOf[C]) run() {
	axes, err := g.runner.override(g.axes)
	if err = errors.Join(append(g.errs, err)...); err != nil {
		g.runner.Fail(g.name, err)
		return
	}
	units, err := g.units(axes)
	if err != nil {
		g.runner.Fail(g.name, err)
		return
	}
	var jobs [][]*job
	for _, unit := range units {
		var together []*job
		for _, v := range unit {
			together = append(together, g.job(v.c, v.point))
		}
		jobs = append(jobs, together)
	}
	g.runner.runAll(g.set.with(g.runner.flags), jobs)
}

// job hides C: what the runner needs of a case.
func (g *GroupOf[C]) job(c caseOf[C], point []AxisValue) *job {
	set := g.set.with(c.opts).with(g.runner.flags)
	j := &job{group: g.name, name: c.name, axes: point, set: &set}
	about := &Case{group: g.name, name: c.name, axes: point, set: &set, flags: g.runner.flags}
	var ctx C
	open := func(with func(*Case) (C, error)) error {
		if with == nil {
			return nil
		}
		var err error
		ctx, err = with(about)
		return err
	}
	shut := func(opened func(*Case) (C, error)) error {
		if opened == nil {
			return nil
		}
		old := ctx
		ctx = *new(C)
		return closeContext(old)
	}
	j.open = func() error { return open(g.context) }
	j.close = func() error { return shut(g.context) }
	j.openSample = func() error { return open(g.each) }
	j.closeSample = func() error { return shut(g.each) }
	hook := func(fn func(C) error) func() error {
		if fn == nil {
			return nil
		}
		return func() error { return fn(ctx) }
	}
	j.before, j.after, j.verify = hook(g.before), hook(g.after), hook(g.verify)
	j.perSample = g.each != nil || g.before != nil || g.after != nil
	j.call = func(it Iters) (Done, error) { return c.fn(ctx, it) }
	for _, p := range g.passes {
		j.passes = append(j.passes, jobPass{p.name, func() ([]Metric, error) { return p.fn(ctx) }})
	}
	return j
}

// job is a case without its type.
type job struct {
	group, name string
	axes        []AxisValue
	set         *settings

	open, close             func() error
	openSample, closeSample func() error
	before, after, verify   func() error // nil where there is none
	call                    func(Iters) (Done, error)
	passes                  []jobPass
	perSample               bool // there is something to do round each sample
}

type jobPass struct {
	name string
	run  func() ([]Metric, error)
}
