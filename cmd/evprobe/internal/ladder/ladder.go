// Package ladder measures what a device does over a ladder of sizes: fills, reads, copies
// and work of a known length, between the device's events.
package ladder

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/bench"
	"example.com/devevents/events"
)

// The groups of the report.
const (
	Memset = "memset"
	Read   = "read"
	Copy   = "copy"
	Spin   = "spin"
)

// Smallest is the first rung of the ladder of bytes; each is four times the one before.
const Smallest = 4 << 10

// Settings of a run.
type Settings struct {
	// Largest bounds the ladder of bytes.
	Largest int64
	// Step is called before each case with its name, and ends the run by an error. Nil
	// is nobody.
	Step func(what string) error
	// Options come after those of the ladder, and win.
	Options []bench.Option
}

// options keep a ladder within some seconds.
func options() []bench.Option {
	return []bench.Option{
		bench.In(bench.GPU), bench.Samples(20, 200), bench.Precision(0.01),
		bench.DeviceBudget(200 * time.Millisecond), bench.WallBudget(700 * time.Millisecond),
		bench.WarmUp(5*time.Millisecond, 200*time.Millisecond),
	}
}

var spins = []any{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond}

// Run measures on api's device. What the device cannot do is a row that says so; it
// may block in the driver.
func Run[E any, S comparable](api events.EventApi[E, S], s Settings) *bench.Report {
	r := bench.NewRunner(options()...)
	timer := bench.NewDeviceEvents(api)
	r.Set(bench.On(timer))
	r.Set(s.Options...)
	defer r.Release(timer)
	scratch, ok := events.Ability[events.Scratch[S]](api)
	if !ok {
		for _, group := range []string{Memset, Read, Copy, Spin} {
			r.Fail(group, fmt.Errorf("%w: the %s backend can give the device no work (no Scratch)", events.ErrUnsupported, api.Backend()))
		}
		return r.Report()
	}
	l := &rungs[S]{api: scratch, step: s.Step, stream: timer.Stream}
	var sizes []any
	for n := int64(Smallest); n <= s.Largest; n *= 4 {
		sizes = append(sizes, n)
	}
	bench.Group(r, Memset, func(g *bench.GroupOf[*rung[S]]) {
		g.Axis("bytes", sizes...)
		g.Context(func(c *bench.Case) (*rung[S], error) { return l.memory(c, 1) })
		g.Bench("fill", func(x *rung[S], it bench.Iters) error {
			return each(it, func() error { return scratch.ScratchMemset(x.buffers[0], 1, x.bytes, x.stream) })
		})
	})
	bench.Group(r, Read, func(g *bench.GroupOf[*rung[S]]) {
		reader, ok := events.Ability[events.ReadKernel[S]](api)
		if !ok {
			g.Context(func(*bench.Case) (*rung[S], error) {
				return nil, bench.Skip(fmt.Sprintf("the %s backend has no kernel that reads (no ReadKernel)", api.Backend()))
			})
		} else {
			g.Axis("bytes", sizes...)
			g.Context(func(c *bench.Case) (*rung[S], error) { return l.memory(c, 1) })
		}
		g.Bench("kernel", func(x *rung[S], it bench.Iters) error {
			return each(it, func() error { return reader.LaunchRead(x.buffers[0], x.bytes, x.stream) })
		})
	})
	bench.Group(r, Copy, func(g *bench.GroupOf[*rung[S]]) {
		g.Axis("bytes", sizes...)
		g.Context(func(c *bench.Case) (*rung[S], error) { return l.memory(c, 2) })
		g.Bench("device to device", func(x *rung[S], it bench.Iters) error {
			return each(it, func() error { return scratch.ScratchCopy(x.buffers[0], x.buffers[1], x.bytes, x.stream) })
		})
	})
	bench.Group(r, Spin, func(g *bench.GroupOf[*rung[S]]) {
		g.Axis("length", spins...)
		g.Context(l.spin)
		g.Bench("kernel", func(x *rung[S], it bench.Iters) error {
			return each(it, func() error { _, err := scratch.ScratchSpin(x.length, x.stream); return err })
		})
	})
	return r.Report()
}

// each does an operation as often as a sample asks for.
func each(it bench.Iters, do func() error) error {
	for range it.N {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// rungs makes what the cases work on.
type rungs[S comparable] struct {
	api    events.Scratch[S]
	step   func(string) error
	stream func() (S, error)
}

// rung is what one case works on.
type rung[S comparable] struct {
	api     events.Scratch[S]
	stream  S
	bytes   int64
	length  time.Duration
	buffers []events.Buffer
}

// begin says what comes, and gives the stream for it.
func (l *rungs[S]) begin(c *bench.Case, size string) (*rung[S], error) {
	if l.step != nil {
		if err := l.step(c.Group() + " of " + size); err != nil {
			return nil, err
		}
	}
	stream, err := l.stream()
	return &rung[S]{api: l.api, stream: stream}, err
}

// memory is one or two buffers, all of which the work goes over.
func (l *rungs[S]) memory(c *bench.Case, buffers int64) (*rung[S], error) {
	n, err := c.Int("bytes")
	if err != nil {
		return nil, err
	}
	x, err := l.begin(c, Size(n))
	if err != nil {
		return nil, err
	}
	x.bytes = n
	c.Set(bench.Bytes(n * buffers))
	for range buffers {
		buffer, err := l.api.ScratchAlloc(n)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("taking %s of device memory: %w", Size(n), err), x.Close())
		}
		x.buffers = append(x.buffers, buffer)
	}
	return x, nil
}

func (l *rungs[S]) spin(c *bench.Case) (*rung[S], error) {
	text, _ := c.Axis("length")
	length, err := time.ParseDuration(text)
	if err != nil {
		return nil, err
	}
	x, err := l.begin(c, text)
	if err != nil {
		return nil, err
	}
	x.length = length
	return x, nil
}

// Close gives the memory back.
func (x *rung[S]) Close() error {
	var errs []error
	for _, b := range x.buffers {
		errs = append(errs, x.api.ScratchFree(b))
	}
	x.buffers = nil
	return errors.Join(errs...)
}

// Size is a number of bytes as people write it: 4 KiB.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d %s", n, units[i])
}
