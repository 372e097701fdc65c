package events_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

// Garbage and sentinels of drivers were accepted as timings, a plain conversion
// of each of these gives a negative duration: cpc/hipcl#5, gfx-rs/wgpu#9414,
// pytorch/pytorch#14287.
func TestAbsurdReadingsAreErrorsWithTheRawValue(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, ms := range []float32{float32(math.NaN()), inf, -inf, 1e30, -1e30, math.MaxFloat32, 9.3e12, -9.3e12} {
		d, clamped, err := events.FromMilliseconds(ms)
		require.Zero(t, d, "%v", ms)
		require.False(t, clamped, "%v", ms)
		require.ErrorIs(t, err, events.ErrBadReading)
		var reading *events.ReadingError
		require.ErrorAs(t, err, &reading)
		require.Equal(t, fmt.Sprint(ms, " ms"), reading.Read)
	}
	_, _, err := events.FromMilliseconds(1e30)
	require.ErrorContains(t, err, "1e+30 ms")
	_, _, err = events.FromMilliseconds(float32(math.NaN()))
	require.ErrorContains(t, err, "NaN ms")
}

// Clocks of one device can be read back in reverse by a little, and on some
// platforms by more than that: ROCm/rocm-systems#9375,
// ROCm/rocm-libraries#6379, CHIP-SPV/chipStar#116.
func TestNegativeReadingsAreClampedAndSaid(t *testing.T) {
	for _, ms := range []float32{-0.0001, -1.78, -133, -math.SmallestNonzeroFloat32} {
		d, clamped, err := events.FromMilliseconds(ms)
		require.NoError(t, err, "%v", ms)
		require.Zero(t, d, "%v", ms)
		require.True(t, clamped, "%v", ms)
	}
	for _, ms := range []float32{0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32} {
		d, clamped, err := events.FromMilliseconds(ms)
		require.NoError(t, err, "%v", ms)
		require.Zero(t, d, "%v", ms)
		require.False(t, clamped, "%v is not negative", ms)
	}
}

// Milliseconds were taken for microseconds, and truncation lost half of short
// spans: huggingface/optimum-nvidia#9, triton-lang/triton#10700.
func TestMillisecondsAreRoundedToTheNanosecond(t *testing.T) {
	for ms, want := range map[float32]time.Duration{
		0.0005:    500,
		0.0000004: 0,
		0.0000006: 1,
		0.001280:  1280,
		1:         time.Millisecond,
		50.5:      50*time.Millisecond + 500*us,
		86400000:  24 * time.Hour,
	} {
		d, clamped, err := events.FromMilliseconds(ms)
		require.NoError(t, err)
		require.False(t, clamped)
		require.Equal(t, want, d, "%v ms", ms)
	}
	longest := math.Nextafter32(math.MaxInt64/1e6, 0)
	d, _, err := events.FromMilliseconds(longest)
	require.NoError(t, err)
	require.Greater(t, d, 292*365*24*time.Hour)
}

// A float32 of milliseconds steps by more the longer the span is. The conversion
// adds nothing to the step: pocl/pocl#1094, AdaptiveCpp/AdaptiveCpp#2193.
func TestConversionKeepsTheStepOfFloat32(t *testing.T) {
	for span, step := range map[time.Duration]float64{
		time.Second:      61.03515625,
		10 * time.Second: 976.5625,
		time.Minute:      3906.25,
		5 * time.Minute:  31250,
		time.Hour:        250000,
		24 * time.Hour:   8e6,
	} {
		ms := float32(span.Milliseconds())
		at, _, err := events.FromMilliseconds(ms)
		require.NoError(t, err)
		require.Equal(t, span, at)
		next, _, err := events.FromMilliseconds(math.Nextafter32(ms, math.MaxFloat32))
		require.NoError(t, err)
		require.InDelta(t, step, float64(next-at), 0.5, "%v", span)
	}
}

func FuzzFromMilliseconds(f *testing.F) {
	for _, ms := range []float32{0, 0.0005, 0.00128, 1, -1.78, -133, 1e30, 9.22e12, 9.23e12, float32(math.NaN()), float32(math.Inf(-1))} {
		f.Add(math.Float32bits(ms))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		ms := math.Float32frombits(bits)
		d, clamped, err := events.FromMilliseconds(ms)
		require.GreaterOrEqual(t, d, time.Duration(0))
		exact := new(big.Rat)
		if exact.SetFloat64(float64(ms)) == nil { // not a finite number
			require.ErrorIs(t, err, events.ErrBadReading)
			return
		}
		exact.Mul(exact, big.NewRat(1_000_000, 1))
		limit := new(big.Rat).SetInt64(math.MaxInt64)
		if new(big.Rat).Abs(exact).Cmp(limit) >= 0 {
			require.ErrorIs(t, err, events.ErrBadReading)
			require.False(t, clamped)
			return
		}
		require.NoError(t, err)
		require.Equal(t, exact.Sign() < 0, clamped)
		if clamped {
			require.Zero(t, d)
			return
		}
		off := exact.Sub(exact, new(big.Rat).SetInt64(int64(d)))
		require.LessOrEqual(t, off.Abs(off).Cmp(big.NewRat(1, 2)), 0, "%v ms as %v", ms, d)
	})
}
