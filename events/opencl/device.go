package opencl

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// Device is one OpenCL device. It is a small value, safe for concurrent use, and
// implements events.EventApi[Event, Stream] and the abilities Querier,
// Stamper, Identifier, StreamWrapper, StatsReader, Gate and Scratch, and TimerReader where
// the driver has it: ask with events.Ability. The zero Device answers every call
// that can fail with ErrUnavailable, but for Close, which has nothing to do.
type Device struct{ *dev }

var (
	_ events.EventApi[Event, Stream] = Device{}
	_ events.Limiter                 = Device{}
	_ events.Querier[Event]          = Device{}
	_ events.Identifier              = Device{}
	_ events.StreamWrapper[Stream]   = Device{}
	_ events.StatsReader             = Device{}
	_ events.Gate[Stream]            = Device{}
	_ events.Scratch[Stream]         = Device{}
	_ events.Stamper[Event]          = Device{}
	_ events.TimerReader             = Device{}
)

type dev struct {
	rt      *Runtime
	api     clapi.API
	id      clapi.Device
	version version
	info    DeviceInfo
	context clapi.Context

	// root counts the calls that use what Close gives back: the context, the
	// buffers of fills and the spin program.
	root   shared
	fills  bool // markers carry no times, so that events are stamped by fills
	timers bool // DeviceAndHostTimer works

	fault atomic.Pointer[events.DriverError] // the first fault seen; it stays
	stats struct {
		clamped, destroyFailed, abandoned atomic.Uint64
		events, streams                   atomic.Int64
	}

	fillMu  sync.Mutex
	targets map[clapi.Context]clapi.Mem // what fills write to, for each context

	scratch scratch
}

// openTimeout bounds the wait for the marker that shows whether markers carry
// times.
const openTimeout = 5 * time.Second

func openDevice(rt *Runtime, s *slot) (*dev, error) {
	context, code := rt.api.CreateContext(s.id)
	if code != clapi.Success {
		return nil, driverError("clCreateContext", code, kindOf(code))
	}
	d := &dev{rt: rt, api: rt.api, id: s.id, version: s.version, info: s.info, context: context}
	d.targets = map[clapi.Context]clapi.Mem{}
	d.root.init()
	if err := d.try(); err != nil {
		d.root.kill()
		return nil, errors.Join(err, d.dispose())
	}
	if d.version >= v21 && d.api.Has(clapi.Timers) {
		_, _, code := d.api.DeviceAndHostTimer(d.id)
		d.timers = code == clapi.Success
	}
	return d, nil
}

// try finds out how events of this device get their times. Some drivers give
// none to markers, which do nothing, and all give them to a fill.
func (d *dev) try() error {
	q, err := d.createQueue()
	if err != nil {
		return err
	}
	defer func() { d.api.ReleaseQueue(q) }()
	timed, err := d.timed(q)
	if timed || err != nil {
		return err
	}
	d.fills = true
	timed, err = d.timed(q)
	if !timed && err == nil {
		err = fmt.Errorf("%w: the driver gives no times to markers and none to fills", events.ErrTimingDisabled)
	}
	return err
}

// timed records once on an idle queue and reports whether the record has a time.
func (d *dev) timed(q clapi.Queue) (bool, error) {
	e, err := d.mark(held{queue: q, context: d.context}, true)
	if err != nil {
		return false, err
	}
	defer func() { d.api.ReleaseEvent(e) }()
	deadline := time.Now().Add(openTimeout)
	for {
		status, code := d.api.EventStatus(e)
		switch {
		case code != clapi.Success:
			return false, d.failed(opStatus, code, true)
		case status < clapi.Complete:
			return false, d.aborted(opStatus, status, true)
		case status == clapi.Complete:
			t, code := d.api.EventTime(e, clapi.ProfilingEnd)
			return code == clapi.Success && t != 0, nil
		case time.Now().After(deadline):
			return false, fmt.Errorf("%w: a marker on an idle queue was not reached in %v", events.ErrExpired, openTimeout)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (d *dev) createQueue() (clapi.Queue, error) {
	modern := d.version >= v20 && d.api.Has(clapi.QueueWithProperties)
	q, code := d.api.CreateQueue(d.context, d.id, clapi.QueueProfiling, modern)
	switch {
	case code == clapi.Success:
		return q, nil
	case modern:
		return 0, d.failed("clCreateCommandQueueWithProperties", code, true)
	}
	return 0, d.failed("clCreateCommandQueue", code, true)
}

// failed turns a function's refusal into an error. ours says that the handles
// passed were made and are held here, so that a driver which calls them invalid
// has lost them: that is how some report a kernel's crash.
func (d *dev) failed(op string, code int32, ours bool) error {
	kind := kindOf(code)
	if ours && (code == clapi.InvalidCommandQueue || code == clapi.InvalidContext || code == clapi.InvalidDevice) {
		kind = events.ErrDeviceFault
	}
	err := driverError(op, code, kind)
	if ours && errors.Is(kind, events.ErrDeviceFault) {
		d.fault.CompareAndSwap(nil, err)
	}
	return err
}

// aborted is the error of a command that ended with a negative status. OpenCL
// says that the context may be of no use from then on, so in our own it is a
// fault that stays. A command that was dropped because what it waited for failed
// is not: a program may fail a user event on purpose.
func (d *dev) aborted(op string, status int32, ours bool) error {
	if status == clapi.ErrorForEventsInWaitList {
		return fmt.Errorf("%s: the record was dropped because something that it waited for failed: %w", backend, driverError(op, status, nil))
	}
	err := driverError(op, status, events.ErrDeviceFault)
	if ours {
		d.fault.CompareAndSwap(nil, err)
	}
	return err
}

// refusal is why no call may reach the device any more, nil while it may.
func (d *dev) refusal() error {
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	if d.root.dead.Load() {
		return fmt.Errorf("%s: device %d: %w", backend, d.info.Ordinal, events.ErrClosed)
	}
	return nil
}

// enter counts a call in that uses what Close gives back; leave must follow.
func (d *dev) enter() error {
	if err := d.refusal(); err != nil {
		return err
	}
	if !d.root.enter() {
		return d.refusal()
	}
	return nil
}

func (d *dev) leave() {
	if d.root.leave() {
		_ = d.dispose()
	}
}

// dispose gives back what root guards, after the last call that uses it.
func (d *dev) dispose() error {
	d.fillMu.Lock()
	targets := d.targets
	d.targets = nil
	d.fillMu.Unlock()
	var first error
	drop := func(op string, release func() int32) {
		if d.fault.Load() != nil {
			d.stats.abandoned.Add(1)
			return
		}
		if code := release(); code != clapi.Success {
			d.stats.destroyFailed.Add(1)
			first = cmp.Or(first, d.failed(op, code, true))
		}
	}
	for _, m := range targets {
		drop("clReleaseMemObject", func() int32 { return d.api.ReleaseMem(m) })
	}
	d.scratch.dispose(d, drop)
	drop("clReleaseContext", func() int32 { return d.api.ReleaseContext(d.context) })
	return first
}

// Close gives back the device's context and what Scratch and fills keep, buffers
// included. Streams and events are their owners' and can still be destroyed, and
// closed gates be opened; any other call with valid arguments is ErrClosed, unless
// the device had failed before. A spin that was not read before is ErrClosed too. It
// does not wait: a call in progress keeps what it needs until it returns. It is
// idempotent, and nil on the zero Device. Runtime.Device opens the device again.
func (d *dev) Close() error {
	if d == nil {
		return nil
	}
	if _, free := d.root.kill(); free {
		return d.dispose()
	}
	return nil
}

// Offers implements events.Limiter.
func (d Device) Offers(ability any) bool {
	if d.dev == nil {
		return false
	}
	if _, asked := ability.(*events.TimerReader); asked {
		return d.timers
	}
	return true
}

// Backend implements events.EventApi.
func (d Device) Backend() string { return backend }

// Identity implements events.Identifier. The bus id and the UUID are there where
// the driver has the extensions cl_khr_pci_bus_info and cl_khr_device_uuid; the
// UUID of a device that is no GPU has no prefix.
func (d *dev) Identity() events.Identity {
	if d == nil {
		return events.Identity{Ordinal: -1}
	}
	return d.info.Identity
}

// String names the device for logs.
func (d *dev) String() string {
	if d == nil {
		return "no device"
	}
	return fmt.Sprintf("%s:%d (%s)", backend, d.info.Ordinal, d.info.Name)
}

// Library is the file of the loader library that the device was opened through.
func (d *dev) Library() string {
	if d == nil {
		return ""
	}
	return d.api.Path()
}

// Handle is the cl_device_id.
func (d *dev) Handle() uintptr {
	if d == nil {
		return 0
	}
	return uintptr(d.id)
}

// Context is the cl_context that our streams are made in, for queues and memory
// of one's own that are to be used together with them. It is valid until Close;
// whoever keeps it longer retains it.
func (d *dev) Context() uintptr {
	if d == nil {
		return 0
	}
	return uintptr(d.context)
}

// StampsByFill reports whether an event is a marker followed by a fill of one
// byte, because this driver gives no times to markers. It was found out when the
// device was opened.
func (d *dev) StampsByFill() bool { return d != nil && d.fills }

// EventStats implements events.StatsReader.
func (d *dev) EventStats() events.Stats {
	if d == nil {
		return events.Stats{}
	}
	return events.Stats{
		Clamped:        d.stats.clamped.Load(),
		DestroyFailed:  d.stats.destroyFailed.Load(),
		LiveEvents:     d.stats.events.Load(),
		LiveStreams:    d.stats.streams.Load(),
		AbandonedAtEnd: d.stats.abandoned.Load(),
	}
}

// DeviceAndHostTimer implements events.TimerReader.
func (d Device) DeviceAndHostTimer() (device, host uint64, err error) {
	if d.dev == nil {
		return 0, 0, errNotOpen
	}
	if err := d.refusal(); err != nil {
		return 0, 0, err
	}
	if !d.timers {
		return 0, 0, fmt.Errorf("%s: %w: clGetDeviceAndHostTimer (it came with version 2.1, and not every driver has it)", backend, events.ErrUnsupported)
	}
	device, host, code := d.api.DeviceAndHostTimer(d.id)
	if code != clapi.Success {
		return 0, 0, d.failed("clGetDeviceAndHostTimer", code, true)
	}
	return device, host, nil
}
