package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The sentinels. Every error of this module wraps the one that says what kind
// of trouble it is, so callers decide with errors.Is and never by text or code. A code of
// a vendor's that fits none, 999 for one, is a DriverError without a Kind.
var (
	// ErrUnavailable: no usable library or device on this machine. From an Open the
	// error is an *UnavailableError, which says what was missing; from a call it is a
	// vendor's code that means so, or a Device or Runtime that no Open has given.
	ErrUnavailable = errors.New("device runtime unavailable")
	// ErrUnsupported: this device, library or version lacks the ability.
	ErrUnsupported = errors.New("not supported here")
	// ErrInvalid: an argument that can never be right, such as a zero handle.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotReady: the device has not reached the event yet. A state, not a failure.
	ErrNotReady = errors.New("not reached yet")
	// ErrNotRecorded: the event was never recorded, or its last record failed.
	ErrNotRecorded = errors.New("event was never recorded")
	// ErrTimingDisabled: the event was made without a timestamp.
	ErrTimingDisabled = errors.New("event carries no timestamp")
	// ErrReversed: start was recorded after end on the same stream.
	ErrReversed = errors.New("start and end are swapped")
	// ErrCapturing: the stream is being captured into a graph, or the event's
	// last record went into one, so there is no time to read.
	ErrCapturing = errors.New("stream is being captured into a graph")
	// ErrDeviceMismatch: the handle belongs to another device, backend or instance.
	ErrDeviceMismatch = errors.New("handle belongs to another device")
	// ErrDeviceFault: earlier work on the device failed. It stays: every later
	// call that reaches the device gives it too. Whether the device can be opened
	// anew in the same process is the vendor's: not on CUDA, yes on OpenCL.
	ErrDeviceFault = errors.New("device fault")
	// ErrContextLost: the device's context was destroyed or reset under us.
	ErrContextLost = errors.New("device context lost")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
	// ErrDestroyed: the event or stream was destroyed.
	ErrDestroyed = errors.New("destroyed")
	// ErrExpired: the result was kept for its stated time and then dropped, or
	// a deadline of ours has passed.
	ErrExpired = errors.New("expired")
	// ErrFull: a stated bound has been reached, or memory is.
	ErrFull = errors.New("full")
	// ErrBadReading: the driver gave a value that is not a duration. The error
	// is a *ReadingError with the raw value.
	ErrBadReading = errors.New("reading is not a duration")
)

// DriverError is a refusal by a vendor's library.
type DriverError struct {
	Backend string // "cuda"
	Op      string // the vendor's function, "cudaEventRecord"
	Code    int32  // the number that it returned
	Name    string // the number's name from a built-in table
	Kind    error  // one of the sentinels, or nil where the code fits none
}

// Error is the vendor's function, the name of the code and always its number:
//
//	cudaEventRecord: cudaErrorInvalidResourceHandle (400)
func (e *DriverError) Error() string {
	s := e.Op + ": " + codeText(e.Name, e.Code)
	switch {
	case errors.Is(e.Kind, ErrDeviceFault):
		s += ": earlier work on this device failed, not this call; nothing more succeeds on it until it is opened anew, which may take a new process"
	case errors.Is(e.Kind, ErrContextLost):
		s += ": the device was reset or its context destroyed; make new handles or restart the process"
	case errors.Is(e.Kind, ErrCapturing):
		s += ": a graph capture is in progress; wait for its end and record again"
	}
	return s
}

// codeText is a code's name and number. The number is there for every code.
func codeText(name string, code int32) string {
	if name == "" {
		name = "unknown code"
	}
	return name + " (" + strconv.Itoa(int(code)) + ")"
}

// Unwrap gives the sentinel.
func (e *DriverError) Unwrap() error { return e.Kind }

// Cause says why a backend is unavailable.
type Cause string

// The causes, told apart as far as what the library answered allows.
const (
	CauseLibraryMissing  Cause = "library-missing"       // nothing that could be loaded
	CauseSymbolMissing   Cause = "symbol-missing"        // loaded, but too old or not the library it claims to be
	CauseDriverMissing   Cause = "driver-missing-or-old" // the runtime says that the driver is missing or too old; the code covers both
	CauseStubDriver      Cause = "stub-driver"           // a link-time stub answers in the driver's place
	CauseNoDevice        Cause = "no-device"             // library and driver work and see no device
	CauseSystemNotReady  Cause = "system-not-ready"      // the system is still starting, or in a state that needs its administrator
	CauseNotThisPlatform Cause = "not-on-this-platform"  // no such runtime exists for this operating system
	CauseDriverError     Cause = "driver-error"          // the library refused with a code that says none of the above
	CauseBadOverride     Cause = "bad-override"          // an override names something that cannot be used
)

// UnavailableError says why a backend cannot be used on this machine. It wraps
// ErrUnavailable.
type UnavailableError struct {
	Backend    string      // whose library
	Cause      Cause       // why, for programs
	Detail     string      // one sentence: what happened
	Advice     string      // one sentence: what to do; claims no more than is known
	Path       string      // the library that was loaded, if one was
	Version    int         // the runtime's version number, 0 if not known
	Code       int32       // the code that was returned, 0 if none was
	CodeName   string      // its name
	Candidates []Candidate // what was tried, in order
	Near       []string    // files on disk that looked right and were not tried
}

// Candidate is one library that was tried.
type Candidate struct {
	Path   string `json:"path"`   // as it was tried: a file, or a name for the system's loader
	Reason string `json:"reason"` // why it could not be used
}

// Error is one line of cause and advice, then one line for each candidate.
func (e *UnavailableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s unavailable (%s): %s", e.Backend, e.Cause, e.Detail)
	if e.Code != 0 {
		b.WriteString(" [" + codeText(e.CodeName, e.Code) + "]")
	}
	if e.Path != "" {
		fmt.Fprintf(&b, "; library %s", e.Path)
		if e.Version != 0 {
			fmt.Fprintf(&b, " version %d", e.Version)
		}
	}
	if e.Advice != "" {
		b.WriteString("; " + e.Advice)
	}
	for _, c := range e.Candidates {
		fmt.Fprintf(&b, "\n  tried %s: %s", c.Path, c.Reason)
	}
	for _, n := range e.Near {
		fmt.Fprintf(&b, "\n  seen but not tried: %s", n)
	}
	return b.String()
}

// Unwrap gives ErrUnavailable.
func (e *UnavailableError) Unwrap() error { return ErrUnavailable }
