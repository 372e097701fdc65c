package eventstest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/devevents/events"
)

// abilityOf is one ability as a backend has it.
type abilityOf struct {
	name    string
	offered bool
	method  bool   // the type has the methods, offered or not
	calls   []call // valid ones; nil where no method returns an error
	quiet   func() // the other methods
}

func has[T any](api any, name string) (methods T, a *abilityOf) {
	_, offered := events.Ability[T](api)
	methods, method := api.(T)
	return methods, &abilityOf{name: name, offered: offered, method: method}
}

// abilities are all of package events. Where an ability is offered its calls
// work in this order.
func (c *check[E, S]) abilities(e E, s S) []*abilityOf {
	api := any(c.api)

	query, querier := has[events.Querier[E]](api, "Querier")
	querier.calls = []call{{"EventQuery", func() error { _, err := query.EventQuery(e); return err }}}

	var round events.Round
	polls, rounds := has[events.RoundQuerier[E]](api, "RoundQuerier")
	rounds.calls = []call{
		{"RoundBegin", func() (err error) { round, err = polls.RoundBegin(); return err }},
		{"RoundQuery", func() error { _, err := polls.RoundQuery(round, e); return err }},
		{"RoundEnd", func() error { return polls.RoundEnd(round) }},
	}

	asks, asker := has[events.CaptureAsker[S]](api, "CaptureAsker")
	asker.calls = []call{{"StreamCapturing", func() error { _, err := asks.StreamCapturing(s); return err }}}

	stamps, stamper := has[events.Stamper[E]](api, "Stamper")
	stamper.calls = []call{{"EventStamp", func() error { _, err := stamps.EventStamp(e); return err }}}
	clocks, timer := has[events.TimerReader](api, "TimerReader")
	timer.calls = []call{{"DeviceAndHostTimer", func() error { _, _, err := clocks.DeviceAndHostTimer(); return err }}}

	makes, untimed := has[events.UntimedCreator[E]](api, "UntimedCreator")
	untimed.calls = []call{{"EventCreateUntimed", func() error {
		made, err := makes.EventCreateUntimed(false)
		if err != nil {
			return err
		}
		return c.api.EventDestroy(made)
	}}}

	closes, gate := has[events.Gate[S]](api, "Gate")
	gate.calls = []call{{"GateClose", func() error {
		closed, err := closes.GateClose(s, c.timeout)
		if err != nil {
			return err
		}
		return closed.Open()
	}}}

	memory, scratch := has[events.Scratch[S]](api, "Scratch")
	scratch.calls = []call{{"ScratchAlloc", func() error {
		b, err := memory.ScratchAlloc(4096)
		if err != nil {
			return err
		}
		return memory.ScratchFree(b)
	}}}

	captures, graphs := has[events.Graphs[E, S]](api, "Graphs")
	graphs.calls = []call{
		{"CaptureBegin", func() error { return captures.CaptureBegin(s, events.CaptureRelaxed) }},
		{"EventRecordExternal", func() error { return captures.EventRecordExternal(e, s) }},
		{"CaptureEnd", func() error {
			graph, err := captures.CaptureEnd(s)
			if err != nil {
				return err
			}
			return graph.Close()
		}},
	}

	state, telemetry := has[events.Telemetry](api, "Telemetry")
	telemetry.calls = []call{{"TelemetryRead", func() error { _, err := state.TelemetryRead(); return err }}}
	tool, profiler := has[events.ProfilerControl](api, "ProfilerControl")
	profiler.calls = []call{
		{"ProfilerStart", func() error { return tool.ProfilerStart() }},
		{"ProfilerStop", func() error { return tool.ProfilerStop() }},
	}

	names, identity := has[events.Identifier](api, "Identifier")
	identity.quiet = func() { names.Identity() }
	wraps, wrapper := has[events.StreamWrapper[S]](api, "StreamWrapper")
	wrapper.quiet = func() { wraps.WrapStream(1) }
	counts, stats := has[events.StatsReader](api, "StatsReader")
	stats.quiet = func() { counts.EventStats() }
	reads, stale := has[events.StaleReader](api, "StaleReader")
	stale.quiet = func() { reads.ElapsedAfterCapture() }
	clock, host := has[events.HostClocker](api, "HostClocker")
	host.quiet = func() { clock.HostClock() }

	sizes, cache := has[events.Cache](api, "Cache")
	cache.calls = []call{
		{"CacheBytes", func() error { _, err := sizes.CacheBytes(); return err }},
		{"CacheResetPersisting", func() error { return sizes.CacheResetPersisting() }},
	}
	syncs, syncer := has[events.DeviceSynchronizer](api, "DeviceSynchronizer")
	syncer.calls = []call{{"DeviceSynchronize", func() error { return c.block(syncs.DeviceSynchronize) }}}
	launches, empty := has[events.EmptyKernel[S]](api, "EmptyKernel")
	empty.calls = []call{{"LaunchEmpty", func() error { return launches.LaunchEmpty(s) }}}
	scans, reader := has[events.ReadKernel[S]](api, "ReadKernel")
	reader.calls = []call{{"LaunchRead", func() error {
		if c.scratch == nil { // there is nothing to read, and what is not offered has to say so
			err := scans.LaunchRead(events.Buffer{}, 64, s)
			if errors.Is(err, events.ErrInvalid) {
				return nil
			}
			return err
		}
		b, err := c.scratch.ScratchAlloc(4096)
		if err != nil {
			return err
		}
		c.later(func() { _ = c.scratch.ScratchFree(b) })
		return scans.LaunchRead(b, 64, s)
	}}}
	tells, versions := has[events.Versioned](api, "Versioned")
	versions.quiet = func() { tells.Versions() }

	return []*abilityOf{
		querier, rounds, asker, untimed, gate, scratch, graphs, identity, wrapper, stats, stale, host, stamper, timer,
		cache, syncer, empty, reader, versions, telemetry, profiler,
	}
}

// A symbol missing from an old library crashed days later at the first use:
// chelsea0x3b/cudarc#422, NVIDIA/go-nvlib#87.
func abilitiesRefused[E any, S comparable](c *check[E, S]) {
	found := false
	for _, a := range c.abilities(c.complete(), c.stream()) {
		if a.offered || !a.method {
			continue
		}
		found = true
		for _, m := range a.calls {
			c.want(m.do(), m.name+" of the ability "+a.name+", which is not offered", events.ErrUnsupported)
		}
		if a.quiet != nil {
			a.quiet() // whatever it gives, it does not panic
		}
	}
	c.need(found, "method of an ability that it does not offer")
}

func abilitiesWork[E any, S comparable](c *check[E, S]) {
	for _, a := range c.abilities(c.complete(), c.stream()) {
		if !a.offered {
			continue
		}
		for _, m := range a.calls {
			c.must(m.do(), m.name+" of the ability "+a.name+", which is offered")
		}
	}
}

func abilitiesStable[E any, S comparable](c *check[E, S]) {
	e, s := c.complete(), c.stream()
	offers := func() string {
		var list []string
		for _, a := range c.abilities(e, s) {
			if a.offered {
				list = append(list, a.name)
			}
		}
		return strings.Join(list, ", ")
	}
	first := offers()
	c.complete()
	for range 3 {
		if again := offers(); again != first {
			c.failf("At first the backend offers %s; later %s.", first, again)
		}
	}
}

func identityStable[E any, S comparable](c *check[E, S]) {
	c.need(c.identity != nil, "Identifier")
	first := c.identity.Identity()
	c.complete()
	if again := c.identity.Identity(); again != first {
		c.failf("It is %+v first and %+v later.", first, again)
	}
}

func identityDistinct[E any, S comparable](c *check[E, S]) {
	c.need(c.identity != nil, "Identifier")
	c.need(c.second != nil && c.second.identity != nil, "Second device")
	if a, b := c.identity.Identity(), c.second.identity.Identity(); a == b {
		c.failf("Both are %+v.", a)
	}
}

func wrapEqual[E any, S comparable](c *check[E, S]) {
	c.need(c.wrapper != nil, "StreamWrapper")
	const handle, other = 0x7000, 0x7100
	if c.wrapper.WrapStream(handle) != c.wrapper.WrapStream(handle) {
		c.failf("Two wraps of one handle are different streams.")
	}
	if c.wrapper.WrapStream(handle) == c.wrapper.WrapStream(other) {
		c.failf("Wraps of two handles are the same stream.")
	}
}

func wrapNotDestroyed[E any, S comparable](c *check[E, S]) {
	c.need(c.wrapper != nil, "StreamWrapper")
	c.want(c.api.StreamDestroy(c.wrapper.WrapStream(0x7000)), "StreamDestroy", events.ErrInvalid)
}

func hostClock[E any, S comparable](c *check[E, S]) {
	c.need(c.host != nil, "HostClocker")
	now := c.host.HostClock()
	if now == nil {
		c.skipf("the host clock is the machine's own")
	}
	last := now()
	for range 10 {
		c.complete()
		t := now()
		if t < last {
			c.failf("It went from %d to %d.", last, t)
		}
		last = t
	}
}

func timerBrackets[E any, S comparable](c *check[E, S]) {
	c.need(c.timer != nil && c.stamper != nil, "TimerReader and Stamper")
	s, e := c.stream(), c.event()
	now := func() (device, host uint64) {
		device, host, err := c.timer.DeviceAndHostTimer()
		c.must(err, "DeviceAndHostTimer")
		return device, host
	}
	for range 10 {
		before, hostBefore := now()
		c.record(e, s)
		c.await(e)
		stamp, err := c.stamper.EventStamp(e)
		c.must(err, "EventStamp")
		after, hostAfter := now()
		// Origins are anywhere, so only differences mean something.
		if stamp-before > after-before {
			c.failf("The readings are %d and %d, and the stamp between them is %d.", before, after, stamp)
		}
		if int64(hostAfter-hostBefore) < 0 {
			c.failf("The host's timer went from %d to %d.", hostBefore, hostAfter)
		}
	}
}

func stampsAsElapsed[E any, S comparable](c *check[E, S]) {
	c.need(c.stamper != nil, "Stamper")
	s, start, end := c.stream(), c.event(), c.event()
	_, err := c.stamper.EventStamp(start)
	c.want(err, "EventStamp before the first record", events.ErrNotRecorded)
	for _, span := range []time.Duration{workTime / 4, workTime} {
		c.record(start, s)
		c.busy(s, span)
		c.record(end, s)
		c.await(end)
		from, err := c.stamper.EventStamp(start)
		c.must(err, "EventStamp")
		to, err := c.stamper.EventStamp(end)
		c.must(err, "EventStamp")
		read, err := c.api.EventElapsed(start, end)
		c.must(err, "EventElapsed")
		if off := time.Duration(to-from) - read; off.Abs() > c.resolution {
			c.failf("The stamps are %v apart, and EventElapsed gives %v.", time.Duration(to-from), read)
		}
	}
	c.held(func(h *hold[E, S]) {
		c.record(end, h.stream)
		_, err := c.stamper.EventStamp(end)
		c.want(err, "EventStamp of a pending event", events.ErrNotReady)
	})
}

func gateHolds[E any, S comparable](c *check[E, S]) {
	c.need(c.gate != nil, "Gate")
	s := c.stream()
	gate, err := c.gate.GateClose(s, 2*c.timeout)
	c.must(err, "GateClose")
	e := c.recorded(s)
	c.settle()
	if c.isReached(e) {
		c.failf("A record behind a closed gate was reached.")
	}
	c.must(gate.Open(), "Open")
	c.await(e)
}

func gateOpensAgain[E any, S comparable](c *check[E, S]) {
	c.need(c.gate != nil, "Gate")
	s := c.stream()
	gate, err := c.gate.GateClose(s, 2*c.timeout)
	c.must(err, "GateClose")
	c.must(gate.Open(), "Open")
	c.must(gate.Open(), "the second Open")
	c.must(c.sync(s), "StreamSynchronize")
	c.must(together(4, func(int) error { return gate.Open() }), "Open from another goroutine")
}

func gateWatchdog[E any, S comparable](c *check[E, S]) {
	c.need(c.gate != nil, "Gate")
	s := c.stream()
	gate, err := c.gate.GateClose(s, workTime)
	c.must(err, "GateClose")
	c.await(c.recorded(s))
	c.want(gate.Open(), "Open after the watchdog", events.ErrExpired)
}

func spinMeasured[E any, S comparable](c *check[E, S]) {
	c.need(c.spins, "ScratchSpin")
	const d = time.Millisecond
	var spin events.Spin
	c.held(func(h *hold[E, S]) {
		var err error
		spin, err = c.scratch.ScratchSpin(d, h.stream)
		c.must(err, "ScratchSpin")
		_, err = spin.Measured()
		c.want(err, "Measured before the work is done", events.ErrNotReady)
		h.release()
		c.must(c.sync(h.stream), "StreamSynchronize")
	})
	first, err := spin.Measured()
	c.must(err, "Measured after the work")
	if first < d {
		c.failf("A spin of %v measured %v.", d, first)
	}
	s := c.stream()
	c.busy(s, d)
	c.must(c.sync(s), "StreamSynchronize")
	if again, err := spin.Measured(); again != first || err != nil {
		c.failf("It measured %v first, and later %v and %s.", first, again, said(err))
	}
}

func spinBounds[E any, S comparable](c *check[E, S]) {
	c.need(c.spins, "ScratchSpin")
	s := c.stream()
	for _, d := range []time.Duration{0, -1, 11 * time.Second} {
		_, err := c.scratch.ScratchSpin(d, s)
		c.want(err, fmt.Sprintf("ScratchSpin of %v", d), events.ErrInvalid)
	}
}

func scratchMemory[E any, S comparable](c *check[E, S]) {
	c.need(c.scratch != nil, "Scratch")
	s := c.stream()
	const size = 1 << 16
	a, err := c.scratch.ScratchAlloc(size)
	c.must(err, "ScratchAlloc")
	b, err := c.scratch.ScratchAlloc(size)
	c.must(err, "ScratchAlloc")
	if a.Address == b.Address || a.Bytes != size {
		c.failf("Two buffers of %d bytes are %+v and %+v.", size, a, b)
	}
	c.must(c.scratch.ScratchMemset(a, 7, size, s), "ScratchMemset")
	c.must(c.scratch.ScratchCopy(b, a, size, s), "ScratchCopy")
	c.must(c.sync(s), "StreamSynchronize")
	for _, bytes := range []int64{-1, 0, size + 1} {
		c.want(c.scratch.ScratchMemset(a, 7, bytes, s), fmt.Sprintf("ScratchMemset of %d bytes of %d", bytes, size), events.ErrInvalid)
		c.want(c.scratch.ScratchCopy(b, a, bytes, s), fmt.Sprintf("ScratchCopy of %d bytes of %d", bytes, size), events.ErrInvalid)
	}
	for _, bytes := range []int64{-1, 0} {
		_, err = c.scratch.ScratchAlloc(bytes)
		c.want(err, fmt.Sprintf("ScratchAlloc of %d bytes", bytes), events.ErrInvalid)
	}
	c.must(c.scratch.ScratchFree(a), "ScratchFree")
	c.must(c.scratch.ScratchFree(b), "ScratchFree")
}
