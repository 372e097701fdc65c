package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// series is n samples round 1000 with a standard deviation of 100, each phi times as far
// from the middle as the one before it but for chance, on a line that rises by drift.
func series(next func() float64, n int, phi, drift float64) []float64 {
	x := make([]float64, n)
	v := next()
	for i := range x {
		if i > 0 {
			v = phi*v + math.Sqrt(1-phi*phi)*next()
		}
		x[i] = 1000 + 100*v + drift*float64(i)/float64(n)
	}
	return x
}

// Samples whose neighbours were alike (a clock that wanders, a queue that empties) were
// called drifting several times in ten. The rate is the one that FindDrift states; two
// standard errors are allowed for chance. Seeds: n for each row.
func TestCorrelatedSamplesAreNotCalledDrifting(t *testing.T) {
	const rounds = 1000
	bound := rounds * (driftP + 2*math.Sqrt(driftP*(1-driftP)/rounds))
	for _, n := range []int{10, 15, 20, 50, 100, 300} {
		for _, phi := range []float64{0, 0.3, 0.5, 0.7} {
			random := seeded(uint64(n))
			alarms := 0
			for range rounds {
				switch FindDrift(series(random.NormFloat64, n, phi, 0), 0).Verdict {
				case DriftUp, DriftDown:
					alarms++
				}
			}
			t.Logf("n %d, phi %.1f: %d of %d", n, phi, alarms, rounds)
			require.LessOrEqual(t, float64(alarms), bound, "n %d, phi %v", n, phi)
		}
	}
}

func TestRealDriftIsStillFound(t *testing.T) {
	const rounds, n = 300, 100
	for phi, least := range map[float64]int{0: 99, 0.3: 95, 0.5: 85, 0.7: 40} {
		random := seeded(7)
		found := 0
		for range rounds {
			if FindDrift(series(random.NormFloat64, n, phi, 300), 0).Verdict == DriftUp {
				found++
			}
		}
		t.Logf("phi %.1f: %d of %d", phi, found, rounds)
		require.GreaterOrEqual(t, found*100, least*rounds, "phi %v", phi)
	}
}

// Golden values of R: 2 * pt(-t, df).
func TestStudentsDistributionAgreesWithR(t *testing.T) {
	for _, c := range []struct{ t, df, want float64 }{
		{0, 5, 1}, {1, 1, 0.5}, {2, 3, 0.1393260}, {2.570582, 5, 0.05}, {3.169273, 10, 0.01}, {2.626, 99, 0.01000},
	} {
		require.InDelta(t, c.want, 2*studentCDF(-c.t, c.df), 2e-5, "%v", c)
		require.InDelta(t, c.want, 2*(1-studentCDF(c.t, c.df)), 2e-5, "%v", c)
	}
}

func TestRanksShareTheMiddle(t *testing.T) {
	require.Equal(t, []float64{2.5, 1, 4, 2.5}, ranksOf([]float64{7, 3, 9, 7}))
}
