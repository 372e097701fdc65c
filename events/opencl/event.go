package opencl

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// Event is a place for one record at a time. OpenCL makes its events when
// something is queued, so a record makes a new cl_event and gives the one before
// back. The zero value is invalid.
type Event struct{ e *event }

type event struct {
	dev *dev

	// recording makes the record that was queued last the last record. Only
	// records take it, for they may block on a full queue.
	recording sync.Mutex

	// mu guards what follows. It is held during calls that return at once, so
	// that mark cannot be given back meanwhile; a call that may block takes a
	// reference of its own instead.
	mu      sync.Mutex
	dead    bool
	mark    clapi.Event   // of the last record; 0 if there is none
	context clapi.Context // of the queue that it was recorded on
	record  uint64        // counts records: a driver may give an old handle again
	reached bool
	failure error  // the record will never be reached
	stamp   uint64 // 0 until it is read
}

// Handle is the cl_event of the last record, 0 if there is none. The event keeps
// its owner, and the next record or EventDestroy gives it back: whoever uses it
// retains it before.
func (e Event) Handle() uintptr {
	if e.e == nil {
		return 0
	}
	e.e.mu.Lock()
	defer e.e.mu.Unlock()
	return uintptr(e.e.mark)
}

// check refuses a handle that is not of this device.
func (e Event) check(d *dev, what string) error {
	switch {
	case d == nil:
		return errNotOpen
	case e.e == nil:
		return fmt.Errorf("%s: %w: zero %s handle", backend, events.ErrInvalid, what)
	case e.e.dev != d:
		return d.mismatch(e.e.dev, what)
	}
	return nil
}

// EventCreate implements events.EventApi. The library has no part in it.
func (d Device) EventCreate() (Event, error) {
	if d.dev == nil {
		return Event{}, errNotOpen
	}
	if err := d.refusal(); err != nil {
		return Event{}, err
	}
	d.stats.events.Add(1)
	return Event{&event{dev: d.dev}}, nil
}

// EventDestroy implements events.EventApi.
func (d Device) EventDestroy(event Event) error {
	if err := event.check(d.dev, "event"); err != nil {
		return err
	}
	e := event.e
	e.mu.Lock()
	if e.dead {
		e.mu.Unlock()
		return nil
	}
	e.dead = true
	mark := e.mark
	e.mark = 0
	e.mu.Unlock()
	d.stats.events.Add(-1)
	return d.releaseMark(mark)
}

// releaseMark gives a cl_event back, unless the device has failed.
func (d *dev) releaseMark(mark clapi.Event) error {
	if mark == 0 {
		return nil
	}
	if d.fault.Load() != nil {
		d.stats.abandoned.Add(1)
		return nil
	}
	if code := d.api.ReleaseEvent(mark); code != clapi.Success {
		return d.failed("clReleaseEvent", code, true)
	}
	return nil
}

// giveBack is releaseMark where an error reaches nobody.
func (d *dev) giveBack(mark clapi.Event) {
	if d.releaseMark(mark) != nil {
		d.stats.destroyFailed.Add(1)
	}
}

// The functions that errors name.
const (
	opMarker  = "clEnqueueMarkerWithWaitList"
	opBarrier = "clEnqueueBarrierWithWaitList"
	opFill    = "clEnqueueFillBuffer"
	opFlush   = "clFlush"
	opFinish  = "clFinish"
	opStatus  = "clGetEventInfo"
	opTime    = "clGetEventProfilingInfo"
	opWait    = "clWaitForEvents"
	opRead    = "clEnqueueReadBuffer"
	opKernel  = "clEnqueueNDRangeKernel"

	opQueueInfo = "clGetCommandQueueInfo"
)

// EventRecord implements events.EventApi.
func (d Device) EventRecord(event Event, stream Stream) error {
	if err := event.check(d.dev, "event"); err != nil {
		return err
	}
	e := event.e
	e.recording.Lock()
	defer e.recording.Unlock()
	h, err := stream.hold(d.dev, opMarker)
	if err != nil {
		return e.replace(0, h, err)
	}
	mark, err := e.queue(h)
	h.release()
	return e.replace(mark, h, err)
}

// queue makes a record, unless the event is dead.
func (e *event) queue(h held) (clapi.Event, error) {
	e.mu.Lock()
	dead := e.dead
	e.mu.Unlock()
	if dead {
		return 0, destroyed(opMarker, "event")
	}
	return e.dev.mark(h, h.own != nil)
}

// replace makes mark the last record, and none if the record failed, so that a
// stale stamp is not read.
func (e *event) replace(mark clapi.Event, h held, err error) error {
	e.mu.Lock()
	old := e.mark
	switch {
	case !e.dead:
		e.mark, e.context = mark, h.context
		e.record++
		e.reached, e.failure, e.stamp = false, nil, 0
	case err == nil: // destroyed meanwhile, so nobody wants the record
		old, err = mark, destroyed(opMarker, "event")
	}
	e.mu.Unlock()
	e.dev.giveBack(old)
	return err
}

// mark queues a marker that carries a time behind all work so far, and sends it
// off: a queue may otherwise keep it until somebody waits in the library. Out of
// order it has to be a barrier, or work behind it might be done before it, and a fill
// carries the time: NVIDIA's driver leaves that of a barrier at 0 (580.159.04).
func (d *dev) mark(h held, ours bool) (clapi.Event, error) {
	e, code := d.api.Marker(h.queue, h.unordered)
	if code != clapi.Success {
		return 0, d.failed(opOfMark(h), code, ours)
	}
	if d.fills || h.unordered {
		fill, err := d.fillAfter(h, e, ours)
		d.giveBack(e)
		if err != nil {
			return 0, err
		}
		e = fill
	}
	if code := d.api.Flush(h.queue); code != clapi.Success {
		d.giveBack(e)
		return 0, d.failed(opFlush, code, ours)
	}
	return e, nil
}

func opOfMark(h held) string {
	if h.unordered {
		return opBarrier
	}
	return opMarker
}

// fillAfter queues a fill of one byte that waits for a marker. The marker is what
// makes it wait for all work so far where the queue is out of order, and there a
// barrier makes all work behind it wait for the fill.
func (d *dev) fillAfter(h held, marker clapi.Event, ours bool) (clapi.Event, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave()
	m, err := d.target(h.context)
	if err != nil {
		return 0, err
	}
	e, code := d.api.Fill(h.queue, m, 0, 1, marker)
	if code != clapi.Success {
		return 0, d.failed(opFill, code, ours)
	}
	if h.unordered {
		if code := d.api.Barrier(h.queue, e); code != clapi.Success {
			d.giveBack(e)
			return 0, d.failed(opBarrier, code, ours)
		}
	}
	return e, nil
}

// target is the byte that fills in a context write to. It keeps the context
// alive until Close, so that no other can get its handle.
func (d *dev) target(context clapi.Context) (clapi.Mem, error) {
	d.fillMu.Lock()
	defer d.fillMu.Unlock()
	if m, ok := d.targets[context]; ok {
		return m, nil
	}
	m, code := d.api.CreateBuffer(context, 1)
	if code != clapi.Success {
		return 0, d.failed("clCreateBuffer", code, context == d.context)
	}
	d.targets[context] = m
	return m, nil
}

// usable refuses what must not be asked. mu is held.
func (e *event) usable(op string) error {
	switch {
	case e.dead:
		return destroyed(op, "event")
	case e.mark == 0:
		return fmt.Errorf("%s: %s refused: %w", backend, op, events.ErrNotRecorded)
	}
	if err := e.dev.refusal(); err != nil {
		return err
	}
	return e.failure
}

// ask finds out whether the last record was reached. mu is held.
func (e *event) ask() (bool, error) {
	if err := e.usable(opStatus); err != nil || e.reached {
		return err == nil, err
	}
	status, code := e.dev.api.EventStatus(e.mark)
	if code != clapi.Success {
		return false, e.dev.failed(opStatus, code, e.ours())
	}
	if status < clapi.Complete {
		e.failure = e.dev.aborted(opStatus, status, e.ours())
		return false, e.failure
	}
	e.reached = status == clapi.Complete
	return e.reached, nil
}

// ours reports whether the last record lies in our own context. mu is held.
func (e *event) ours() bool { return e.context == e.dev.context }

// EventQuery implements events.Querier.
func (d Device) EventQuery(event Event) (bool, error) {
	if err := event.check(d.dev, "event"); err != nil {
		return false, err
	}
	event.e.mu.Lock()
	defer event.e.mu.Unlock()
	return event.e.ask()
}

// loan is a reference to a record for a call that may block.
type loan struct {
	mark    clapi.Event
	context clapi.Context
	record  uint64
}

// lend gives a reference to the last record, for giveBack. mu is held, and the
// event is usable.
func (e *event) lend() (loan, error) {
	if code := e.dev.api.RetainEvent(e.mark); code != clapi.Success {
		return loan{}, e.dev.failed("clRetainEvent", code, e.ours())
	}
	return loan{e.mark, e.context, e.record}, nil
}

// EventWait implements events.EventApi.
func (d Device) EventWait(event Event) error {
	if err := event.check(d.dev, "event"); err != nil {
		return err
	}
	e := event.e
	l, err := e.awaited()
	if err != nil || l.mark == 0 {
		return err
	}
	code := d.api.WaitEvent(l.mark)
	if code != clapi.Success {
		err = d.waitFailed(l, code)
	}
	d.giveBack(l.mark)
	e.mu.Lock()
	if e.record == l.record {
		e.reached = err == nil
	}
	e.mu.Unlock()
	return err
}

// awaited lends the last record, or nothing if it is known to be reached.
func (e *event) awaited() (loan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(opWait); err != nil || e.reached {
		return loan{}, err
	}
	return e.lend()
}

// waitFailed says why a wait failed: its own code does not tell what became of
// the record.
func (d *dev) waitFailed(l loan, code int32) error {
	ours := l.context == d.context
	if status, asked := d.api.EventStatus(l.mark); asked == clapi.Success && status < clapi.Complete {
		return d.aborted(opWait, status, ours)
	}
	return d.failed(opWait, code, ours)
}

// EventElapsed implements events.EventApi. It is exact to the nanosecond as the
// driver counts them; CL_DEVICE_PROFILING_TIMER_RESOLUTION says how fine its
// steps are.
func (d Device) EventElapsed(start, end Event) (time.Duration, error) {
	from, startErr := d.stampOf("start event", start)
	to, endErr := d.stampOf("end event", end)
	if startErr != nil || endErr != nil {
		return 0, errors.Join(startErr, endErr)
	}
	if to < from {
		d.stats.clamped.Add(1)
		return 0, nil
	}
	if to-from > math.MaxInt64 {
		return 0, fmt.Errorf("%s: elapsed: %w", backend, &events.ReadingError{Read: fmt.Sprintf("from %d to %d ns", from, to)})
	}
	return time.Duration(to - from), nil
}

// EventStamp implements events.Stamper: CL_PROFILING_COMMAND_END.
func (d Device) EventStamp(event Event) (uint64, error) { return d.stampOf("event", event) }

func (d Device) stampOf(what string, event Event) (uint64, error) {
	if err := event.check(d.dev, what); err != nil {
		return 0, err
	}
	t, err := event.e.time()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return t, nil
}

// time is the stamp of the last record.
func (e *event) time() (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reached, err := e.ask()
	switch {
	case err != nil:
		return 0, err
	case !reached:
		return 0, fmt.Errorf("%s: %s refused: %w", backend, opTime, events.ErrNotReady)
	case e.stamp != 0:
		return e.stamp, nil
	}
	t, code := e.dev.api.EventTime(e.mark, clapi.ProfilingEnd)
	switch {
	case code == clapi.ProfilingInfoNotAvailable:
		return 0, fmt.Errorf("%s: the queue that it was recorded on was made without CL_QUEUE_PROFILING_ENABLE: %w", backend, driverError(opTime, code, events.ErrTimingDisabled))
	case code != clapi.Success:
		return 0, e.dev.failed(opTime, code, e.ours())
	case t == 0:
		return 0, fmt.Errorf("%s: %s: the driver left the time at 0: %w", backend, opTime, events.ErrTimingDisabled)
	}
	e.stamp = t
	return t, nil
}
