package bench

import (
	"fmt"

	"example.com/devevents/events"
)

// marks are told where the iterations begin and end that a profiler shall see.
type marks struct {
	begin, end func(name string) error
	by         string
}

// Profile warms each case up and then runs exactly n iterations: n calls of one operation,
// or of FixedChunk's number, without hold and fill, for a profiler. Nothing is computed from
// them. ProfileMarks says what is told where they begin and end; without it a backend whose
// device has events.ProfilerControl starts and stops the profiler there.
func Profile(n int) Option { return func(s *settings) { s.profile = max(n, 0) } }

// ProfileMarks has begin called right before the iterations of Profile and end after them,
// when the device is done with them, both with the case's whole name: to open and close a
// range, or to start and stop a tool. end is called whenever begin has succeeded. Either may
// be nil. An error of one fails the case.
func ProfileMarks(begin, end func(name string) error) Option {
	return func(s *settings) { s.marks = marks{begin, end, "the program"} }
}

// profiled is a backend that knows what starts and stops the profiler of its device.
type profiled interface {
	profiler() events.ProfilerControl // nil where nothing does
}

func (d *DeviceEvents[E, S]) profiler() events.ProfilerControl {
	if d.api == nil {
		return nil
	}
	p, _ := events.Ability[events.ProfilerControl](d.api)
	return p
}

// marking is who is told, filled up so that both functions can be called.
func (c *caseRun) marking() marks {
	m := c.set.marks
	if p, ok := c.b.(profiled); ok && m.by == "" && p.profiler() != nil {
		control := p.profiler()
		m.begin = func(string) error { return control.ProfilerStart() }
		m.end = func(string) error { return control.ProfilerStop() }
		m.by = "the backend's profiler control"
	}
	none := func(string) error { return nil }
	if m.begin == nil {
		m.begin = none
	}
	if m.end == nil {
		m.end = none
	}
	return m
}

// profile runs the iterations for a profiler.
func (c *caseRun) profile(chunk int64) {
	c.stage(stageProfile)
	c.res.Profile = true
	m := c.marking()
	c.res.Stop = fmt.Sprintf("%d iterations for a profiler, marked by %s", c.set.profile, m.by)
	if m.by == "" {
		c.res.Stop = fmt.Sprintf("%d iterations for a profiler, not marked: nothing is known that could be told", c.set.profile)
	}
	if err := guard(func() error { return m.begin(c.res.Name()) }); err != nil {
		c.end(fmt.Errorf("marking the beginning for a profiler: %w", err))
		return
	}
	defer func() { // also when the function leaves through runtime.Goexit
		if err := guard(func() error { return m.end(c.res.Name()) }); err != nil {
			err = fmt.Errorf("marking the end for a profiler: %w", err)
			if c.dead != nil {
				c.fail(err)
				return
			}
			c.end(err)
		}
	}()
	for i := range c.set.profile {
		if c.runner.overtime() {
			c.end(fmt.Errorf("the time for all cases together is over, after %d of %d iterations for a profiler", i, c.set.profile))
			return
		}
		s, err := c.one(Iters{N: chunk, Index: i})
		if err == nil {
			c.keep(s)
			continue
		}
		if c.failed(err); c.dead != nil {
			return
		}
	}
}
