package eventstest

import (
	"errors"
	"math"
	"regexp"
	"time"

	"example.com/devevents/events"
)

// state is an event in some state, and the error that reading it has to be; nil
// if it can be read.
type state[E any] struct {
	name  string
	event E
	kinds []error
	any   bool // any error will do
}

// states gives an event in each state that the backend knows. Those behind a
// hold need one; the others are made first, because making them may take time.
func (c *check[E, S]) states() []state[E] {
	var zero E
	list := []state[E]{
		{name: "never recorded", event: c.event(), kinds: []error{events.ErrNotRecorded}},
		{name: "reached", event: c.complete()},
		{name: "destroyed", event: c.dead(), kinds: []error{events.ErrDestroyed}},
		{name: "zero", event: zero, kinds: []error{events.ErrInvalid}},
	}
	if c.untimed != nil {
		reached := c.untimedEvent()
		c.record(reached, c.stream())
		c.await(reached)
		list = append(list,
			state[E]{name: "untimed and reached", event: reached, kinds: []error{events.ErrTimingDisabled}},
			state[E]{name: "untimed and never recorded", event: c.untimedEvent(), kinds: []error{events.ErrTimingDisabled, events.ErrNotRecorded}})
	}
	if other := c.foreign(); other != nil {
		list = append(list, state[E]{name: "another device's", event: c.on(other).complete(), kinds: []error{events.ErrDeviceMismatch}})
	}
	if c.graphs != nil {
		list = append(list, state[E]{name: "captured", event: c.captured(), any: true})
	}
	return list
}

// foreign is another device, or this one as another instance; nil if there is
// neither.
func (c *check[E, S]) foreign() *target[E, S] {
	if c.second == nil && c.target.stranger != nil {
		return c.target.stranger()
	}
	return c.second
}

// against reads an event against one that has been reached, both ways.
func (c *check[E, S]) against(what string, e E, kind error) {
	good := c.complete()
	for _, read := range []struct {
		name       string
		start, end E
	}{
		{"from one that is " + what + " to one that was reached", e, good},
		{"from one that was reached to one that is " + what, good, e},
		{"from one that is " + what + " to itself", e, e},
	} {
		span, err := c.api.EventElapsed(read.start, read.end)
		if !errors.Is(err, kind) {
			c.failf("EventElapsed %s: want %s; got %v and %s.", read.name, names([]error{kind}), span, said(err))
		}
	}
}

// One code stands for three mistakes in several runtimes, and nobody could tell
// what to fix: NVIDIA/cuda-python#556, pytorch/pytorch#85796, cupy/cupy#5678.
func elapsedNeverRecorded[E any, S comparable](c *check[E, S]) {
	c.against("never recorded", c.event(), events.ErrNotRecorded)
}

// NVIDIA/cuda-python#556, pytorch/pytorch#151404
func elapsedPending[E any, S comparable](c *check[E, S]) {
	c.held(func(h *hold[E, S]) {
		c.against("pending", c.recorded(h.stream), events.ErrNotReady)
	})
}

// cupy/cupy#5678, meta-pytorch/torchcomms#2270
func elapsedUntimed[E any, S comparable](c *check[E, S]) {
	c.need(c.untimed != nil, "UntimedCreator")
	e := c.untimedEvent()
	c.record(e, c.stream())
	c.await(e)
	c.against("untimed", e, events.ErrTimingDisabled)
}

func elapsedSaysWhich[E any, S comparable](c *check[E, S]) {
	start, end := regexp.MustCompile(`\bstart\b`), regexp.MustCompile(`\bend\b`)
	good := c.complete()
	look := func(what string, e E) {
		if _, err := c.api.EventElapsed(e, good); err != nil && (!start.MatchString(err.Error()) || end.MatchString(err.Error())) {
			c.failf("The start event is %s, and the error does not say that it is the start: %s.", what, said(err))
		}
		if _, err := c.api.EventElapsed(good, e); err != nil && (!end.MatchString(err.Error()) || start.MatchString(err.Error())) {
			c.failf("The end event is %s, and the error does not say that it is the end: %s.", what, said(err))
		}
	}
	look("never recorded", c.event())
	if c.untimed != nil {
		e := c.untimedEvent()
		c.record(e, c.stream())
		c.await(e)
		look("untimed", e)
	}
	c.held(func(h *hold[E, S]) { look("pending", c.recorded(h.stream)) })
}

// NVIDIA/cuda-python#556, pytorch/pytorch#85796, ROCm/hip#1992
func elapsedPairs[E any, S comparable](c *check[E, S]) {
	states := c.states()
	c.held(func(h *hold[E, S]) {
		all := append(states, state[E]{name: "pending", event: c.recorded(h.stream), kinds: []error{events.ErrNotReady}})
		for _, a := range all {
			for _, b := range all {
				span, err := c.api.EventElapsed(a.event, b.event)
				kinds := append(append([]error{}, a.kinds...), b.kinds...)
				switch {
				case len(kinds) == 0 && !a.any && !b.any:
					if err != nil || span < 0 {
						c.failf("From one that was reached to another: got %v and %s.", span, said(err))
					}
				case err != nil && (a.any || b.any || oneOf(err, kinds)):
				default:
					c.failf("From one that is %s to one that is %s: want %s; got %v and %s.", a.name, b.name, names(kinds), span, said(err))
				}
			}
		}
	})
}

func elapsedSelf[E any, S comparable](c *check[E, S]) {
	e := c.complete()
	if span := c.elapsed(e, e); span != 0 {
		c.failf("It is %v.", span)
	}
}

// pair gives two events with work between them that have been reached, and how
// long the host waited.
func (c *check[E, S]) pair(d time.Duration) (start, end E, waited time.Duration) {
	s := c.stream()
	start, end = c.event(), c.event()
	began := time.Now()
	c.record(start, s)
	c.busy(s, d)
	c.record(end, s)
	c.await(end)
	return start, end, time.Since(began)
}

func elapsedStable[E any, S comparable](c *check[E, S]) {
	start, end, _ := c.pair(time.Millisecond)
	first := c.elapsed(start, end)
	c.settle()
	c.complete()
	if again := c.elapsed(start, end); again != first {
		c.failf("It is %v first and %v later.", first, again)
	}
}

// Enqueue times of the host, constants and milliseconds taken for microseconds
// were reported as device times: cpc/hipcl#5, gfx-rs/wgpu#9414,
// huggingface/optimum-nvidia#9, CHIP-SPV/chipStar#128.
func elapsedMagnitude[E any, S comparable](c *check[E, S]) {
	for _, d := range []time.Duration{workTime / 4, workTime} {
		start, end, waited := c.pair(d)
		span := c.elapsed(start, end)
		longest := waited + waited/100 + c.resolution
		if c.advance != nil {
			longest = d + d/20 + c.overhead
		}
		if span < d/2 || span > longest {
			c.failf("Work of %v reads as %v; it should lie between %v and %v.", d, span, d/2, longest)
		}
	}
}

// Host times at enqueueing, which is about 0 whatever the work:
// CHIP-SPV/chipStar#128, ROCm/hip#3778.
func elapsedDeviceTime[E any, S comparable](c *check[E, S]) {
	const pause = 30 * time.Millisecond
	var span time.Duration
	for range 5 { // a simulated device may be held up by the host between the two
		c.held(func(h *hold[E, S]) {
			start, end := c.event(), c.event()
			c.record(start, h.stream)
			if c.advance != nil {
				c.advance(pause)
			} else {
				time.Sleep(pause)
			}
			c.record(end, h.stream)
			c.still(h, "EventRecord")
			h.release()
			c.await(end)
			span = c.elapsed(start, end)
		})
		if span < pause/2 {
			return
		}
	}
	c.failf("Two records queued %v apart behind one piece of work, with nothing between them on the device, read as %v.", pause, span)
}

func elapsedDeviceTimer[E any, S comparable](c *check[E, S]) {
	c.need(c.spins, "ScratchSpin")
	s, start, end := c.stream(), c.event(), c.event()
	var span, took time.Duration
	for range 5 { // one undisturbed reading is enough
		c.record(start, s)
		spin, err := c.scratch.ScratchSpin(workTime/4, s)
		c.must(err, "ScratchSpin")
		c.record(end, s)
		c.await(end)
		took, err = spin.Measured()
		c.must(err, "Measured after EventWait")
		if span = c.elapsed(start, end); span >= took-c.resolution && span <= took+c.overhead {
			return
		}
	}
	c.failf("The spin took %v by the device's timer, and the events round it read %v.", took, span)
}

func elapsedAdditive[E any, S comparable](c *check[E, S]) {
	s := c.stream()
	a := c.recorded(s)
	c.busy(s, workTime/4)
	b := c.recorded(s)
	c.busy(s, workTime/10)
	end := c.recorded(s)
	c.await(end)
	ab, bc, ac := c.elapsed(a, b), c.elapsed(b, end), c.elapsed(a, end)
	if off := ab + bc - ac; off.Abs() > 3*c.resolution {
		c.failf("%v and %v make %v, and the whole reads as %v.", ab, bc, ab+bc, ac)
	}
}

func elapsedOrder[E any, S comparable](c *check[E, S]) {
	s := c.stream()
	all := make([]E, 1000)
	for i := range all {
		all[i] = c.event()
		c.record(all[i], s)
		if i%250 == 100 {
			c.busy(s, time.Millisecond)
		}
	}
	c.must(c.sync(s), "StreamSynchronize")
	last := time.Duration(0)
	for i, e := range all {
		if !c.isReached(e) {
			c.failf("Event %d of %d was not reached when the stream was done.", i, len(all))
		}
		at := c.elapsed(all[0], e)
		if at < last-c.resolution {
			c.failf("Event %d was stamped %v after the first, and the one recorded before it %v.", i, at, last)
		}
		last = at
	}
	if last < time.Millisecond {
		c.failf("A thousand events with four pieces of work of 1 ms among them read as %v.", last)
	}
}

// ROCm/rocm-systems#9375, ROCm/rocm-libraries#6379, CHIP-SPV/chipStar#116
func elapsedClamped[E any, S comparable](c *check[E, S]) {
	start, end, _ := c.pair(time.Millisecond)
	span, err := c.api.EventElapsed(end, start)
	if span != 0 || err != nil {
		c.failf("It is %v and %s.", span, said(err))
	}
}

func elapsedClampCounted[E any, S comparable](c *check[E, S]) {
	c.need(c.stats != nil, "StatsReader")
	start, end, _ := c.pair(time.Millisecond)
	before := c.stats.EventStats().Clamped
	_, _ = c.api.EventElapsed(end, start)
	if after := c.stats.EventStats().Clamped; after <= before {
		c.failf("Clamped was %d before and is %d after.", before, after)
	}
}

// huggingface/optimum-nvidia#9, triton-lang/triton#10700
func readingConverted[E any, S comparable](c *check[E, S]) {
	c.need(c.fakeMilliseconds != nil, "FakeMilliseconds hook")
	start, end, _ := c.pair(time.Millisecond)
	for ms, want := range map[float32]time.Duration{
		0: 0, 0.0005: 500, 1: time.Millisecond, 86400000: 24 * time.Hour, -0.0001: 0, -1.78: 0, -133: 0,
	} {
		restore := c.fakeMilliseconds(ms)
		span, err := c.api.EventElapsed(start, end)
		restore()
		if span != want || err != nil {
			c.failf("A reading of %v ms: want %v; got %v and %s.", ms, want, span, said(err))
		}
	}
}

// Garbage and what a driver had not written were accepted as times:
// cpc/hipcl#5, pytorch/pytorch#14287.
func readingRefused[E any, S comparable](c *check[E, S]) {
	c.need(c.fakeMilliseconds != nil, "FakeMilliseconds hook")
	start, end, _ := c.pair(time.Millisecond)
	for _, ms := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, -1e30} {
		restore := c.fakeMilliseconds(ms)
		span, err := c.api.EventElapsed(start, end)
		restore()
		if !errors.Is(err, events.ErrBadReading) {
			c.failf("A reading of %v ms: want ErrBadReading; got %v and %s.", ms, span, said(err))
		}
	}
}
