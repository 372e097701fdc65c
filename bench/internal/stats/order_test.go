package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLag1TellsAlternatingFromLasting(t *testing.T) {
	r, ok := Lag1([]float64{1, 2, 1, 2, 1, 2, 1, 2})
	require.True(t, ok)
	require.InDelta(t, -7.0/8, r, 1e-12)
	r, ok = Lag1([]float64{1, 1, 1, 1, 2, 2, 2, 2})
	require.True(t, ok)
	require.InDelta(t, 5.0/8, r, 1e-12)
	for _, x := range [][]float64{nil, {1}, {1, 2}, {7, 7, 7, 7}} {
		_, ok = Lag1(x)
		require.False(t, ok)
	}
	_, ok = Lag1([]float64{1, 2, 4})
	require.True(t, ok)
}

// Samples that follow their predecessor make an interval too narrow; independent
// ones must not be called so more than one time in a hundred.
func TestCorrelationIsNamedWhereItIs(t *testing.T) {
	random := seeded(2)
	independent, following := 0, 0
	const rounds = 1000
	for range rounds {
		x := draw(100, random.NormFloat64)
		if r, ok := Lag1(x); ok && Correlated(r, len(x)) {
			independent++
		}
		for i := 1; i < len(x); i++ {
			x[i] += 0.6 * x[i-1]
		}
		if r, ok := Lag1(x); ok && Correlated(r, len(x)) {
			following++
		}
	}
	require.LessOrEqual(t, independent, 2*rounds/100)
	require.GreaterOrEqual(t, following, 99*rounds/100)
	require.False(t, Correlated(-0.9, 100), "a negative one makes intervals too wide, which is harmless")
	require.False(t, Correlated(0.9, 19))
	require.True(t, Correlated(0.9, 20))
}

// A device that warms up gets faster (triton-lang/triton#2306), one that throttles
// slower.
func TestDriftIsNamedWithItsDirection(t *testing.T) {
	random := seeded(3)
	noise := func() float64 { return 10 * random.NormFloat64() }
	up, down := make([]float64, 90), make([]float64, 90)
	for i := range up {
		up[i] = 1000 + 0.5*float64(i) + noise()
		down[i] = 1000 - 0.5*float64(i) + noise()
	}
	d := FindDrift(up, 0)
	require.Equal(t, DriftUp, d.Verdict)
	require.InDelta(t, 30, d.Change, 8) // the middles of first and last third are 60 samples apart
	require.Positive(t, d.Tau)
	require.Less(t, d.P, 0.01)
	d = FindDrift(down, 0)
	require.Equal(t, DriftDown, d.Verdict)
	require.InDelta(t, -30, d.Change, 8)
	require.Negative(t, d.Tau)
	require.Equal(t, DriftUnknown, FindDrift(up[:9], 0).Verdict)
	require.Equal(t, DriftNone, FindDrift(repeat(1, 10), 0).Verdict)
}

// A trend of the ranks while the middle of the last third is below that of the
// first, and the other way round, is no direction.
func TestDriftNeedsTrendAndChangeToAgree(t *testing.T) {
	var x []float64
	x = append(append(x, repeat(0, 4)...), repeat(1000, 6)...)
	for i := range 20 {
		x = append(x, 100+44*float64(i)) // the last third is 540 to 936
	}
	d := FindDrift(x, 0)
	require.Less(t, d.P, 0.01)
	require.Positive(t, d.Tau)
	require.Negative(t, d.Change)
	require.Equal(t, DriftNone, d.Verdict)
	for i := range x {
		x[i] = -x[i]
	}
	d = FindDrift(x, 0)
	require.Negative(t, d.Tau)
	require.Positive(t, d.Change)
	require.Equal(t, DriftNone, d.Verdict)
}

func TestDriftBelowATickOrHalfAPercentIsNobodysConcern(t *testing.T) {
	slow := make([]float64, 2000)
	for i := range slow {
		slow[i] = 100_000 + float64(i)*0.1 // 0.2 % in all
	}
	d := FindDrift(slow, 0)
	require.Less(t, d.P, 1e-9, "it is there")
	require.Equal(t, DriftNone, d.Verdict)

	ticks := append(repeat(1024, 50), repeat(1056, 50)...) // 3 %, and one tick
	require.Equal(t, DriftUp, FindDrift(ticks, 1).Verdict)
	require.Equal(t, DriftNone, FindDrift(ticks, 32).Verdict)
}

func TestNoDriftIsCalledAmongIndependentSamples(t *testing.T) {
	random := seeded(4)
	for _, next := range []func() float64{
		func() float64 { return 1000 + 100*random.ExpFloat64() },
		func() float64 { return onTicks(5000+200*random.NormFloat64(), 32) },
	} {
		for _, n := range []int{20, 100} {
			alarms := 0
			const rounds = 1000
			for range rounds {
				if FindDrift(draw(n, next), 32).Verdict != DriftNone {
					alarms++
				}
			}
			require.LessOrEqual(t, alarms, 2*rounds/100, "n %d", n)
		}
	}
}

// First use costs up to 500 times a later call (AcademySoftwareFoundation/openqmc#109,
// NVIDIA/nvbench#240).
func TestSlowFirstSampleIsNamed(t *testing.T) {
	x := repeat(1024, 30)
	require.False(t, Summarize(x, Options{Quantum: 32}).SlowFirst)
	x[0] = 500 * 1024
	require.True(t, Summarize(x, Options{Quantum: 32}).SlowFirst)
	x[0], x[1] = x[1], x[0]
	s := Summarize(x, Options{Quantum: 32})
	require.False(t, s.SlowFirst, "the second is not the first")
	require.Equal(t, 1, s.Outliers.HighSevere)
}

// In quantised samples the quartiles are often equal, and fences at the quartiles
// themselves would call every other tick severe.
func TestFencesOfEqualSamplesAreTicksAway(t *testing.T) {
	x := repeat(1024, 40)
	x = append(x, 1024-97, 1024-96, 1024-49, 1024-48, 1024+48, 1024+49, 1024+96, 1024+97)
	o := CountOutliers(sortedOf(x), 32)
	require.Equal(t, Outliers{LowSevere: 1, LowMild: 2, HighMild: 2, HighSevere: 1}, o)
	require.Equal(t, 6, o.Total())
}

func TestNoiseIsAtLeastATick(t *testing.T) {
	noise, ok := Noise(repeat(1024, 40), 32)
	require.True(t, ok)
	require.InDelta(t, 32.0/1024, noise, 1e-12)
	random := seeded(30)
	noise, ok = Noise(sortedOf(draw(10_000, func() float64 { return -1000 + 50*random.NormFloat64() })), 32)
	require.True(t, ok)
	require.InDelta(t, 0.05, noise, 0.003, "the standard deviation, of the median's size")
	for _, x := range [][]float64{nil, {0}, {-1, 0, 1}} {
		_, ok = Noise(x, 32)
		require.False(t, ok)
	}
}
