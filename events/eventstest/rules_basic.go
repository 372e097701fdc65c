package eventstest

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"example.com/devevents/events"
)

func workGiven[E any, S comparable](c *check[E, S]) {
	if c.work == nil {
		c.failf("Set Work: the backend offers neither a spin nor a gate.")
	}
	s := c.stream()
	began := time.Now()
	c.busy(s, workTime)
	c.must(c.sync(s), "StreamSynchronize")
	if took := time.Since(began); c.advance == nil && took < workTime/2 {
		c.failf("StreamSynchronize behind work of %v returned after %v: either it did not wait or the work was too short.", workTime, took)
	}
}

func backendName[E any, S comparable](c *check[E, S]) {
	name := c.api.Backend()
	if !regexp.MustCompile(`^[a-z0-9_-]+$`).MatchString(name) {
		c.failf("Backend gave %q.", name)
	}
	if e, err := c.api.EventCreate(); err == nil {
		c.must(c.api.EventDestroy(e), "EventDestroy")
	}
	if again := c.api.Backend(); again != name {
		c.failf("Backend gave %q first and %q later.", name, again)
	}
}

func newHandles[E any, S comparable](c *check[E, S]) {
	a, b := c.stream(), c.stream()
	if a == b {
		c.failf("StreamCreateNonBlocking gave the same stream twice.")
	}
	e, f := c.event(), c.event()
	c.record(e, a)
	c.await(e)
	c.want(c.wait(f), "EventWait on a second event after the first was recorded", events.ErrNotRecorded)
}

// Null handles left stray errors behind or crashed in the driver:
// taskflow/taskflow#546, harrism/cuda_event_benchmark#2.
func zeroHandles[E any, S comparable](c *check[E, S]) {
	var e E
	var s S
	c.all("a zero event", events.ErrInvalid, c.eventCalls(e))
	c.want(c.api.EventDestroy(e), "EventDestroy with a zero event", events.ErrInvalid)
	c.all("a zero stream", events.ErrInvalid, c.streamCalls(s))
	c.want(c.api.StreamDestroy(s), "StreamDestroy with a zero stream", events.ErrInvalid)
}

func recordReturnsAtOnce[E any, S comparable](c *check[E, S]) {
	c.held(func(h *hold[E, S]) {
		e := c.event()
		c.must(c.prompt(h, "EventRecord", func() error { return c.api.EventRecord(e, h.stream) }), "EventRecord")
		h.release()
		c.await(e)
	})
}

// workTime is long enough for a call that does not wait to return before it has
// passed.
const workTime = 20 * time.Millisecond

// waits makes a call that has to wait for a stream, and sees to it that it did.
func (c *check[E, S]) waits(name string, wait func(s S, e E) error) {
	s, e := c.stream(), c.event()
	began := time.Now()
	c.busy(s, workTime)
	c.record(e, s)
	c.must(wait(s, e), name)
	took := time.Since(began)
	if !c.isReached(e) {
		c.failf("%s returned while the event was still pending.", name)
	}
	if c.advance == nil && took < workTime/2 {
		c.failf("%s returned after %v, behind work that takes %v.", name, took, workTime)
	}
}

// smol-machines/smolvm#932, ROCm/hrx-system#57
func waitWaits[E any, S comparable](c *check[E, S]) {
	c.waits("EventWait", func(_ S, e E) error { return c.wait(e) })
}

func waitAgain[E any, S comparable](c *check[E, S]) {
	e := c.complete()
	c.await(e)
	failed := make(chan error, 8)
	for range cap(failed) {
		go func() { failed <- guard(func() error { return c.api.EventWait(e) }) }()
	}
	for range cap(failed) {
		c.must(<-failed, "EventWait from another goroutine")
	}
}

// eyalroz/cuda-api-wrappers#226, iree-org/iree#17025
func waitNeverRecorded[E any, S comparable](c *check[E, S]) {
	c.want(c.wait(c.event()), "EventWait", events.ErrNotRecorded)
}

func synchronizeWaits[E any, S comparable](c *check[E, S]) {
	c.waits("StreamSynchronize", func(s S, _ E) error { return c.sync(s) })
	c.must(c.sync(c.stream()), "StreamSynchronize of a stream that was never used")
}

func synchronizeOneStream[E any, S comparable](c *check[E, S]) {
	idle := c.stream()
	c.held(func(h *hold[E, S]) {
		c.must(c.prompt(h, "StreamSynchronize of an idle stream", func() error { return c.api.StreamSynchronize(idle) }), "StreamSynchronize")
	})
}

// Timing events went to another stream than the work, and a re-recorded event
// stayed with its old stream: Genesis-Embodied-AI/quadrants#407,
// ROCm/hrx-system#170.
func recordKeepsToItsStream[E any, S comparable](c *check[E, S]) {
	c.held(func(h *hold[E, S]) {
		behind := c.recorded(h.stream)
		// Real devices map streams to fewer queues: a new stream may share that
		// of the held one, three in a row do not.
		free := false
		for range 3 {
			e := c.recorded(c.stream())
			if free = c.until(func() bool { return c.isReached(e) || c.isReached(h.marker) }) && c.isReached(e); free {
				break
			}
		}
		if !free {
			c.failf("An event recorded on an idle stream was not reached while another stream was held back.")
		}
		c.still(h, "EventRecord on an idle stream")
		if c.isReached(behind) {
			c.failf("An event recorded on a stream that is held back was reached.")
		}
		h.release()
		c.await(behind)
	})
}

func rerecordReplaces[E any, S comparable](c *check[E, S]) {
	idle := c.stream()
	e := c.recorded(idle)
	c.await(e)
	c.held(func(h *hold[E, S]) {
		c.record(e, h.stream)
		c.settle()
		if c.isReached(e) {
			c.failf("An event was reached, recorded again on a stream that is held back, and still counts as reached.")
		}
		c.record(e, idle)
		c.await(e)
		c.still(h, "EventWait after the event was recorded again on an idle stream")
	})
	s := c.stream()
	start := c.recorded(s)
	c.record(e, s)
	c.busy(s, workTime)
	c.record(e, s)
	c.await(e)
	if span := c.elapsed(start, e); span < workTime/2 {
		c.failf("The event still has the time of its first record: %v instead of at least %v.", span, workTime/2)
	}
}

// smol-machines/smolvm#932, NVIDIA/numba-cuda#747
func queryPending[E any, S comparable](c *check[E, S]) {
	c.need(c.querier != nil, "Querier")
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		for i := range 100 {
			if done, err := c.querier.EventQuery(e); done || err != nil {
				c.failf("Query %d of a pending event gave %v, %s.", i+1, done, said(err))
			}
		}
		h.release()
		c.await(e)
	})
}

func queryReached[E any, S comparable](c *check[E, S]) {
	c.need(c.querier != nil, "Querier")
	e := c.complete()
	for range 3 {
		if done, err := c.querier.EventQuery(e); !done || err != nil {
			c.failf("EventQuery after EventWait gave %v, %s.", done, said(err))
		}
	}
	s := c.stream()
	f := c.recorded(s)
	c.must(c.sync(s), "StreamSynchronize")
	if done, err := c.querier.EventQuery(f); !done || err != nil {
		c.failf("EventQuery after StreamSynchronize gave %v, %s.", done, said(err))
	}
}

// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226
func queryNeverRecorded[E any, S comparable](c *check[E, S]) {
	c.need(c.querier != nil, "Querier")
	done, err := c.querier.EventQuery(c.event())
	c.want(err, fmt.Sprintf("EventQuery, which answered %v", done), events.ErrNotRecorded)
}

func roundLikeQuery[E any, S comparable](c *check[E, S]) {
	c.need(c.rounds != nil, "RoundQuerier")
	fresh, dead, done := c.event(), c.dead(), c.complete()
	c.held(func(h *hold[E, S]) {
		pending := c.recorded(h.stream)
		for _, x := range []struct {
			name  string
			event E
			done  bool
			kind  error
		}{
			{"pending", pending, false, nil},
			{"reached", done, true, nil},
			{"never recorded", fresh, false, events.ErrNotRecorded},
			{"destroyed", dead, false, events.ErrDestroyed},
		} {
			got, err := c.roundQuery(x.event)
			if got != x.done || !errors.Is(err, x.kind) {
				c.failf("RoundQuery of an event that is %s: want %v and %s; got %v and %s.", x.name, x.done, names([]error{x.kind}), got, said(err))
			}
		}
	})
}

func streamWaitOrders[E any, S comparable](c *check[E, S]) {
	waiting := c.stream()
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		c.must(c.api.StreamWaitEvent(waiting, e), "StreamWaitEvent")
		after := c.recorded(waiting)
		c.settle()
		if c.isReached(after) && !c.isReached(e) {
			c.failf("A record queued behind a stream wait was reached before the event that the stream waits for.")
		}
		c.still(h, "StreamWaitEvent")
		h.release()
		c.await(after)
		if !c.isReached(e) {
			c.failf("A record queued behind a stream wait was reached before the event that the stream waits for.")
		}
	})
}

func streamWaitReturnsAtOnce[E any, S comparable](c *check[E, S]) {
	waiting := c.stream()
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		c.must(c.prompt(h, "StreamWaitEvent", func() error { return c.api.StreamWaitEvent(waiting, e) }), "StreamWaitEvent")
	})
}

func streamWaitReached[E any, S comparable](c *check[E, S]) {
	e, s := c.complete(), c.stream()
	c.must(c.api.StreamWaitEvent(s, e), "StreamWaitEvent for an event that has been reached")
	c.must(c.api.StreamWaitEvent(s, c.recorded(s)), "StreamWaitEvent on the event's own stream")
	c.await(c.recorded(s))
}

// A re-recorded event made others wait for the wrong record:
// ComputationalRadiationPhysics/picongpu#1189, torch/cutorch#222.
func streamWaitKeepsItsRecord[E any, S comparable](c *check[E, S]) {
	waiting, idle := c.stream(), c.stream()
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		c.must(c.api.StreamWaitEvent(waiting, e), "StreamWaitEvent")
		c.record(e, idle)
		after := c.recorded(waiting)
		c.settle()
		if c.isReached(after) && !c.isReached(h.marker) {
			c.failf("The stream went on when the event was recorded again elsewhere.")
		}
		h.release()
		c.await(after)
	})
}

// iree-org/iree#17025, sgl-project/sglang#14214
func streamWaitNeverRecorded[E any, S comparable](c *check[E, S]) {
	c.want(c.api.StreamWaitEvent(c.stream(), c.event()), "StreamWaitEvent", events.ErrNotRecorded)
}

func untimedEvents[E any, S comparable](c *check[E, S]) {
	c.need(c.untimed != nil, "UntimedCreator")
	s, waiting := c.stream(), c.stream()
	for _, blocking := range []bool{false, true} {
		e, err := c.untimed.EventCreateUntimed(blocking)
		c.must(err, "EventCreateUntimed")
		c.later(func() { _ = c.api.EventDestroy(e) })
		c.want(c.wait(e), "EventWait before the first record", events.ErrNotRecorded)
		c.record(e, s)
		c.must(c.api.StreamWaitEvent(waiting, e), "StreamWaitEvent")
		c.await(e)
		if c.querier != nil && !c.isReached(e) {
			c.failf("EventQuery of an untimed event after EventWait gave false.")
		}
		c.must(c.sync(waiting), "StreamSynchronize")
		c.must(c.api.EventDestroy(e), "EventDestroy")
	}
}

// together runs a function in many goroutines and gives their errors.
func together(n int, run func(i int) error) error {
	failed := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { failed[i] = guard(func() error { return run(i) }) })
	}
	wg.Wait()
	return errors.Join(failed...)
}
