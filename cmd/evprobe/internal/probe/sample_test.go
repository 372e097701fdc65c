package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantileIsAReadingThatWasTaken(t *testing.T) {
	s := newSample([]time.Duration{40, 10, 30, 20})
	require.Equal(t, sample{10, 20, 30, 40}, s)
	for q, want := range map[float64]time.Duration{0: 10, 0.25: 10, 0.5: 20, 0.51: 30, 0.95: 40, 1: 40} {
		require.Equal(t, want, s.quantile(q), q)
	}
	require.Equal(t, time.Duration(7), newSample([]time.Duration{7}).median())
}

func TestTickIsTheDivisorOfAllSpans(t *testing.T) {
	tick := time.Duration(0)
	for _, span := range []time.Duration{1248, 1280, 1344} {
		tick = gcd(tick, span)
	}
	require.Equal(t, 32*time.Nanosecond, tick)
	require.Equal(t, time.Nanosecond, gcd(tick, 1249))
}

// A reading of float32 milliseconds has steps of its own.
func TestFloatStepFollowsTheSpan(t *testing.T) {
	require.Equal(t, time.Nanosecond, floatStep(time.Millisecond))
	require.Equal(t, 62*time.Nanosecond, floatStep(time.Second)) // 61.04, rounded up
	require.Equal(t, 245*time.Nanosecond, floatStep(3*time.Second))
}
