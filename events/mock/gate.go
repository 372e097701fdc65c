package mock

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

type gate struct {
	dev      *Device
	openAt   int64 // never while closed
	deadline int64
}

// GateClose implements events.Gate. A stream that is being captured takes no
// gate.
func (d *Device) GateClose(s Stream, watchdog time.Duration) (events.GateHandle, error) {
	c := d.begin(OpGateClose)
	c.stream = s.ID()
	g, err := d.closeGate(&c, s, watchdog)
	if err != nil {
		return nil, d.end(&c, err)
	}
	return g, d.end(&c, nil)
}

func (d *Device) closeGate(c *call, s Stream, watchdog time.Duration) (*gate, error) {
	if err := d.need(FeatureGate, c.op); err != nil {
		return nil, err
	}
	if err := d.liveStream(c.op, s); err != nil {
		return nil, err
	}
	if watchdog <= 0 {
		return nil, fmt.Errorf("mock: %v: watchdog of %v: %w", c.op, watchdog, events.ErrInvalid)
	}
	if err := d.reach(c); err != nil {
		return nil, err
	}
	q := s.p.queue
	if q.capture != nil {
		return nil, refusal(c.op, CodeCaptureUnsupported)
	}
	if err := q.room(c); err != nil {
		return nil, err
	}
	g := &gate{dev: d, openAt: never, deadline: d.sys.now() + int64(watchdog)}
	d.sys.gates = append(d.sys.gates, g)
	d.sys.enqueue(q, op{kind: opGate, hung: c.fx.hang, gate: g})
	return g, nil
}

// Open implements events.GateHandle.
func (g *gate) Open() error {
	d := g.dev
	c := d.begin(OpGateOpen)
	if err := d.reach(&c); err != nil {
		return d.end(&c, err)
	}
	now := d.sys.now()
	if g.openAt == never {
		if now >= g.deadline {
			return d.end(&c, fmt.Errorf("mock: %v: the watchdog let the stream go: %w", c.op, events.ErrExpired))
		}
		g.openAt = now
		d.sys.settle(now)
		d.sys.wake()
	}
	return d.end(&c, nil)
}
