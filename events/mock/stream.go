package mock

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

// Stream is a handle. The zero Stream is invalid.
type Stream struct{ p *stream }

// ID is the number of the stream in the call log and in errors, 0 for the zero
// Stream.
func (s Stream) ID() uint64 {
	if s.p == nil {
		return 0
	}
	return s.p.id
}

// Handle is what a foreign library would call this stream; WrapStream takes it.
func (s Stream) Handle() uintptr {
	if s.p == nil {
		return 0
	}
	return s.p.queue.handle
}

type stream struct {
	dev       *Device
	id        uint64
	queue     *queue
	wrapped   bool
	destroyed bool
}

// StreamCreateNonBlocking implements events.EventApi.
func (d *Device) StreamCreateNonBlocking() (Stream, error) {
	c := d.begin(OpStreamCreate)
	if err := d.reach(&c); err != nil {
		return Stream{}, d.end(&c, err)
	}
	s := &stream{dev: d, id: d.sys.id()}
	d.lastPtr += 0x100
	s.queue = d.queueOf(d.lastPtr)
	c.stream = s.id
	d.stats.LiveStreams++
	return Stream{s}, d.end(&c, nil)
}

// WrapStream implements events.StreamWrapper. Any number is taken; that of
// Stream.Handle gives the queue of that stream, and 0 the default stream.
func (d *Device) WrapStream(handle uintptr) Stream {
	if !d.has(FeatureStreamWrapper) {
		return Stream{}
	}
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	s := d.wrapped[handle]
	if s == nil {
		s = &stream{dev: d, id: d.sys.id(), queue: d.queueOf(handle), wrapped: true}
		d.wrapped[handle] = s
	}
	return Stream{s}
}

func (d *Device) queueOf(handle uintptr) *queue {
	q := d.queues[handle]
	if q == nil {
		q = &queue{dev: d, handle: handle}
		d.queues[handle] = q
	}
	return q
}

// StreamDestroy implements events.EventApi.
func (d *Device) StreamDestroy(s Stream) error {
	c := d.begin(OpStreamDestroy)
	c.stream = s.ID()
	return d.end(&c, d.destroyStream(&c, s))
}

func (d *Device) destroyStream(c *call, s Stream) error {
	if err := d.ownStream(c.op, s); err != nil {
		return err
	}
	if s.p.wrapped {
		return fmt.Errorf("mock: %v: stream %d was only wrapped and belongs to its maker: %w", c.op, s.p.id, events.ErrInvalid)
	}
	if s.p.destroyed {
		return nil
	}
	err := d.reach(c)
	if err != nil && d.lost == 0 {
		return err
	}
	if s.p.destroyed { // by another goroutine while real time passed
		return nil
	}
	s.p.destroyed = true
	if k := s.p.queue.capture; k != nil {
		k.invalid = true
	}
	delete(d.queues, s.p.queue.handle)
	d.orphans = append(d.working(), s.p.queue)
	d.stats.LiveStreams--
	if d.lost != 0 {
		d.stats.AbandonedAtEnd++
	}
	return err
}

func (d *Device) ownStream(op Op, s Stream) error {
	if s.p == nil {
		return fmt.Errorf("mock: %v: the zero Stream: %w", op, events.ErrInvalid)
	}
	if s.p.dev != d {
		return d.mismatch(op, "stream", s.p.id, s.p.dev)
	}
	return nil
}

func (d *Device) liveStream(op Op, s Stream) error {
	if err := d.ownStream(op, s); err != nil {
		return err
	}
	if s.p.destroyed {
		return fmt.Errorf("mock: %v: stream %d: %w", op, s.p.id, events.ErrDestroyed)
	}
	return nil
}

// StreamWaitEvent implements events.EventApi. Events of other devices of the
// same system are allowed.
func (d *Device) StreamWaitEvent(s Stream, e Event) error {
	c := d.begin(OpStreamWaitEvent)
	c.event, c.stream = e.ID(), s.ID()
	return d.end(&c, d.streamWait(&c, s, e))
}

func (d *Device) streamWait(c *call, s Stream, e Event) error {
	if err := d.liveStream(c.op, s); err != nil {
		return err
	}
	home := d
	if e.p != nil && e.p.dev.sys == d.sys {
		home = e.p.dev
	}
	if err := home.liveEvent(c.op, "event", e); err != nil {
		return err
	}
	if err := e.p.recorded(c.op, "event"); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	q := s.p.queue
	if q.capture != nil || e.p.capture != nil {
		return d.captureWait(c.op, q, e.p)
	}
	if err := q.room(c); err != nil {
		return err
	}
	o := op{kind: opWait, hung: c.fx.hang, dep: e.p.queue, depSeq: e.p.seq}
	if e.p.known {
		o.dep, o.depEnd = nil, e.p.end
	}
	d.sys.enqueue(q, o)
	return nil
}

// StreamSynchronize implements events.EventApi.
func (d *Device) StreamSynchronize(s Stream) error {
	c := d.begin(OpStreamSynchronize)
	c.stream = s.ID()
	return d.end(&c, d.synchronize(&c, s))
}

func (d *Device) synchronize(c *call, s Stream) error {
	if err := d.liveStream(c.op, s); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	q := s.p.queue
	if k := q.capture; k != nil {
		k.invalid = true
		return refusal(c.op, CodeCaptureUnsupported)
	}
	if err := d.pollCaptures(c.op, nil); err != nil {
		return err
	}
	q.compact(d.sys.now())
	if q.n == 0 {
		return nil
	}
	return d.waitFor(c, record{queue: q, seq: q.firstSeq + uint64(q.n-1)})
}

// Work queues something that keeps the stream busy for d by the device's own
// timer.
func (d *Device) Work(s Stream, span time.Duration) error {
	c := d.begin(OpWork)
	c.stream = s.ID()
	if span < 0 {
		return d.end(&c, fmt.Errorf("mock: %v: negative duration %v: %w", c.op, span, events.ErrInvalid))
	}
	return d.end(&c, d.submit(&c, s, op{kind: opWork, dur: int64(span)}))
}

// Hang queues something on the stream that never ends, until ReleaseHangs.
func (d *Device) Hang(s Stream) error {
	c := d.begin(OpWork)
	c.stream = s.ID()
	return d.end(&c, d.submit(&c, s, op{kind: opHang, hung: true}))
}

// submit puts an operation on a stream, or into the capture of the stream.
func (d *Device) submit(c *call, s Stream, o op) error {
	if err := d.liveStream(c.op, s); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	q := s.p.queue
	if q.capture != nil {
		return q.capture.add(c.op, q, o)
	}
	if err := q.room(c); err != nil {
		return err
	}
	o.hung = o.hung || c.fx.hang
	d.sys.enqueue(q, o)
	return nil
}
