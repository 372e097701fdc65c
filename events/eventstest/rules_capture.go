package eventstest

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"example.com/devevents/events"
)

// capture captures what body queues on a new stream. Captures belong to the OS
// thread, so the goroutine keeps to one meanwhile.
func (c *check[E, S]) capture(mode events.CaptureMode, body func(s S)) (events.Graph[S], S, error) {
	s := c.stream()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.must(c.graphs.CaptureBegin(s, mode), "CaptureBegin")
	ended := false
	defer func() {
		if !ended {
			_, _ = c.graphs.CaptureEnd(s)
		}
	}()
	body(s)
	ended = true
	graph, err := c.graphs.CaptureEnd(s)
	if err == nil {
		c.later(func() { _ = graph.Close() })
	}
	return graph, s, err
}

// captured gives an event whose only record went into a capture that has ended.
func (c *check[E, S]) captured() E {
	e := c.event()
	_, _, err := c.capture(events.CaptureRelaxed, func(s S) { c.record(e, s) })
	c.must(err, "CaptureEnd")
	return e
}

// pytorch/pytorch#104487, peak-team/peak#84
func captureSeen[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	c.need(c.asker != nil, "CaptureAsker")
	look := func(s S, want bool, what string) {
		got, err := c.asker.StreamCapturing(s)
		if got != want || err != nil {
			c.failf("StreamCapturing of %s: want %v; got %v and %s.", what, want, got, said(err))
		}
	}
	other := c.stream()
	_, s, err := c.capture(events.CaptureThreadLocal, func(s S) {
		look(s, true, "a stream that is being captured")
		look(other, false, "another stream")
	})
	c.must(err, "CaptureEnd")
	look(s, false, "a stream whose capture has ended")
}

// A poll in one goroutine killed a capture in another: pytorch/pytorch#104487,
// pytorch/pytorch#148594, pytorch/pytorch#176251, ROCm/hip#3876.
func captureSurvives[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	done, other := c.complete(), c.stream()
	_, _, err := c.capture(events.CaptureGlobal, func(s S) {
		captured := c.recorded(s)
		c.must(c.uninvolved(done, other), "from the capturing goroutine")
		c.must(together(4, func(int) error { return c.uninvolved(done, other) }), "from another goroutine")
		c.must(c.api.EventDestroy(captured), "EventDestroy of a captured event")
	})
	c.must(err, "CaptureEnd after calls that have no part in the capture")
}

// uninvolved makes every call that somebody else may make during a capture.
func (c *check[E, S]) uninvolved(done E, s S) error {
	e, err := c.api.EventCreate()
	if err != nil {
		return err
	}
	list := []call{
		{"EventRecord", func() error { return c.api.EventRecord(e, s) }},
		{"EventWait", func() error { return c.wait(e) }},
		{"EventElapsed", func() error { _, err := c.api.EventElapsed(done, e); return err }},
		{"StreamWaitEvent", func() error { return c.api.StreamWaitEvent(s, e) }},
		{"StreamSynchronize", func() error { return c.sync(s) }},
		{"StreamCreateNonBlocking", func() error {
			made, err := c.api.StreamCreateNonBlocking()
			if err != nil {
				return err
			}
			return c.api.StreamDestroy(made)
		}},
	}
	if c.querier != nil {
		list = append(list, call{"EventQuery", func() error { _, err := c.querier.EventQuery(e); return err }})
	}
	if c.rounds != nil {
		list = append(list, call{"a polling round", func() error {
			round, err := c.rounds.RoundBegin()
			if err != nil {
				return err
			}
			_, err = c.rounds.RoundQuery(round, e)
			return errors.Join(err, c.rounds.RoundEnd(round))
		}})
	}
	if c.telemetry != nil {
		list = append(list, call{"TelemetryRead", func() error { _, err := c.telemetry.TelemetryRead(); return err }})
	}
	list = append(list, call{"EventDestroy", func() error { return c.api.EventDestroy(e) }})
	for _, m := range list {
		if err := m.do(); err != nil {
			return fmt.Errorf("%s during a capture elsewhere: %w", m.name, err)
		}
	}
	return nil
}

func captureBroken[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	outside := c.complete()
	var broke error
	_, s, err := c.capture(events.CaptureThreadLocal, func(s S) { broke = c.api.StreamWaitEvent(s, outside) })
	if broke != nil {
		c.want(broke, "StreamWaitEvent in a capture for an event outside it", events.ErrCapturing)
		c.want(err, "CaptureEnd after it", events.ErrCapturing, nil)
	} else {
		c.must(err, "CaptureEnd after a StreamWaitEvent that was not refused")
	}
	if c.asker != nil {
		captured, err := c.asker.StreamCapturing(s)
		if captured || err != nil {
			c.failf("StreamCapturing after CaptureEnd: %v and %s.", captured, said(err))
		}
	}
	c.await(c.recorded(s))
}

// A record that went into a capture measured nothing or old stamps:
// NVIDIA/warp#556, gwoltman/gpuowl#59, ROCm/rocm-systems#2380.
func capturedEvent[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	if c.stale != nil && c.stale.ElapsedAfterCapture() {
		c.skipf("the backend says that it reads the stamps from before a capture")
	}
	e, good := c.captured(), c.complete()
	if span, err := c.api.EventElapsed(good, e); err == nil {
		c.failf("EventElapsed to a captured event gave %v and no error.", span)
	}
	if span, err := c.api.EventElapsed(e, good); err == nil {
		c.failf("EventElapsed from a captured event gave %v and no error.", span)
	}
	if c.wait(e) == nil {
		c.failf("EventWait on a captured event gave no error.")
	}
	if c.querier != nil {
		if done, _ := c.querier.EventQuery(e); done {
			c.failf("EventQuery of a captured event gave true.")
		}
	}
}

func capturedEventAgain[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	e, s := c.captured(), c.stream()
	start := c.recorded(s)
	c.busy(s, time.Millisecond)
	c.record(e, s)
	c.await(e)
	if span := c.elapsed(start, e); span < time.Millisecond/2 {
		c.failf("Work of 1 ms reads as %v.", span)
	}
}

func captureExternal[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	start, end := c.event(), c.event()
	var least time.Duration
	graph, s, err := c.capture(events.CaptureThreadLocal, func(s S) {
		c.must(c.graphs.EventRecordExternal(start, s), "EventRecordExternal")
		if c.spins {
			least = time.Millisecond
			_, err := c.scratch.ScratchSpin(least, s)
			c.must(err, "ScratchSpin in a capture")
		}
		c.must(c.graphs.EventRecordExternal(end, s), "EventRecordExternal")
	})
	c.must(err, "CaptureEnd")
	if span, err := c.api.EventElapsed(start, end); err == nil {
		c.failf("EventElapsed before the first launch gave %v and no error.", span)
	}
	before := c.complete()
	var last time.Duration
	for i := range 3 {
		c.must(graph.Launch(s), "Launch")
		c.must(c.sync(s), "StreamSynchronize")
		if span := c.elapsed(start, end); span < least {
			c.failf("Launch %d, with a spin of %v between the events, reads as %v.", i+1, least, span)
		}
		at := c.elapsed(before, end)
		if at <= last {
			c.failf("Launch %d was stamped %v after an event before it, and the launch before %v.", i+1, at, last)
		}
		last = at
		c.settle()
	}
}

// CUDA refuses it, and HIP makes a plain record of it.
func externalOutsideCapture[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	e, s := c.complete(), c.stream()
	start := c.recorded(s)
	c.busy(s, time.Millisecond)
	err := c.graphs.EventRecordExternal(e, s)
	c.must(c.sync(s), "StreamSynchronize")
	if err != nil {
		c.unrecorded(e)
		return
	}
	c.await(e)
	if span := c.elapsed(start, e); span < time.Millisecond/2 {
		c.failf("EventRecordExternal behind work of 1 ms gave no error, and the event reads as %v from before the work.", span)
	}
}

func captureMisuse[E any, S comparable](c *check[E, S]) {
	c.need(c.graphs != nil, "Graphs")
	s := c.stream()
	c.want(c.graphs.CaptureBegin(s, 7), "CaptureBegin in mode 7", events.ErrInvalid)
	if _, err := c.graphs.CaptureEnd(s); err == nil {
		c.failf("CaptureEnd without CaptureBegin gave no error.")
	}
	graph, _, err := c.capture(events.CaptureRelaxed, func(s S) {
		if c.graphs.CaptureBegin(s, events.CaptureRelaxed) == nil {
			c.failf("CaptureBegin on a stream that is being captured gave no error.")
		}
	})
	c.must(err, "CaptureEnd")
	var zero S
	c.want(graph.Launch(zero), "Launch on a zero stream", events.ErrInvalid)
	c.want(graph.Launch(c.deadStream()), "Launch on a destroyed stream", events.ErrDestroyed)
	c.must(graph.Launch(s), "Launch")
	c.must(c.sync(s), "StreamSynchronize")
	c.must(graph.Close(), "Close")
	c.must(graph.Close(), "the second Close")
	c.want(graph.Launch(s), "Launch after Close", events.ErrClosed)
}
