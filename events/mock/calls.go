package mock

import (
	"fmt"
	"time"
)

// Op names a call, for faults, counts and the log.
type Op uint8

// The calls. OpHostRead is a reading of the host's clock through
// Device.HostNow or System.HostClock; it can be scripted and is not logged.
const (
	OpAny Op = iota // in a Fault: every call but OpHostRead
	OpEventCreate
	OpEventCreateUntimed
	OpEventDestroy
	OpEventRecord
	OpEventRecordExternal
	OpEventQuery
	OpRoundBegin
	OpRoundQuery
	OpRoundEnd
	OpEventWait
	OpEventElapsed
	OpEventStamp
	OpDeviceAndHostTimer
	OpStreamWaitEvent
	OpStreamSynchronize
	OpStreamCreate
	OpStreamDestroy
	OpStreamCapturing
	OpGateClose
	OpGateOpen
	OpScratchAlloc
	OpScratchFree
	OpScratchMemset
	OpScratchCopy
	OpScratchSpin
	OpSpinMeasured
	OpWork
	OpCaptureBegin
	OpCaptureEnd
	OpGraphLaunch
	OpCacheBytes
	OpCacheResetPersisting
	OpDeviceSynchronize
	OpLaunchEmpty
	OpLaunchRead
	OpTelemetryRead
	OpProfilerStart
	OpProfilerStop
	OpHostRead
	opCount
)

var opNames = [opCount]string{
	"any", "EventCreate", "EventCreateUntimed", "EventDestroy", "EventRecord", "EventRecordExternal",
	"EventQuery", "RoundBegin", "RoundQuery", "RoundEnd", "EventWait", "EventElapsed", "EventStamp", "DeviceAndHostTimer", "StreamWaitEvent",
	"StreamSynchronize", "StreamCreateNonBlocking", "StreamDestroy", "StreamCapturing", "GateClose", "GateOpen",
	"ScratchAlloc", "ScratchFree", "ScratchMemset", "ScratchCopy", "ScratchSpin", "SpinMeasured", "Work",
	"CaptureBegin", "CaptureEnd", "GraphLaunch", "CacheBytes", "CacheResetPersisting", "DeviceSynchronize", "LaunchEmpty", "LaunchRead", "TelemetryRead", "ProfilerStart", "ProfilerStop", "HostRead",
}

// String is the name of the method.
func (o Op) String() string {
	if o >= opCount {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opNames[o]
}

// Waits reports whether the call waits for the device by its nature.
func (o Op) Waits() bool {
	return o == OpEventWait || o == OpStreamSynchronize || o == OpDeviceSynchronize
}

func (o Op) function() string { return backend + o.String() }

// Call is one call in the log.
type Call struct {
	Op      Op            // which call
	Event   uint64        // Event.ID, of the first where there are two; 0 for none
	Stream  uint64        // Stream.ID, 0 for none
	Err     error         // what the caller got
	At      time.Duration // host time at which the call began
	Took    time.Duration // host time until it returned
	Reached bool          // it got as far as the simulated library
	Blocked bool          // it had to wait, for the device or for room in a queue
}

// Waits reports whether the call waits for the device by its nature, or had to.
func (c Call) Waits() bool { return c.Op.Waits() || c.Blocked }

// call is a call in progress.
type call struct {
	op      Op
	at      int64
	event   uint64
	stream  uint64
	reached bool
	blocked bool
	fx      effect
}

// calls counts and logs.
type calls struct {
	counts  [opCount]uint64
	waits   uint64
	ring    []Call
	next    int
	wrapped bool
}

// Calls gives the newest calls, oldest first, as many as CallLog keeps. A call
// is logged when it returns.
func (d *Device) Calls() []Call {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	l := &d.calls
	if !l.wrapped {
		return append([]Call(nil), l.ring[:l.next]...)
	}
	return append(append([]Call(nil), l.ring[l.next:]...), l.ring[:l.next]...)
}

// CallCount is how many calls of op have returned; OpAny counts all. It counts
// whether there is a log or not.
func (d *Device) CallCount(op Op) uint64 {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	if op >= opCount {
		return 0
	}
	return d.calls.counts[op]
}

// WaitCount is how many calls have returned for which Call.Waits is true.
func (d *Device) WaitCount() uint64 {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return d.calls.waits
}

// ResetCalls empties the log and sets all counts to 0.
func (d *Device) ResetCalls() {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	d.calls = calls{ring: make([]Call, len(d.calls.ring))}
}

// begin takes the system's lock and starts a call; end finishes it and gives
// the lock back.
func (d *Device) begin(op Op) call {
	d.sys.mu.Lock()
	c := call{op: op}
	if len(d.calls.ring) > 0 {
		c.at = d.sys.now()
	}
	return c
}

func (d *Device) end(c *call, err error) error {
	if c.reached {
		d.spend(c.op)
		d.sys.pass(c.fx.after)
	}
	l := &d.calls
	l.counts[c.op]++
	l.counts[OpAny]++
	if c.blocked || c.op.Waits() {
		l.waits++
	}
	if len(l.ring) > 0 {
		l.ring[l.next] = Call{
			Op: c.op, Event: c.event, Stream: c.stream, Err: err,
			At: time.Duration(c.at), Took: time.Duration(d.sys.now() - c.at),
			Reached: c.reached, Blocked: c.blocked,
		}
		if l.next++; l.next == len(l.ring) {
			l.next, l.wrapped = 0, true
		}
	}
	d.sys.mu.Unlock()
	return err
}

// spend lets half of the host's cost of a call pass.
func (d *Device) spend(op Op) {
	if !d.sys.manual {
		return
	}
	switch op {
	case OpEventRecord, OpEventRecordExternal:
		d.sys.pass(d.cfg.recordCost / 2)
	case OpEventQuery, OpRoundQuery:
		d.sys.pass(d.cfg.queryCost / 2)
	}
}

// reach is where a call enters the simulated library: scripted faults apply,
// and a lost device refuses.
func (d *Device) reach(c *call) error {
	c.reached = true
	d.spend(c.op)
	if err := d.alive(c.op); err != nil {
		return err
	}
	if len(d.faults) > 0 {
		c.fx = d.sys.applyFaults(d.faults, c.op, d)
		if c.fx.err != nil {
			return c.fx.err
		}
		return d.alive(c.op)
	}
	return nil
}
