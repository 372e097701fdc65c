package bench

import "time"

// Backend is what measures a sample. The runner brackets one call of a case's
// function with it:
//
//	Begin, function, End, Collect
//
// Outside those four nothing of a sample is timed. A backend decides what the
// duration of a sample is: host time, device time, something of its own. It has no
// type parameters, so that anyone can write one for any device API; embed another
// backend to change only a part of it.
//
// The runner calls a backend from one goroutine, locked to its OS thread, and never
// begins a sample before the last one was collected. A backend may be shared by
// cases and groups.
type Backend interface {
	// Label says what measures, for the heading of a table: "timing only",
	// "timing + CUDA events".
	Label() string

	// EmitsCPUDiagnostics reports whether Collect gives metrics in SectionCPU, which
	// say nothing about work of a device. In the domain GPU they are muted, with a note,
	// whatever this says: it is for whoever chooses a backend.
	EmitsCPUDiagnostics() bool

	// Clock describes the clock that durations are taken from. It may become better
	// known as the backend is used.
	Clock() Clock

	// Begin starts a sample. If it fails the function is not called, and neither are
	// End and Collect.
	Begin() error

	// End closes a sample. It is called once for every Begin that succeeded, also
	// when the function failed or panicked: whatever Begin holds is let go here. It
	// may wait for the device.
	End() error

	// Collect turns the sample into numbers. It is called after End if the function
	// and End succeeded. An error excludes the sample, and is counted and explained;
	// one that wraps events.ErrDeviceFault, events.ErrContextLost or
	// events.ErrClosed ends the case.
	Collect(iv Interval) (Sample, error)
}

// Clock is where durations come from.
type Clock struct {
	Name    string        // "host monotonic", "CUDA events"
	Quantum time.Duration // the smallest difference that it can show; 0 is not known
}

// Interval is what the runner saw of one sample from outside, by the host's clock.
type Interval struct {
	Host       time.Duration // from just before the function's call to its return
	Complete   time.Duration // from just before the function's call to the return of End
	Operations int64         // how many operations the function did; at least 1
	Chunk      int           // number of the sample in its stage, from 0
	Work       Work          // what one operation does, as the case declares it
}

// Sample is one measurement. Collect fills in what it knows.
type Sample struct {
	// Duration is the length of the whole sample, all its operations together. What
	// is negative is refused and counted as a failed sample.
	Duration time.Duration

	// Iterations is how many operations Duration covers. 0 stands for
	// Interval.Operations.
	Iterations int64

	// Chunks is how many chunks Duration covers. 0 stands for 1.
	Chunks int64

	// OnDevice says that Duration was taken by a device's clock, so that it can be
	// set beside Enqueue and Complete.
	OnDevice bool

	// Enqueue and Complete are host time until the work was queued, and until it was
	// known to be done. 0 stands for Interval.Host and Interval.Complete.
	Enqueue, Complete time.Duration

	// Leaked says whether launch latency may lie inside Duration: Yes if the device had
	// reached the start before everything was queued, No if it provably had not.
	Leaked Answer

	// Escaped says whether the device was still busy after the sample had ended.
	Escaped Answer

	// Metrics are the backend's numbers for this sample. The slice belongs to the
	// runner until the next Begin.
	Metrics []Metric
}

// Answer is what is known of a sample's fault.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota // nobody looked
	No
	Yes
)

// String is "", "no" or "yes".
func (a Answer) String() string {
	switch a {
	case No:
		return "no"
	case Yes:
		return "yes"
	}
	return ""
}

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// Work is what one operation does. Rates are made from it; 0 is not declared.
type Work struct {
	Bytes int64   // bytes read and written
	Flops float64 // floating point operations
	Items int64   // whatever the case counts: rows, tokens, requests
}

// Domain is where the work of a group runs. It mutes what would mislead.
type Domain uint8

// The domains.
const (
	CPU   Domain = iota // on the calling thread; the default
	GPU                 // on a device: the processor's counters are muted, one operation a sample unless told otherwise
	IO                  // waiting for something outside
	Mixed               // on both, or on many threads
)

// String names the domain.
func (d Domain) String() string {
	switch d {
	case GPU:
		return "GPU"
	case IO:
		return "IO"
	case Mixed:
		return "Mixed"
	}
	return "CPU"
}
