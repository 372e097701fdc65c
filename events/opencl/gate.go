package opencl

import (
	"fmt"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// gate is a user event that a queue waits for. Opening it takes no lock and
// nothing that Close gives back: it must work while a call is stuck behind it.
type gate struct {
	dev      *dev
	event    clapi.Event
	timer    *time.Timer
	watchdog time.Duration
	state    atomic.Int32
	done     chan struct{} // closed when the queue has been let go
	err      error         // of letting it go; read after done
}

const (
	gateClosed int32 = iota
	gateOpened
	gateExpired
)

// GateClose implements events.Gate: a barrier that waits for a user event. There
// is no bound on what may be queued behind it but the driver's own.
func (d Device) GateClose(stream Stream, watchdog time.Duration) (events.GateHandle, error) {
	if d.dev == nil {
		return nil, errNotOpen
	}
	if watchdog <= 0 {
		return nil, fmt.Errorf("%s: %w: a gate needs a watchdog, not %v", backend, events.ErrInvalid, watchdog)
	}
	h, err := stream.hold(d.dev, opBarrier)
	if err != nil {
		return nil, err
	}
	defer h.release()
	ours := h.own != nil
	event, code := d.api.CreateUserEvent(h.context)
	if code != clapi.Success {
		return nil, d.failed("clCreateUserEvent", code, ours)
	}
	g := &gate{dev: d.dev, event: event, watchdog: watchdog, done: make(chan struct{})}
	op := opBarrier
	if code = d.api.Barrier(h.queue, event); code == clapi.Success {
		op = opFlush
		code = d.api.Flush(h.queue)
	}
	if code != clapi.Success {
		g.release(gateOpened)
		return nil, fmt.Errorf("closing a gate: %w", d.failed(op, code, ours))
	}
	g.timer = time.AfterFunc(watchdog, func() { g.release(gateExpired) })
	return g, nil
}

// Open implements events.GateHandle.
func (g *gate) Open() error {
	g.timer.Stop()
	g.release(gateOpened)
	<-g.done
	if g.state.Load() == gateExpired {
		return fmt.Errorf("%s: gate: %w: its watchdog of %v opened it first, so what was queued behind it did not start together",
			backend, events.ErrExpired, g.watchdog)
	}
	return g.err
}

// release lets the queue go. A user event must be set before it is given back,
// or what waits for it does so for ever.
func (g *gate) release(state int32) {
	if !g.state.CompareAndSwap(gateClosed, state) {
		return
	}
	if code := g.dev.api.SetUserEvent(g.event, clapi.Complete); code != clapi.Success {
		g.err = g.dev.failed("clSetUserEventStatus", code, true)
	}
	g.dev.giveBack(g.event)
	close(g.done)
}
