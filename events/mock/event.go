package mock

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

// Event is a handle. The zero Event is invalid.
type Event struct{ p *event }

// ID is the number of the event in the call log and in errors, 0 for the zero
// Event.
func (e Event) ID() uint64 {
	if e.p == nil {
		return 0
	}
	return e.p.id
}

type event struct {
	dev     *Device
	id      uint64
	untimed bool

	destroyed bool
	users     int // calls blocked on it

	// The last record: none, in a queue, or in a capture.
	queue   *queue
	seq     uint64
	known   bool // end counts
	end     int64
	capture *capture
	capFrom *queue
	capNode int
}

// EventCreate implements events.EventApi.
func (d *Device) EventCreate() (Event, error) {
	return d.create(OpEventCreate, false)
}

// EventCreateUntimed implements events.UntimedCreator.
func (d *Device) EventCreateUntimed(bool) (Event, error) {
	return d.create(OpEventCreateUntimed, true)
}

func (d *Device) create(op Op, untimed bool) (Event, error) {
	c := d.begin(op)
	if untimed {
		if err := d.need(FeatureUntimedCreator, op); err != nil {
			return Event{}, d.end(&c, err)
		}
	}
	if err := d.reach(&c); err != nil {
		return Event{}, d.end(&c, err)
	}
	e := &event{dev: d, id: d.sys.id(), untimed: untimed}
	c.event = e.id
	d.stats.LiveEvents++
	return Event{e}, d.end(&c, nil)
}

// EventDestroy implements events.EventApi. If the simulated library refuses,
// the event is still there; on a lost device it counts as abandoned.
func (d *Device) EventDestroy(e Event) error {
	c := d.begin(OpEventDestroy)
	c.event = e.ID()
	return d.end(&c, d.destroyEvent(&c, e))
}

func (d *Device) destroyEvent(c *call, e Event) error {
	if err := d.ownEvent(c.op, "event", e); err != nil {
		return err
	}
	if e.p.destroyed {
		return nil
	}
	err := d.reach(c)
	if err != nil && d.lost == 0 {
		return err
	}
	if e.p.destroyed { // by another goroutine while real time passed
		return nil
	}
	e.p.destroyed = true
	d.release(e.p)
	return err
}

// release counts a destroyed event as gone once nobody uses it.
func (d *Device) release(e *event) {
	if !e.destroyed || e.users > 0 {
		return
	}
	d.stats.LiveEvents--
	if d.lost != 0 {
		d.stats.AbandonedAtEnd++
	}
}

// ownEvent refuses a handle that is not of this device.
func (d *Device) ownEvent(op Op, which string, e Event) error {
	if e.p == nil {
		return fmt.Errorf("mock: %v: %s is the zero Event: %w", op, which, events.ErrInvalid)
	}
	if e.p.dev != d {
		return d.mismatch(op, which, e.p.id, e.p.dev)
	}
	return nil
}

// liveEvent refuses a handle that is not of this device or was destroyed.
func (d *Device) liveEvent(op Op, which string, e Event) error {
	if err := d.ownEvent(op, which, e); err != nil {
		return err
	}
	if e.p.destroyed {
		return fmt.Errorf("mock: %v: %s %d: %w", op, which, e.p.id, events.ErrDestroyed)
	}
	return nil
}

// recorded refuses an event that was never recorded.
func (e *event) recorded(op Op, which string) error {
	if e.queue == nil && e.capture == nil {
		return fmt.Errorf("mock: %v: %s %d: record it first: %w", op, which, e.id, events.ErrNotRecorded)
	}
	return nil
}

// EventRecord implements events.EventApi.
func (d *Device) EventRecord(e Event, s Stream) error {
	c := d.begin(OpEventRecord)
	c.event, c.stream = e.ID(), s.ID()
	return d.end(&c, d.record(&c, e, s))
}

func (d *Device) record(c *call, e Event, s Stream) error {
	if err := d.liveEvent(c.op, "event", e); err != nil {
		return err
	}
	if err := d.liveStream(c.op, s); err != nil {
		e.p.queue, e.p.capture = nil, nil
		return err
	}
	err := d.reach(c)
	q := s.p.queue
	if err == nil && q.capture == nil {
		err = q.room(c)
	}
	if err == nil && q.capture != nil {
		err = q.capture.record(c.op, e.p, q)
		if err == nil {
			return nil
		}
	}
	if err != nil {
		e.p.queue, e.p.capture = nil, nil
		return err
	}
	o := op{kind: opRecord, hung: c.fx.hang, ev: e.p}
	if !e.p.untimed {
		o.dur = d.cfg.eventCost
	}
	d.sys.enqueue(q, o)
	return nil
}

// EventQuery implements events.Querier.
func (d *Device) EventQuery(e Event) (bool, error) {
	c := d.begin(OpEventQuery)
	c.event = e.ID()
	if err := d.need(FeatureQuerier, c.op); err != nil {
		return false, d.end(&c, err)
	}
	done, err := d.query(&c, e)
	return done, d.end(&c, err)
}

// RoundBegin implements events.RoundQuerier.
func (d *Device) RoundBegin() (events.Round, error) {
	c := d.begin(OpRoundBegin)
	if err := d.need(FeatureRoundQuerier, c.op); err != nil {
		return events.Round{}, d.end(&c, err)
	}
	if err := d.reach(&c); err != nil {
		return events.Round{}, d.end(&c, err)
	}
	d.rounds++
	return events.Round{Saved: uint64(d.ordinal), Open: true}, d.end(&c, nil)
}

// RoundQuery implements events.RoundQuerier.
func (d *Device) RoundQuery(r events.Round, e Event) (bool, error) {
	c := d.begin(OpRoundQuery)
	c.event = e.ID()
	if err := d.inRound(c.op, r); err != nil {
		return false, d.end(&c, err)
	}
	done, err := d.query(&c, e)
	return done, d.end(&c, err)
}

// RoundEnd implements events.RoundQuerier.
func (d *Device) RoundEnd(r events.Round) error {
	c := d.begin(OpRoundEnd)
	if err := d.inRound(c.op, r); err != nil {
		return d.end(&c, err)
	}
	d.rounds--
	return d.end(&c, d.reach(&c))
}

func (d *Device) inRound(op Op, r events.Round) error {
	if err := d.need(FeatureRoundQuerier, op); err != nil {
		return err
	}
	if !r.Open || r.Saved != uint64(d.ordinal) || d.rounds <= 0 {
		return fmt.Errorf("mock: %v: no round of device %d is open: %w", op, d.ordinal, events.ErrInvalid)
	}
	return nil
}

func (d *Device) query(c *call, e Event) (bool, error) {
	if err := d.liveEvent(c.op, "event", e); err != nil {
		return false, err
	}
	if err := e.p.recorded(c.op, "event"); err != nil {
		return false, err
	}
	if err := d.reach(c); err != nil {
		return false, err
	}
	if err := d.pollCaptures(c.op, e.p); err != nil {
		return false, err
	}
	done, _ := e.p.reached()
	return done, nil
}

// reached reports whether the host can see that the last record is over, and
// if not, when it will, which is never while that is unknown.
func (e *event) reached() (bool, int64) {
	s := e.dev.sys
	now := s.now()
	s.refresh(now)
	if !e.known {
		return false, never
	}
	at := e.end + e.dev.cfg.visibleAfter
	return at <= now, at
}

// EventWait implements events.EventApi.
func (d *Device) EventWait(e Event) error {
	c := d.begin(OpEventWait)
	c.event = e.ID()
	return d.end(&c, d.wait(&c, e))
}

func (d *Device) wait(c *call, e Event) error {
	if err := d.liveEvent(c.op, "event", e); err != nil {
		return err
	}
	if err := e.p.recorded(c.op, "event"); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	if err := d.pollCaptures(c.op, e.p); err != nil {
		return err
	}
	// A record made while this call waits is not the one it waits for.
	seen := record{queue: e.p.queue, seq: e.p.seq}
	e.p.users++
	err := d.waitFor(c, seen)
	e.p.users--
	d.release(e.p)
	return err
}

// record is a position in a queue.
type record struct {
	queue *queue
	seq   uint64
}

func (d *Device) waitFor(c *call, r record) error {
	s := d.sys
	for {
		now := s.now()
		s.refresh(now)
		at := int64(never)
		if end, known := r.queue.endOf(r.seq); known {
			at = end + d.cfg.visibleAfter
		}
		if at <= now {
			return nil
		}
		c.blocked = true
		s.pause(at)
		if err := d.alive(c.op); err != nil {
			return err
		}
	}
}

// EventElapsed implements events.EventApi.
func (d *Device) EventElapsed(start, end Event) (time.Duration, error) {
	c := d.begin(OpEventElapsed)
	c.event = start.ID()
	span, err := d.elapsed(&c, start, end)
	return span, d.end(&c, err)
}

func (d *Device) elapsed(c *call, start, end Event) (time.Duration, error) {
	if err := d.liveEvent(c.op, "start event", start); err != nil {
		return 0, err
	}
	if err := d.liveEvent(c.op, "end event", end); err != nil {
		return 0, err
	}
	if err := d.reach(c); err != nil {
		return 0, err
	}
	if err := start.p.readable(c.op, "start event"); err != nil {
		return 0, err
	}
	if err := end.p.readable(c.op, "end event"); err != nil {
		return 0, err
	}
	ns := end.p.stamp() - start.p.stamp()
	if d.cfg.exact && c.fx.reading == nil {
		if ns < 0 {
			d.stats.Clamped++
			ns = 0
		}
		return time.Duration(ns), nil
	}
	ms := float32(float64(ns) / 1e6)
	if c.fx.reading != nil {
		ms = c.fx.reading(ms)
	}
	span, clamped, err := events.FromMilliseconds(ms)
	if clamped {
		d.stats.Clamped++
	}
	return span, err
}

// EventStamp implements events.Stamper.
func (d *Device) EventStamp(e Event) (uint64, error) {
	c := d.begin(OpEventStamp)
	c.event = e.ID()
	stamp, err := d.stampOf(&c, e)
	return stamp, d.end(&c, err)
}

func (d *Device) stampOf(c *call, e Event) (uint64, error) {
	if err := d.need(FeatureStamper, c.op); err != nil {
		return 0, err
	}
	if err := d.liveEvent(c.op, "event", e); err != nil {
		return 0, err
	}
	if err := d.reach(c); err != nil {
		return 0, err
	}
	if err := e.p.readable(c.op, "event"); err != nil {
		return 0, err
	}
	return uint64(e.p.stamp()), nil
}

// DeviceAndHostTimer implements events.TimerReader. The device's time has the
// tick of its stamps.
func (d *Device) DeviceAndHostTimer() (device, host uint64, err error) {
	c := d.begin(OpDeviceAndHostTimer)
	if err = d.need(FeatureTimerReader, c.op); err == nil {
		err = d.reach(&c)
	}
	if err == nil {
		now := d.sys.now()
		device, host = uint64(d.reading(now)), uint64(now)
	}
	return device, host, d.end(&c, err)
}

// readable says which of the things that make a reading impossible it is.
func (e *event) readable(op Op, which string) error {
	switch {
	case e.untimed:
		return fmt.Errorf("mock: %v: %s %d was made without a timestamp; make it with EventCreate: %w (code %d)",
			op, which, e.id, events.ErrTimingDisabled, CodeInvalidHandle)
	case e.queue == nil && e.capture == nil:
		return fmt.Errorf("mock: %v: %s %d: record it first: %w (code %d)",
			op, which, e.id, events.ErrNotRecorded, CodeInvalidHandle)
	case e.capture != nil:
		return fmt.Errorf("mock: %v: the last record of %s %d went into a graph capture and has no time; record it again: %w (code %d)",
			op, which, e.id, events.ErrCapturing, CodeInvalidValue)
	}
	if done, _ := e.reached(); !done {
		return fmt.Errorf("mock: %v: %s %d is still pending; query it or wait for it first: %w (code %d)",
			op, which, e.id, events.ErrNotReady, CodeNotReady)
	}
	return nil
}

func (e *event) stamp() int64 { return e.dev.reading(e.end) }

// reading is what the device's clock shows at a host time, in whole ticks.
func (d *Device) reading(host int64) int64 {
	t, tick := d.clock.at(host), d.cfg.tick
	past := t % tick
	if past < 0 {
		past += tick
	}
	return t - past
}
