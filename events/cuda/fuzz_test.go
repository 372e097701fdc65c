package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// Whatever a function answers, the error has its number, and the sentinel of its
// kind. NVIDIA/go-nvml#82, lattice/quda#693
func FuzzCodes(f *testing.F) {
	for _, code := range []int32{1, 2, 400, 600, 700, 906, 907, 999, 4711, -2, math.MaxInt32, math.MinInt32} {
		f.Add(code, false)
		f.Add(code, true)
	}
	rigs := map[bool]*rig{false: open(f, 1, false), true: open(f, 1, true)}
	f.Fuzz(func(t *testing.T, code int32, driver bool) {
		r := rigs[driver].in(t)
		if code == 0 || code == -1 {
			t.Skip("to the imitation these mean no refusal: ", code)
		}
		s := r.stream(t)
		e := r.complete(t, s)
		fresh := r.recorded(t, s)
		for function, do := range map[string]func() error{
			"EventRecord":       func() error { return r.dev.EventRecord(fresh, s) },
			"EventSynchronize":  func() error { return r.dev.EventWait(e) },
			"EventQuery":        func() error { _, err := r.dev.EventQuery(e); return err },
			"StreamIsCapturing": func() error { _, err := r.dev.StreamCapturing(s); return err },
			"EventElapsedTime":  func() error { _, err := r.dev.EventElapsed(e, e); return err },
		} {
			restore := r.fail(function, code)
			err := do()
			restore()
			if code == 600 && function == "EventQuery" || code == 906 && function == "StreamIsCapturing" {
				require.NoError(t, err)
				continue
			}
			require.Error(t, err, function)
			require.ErrorContains(t, err, fmt.Sprintf("(%d)", code), function)
			require.ErrorContains(t, err, r.fn(function))
			var refused *events.DriverError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, code, refused.Code)
			if kind := cuda.Kind(code); kind != nil {
				require.ErrorIs(t, err, kind)
			}
			if errors.Is(err, events.ErrDeviceFault) {
				// What is left to a faulted device would fill the imitation in the long run.
				for _, left := range []cuda.Event{e, fresh} {
					require.Zero(t, r.ctl.Call(r.fn("EventDestroy"), left.Handle()))
				}
				require.Zero(t, r.ctl.Call(r.fn("StreamDestroy"), s.Handle()))
				r.reopen(t)
				rigs[driver] = r
				s = r.stream(t)
				e, fresh = r.complete(t, s), r.recorded(t, s)
			}
		}
		for _, e := range []cuda.Event{e, fresh} {
			require.NoError(t, r.dev.EventDestroy(e))
		}
		require.NoError(t, r.dev.StreamDestroy(s))
	})
}

// Whatever the library writes as a reading, it is a duration of 0 or more, or an
// error with what was read. gfx-rs/wgpu#9414
func FuzzReadings(f *testing.F) {
	for _, ms := range []float32{0, 0.0005, 1, -1, 1e30, float32(math.NaN()), float32(math.Inf(-1))} {
		f.Add(math.Float32bits(ms))
	}
	opened := open(f, 1, false)
	e := opened.complete(f, opened.stream(f))
	f.Fuzz(func(t *testing.T, bits uint32) {
		r := opened.in(t)
		r.ctl.Set("elapsed_bits", int64(bits))
		ms := math.Float32frombits(bits)
		span, err := r.dev.EventElapsed(e, e)
		var bad *events.ReadingError
		switch {
		case errors.As(err, &bad):
			require.Equal(t, fmt.Sprint(ms, " ms"), bad.Read)
			require.False(t, isDuration(ms), "%v ms is a duration", ms)
		case ms < 0:
			require.NoError(t, err)
			require.Zero(t, span)
		default:
			require.NoError(t, err)
			require.InDelta(t, float64(ms), float64(span)/float64(time.Millisecond), 1e-6+float64(ms)*1e-9)
		}
	})
}

func isDuration(ms float32) bool { return math.Abs(float64(ms)*1e6) < math.MaxInt64 }
