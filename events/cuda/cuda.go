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
// StatsReader, Gate, Scratch and Graphs, as far as the library has them:
// ask with events.Ability. Close gives back what Gate and Scratch keep.
type Device = cfamily.Device[Vendor]

// Event is a cudaEvent_t that knows whether it is alive and recorded. The zero
// value is invalid.
type Event = cfamily.Event[Vendor]

// Stream is a cudaStream_t, made by StreamCreateNonBlocking or wrapped with
// Device.WrapStream. The zero value is invalid; WrapStream(0) is the default
// stream. Stream.Handle is the cudaStream_t.
type Stream = cfamily.Stream[Vendor]

// Runtime is the loaded library. Runtime.Device gives its devices, Runtime.Info
// says what was loaded.
type Runtime = cfamily.Runtime[Vendor]

// Info says what was loaded and what it sees.
type Info = cfamily.Info

// Option changes how Open looks for the library.
type Option interface{ apply(*cfamily.Options) }

type optionFunc func(*cfamily.Options)

func (f optionFunc) apply(o *cfamily.Options) { f(o) }

// WithLibrary names the runtime library's file instead of searching for one.
// There is no fallback: if it cannot be used, Open fails.
func WithLibrary(path string) Option {
	return optionFunc(func(o *cfamily.Options) { o.Library = path })
}

// WithDriver names the driver library's file instead of searching for one.
// There is no fallback: if it cannot be used, Open fails.
func WithDriver(path string) Option {
	return optionFunc(func(o *cfamily.Options) { o.Driver = path })
}

// Open loads CUDA's runtime library and lists the devices that it sees. No
// device is initialised by it.
//
// The library is looked for in this order: WithLibrary; the environment
// variable DEVEVENTS_CUDART; one already mapped into the process; the names
// that the system's loader knows; the directories of toolkits, distributions,
// wheels, conda and containers. Among several the newest is taken that the
// driver supports. Nothing is ever unloaded.
//
// The error is an *events.UnavailableError: it wraps events.ErrUnavailable,
// tells library, symbol, driver and device apart, and lists every file that
// was tried with the reason why it could not be used.
func Open(options ...Option) (*Runtime, error) {
	var o cfamily.Options
	for _, option := range options {
		option.apply(&o)
	}
	return cfamily.Open[Vendor](table(), o)
}

var _ events.EventApi[Event, Stream] = Device{}
