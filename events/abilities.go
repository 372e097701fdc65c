package events

import "time"

// Ability finds an optional interface of a backend. It is the only right way to
// ask: a type may have the methods of an ability that the device behind it
// lacks (a symbol missing from an old library, an erased backend, a switched-off
// ability of the simulated device), and a plain type assertion would believe
// the methods.
//
//	q, ok := events.Ability[events.Querier[E]](api)
//
// It is meant for construction, not for hot paths: look once, keep the result.
func Ability[T any](api any) (T, bool) {
	t, ok := api.(T)
	if !ok {
		return t, false
	}
	if l, limited := api.(Limiter); limited && !l.Offers((*T)(nil)) {
		var none T
		return none, false
	}
	return t, true
}

// Limiter is implemented by a backend whose type has more methods than the
// device behind it has abilities. Offers is asked with a nil pointer to the
// ability's interface type, so that a type switch can tell which one is meant:
//
//	func (d *Device) Offers(ability any) bool {
//		switch ability.(type) {
//		case *events.Querier[Event]:
//			return d.canQuery
//		}
//		return true
//	}
//
// The answer never changes during the life of the value.
type Limiter interface {
	Offers(ability any) bool
}

// Querier asks whether an event has been reached, without blocking.
type Querier[E any] interface {
	// EventQuery reports whether the event's last record has been reached. An
	// event that was never recorded is ErrNotRecorded: several vendors answer
	// "complete" for it, which pollers take for work done.
	EventQuery(event E) (bool, error)
}

// RoundQuerier queries many events in one round. A query may need the calling
// thread prepared (on CUDA a query from any thread kills a graph capture in
// progress elsewhere in the process unless the thread is exempted first);
// a round prepares it once for all its queries.
//
// RoundBegin ties the goroutine to its OS thread until RoundEnd, which must be
// called on the same goroutine, also after an error of RoundQuery. Keep rounds
// short, and neither block nor call other methods of the backend in one.
type RoundQuerier[E any] interface {
	// RoundBegin prepares the calling thread.
	RoundBegin() (Round, error)
	// RoundQuery is EventQuery inside a round.
	RoundQuery(round Round, event E) (bool, error)
	// RoundEnd puts the thread back as it was.
	RoundEnd(round Round) error
}

// Round is what RoundBegin hands to RoundQuery and RoundEnd. Its fields belong
// to the backend.
type Round struct {
	Saved  uint64 // of what the thread was set to
	Saved2 uint64 // more of it
	Open   bool   // begun and not ended
}

// CaptureAsker asks whether a stream is being captured into a graph. A capture
// that has been invalidated but not ended yet counts as captured.
type CaptureAsker[S comparable] interface {
	StreamCapturing(stream S) (bool, error)
}

// InOrder is implemented by a stream type some of whose handles do not stand for one
// queue that is done in order, as that of CUDA's and HIP's per-thread default stream,
// which is another queue on each OS thread. On all others, and of types without it,
// whoever knows that an event was reached knows it of those recorded on the same handle
// before, too, and need not ask about them.
type InOrder interface {
	InOrder() bool
}

// StaleReader says whether EventElapsed on an event whose last record went into a
// capture reads the stamps of the record before it, where others refuse. On
// such a backend a capture must be asked for at both ends of a window.
type StaleReader interface {
	ElapsedAfterCapture() bool
}

// HostClocker gives the host clock that a simulated device's clock is to be
// compared with, in nanoseconds. Real devices do not have the ability: theirs is
// the machine's monotonic clock.
type HostClocker interface {
	HostClock() func() int64
}

// Stamper gives the stamp of one event, where EventElapsed needs two.
type Stamper[E any] interface {
	// EventStamp is when the event's last record was reached, in nanoseconds of
	// the device's clock, whose origin is unknown. Its errors are those of
	// EventElapsed.
	EventStamp(event E) (uint64, error)
}

// TimerReader reads the clock that stamps events without an event, together with
// the host's, so that a placement of stamps on the host's clock can be checked
// from outside.
type TimerReader interface {
	// DeviceAndHostTimer reads the device's clock, on the scale of Stamper, and
	// the host's clock as the driver keeps it, at about one moment. Both are
	// nanoseconds of an unknown origin. It may wait for the device and take long.
	DeviceAndHostTimer() (device, host uint64, err error)
}

// UntimedCreator makes events without a timestamp. They cost the device less
// and cannot be read with EventElapsed. With blocking, a host wait sleeps in
// the driver instead of burning a core.
type UntimedCreator[E any] interface {
	EventCreateUntimed(blocking bool) (E, error)
}

// Identifier says which device this is.
type Identifier interface {
	Identity() Identity
}

// Identity names a device. Empty strings mean that the vendor's library cannot tell.
type Identity struct {
	Kind     DeviceKind // what sort of device
	Ordinal  int        // position in this process; visibility variables change it
	Vendor   string     // who makes it, as far as the backend or its library says
	Name     string     // the vendor's product name
	PCIBusID string     // 0000:4e:00.0, stable across processes
	UUID     string     // xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, after GPU- where the vendor writes that
}

// DeviceKind is what sort of device it is. Empty means that it is none of these,
// or that the vendor's library cannot tell.
type DeviceKind string

// The kinds of devices. Work on KindCPU shares the host's processors: there the
// operating system decides when a stream goes on, and work that follows other work
// starts some ten microseconds after it (measured with PoCL), inside a span that
// covers both.
const (
	KindGPU         DeviceKind = "gpu"
	KindCPU         DeviceKind = "cpu"
	KindAccelerator DeviceKind = "accelerator"
	KindSimulated   DeviceKind = "simulated"
)

// StreamWrapper turns a stream made elsewhere (PyTorch, cuBLAS, a C library)
// into a handle of this backend. The stream stays its maker's: it must outlive
// every call made with the wrapper, and StreamDestroy refuses it. Wrapping the
// same handle twice gives equal values. Nothing in the background of this
// module ever touches a wrapped stream. What the stream must be for its records to
// carry times is the backend's to say (OpenCL: a queue with profiling; on one
// that is out of order a record is a barrier); one that is not is an error of the
// calls made with it, not of the wrapping.
type StreamWrapper[S comparable] interface {
	WrapStream(handle uintptr) S
}

// StatsReader gives the counters of a backend.
type StatsReader interface {
	EventStats() Stats
}

// Stats counts what would otherwise pass unseen. Counters only grow, except the
// Live ones.
type Stats struct {
	Clamped        uint64 // negative readings returned as 0
	DestroyFailed  uint64 // destroys that failed where nobody could be told
	LiveEvents     int64  // events made and not yet freed
	LiveStreams    int64  // streams made and not yet freed
	AbandonedAtEnd uint64 // handles left to a faulted device
}

// Gate holds a stream back until the host lets it go, so that work can be
// queued behind it without the time of queueing showing in the measurement.
type Gate[S comparable] interface {
	// GateClose queues a barrier on stream and returns at once. Work queued
	// behind it waits until Open of the returned handle, or until watchdog
	// has passed: a gate never holds a device for ever. A driver's queue behind
	// a closed gate is finite, and enqueueing on a full one blocks: measured on
	// CUDA, about a thousand operations, and 56 records of events whose waits
	// sleep. A watchdog of 0 or less is ErrInvalid; more gates closed at a time than
	// the backend has room for (64 on CUDA) are ErrFull.
	GateClose(stream S, watchdog time.Duration) (GateHandle, error)
}

// GateHandle opens a gate.
type GateHandle interface {
	// Open lets the stream go on. It may be called from any goroutine and any
	// number of times. It reports ErrExpired if the watchdog came first, since
	// a measurement behind the gate is then worthless.
	Open() error
}

// Scratch gives a benchmark or a probe something to do on the device.
type Scratch[S comparable] interface {
	// ScratchAlloc takes device memory. It may wait for the device.
	ScratchAlloc(bytes int64) (Buffer, error)
	// ScratchFree gives it back. It may wait for the device.
	ScratchFree(buffer Buffer) error
	// ScratchMemset queues a fill of the first bytes of buffer: from 1 to those it has,
	// else ErrInvalid.
	ScratchMemset(buffer Buffer, value byte, bytes int64, stream S) error
	// ScratchCopy queues a copy of bytes between two device buffers: from 1 to those of the
	// smaller one, else ErrInvalid.
	ScratchCopy(dst, src Buffer, bytes int64, stream S) error
	// ScratchSpin queues work that keeps one thread of the device busy for at
	// least d by a timer that the device itself can read (0 < d <= 10 s). The result says, once
	// the work is done, how long it took by that timer. A backend without such work (HIP)
	// has the rest of Scratch and answers ErrUnsupported; more spins in progress than it
	// has room for (256 on CUDA) are ErrFull.
	ScratchSpin(d time.Duration, stream S) (Spin, error)
}

// Buffer is device memory taken with ScratchAlloc.
type Buffer struct {
	Address uintptr // the vendor's handle: an address in device memory, a cl_mem; never one for the host to follow
	Bytes   int64
}

// Spin is one piece of work queued by ScratchSpin.
type Spin interface {
	// Measured is the span between the first and the last reading of that
	// timer inside the work: ErrNotReady before it is done. After
	// the first success the answer no longer changes.
	Measured() (time.Duration, error)
}

// Graphs captures a stream's work into a graph and launches it.
type Graphs[E any, S comparable] interface {
	// CaptureBegin starts to capture stream. Except in CaptureRelaxed mode,
	// CaptureEnd must come from the same OS thread: the caller locks its
	// goroutine to the thread (runtime.LockOSThread) in between.
	CaptureBegin(stream S, mode CaptureMode) error
	// CaptureEnd ends the capture. A capture that something has invalidated
	// is an error that wraps ErrCapturing.
	CaptureEnd(stream S) (Graph[S], error)
	// EventRecordExternal records event so that inside a capture it becomes a
	// node of the graph and is stamped at every launch. Outside a capture it is a
	// plain record (HIP) or refused (CUDA: illegal state, 401); after a refusal the
	// event counts as never recorded.
	EventRecordExternal(event E, stream S) error
}

// Graph is captured work.
type Graph[S comparable] interface {
	// Launch queues the graph on stream.
	Launch(stream S) error
	// Close frees the graph. It is idempotent.
	Close() error
}

// CaptureMode says which threads a capture in progress forbids unsafe calls to.
type CaptureMode int32

// The modes, with the numbers that CUDA and HIP give them.
const (
	CaptureGlobal      CaptureMode = 0 // every thread of the process
	CaptureThreadLocal CaptureMode = 1 // the capturing thread
	CaptureRelaxed     CaptureMode = 2 // nobody
)

// String names the mode.
func (m CaptureMode) String() string {
	switch m {
	case CaptureGlobal:
		return "global"
	case CaptureThreadLocal:
		return "thread-local"
	case CaptureRelaxed:
		return "relaxed"
	}
	return "unknown capture mode"
}
