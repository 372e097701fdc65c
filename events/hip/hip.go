package hip

import (
	"example.com/devevents/events"
	"example.com/devevents/events/internal/cfamily"
)

// Vendor is the tag that keeps HIP's types apart from another vendor's.
type Vendor struct{}

// VendorName implements the tag.
func (Vendor) VendorName() string { return "hip" }

// Device is one HIP device. It is a small value, safe for concurrent use, and
// implements events.EventApi[Event, Stream] and, as far as the library has them,
// the abilities Querier, RoundQuerier, CaptureAsker, StaleReader,
// UntimedCreator, Identifier, StreamWrapper, StatsReader, Scratch (without
// ScratchSpin, for which there is no program that every AMD device runs) and
// Graphs: ask with events.Ability. There is no Telemetry: AMD SMI is not read here, and
// TelemetryRead says so. There is no ProfilerControl.
type Device = cfamily.Device[Vendor]

// Event is a hipEvent_t that knows whether it is alive and recorded. The zero
// value is invalid.
type Event = cfamily.Event[Vendor]

// Stream is a hipStream_t, made by StreamCreateNonBlocking or wrapped with
// Device.WrapStream. The zero value is invalid; WrapStream(0) is the default
// stream. Stream.Handle is the hipStream_t.
type Stream = cfamily.Stream[Vendor]

// Runtime is the loaded library. Runtime.Device gives its devices, Runtime.Info
// says what was loaded.
type Runtime = cfamily.Runtime[Vendor]

// Info says what was loaded and what it sees.
type Info = cfamily.Info

// Option changes how Open looks for the library.
type Option = cfamily.Option

// WithLibrary is an option: WithLibrary("/path/libamdhip64.so.7") names the
// runtime's file, without fallback.
type WithLibrary = cfamily.WithLibrary

// Open loads AMD's HIP runtime and lists the devices that it sees. No device is
// initialised by it.
//
// The library is looked for in this order: WithLibrary; the environment
// variable DEVEVENTS_HIP; one already mapped into the process, and then only that
// one, because two HIP libraries in a process crash; the names that the system's
// loader knows; the directories of ROCm installations, distributions and wheels.
// Nothing is ever unloaded.
//
// The error is an *events.UnavailableError: it wraps events.ErrUnavailable,
// tells library, symbol and device apart, and lists every file that was tried
// with the reason why it could not be used.
func Open(options ...Option) (*Runtime, error) {
	return cfamily.Open[Vendor](table(), nil, options)
}

var _ events.EventApi[Event, Stream] = Device{}
