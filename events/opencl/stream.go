package opencl

import (
	"fmt"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// Stream is an in-order profiling cl_command_queue made by
// StreamCreateNonBlocking, or any cl_command_queue of the device wrapped with
// Device.WrapStream. The zero value is invalid, and there is no default stream.
type Stream struct {
	dev    *dev
	own    *queue // nil for a wrapped queue
	handle clapi.Queue
}

// queue is one that we made. The library frees it when our reference is given
// back and its work is done.
type queue struct {
	shared
	dev    *dev
	handle clapi.Queue
}

// Handle is the cl_command_queue. The stream keeps its owner.
func (s Stream) Handle() uintptr { return uintptr(s.handle) }

// check refuses a handle that is not of this device.
func (s Stream) check(d *dev) error {
	switch {
	case d == nil:
		return errNotOpen
	case s.dev == nil:
		return fmt.Errorf("%s: %w: zero stream handle (OpenCL has no default stream)", backend, events.ErrInvalid)
	case s.dev != d:
		return d.mismatch(s.dev, "stream")
	}
	return nil
}

func (d *dev) mismatch(other *dev, what string) error {
	if other.rt != d.rt {
		return fmt.Errorf("%s: %w: the %s was made by another opening of the library, of device %d, and this is device %d",
			backend, events.ErrDeviceMismatch, what, other.info.Ordinal, d.info.Ordinal)
	}
	if other.id == d.id {
		return fmt.Errorf("%s: %w: the %s was made before device %d was closed and opened again",
			backend, events.ErrDeviceMismatch, what, d.info.Ordinal)
	}
	return fmt.Errorf("%s: %w: the %s is of device %d, the call is on device %d",
		backend, events.ErrDeviceMismatch, what, other.info.Ordinal, d.info.Ordinal)
}

func destroyed(op, what string) error {
	return fmt.Errorf("%s: %s: %s was already %w", backend, op, what, events.ErrDestroyed)
}

// held is a queue that one call is using, with the context that it lies in.
type held struct {
	own       *queue
	queue     clapi.Queue
	context   clapi.Context
	unordered bool // work on it starts when it likes, unless a barrier or a wait holds it
}

// hold makes a stream usable until release, and refuses one that is not.
func (s Stream) hold(d *dev, op string) (held, error) {
	if s.dev != d || d == nil || s.dev == nil {
		return held{}, s.check(d)
	}
	if s.own == nil {
		return s.holdWrapped(d)
	}
	if !s.own.enter() {
		return held{}, destroyed(op, "stream")
	}
	if err := d.refusal(); err != nil {
		s.own.release()
		return held{}, err
	}
	return held{own: s.own, queue: s.handle, context: d.context}, nil
}

// holdWrapped asks a foreign queue what it is, each time: the handle may stand
// for another queue by now, and the questions cost little beside a record.
func (s Stream) holdWrapped(d *dev) (held, error) {
	if err := d.refusal(); err != nil {
		return held{}, err
	}
	if s.handle == 0 {
		return held{}, errNoQueue
	}
	id, code := d.api.QueueDevice(s.handle)
	if code != clapi.Success {
		return held{}, d.failed(opQueueInfo, code, false)
	}
	if id != d.id {
		return held{}, fmt.Errorf("%s: %w: the wrapped queue is not of device %d; Runtime.DeviceOf gives the one that it is of",
			backend, events.ErrDeviceMismatch, d.info.Ordinal)
	}
	context, code := d.api.QueueContext(s.handle)
	if code != clapi.Success {
		return held{}, d.failed(opQueueInfo, code, false)
	}
	properties, code := d.api.QueueProperties(s.handle)
	if code != clapi.Success {
		return held{}, d.failed(opQueueInfo, code, false)
	}
	return held{queue: s.handle, context: context, unordered: properties&clapi.QueueOutOfOrder != 0}, nil
}

func (h held) release() {
	if h.own != nil {
		h.own.release()
	}
}

// release ends a call on a queue of ours. An error of the last one reaches
// nobody, and is counted.
func (q *queue) release() {
	if q.leave() && q.free() != nil {
		q.dev.stats.destroyFailed.Add(1)
	}
}

func (q *queue) free() error {
	d := q.dev
	d.stats.streams.Add(-1)
	if d.fault.Load() != nil {
		d.stats.abandoned.Add(1)
		return nil
	}
	if code := d.api.ReleaseQueue(q.handle); code != clapi.Success {
		return d.failed("clReleaseCommandQueue", code, true)
	}
	return nil
}

// StreamCreateNonBlocking implements events.EventApi.
func (d Device) StreamCreateNonBlocking() (Stream, error) {
	if d.dev == nil {
		return Stream{}, errNotOpen
	}
	if err := d.enter(); err != nil {
		return Stream{}, err
	}
	defer d.leave()
	handle, err := d.createQueue()
	if err != nil {
		return Stream{}, err
	}
	q := &queue{dev: d.dev, handle: handle}
	q.init()
	d.stats.streams.Add(1)
	return Stream{dev: d.dev, own: q, handle: handle}, nil
}

// StreamDestroy implements events.EventApi.
func (d Device) StreamDestroy(stream Stream) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	if stream.own == nil {
		return fmt.Errorf("%s: %w: a wrapped queue belongs to whoever made it and is not released here", backend, events.ErrInvalid)
	}
	if _, free := stream.own.kill(); free {
		return stream.own.free()
	}
	return nil
}

// WrapStream implements events.StreamWrapper for a cl_command_queue of this
// device, in any context; Runtime.DeviceOf finds the device of a queue. The queue
// is not retained. Where it was made without CL_QUEUE_PROFILING_ENABLE, events
// recorded on it carry no times: EventElapsed is ErrTimingDisabled. It may be out
// of order: there a record is a barrier, which waits for all that was queued before
// and holds back all that is queued after, so that the span between two records is
// that of the work between them. That makes records cost overlap.
func (d Device) WrapStream(handle uintptr) Stream {
	return Stream{dev: d.dev, handle: clapi.Queue(handle)}
}

// StreamSynchronize implements events.EventApi.
func (d Device) StreamSynchronize(stream Stream) error {
	h, err := stream.hold(d.dev, opFinish)
	if err != nil {
		return err
	}
	defer h.release()
	if code := d.api.Finish(h.queue); code != clapi.Success {
		return d.failed(opFinish, code, h.own != nil)
	}
	return nil
}

// StreamWaitEvent implements events.EventApi. Both must lie in one context, as
// all streams of one Device do: OpenCL has no waits across contexts, and so none
// across devices here.
func (d Device) StreamWaitEvent(stream Stream, event Event) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	if err := event.check(d.dev, "event"); err != nil {
		return err
	}
	h, err := stream.hold(d.dev, opBarrier)
	if err != nil {
		return err
	}
	defer h.release()
	l, err := event.e.waitedOn(h.context)
	if err != nil {
		return err
	}
	code := d.api.Barrier(h.queue, l.mark)
	d.giveBack(l.mark)
	if code != clapi.Success {
		return d.failed(opBarrier, code, h.own != nil)
	}
	return nil
}

// waitedOn lends the last record to a wait on a queue of some context.
func (e *event) waitedOn(context clapi.Context) (loan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(opBarrier); err != nil {
		return loan{}, err
	}
	if e.context != context {
		return loan{}, fmt.Errorf("%s: %s refused: %w: the event was recorded on a queue of another OpenCL context than the stream's",
			backend, opBarrier, events.ErrDeviceMismatch)
	}
	return e.lend()
}
