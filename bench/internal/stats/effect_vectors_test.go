package stats

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// compareVectors are what SciPy says; testdata/compare.py made them.
type compareVectors struct {
	Student   []struct{ X, DF, P float64 }
	Quantiles []struct{ X, DF, P float64 }
	Chi       []struct{ X, DF, P float64 }
	Ranks     []struct{ D, P []float64 }
	Centres   []struct {
		D             []float64
		Level, Centre float64
		Interval      []float64
	}
	Medians []struct {
		Base, Other                           []float64
		Threshold, DF, Ratio, Different, Same float64
		Interval                              []float64
	}
}

func readCompareVectors(t *testing.T) compareVectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/compare.json")
	require.NoError(t, err)
	var v compareVectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.NotEmpty(t, v.Medians)
	return v
}

func TestDistributionsAgreeWithSciPy(t *testing.T) {
	v := readCompareVectors(t)
	for _, c := range v.Student {
		require.InDelta(t, c.P, studentCDF(c.X, c.DF), 1e-12, "%+v", c)
	}
	for _, c := range v.Quantiles {
		require.InDelta(t, c.X, studentQuantile(c.P, c.DF), 1e-9*max(1, math.Abs(c.X)), "%+v", c)
	}
	for _, c := range v.Chi { // three cubes: a percent or two is what it promises
		require.InEpsilon(t, c.X, chiSquareQuantile(c.P, c.DF), 0.02, "%+v", c)
	}
	require.InDelta(t, 0.975, studentCDF(1.959963984540054, math.Inf(1)), 1e-12)
}

func TestSignedRanksAgreeWithSciPy(t *testing.T) {
	for _, c := range readCompareVectors(t).Ranks {
		greater, less := signedRank(c.D, 0)
		require.InDelta(t, c.P[0], greater, 1e-9, "%d differences", len(c.D))
		require.InDelta(t, c.P[1], less, 1e-9, "%d differences", len(c.D))
		var moved []float64
		for _, d := range c.D {
			moved = append(moved, d+4) // an exact step of the tied ones
		}
		if slices.Max(c.D) == math.Trunc(slices.Max(c.D)) {
			same, _ := signedRank(moved, 4)
			require.InDelta(t, greater, same, 1e-12, "a shift is taken off")
		}
	}
}

func TestCentresAgreeWithAllPairsWrittenOut(t *testing.T) {
	for _, c := range readCompareVectors(t).Centres {
		slices.Sort(c.D)
		centre, ci, ok := walshInterval(c.D, c.Level)
		require.InDelta(t, c.Centre, centre, 1e-12)
		require.Equal(t, len(c.Interval) > 0, ok, "%d at %v", len(c.D), c.Level)
		if ok {
			require.InDelta(t, c.Interval[0], ci.Lo, 1e-12)
			require.InDelta(t, c.Interval[1], ci.Hi, 1e-12)
			require.GreaterOrEqual(t, ci.Level, c.Level)
		}
	}
}

func TestMediansOfTwoRunsAgreeWithSciPy(t *testing.T) {
	for _, c := range readCompareVectors(t).Medians {
		e := CompareMedians(c.Base, c.Other, Question{Threshold: c.Threshold})
		require.InDelta(t, c.DF, e.df, 1e-6)
		require.InDelta(t, c.Different, e.different, 1e-9)
		require.InDelta(t, c.Same, e.same, 1e-9)
		f := Judge([]Effect{e}, 1)[0]
		require.InDelta(t, c.Ratio, f.Ratio, 1e-9)
		require.InDelta(t, c.Interval[0], f.CI.Lo, 1e-9, "a clock without a known step still has that of float32")
		require.InDelta(t, c.Interval[1], f.CI.Hi, 1e-9)
	}
}
