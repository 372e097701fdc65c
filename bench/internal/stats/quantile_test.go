package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantileBeyondTheEndsIsTheEnd(t *testing.T) {
	x := []float64{1, 2, 3}
	for _, p := range []float64{-1, 0, nan, -inf} {
		require.InDelta(t, 1, Quantile(x, p), 0)
	}
	for _, p := range []float64{1, 2, inf} {
		require.InDelta(t, 3, Quantile(x, p), 0)
	}
	require.Zero(t, Quantile(nil, 0.5))
}

// Known pairs of ranks (n, lower, upper), as benchstat and nanobench use them.
func TestMedianIntervalHasTheKnownRanks(t *testing.T) {
	for _, c := range []struct {
		n      int
		lo, hi float64
		level  float64
	}{
		{6, 1, 6, 0.969}, {10, 2, 9, 0.979}, {20, 6, 15, 0.959}, {30, 10, 21, 0.957}, {50, 18, 33, 0.967},
		{100, 40, 61, 0.965}, {200, 86, 115, 0.960}, {500, 228, 273, 0.956},
	} {
		x := make([]float64, c.n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		ci, ok := MedianCI(x, 0.95)
		require.True(t, ok)
		require.InDelta(t, c.lo, ci.Lo, 0, "n %d", c.n)
		require.InDelta(t, c.hi, ci.Hi, 0, "n %d", c.n)
		require.InDelta(t, c.level, ci.Level, 0.0005, "n %d", c.n)
		require.InDelta(t, (c.hi-c.lo)/2, ci.HalfWidth(), 0)
	}
}

// Five samples cannot give 95 %; a helper that prints an interval of them anyway
// prints a smaller level under that name.
func TestTooFewSamplesHaveNoInterval(t *testing.T) {
	for level, want := range map[float64]int{0.5: 2, 0.9: 5, 0.95: 6, 0.96875: 6, 0.99: 8, 0.999: 11, 1 - 0x1p-53: 54} {
		require.Equal(t, want, MinSamplesMedianCI(level), "level %v", level)
		_, ok := MedianCI(repeat(1, want-1), level)
		require.False(t, ok, "level %v", level)
		ci, ok := MedianCI(repeat(1, want), level)
		require.True(t, ok, "level %v", level)
		require.GreaterOrEqual(t, ci.Level, level-1e-9)
	}
	for _, level := range []float64{0, 1, -1, 2, nan, inf} {
		require.Zero(t, MinSamplesMedianCI(level))
		_, ok := MedianCI(repeat(1, 100), level)
		require.False(t, ok, "level %v", level)
		_, ok = QuantileCI(repeat(1, 100), level, 0.95)
		require.False(t, ok, "p %v", level)
	}
	_, ok := QuantileCI(repeat(1, 40), 0.99, 0.95)
	require.False(t, ok, "40 samples say nothing about what lies above the 99th of a hundred")
}

// Probabilities of this size are 0 in a float64 where the sum begins.
func TestIntervalOfAnExtremeQuantileDoesNotLoseItsTail(t *testing.T) {
	for _, p := range []float64{1e-300, 1e-16, 1 - 1e-15, 1 - 0x1p-53} {
		_, ok := QuantileCI(repeat(1, 100_000), p, 0.95)
		require.False(t, ok, "p %v", p)
	}
}

// The probability that an interval holds the true value is at least its level,
// whatever the distribution, and more where samples are equal.
func TestIntervalsCoverAsOftenAsTheySay(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 1000
	}
	random := seeded(1)
	normal := func() float64 { return 1000 + 20*random.NormFloat64() }
	for _, c := range []struct {
		name string
		p    float64
		true float64
		next func() float64
	}{
		{"normal, median", 0.5, 1000, normal},
		{"normal, first quartile", 0.25, 1000 - 20*0.6744897501960817, normal},
		{"exponential, median", 0.5, 1000 + 100*math.Ln2, func() float64 { return 1000 + 100*random.ExpFloat64() }},
		{"lognormal, 0.9", 0.9, 1000 * math.Exp(0.1*1.2815515655446004), func() float64 { return 1000 * math.Exp(0.1*random.NormFloat64()) }},
		{"two kinds, median in the lower", 0.5, 1000 + 5*0.967421566101701, func() float64 { // 0.5 = 0.6 Φ(z)
			if random.Float64() < 0.4 {
				return 2000
			}
			return 1000 + 5*random.NormFloat64()
		}},
		{"ticks of 32 ns, median", 0.5, 992, func() float64 { return onTicks(1000+20*random.NormFloat64(), 32) }},
	} {
		for _, n := range []int{6, 20, 51, 200} {
			covered, told, level := 0, 0, 0.0
			for range rounds {
				ci, ok := QuantileCI(sortedOf(draw(n, c.next)), c.p, 0.95)
				if !ok {
					continue
				}
				told, level = told+1, ci.Level
				if ci.Lo <= c.true && c.true <= ci.Hi {
					covered++
				}
			}
			if told == 0 {
				continue // too few samples for this quantile
			}
			require.Equal(t, rounds, told, "whether there is an interval depends on n alone")
			// Four standard errors of the share that is counted here.
			slack := 4 * math.Sqrt(level*(1-level)/float64(rounds))
			require.GreaterOrEqual(t, float64(covered)/float64(rounds), level-slack, "%s, n %d", c.name, n)
		}
	}
}
