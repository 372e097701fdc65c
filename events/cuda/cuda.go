package cuda

import (
	"example.com/devevents/events"
	"example.com/devevents/events/internal/cfamily"
)

// Vendor is the tag that keeps CUDA's types apart from another vendor's.
type Vendor struct{}

// VendorName implements the tag.
func (Vendor) VendorName() string { return "cuda" }

// Device is one CUDA device. It is a small value, safe for concurrent use, and
// implements events.EventApi[Event, Stream] and the abilities Querier,
// RoundQuerier, CaptureAsker, UntimedCreator, Identifier, StreamWrapper,
// StatsReader, Gate, Scratch, Graphs, Cache, DeviceSynchronizer, Versioned, EmptyKernel, ReadKernel
// and ProfilerControl, as far as the library has them, and Telemetry where the driver's
// management library (NVML) can be used: ask with events.Ability. Asking for Telemetry loads
// that library, which the environment variable DEVEVENTS_NVML may name. Close gives back what Gate and Scratch keep. TimerAsk has the
// device read its own timer between two moments of the host's, without an event.
type Device = cfamily.Device[Vendor]

// Event is a cudaEvent_t that knows whether it is alive and recorded. The zero
// value is invalid.
type Event = cfamily.Event[Vendor]

// Stream is a cudaStream_t, made by StreamCreateNonBlocking or wrapped with
// Device.WrapStream. The zero value is invalid; WrapStream(0) is the default
// stream. Stream.Handle is the cudaStream_t.
type Stream = cfamily.Stream[Vendor]

// TimerQuestion is what Device.TimerAsk gives.
type TimerQuestion = cfamily.TimerQuestion

// Runtime is the loaded library. Runtime.Device gives its devices, Runtime.Info
// says what was loaded.
type Runtime = cfamily.Runtime[Vendor]

// Info says what was loaded and what it sees.
type Info = cfamily.Info

// Option changes how Open looks for the library: WithLibrary, WithDriver or
// WithDriverAPI.
type Option = cfamily.Option

// WithLibrary is an option: WithLibrary("/path/libcudart.so.13") names the runtime's file, without
// fallback.
type WithLibrary = cfamily.WithLibrary

// WithDriver is an option: WithDriver("/path/libcuda.so.1") names the driver library's file, without
// fallback.
type WithDriver = cfamily.WithDriver

// WithDriverAPI is an option: WithDriverAPI(true) uses the driver library in place of the runtime, and
// WithDriverAPI(false) never does.
type WithDriverAPI = cfamily.WithDriverAPI

// Open loads CUDA's runtime library and lists the devices that it sees. No
// device is initialised by it.
//
// The library is looked for in this order: WithLibrary; the environment
// variable DEVEVENTS_CUDART; one already mapped into the process; the names
// that the system's loader knows; the directories of toolkits, distributions,
// wheels, conda and containers. Among several the newest is taken that the
// driver supports. Nothing is ever unloaded.
//
// Where there is no runtime library (a program that links it statically, a
// container with only a driver), the driver library itself is used; Info().API
// says which. Calls then run with the device's context made current, which costs the
// host more.
//
// The error is an *events.UnavailableError: it wraps events.ErrUnavailable,
// tells library, symbol, driver and device apart, and lists every file that
// was tried with the reason why it could not be used.
func Open(options ...Option) (*Runtime, error) {
	return cfamily.Open[Vendor](runtimeTable(), driverTable(), options)
}

var _ events.EventApi[Event, Stream] = Device{}
