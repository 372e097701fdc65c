package eventstest

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
)

// abilityOf is one ability as a backend has it.
type abilityOf struct {
	name    string
	offered bool
	method  bool         // the type has the methods, offered or not
	use     func() error // nil where no method returns an error
}

func has[T any](api any) (methods T, offered, method bool) {
	_, offered = events.Ability[T](api)
	methods, method = api.(T)
	return methods, offered, method
}

func (c *check[E, S]) abilities(e E, s S) []abilityOf {
	api := any(c.api)
	var list []abilityOf
	add := func(name string, offered, method bool, use func() error) {
		list = append(list, abilityOf{name, offered, method, use})
	}
	q, offered, method := has[events.Querier[E]](api)
	add("Querier", offered, method, func() error { _, err := q.EventQuery(e); return err })
	r, offered, method := has[events.RoundQuerier[E]](api)
	add("RoundQuerier", offered, method, func() error {
		round, err := r.RoundBegin()
		if err != nil {
			return err
		}
		return r.RoundEnd(round)
	})
	a, offered, method := has[events.CaptureAsker[S]](api)
	add("CaptureAsker", offered, method, func() error { _, err := a.StreamCapturing(s); return err })
	u, offered, method := has[events.UntimedCreator[E]](api)
	add("UntimedCreator", offered, method, func() error {
		made, err := u.EventCreateUntimed(false)
		if err != nil {
			return err
		}
		return c.api.EventDestroy(made)
	})
	g, offered, method := has[events.Gate[S]](api)
	add("Gate", offered, method, func() error { _, err := g.GateClose(s, time.Millisecond); return err })
	m, offered, method := has[events.Scratch[S]](api)
	add("Scratch", offered, method, func() error {
		b, err := m.ScratchAlloc(4096)
		if err != nil {
			return err
		}
		return m.ScratchFree(b)
	})
	x, offered, method := has[events.Graphs[E, S]](api)
	add("Graphs", offered, method, func() error {
		if err := x.EventRecordExternal(c.event(), s); err != nil {
			return err
		}
		if err := x.CaptureBegin(s, events.CaptureRelaxed); err != nil {
			return err
		}
		graph, err := x.CaptureEnd(s)
		if err != nil {
			return err
		}
		return graph.Close()
	})
	i, offered, method := has[events.Identifier](api)
	add("Identifier", offered, method, func() error { i.Identity(); return nil })
	w, offered, method := has[events.StreamWrapper[S]](api)
	add("StreamWrapper", offered, method, func() error { w.WrapStream(1); return nil })
	t, offered, method := has[events.StatsReader](api)
	add("StatsReader", offered, method, func() error { t.EventStats(); return nil })
	z, offered, method := has[events.StaleReader](api)
	add("StaleReader", offered, method, func() error { z.ElapsedAfterCapture(); return nil })
	k, offered, method := has[events.HostClocker](api)
	add("HostClocker", offered, method, func() error { k.HostClock(); return nil })
	return list
}

// quiet are the abilities whose methods return no error: all that can be asked
// of them where they are not offered is that they do not panic.
func quiet(ability string) bool {
	switch ability {
	case "Identifier", "StreamWrapper", "StatsReader", "StaleReader", "HostClocker":
		return true
	}
	return false
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
		if err := a.use(); !quiet(a.name) && !errors.Is(err, events.ErrUnsupported) {
			c.failf("%s is not offered, and its method gave %s.", a.name, said(err))
		}
	}
	c.need(found, "method of an ability that it does not offer")
}

func abilitiesWork[E any, S comparable](c *check[E, S]) {
	for _, a := range c.abilities(c.complete(), c.stream()) {
		if a.offered {
			c.must(a.use(), a.name+", which is offered,")
		}
	}
}

func abilitiesStable[E any, S comparable](c *check[E, S]) {
	e, s := c.complete(), c.stream()
	offers := func() string {
		text := ""
		for _, a := range c.abilities(e, s) {
			text += fmt.Sprintf("%s: %v, ", a.name, a.offered)
		}
		return text
	}
	first := offers()
	c.complete()
	for range 3 {
		if again := offers(); again != first {
			c.failf("First: %s\nlater: %s.", first, again)
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
	c.must(storm(4, func(int) error { return gate.Open() }), "Open from another goroutine")
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
	c.want(c.scratch.ScratchMemset(a, 7, size+1, s), "ScratchMemset beyond the buffer", events.ErrInvalid)
	c.want(c.scratch.ScratchCopy(b, a, size+1, s), "ScratchCopy beyond the buffer", events.ErrInvalid)
	_, err = c.scratch.ScratchAlloc(-1)
	c.want(err, "ScratchAlloc of -1 bytes", events.ErrInvalid)
	c.must(c.scratch.ScratchFree(a), "ScratchFree")
	c.must(c.scratch.ScratchFree(b), "ScratchFree")
}
