package eventstest

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// taskflow/taskflow#546, lupinemachines/lupine#526
func destroyTwice[E any, S comparable](c *check[E, S]) {
	for _, e := range []E{c.event(), c.complete()} {
		c.must(c.api.EventDestroy(e), "EventDestroy")
		c.must(c.api.EventDestroy(e), "the second EventDestroy")
		c.must(c.api.EventDestroy(e), "the third EventDestroy")
	}
}

func destroyPending[E any, S comparable](c *check[E, S]) {
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		c.must(c.prompt(h, "EventDestroy of a pending event", func() error { return c.api.EventDestroy(e) }), "EventDestroy")
		h.release()
		c.must(c.sync(h.stream), "StreamSynchronize after a pending event was destroyed")
	})
}

func destroyWhileWaiting[E any, S comparable](c *check[E, S]) {
	if c.advance != nil {
		c.skipf("a call that waits makes manual time pass")
	}
	// The device can be lost only once, so the stream is held for long at once; the
	// work goes with the device.
	c.heldFrom(2*time.Second, func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		waited := make(chan error, 1)
		go func() { waited <- guard(func() error { return c.api.EventWait(e) }) }()
		c.settle() // the wait is most likely in the library by then
		c.must(c.prompt(h, "EventDestroy during an EventWait", func() error { return c.api.EventDestroy(e) }), "EventDestroy")
		h.release()
		c.want(<-waited, "EventWait of an event that was destroyed meanwhile", nil, events.ErrDestroyed)
	})
}

// PaddlePaddle/Paddle#34285, lupinemachines/lupine#526
func useAfterDestroy[E any, S comparable](c *check[E, S]) {
	never := c.event()
	c.must(c.api.EventDestroy(never), "EventDestroy")
	c.all("a destroyed event", events.ErrDestroyed, c.eventCalls(c.dead()))
	c.all("an event destroyed before its first record", events.ErrDestroyed, c.eventCalls(never))
}

func streamDestroyTwice[E any, S comparable](c *check[E, S]) {
	s := c.stream()
	c.await(c.recorded(s))
	c.must(c.api.StreamDestroy(s), "StreamDestroy")
	c.must(c.api.StreamDestroy(s), "the second StreamDestroy")
}

func streamDestroyPending[E any, S comparable](c *check[E, S]) {
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		c.must(c.prompt(h, "StreamDestroy of a busy stream", func() error { return c.api.StreamDestroy(h.stream) }), "StreamDestroy")
		h.release()
		c.await(e)
	})
}

func streamUseAfterDestroy[E any, S comparable](c *check[E, S]) {
	c.all("a destroyed stream", events.ErrDestroyed, c.streamCalls(c.deadStream()))
}

// Events of one device used on another were refused by code or went unnoticed:
// rapidsai/rmm#1306, ROCm/hip#1992, NVIDIA/cuCascade#189.
func foreignHandles[E any, S comparable](c *check[E, S]) {
	other := c.foreign()
	c.need(other != nil, "Second device")
	them := c.on(other)
	e, s := them.complete(), them.stream()
	calls := c.eventCalls(e)
	c.all("another device's event", events.ErrDeviceMismatch, calls[:len(calls)-1]) // a stream wait may be legal
	c.want(c.api.EventDestroy(e), "EventDestroy with another device's event", events.ErrDeviceMismatch)
	c.all("another device's stream", events.ErrDeviceMismatch, c.streamCalls(s))
	c.want(c.api.StreamDestroy(s), "StreamDestroy with another device's stream", events.ErrDeviceMismatch)
	them.record(e, s)
	them.await(e) // it must have survived all that
}

func foreignWait[E any, S comparable](c *check[E, S]) {
	c.need(c.second != nil, "Second device")
	waiting, them := c.stream(), c.on(c.second)
	them.held(func(h *hold[E, S]) {
		e := them.recorded(h.stream)
		if err := c.api.StreamWaitEvent(waiting, e); err != nil {
			c.want(err, "StreamWaitEvent for another device's event", events.ErrDeviceMismatch, events.ErrUnsupported)
			return
		}
		after := c.recorded(waiting)
		c.settle()
		if c.isReached(after) && !them.isReached(e) {
			c.failf("StreamWaitEvent accepted another device's event, and did not wait for it.")
		}
		h.release()
		c.await(after)
	})
	dead := them.dead()
	c.want(c.api.StreamWaitEvent(waiting, dead), "StreamWaitEvent for another device's destroyed event", events.ErrDestroyed, events.ErrDeviceMismatch, events.ErrUnsupported)
}

// unrecorded wants an event to count as never recorded.
func (c *check[E, S]) unrecorded(e E) {
	good := c.complete()
	span, err := c.api.EventElapsed(e, good)
	c.want(err, fmt.Sprintf("EventElapsed afterwards, which answered %v", span), events.ErrNotRecorded)
	c.want(c.wait(e), "EventWait afterwards", events.ErrNotRecorded)
	if c.querier != nil {
		done, err := c.querier.EventQuery(e)
		c.want(err, fmt.Sprintf("EventQuery afterwards, which answered %v", done), events.ErrNotRecorded)
	}
	c.record(e, c.stream())
	c.await(e)
}

func failedRecord[E any, S comparable](c *check[E, S]) {
	c.need(c.failRecord != nil, "FailRecord hook")
	e, s := c.complete(), c.stream()
	restore := c.failRecord()
	err := c.api.EventRecord(e, s)
	restore()
	if err == nil {
		c.failf("The library refused the record, and EventRecord gave no error.")
	}
	c.unrecorded(e)
}

func failedRecordDeadStream[E any, S comparable](c *check[E, S]) {
	e, s := c.complete(), c.deadStream()
	if c.api.EventRecord(e, s) == nil {
		c.failf("EventRecord on a destroyed stream gave no error.")
	}
	c.unrecorded(e)
	if c.graphs != nil {
		e := c.complete()
		if c.graphs.EventRecordExternal(e, s) == nil {
			c.failf("EventRecordExternal on a destroyed stream gave no error.")
		}
		c.unrecorded(e)
	}
}

// A number without a name, or a name without its number, leaves a user with
// nothing to look for: NVIDIA/go-nvml#82, lattice/quda#693.
func errorsExplain[E any, S comparable](c *check[E, S]) {
	var zero E
	s := c.stream()
	got := map[string]error{
		"EventRecord with a zero event":      c.api.EventRecord(zero, s),
		"EventWait with a destroyed event":   c.wait(c.dead()),
		"EventWait before the first record":  c.wait(c.event()),
		"EventRecord on a destroyed stream":  c.api.EventRecord(c.event(), c.deadStream()),
		"StreamWaitEvent for a zero event":   c.api.StreamWaitEvent(s, zero),
		"StreamSynchronize after destroying": c.sync(c.deadStream()),
	}
	_, got["EventElapsed before the first record"] = c.api.EventElapsed(c.complete(), c.event())
	if c.failRecord != nil {
		restore := c.failRecord()
		err := c.api.EventRecord(c.event(), s)
		restore()
		got["EventRecord that the library refuses"] = err
		if driver := (*events.DriverError)(nil); !errors.As(err, &driver) {
			c.failf("EventRecord that the library refuses must be a *events.DriverError; got %s.", said(err))
		}
	}
	c.held(func(h *hold[E, S]) {
		_, got["EventElapsed of a pending event"] = c.api.EventElapsed(h.marker, h.marker)
	})
	for name, err := range got {
		if err == nil {
			c.failf("%s gave no error.", name)
		}
		var driver *events.DriverError
		if !errors.As(err, &driver) {
			if !isSentinel(err) {
				c.failf("%s wraps none of the sentinels of package events: %s.", name, said(err))
			}
			continue
		}
		number := "(" + strconv.Itoa(int(driver.Code)) + ")"
		if driver.Backend != c.api.Backend() || driver.Op == "" || driver.Code == 0 ||
			!strings.Contains(err.Error(), driver.Op) || !strings.Contains(err.Error(), number) {
			c.failf("%s does not tell backend, function and number: %s (Backend %q, Op %q, Code %d).", name, said(err), driver.Backend, driver.Op, driver.Code)
		}
	}
}

func isSentinel(err error) bool {
	for kind := range sentinels() {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// live waits until the live counts are what they were, since what is in use is
// freed later.
func (c *check[E, S]) live(before events.Stats, after string) {
	same := func() bool {
		now := c.stats.EventStats()
		return now.LiveEvents == before.LiveEvents && now.LiveStreams == before.LiveStreams
	}
	if !c.until(same) {
		now := c.stats.EventStats()
		c.failf("%s there are %d events and %d streams more than before.", after, now.LiveEvents-before.LiveEvents, now.LiveStreams-before.LiveStreams)
	}
	if now := c.stats.EventStats(); now.DestroyFailed > before.DestroyFailed || now.AbandonedAtEnd > before.AbandonedAtEnd {
		c.failf("%s DestroyFailed went from %d to %d and AbandonedAtEnd from %d to %d.", after,
			before.DestroyFailed, now.DestroyFailed, before.AbandonedAtEnd, now.AbandonedAtEnd)
	}
}

func liveCounts[E any, S comparable](c *check[E, S]) {
	c.need(c.stats != nil, "StatsReader")
	before := c.stats.EventStats()
	c.event()
	c.event()
	c.stream()
	now := c.stats.EventStats()
	if made, streams := now.LiveEvents-before.LiveEvents, now.LiveStreams-before.LiveStreams; made != 2 || streams != 1 {
		c.failf("Two events and a stream were made, and counted as %d and %d.", made, streams)
	}
}

// Timing in a loop grew memory without end: pytorch/pytorch#38313,
// tromp/cuckoo#69, llnl/camp#71.
func leaks[E any, S comparable](c *check[E, S]) {
	c.need(c.stats != nil, "StatsReader")
	waiting := c.stream()
	var before events.Stats
	c.held(func(h *hold[E, S]) {
		before = c.stats.EventStats()
		for range 8 {
			s, err := c.api.StreamCreateNonBlocking()
			c.must(err, "StreamCreateNonBlocking")
			e, err := c.api.EventCreate()
			c.must(err, "EventCreate")
			pending, err := c.api.EventCreate()
			c.must(err, "EventCreate")
			c.record(pending, h.stream)
			c.must(c.api.StreamWaitEvent(waiting, pending), "StreamWaitEvent")
			c.record(e, s)
			for _, destroy := range []E{e, pending, e} {
				c.must(c.api.EventDestroy(destroy), "EventDestroy")
			}
			c.must(c.api.StreamDestroy(s), "StreamDestroy")
			c.must(c.api.StreamDestroy(s), "StreamDestroy")
		}
		h.release()
		c.must(c.sync(waiting), "StreamSynchronize")
		c.live(before, "After 24 destroys of 16 events and 8 streams")
	})
}

// torch/cutorch#619, csarofeen/pytorch#787
func leaksAfterErrors[E any, S comparable](c *check[E, S]) {
	c.need(c.stats != nil, "StatsReader")
	var zero E
	good, dead, deadStream, s := c.complete(), c.dead(), c.deadStream(), c.stream()
	before := c.stats.EventStats()
	for range 8 {
		e, err := c.api.EventCreate()
		c.must(err, "EventCreate")
		_ = c.api.EventRecord(e, deadStream)
		if c.failRecord != nil {
			restore := c.failRecord()
			_ = c.api.EventRecord(e, s)
			restore()
		}
		_, _ = c.api.EventElapsed(e, good)
		_ = c.wait(e)
		_ = c.wait(dead)
		_ = c.api.EventRecord(zero, s)
		_ = c.api.StreamWaitEvent(s, e)
		c.must(c.api.EventDestroy(e), "EventDestroy of an event whose record failed")
	}
	c.live(before, "After 8 events whose records failed")
}

func goroutines[E any, S comparable](c *check[E, S]) {
	const rounds = 32
	cycle := func() {
		s, err := c.newStream()
		c.must(err, "StreamCreateNonBlocking")
		e, err := c.api.EventCreate()
		c.must(err, "EventCreate")
		c.busy(s, 10*time.Microsecond)
		c.record(e, s)
		c.await(e)
		c.must(c.api.EventDestroy(e), "EventDestroy")
		c.must(c.api.StreamDestroy(s), "StreamDestroy")
	}
	cycle()
	before := runtime.NumGoroutine()
	for range rounds {
		cycle()
	}
	if !c.until(func() bool { return runtime.NumGoroutine() < before+rounds/2 }) {
		c.failf("After %d streams and events that were made and destroyed there are %d goroutines, and %d before.", rounds, runtime.NumGoroutine(), before)
	}
}

// Goroutines and threads mixed up devices, answers and handles:
// openucx/ucx#9581, ebitengine/purego#451.
func concurrentUse[E any, S comparable](c *check[E, S]) {
	const workers, rounds = 16, 50
	streams := []S{c.stream(), c.stream(), c.stream(), c.stream()}
	before := c.liveNow()
	err := together(workers, func(i int) error {
		s, other := streams[i%len(streams)], streams[(i+1)%len(streams)]
		for n := range rounds {
			if err := c.window(s, other, n); err != nil {
				return fmt.Errorf("goroutine %d, round %d: %w", i, n, err)
			}
		}
		return nil
	})
	if err != nil {
		c.failf("%v", err)
	}
	if c.stats != nil {
		c.live(before, fmt.Sprintf("After %d goroutines made and destroyed %d events each", workers, 2*rounds))
	}
}

func (c *check[E, S]) liveNow() events.Stats {
	if c.stats == nil {
		return events.Stats{}
	}
	return c.stats.EventStats()
}

// window is what a profiler does round a piece of work.
func (c *check[E, S]) window(s, other S, n int) error {
	start, err := c.api.EventCreate()
	if err != nil {
		return err
	}
	end, err := c.api.EventCreate()
	if err != nil {
		return err
	}
	if err := c.api.EventRecord(start, s); err != nil {
		return err
	}
	if err := c.api.EventRecord(end, s); err != nil {
		return err
	}
	if err := c.api.StreamWaitEvent(other, end); err != nil {
		return err
	}
	if c.querier != nil {
		if _, err := c.querier.EventQuery(end); err != nil {
			return err
		}
	}
	if n%8 == 0 {
		if err := c.sync(s); err != nil {
			return err
		}
	}
	if err := c.wait(end); err != nil {
		return err
	}
	if done, err := c.reached(end); err != nil || !done {
		return fmt.Errorf("an event was waited for and is reached: %v, %w", done, err)
	}
	if span, err := c.api.EventElapsed(start, end); err != nil || span < 0 {
		return fmt.Errorf("elapsed: %v, %w", span, err)
	}
	return errors.Join(c.api.EventDestroy(start), c.api.EventDestroy(end))
}

func concurrentDestroy[E any, S comparable](c *check[E, S]) {
	s, good := c.stream(), c.complete()
	before := c.liveNow()
	for range 20 {
		e, err := c.api.EventCreate()
		c.must(err, "EventCreate")
		c.record(e, s)
		var destroyed atomic.Bool
		err = together(8, func(i int) error {
			if i%2 == 0 {
				destroyed.Store(true)
				return c.api.EventDestroy(e)
			}
			var used []error
			used = append(used, c.wait(e), c.api.EventRecord(e, s))
			_, err := c.reached(e)
			used = append(used, err)
			_, err = c.api.EventElapsed(good, e)
			used = append(used, err)
			for _, err := range used {
				if err != nil && !oneOf(err, []error{events.ErrDestroyed, events.ErrNotReady}) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			c.failf("%v", err)
		}
		c.want(c.wait(e), "EventWait afterwards", events.ErrDestroyed)
	}
	if c.stats != nil {
		c.live(before, "After 20 events, destroyed by 4 goroutines each,")
	}
}

func faultSticky[E any, S comparable](c *check[E, S]) {
	c.need(c.loseDevice != nil, "LoseDevice hook")
	e, s, f := c.complete(), c.stream(), c.event()
	calls := []call{{"EventRecord", func() error { return c.api.EventRecord(f, s) }}}
	for _, m := range c.eventCalls(e) {
		if !strings.HasPrefix(m.name, "EventRecord") && m.name != "RoundQuery" { // e has to stay recorded; RoundBegin refuses
			calls = append(calls, m)
		}
	}
	for _, m := range c.streamCalls(s) {
		if m.name != "CaptureEnd" { // there is nothing to end
			calls = append(calls, m)
		}
	}
	calls = append(calls,
		call{"EventCreate", func() error { _, err := c.api.EventCreate(); return err }},
		call{"StreamCreateNonBlocking", func() error { _, err := c.api.StreamCreateNonBlocking(); return err }})
	if c.rounds != nil {
		calls = append(calls, call{"RoundBegin", func() error { _, err := c.rounds.RoundBegin(); return err }})
	}
	c.loseDevice()
	for range 2 {
		for _, m := range calls {
			c.want(m.do(), m.name+" after a device fault", events.ErrDeviceFault)
		}
	}
	c.want(c.api.EventDestroy(e), "EventDestroy after a device fault", nil, events.ErrDeviceFault)
	c.must(c.api.EventDestroy(e), "the second EventDestroy after a device fault")
	c.want(c.api.StreamDestroy(s), "StreamDestroy after a device fault", nil, events.ErrDeviceFault)
	c.must(c.api.StreamDestroy(s), "the second StreamDestroy after a device fault")
}

// A poll that looks only for success never ends once the device has failed:
// vllm-project/vllm#52247, ComputationalRadiationPhysics/picongpu#1485.
func faultEndsWaits[E any, S comparable](c *check[E, S]) {
	c.need(c.loseDevice != nil, "LoseDevice hook")
	if c.advance != nil {
		c.skipf("a call that waits makes manual time pass")
	}
	c.held(func(h *hold[E, S]) {
		e := c.recorded(h.stream)
		waited := make(chan error, 1)
		go func() { waited <- guard(func() error { return c.api.EventWait(e) }) }()
		c.settle()
		c.lost = true
		c.loseDevice()
		select {
		case err := <-waited:
			c.want(err, "the EventWait", events.ErrDeviceFault)
		case <-time.After(c.patience):
			c.failf("The EventWait goes on %v after the device was lost.", c.patience)
		}
	})
}
