package events

import (
	"fmt"
	"math"
	"time"
)

// ReadingError is a reading that is not a duration. It wraps ErrBadReading.
type ReadingError struct {
	Read string // what the driver gave, with its unit: "NaN ms", "from 7 to 3 ns"
}

// Error names the raw value.
func (e *ReadingError) Error() string {
	return ErrBadReading.Error() + ": the driver answered " + e.Read
}

// Unwrap gives ErrBadReading.
func (e *ReadingError) Unwrap() error { return ErrBadReading }

// FromMilliseconds turns a vendor's reading (float32 milliseconds) into a
// duration, rounded to the nanosecond through float64, so that 0.0005 ms is
// exactly 500 ns. A negative reading is returned as 0 with clamped set: two
// stamps taken close together can read back in reverse by the skew of the
// device's clocks. NaN, infinities and whatever does not fit a time.Duration
// are a *ReadingError.
//
// A backend presets the variable that the driver writes to with NaN, so that a
// call which reports success and writes nothing is seen.
func FromMilliseconds(ms float32) (d time.Duration, clamped bool, err error) {
	ns := float64(ms) * 1e6
	switch {
	case !(math.Abs(ns) < math.MaxInt64): // NaN compares as false
		return 0, false, &ReadingError{Read: fmt.Sprint(ms, " ms")}
	case ns < 0:
		return 0, true, nil
	}
	return time.Duration(math.Round(ns)), false, nil
}
