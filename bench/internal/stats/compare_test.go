package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHolmTakesWhatIsNoProbabilityForOne(t *testing.T) {
	require.Empty(t, Holm(nil))
	p := []float64{nan, 0.01, -1, 2, inf}
	require.Equal(t, []float64{1, 0.05, 1, 1, 1}, Holm(p))
	require.InDelta(t, 0.01, p[1], 0, "the argument is left as it was")
}

// A change of the size that a run is said to detect is found in about four runs of
// five, and half of it seldom.
func TestDetectableChangeIsDetected(t *testing.T) {
	random := seeded(22)
	found := func(factor float64) float64 {
		hits := 0
		const rounds = 1000
		for range rounds {
			next := func() float64 { return 1000 * math.Exp(0.03*random.NormFloat64()) }
			a := sortedOf(draw(100, next))
			change := 0.03 * math.Sqrt(math.Pi/2/100) * math.Sqrt2 * (1.96 + 0.8416) // what it estimates
			b := sortedOf(draw(100, func() float64 { return next() * (1 + factor*change) }))
			said, ok := Detectable(a, 0.95, 0.8, 0)
			require.True(t, ok)
			require.InEpsilon(t, change, said, 0.9)
			// Two medians differ if they are 1.96 standard errors of a difference apart.
			ciA, _ := MedianCI(a, 0.95)
			ciB, _ := MedianCI(b, 0.95)
			z := -normalQuantile((1 - ciA.Level) / 2)
			se := math.Hypot(ciA.HalfWidth(), ciB.HalfWidth()) / z
			if math.Abs(Median(a)-Median(b)) > 1.96*se {
				hits++
			}
		}
		return float64(hits) / rounds
	}
	require.InDelta(t, 0.8, found(1), 0.08)
	require.Less(t, found(0.5), 0.45)
	require.Less(t, found(0), 0.08)
}

func TestNothingBelowATickIsDetectable(t *testing.T) {
	change, ok := Detectable(repeat(1024, 50), 0.95, 0.8, 32)
	require.True(t, ok)
	require.InDelta(t, 32.0/1024, change, 1e-12)
	change, ok = Detectable(repeat(1024, 50), 0.95, 0.8, 0)
	require.True(t, ok)
	require.InDelta(t, 0x1p-23, change, 1e-12, "float32 milliseconds tell no less")
	for _, power := range []float64{0, 1, -1, nan, inf} {
		_, ok = Detectable(repeat(1024, 50), 0.95, power, 0)
		require.False(t, ok)
	}
	_, ok = Detectable(repeat(1024, 7), 1e-300, 0.8, 0)
	require.False(t, ok, "an interval that holds never has no standard error")
	change, ok = Detectable(repeat(1024, 50), 0.95, 1e-300, 32)
	require.True(t, ok)
	require.InDelta(t, 32.0/1024, change, 1e-12)
	_, ok = Detectable(repeat(0, 50), 0.95, 0.8, 32)
	require.False(t, ok, "a median of 0 has no relative change")
	_, ok = Detectable(repeat(1, 5), 0.95, 0.8, 0)
	require.False(t, ok)
}

func TestProjectedNumberGrowsWithTheSquareOfPrecision(t *testing.T) {
	require.Equal(t, 400, SamplesFor(100, 2, 1))
	require.Equal(t, 100, SamplesFor(100, 1, 1))
	require.Equal(t, 100, SamplesFor(100, 0, 1))
	require.Equal(t, 100, SamplesFor(100, 0, 0))
	for _, want := range []float64{0, -1, nan, 1e-300} {
		require.Equal(t, math.MaxInt32, SamplesFor(100, 2, want))
	}
	require.Equal(t, math.MaxInt32, SamplesFor(100, nan, 1))
}
