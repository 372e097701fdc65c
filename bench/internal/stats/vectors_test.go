package stats

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors are what R says; testdata/vectors.R made them.
type vectors struct {
	Ps      []float64
	Samples []struct {
		Name      string
		Samples   []float64
		Quantiles []float64
		Mean      float64
		Stddev    float64
		MAD       float64
		MADScaled float64 `json:"mad_scaled"`
		IQR       float64
		Outliers  []int // low severe, low mild, high mild, high severe
		Lag1      float64
		Kendall   []float64 // tau-b, p
		Dip       float64
		Detect    float64 `json:"detectable"`
	}
	Ranks [][]float64 // n, p, level, rank of the lower end, of the upper, probability
	Holm  []struct{ P, Adjusted []float64 }
	Rules []struct {
		Name            string
		Samples         []float64
		StdRel, Entropy int
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var v vectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.NotEmpty(t, v.Samples)
	require.NotEmpty(t, v.Ranks)
	require.NotEmpty(t, v.Holm)
	require.NotEmpty(t, v.Rules)
	return v
}

// near asks for agreement to 12 digits, or to 1e-12 round 0.
func near(t *testing.T, want, got float64, what string) {
	t.Helper()
	require.InDelta(t, want, got, 1e-12*max(1, want, -want), what)
}

func TestDescriptionsAgreeWithR(t *testing.T) {
	v := readVectors(t)
	for _, c := range v.Samples {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.Samples)
			sorted, refused := Sorted(c.Samples)
			require.Zero(t, refused)
			for i, p := range v.Ps {
				near(t, c.Quantiles[i], Quantile(sorted, p), "quantile")
			}
			near(t, c.Mean, Mean(c.Samples), "mean")
			near(t, c.Stddev, Stddev(c.Samples), "stddev")
			near(t, c.MAD, MAD(sorted), "MAD")
			near(t, c.MADScaled, ScaledMAD(sorted), "scaled MAD")
			near(t, c.IQR, IQR(sorted), "IQR")
			o := CountOutliers(sorted, 0)
			got := []int{o.LowSevere, o.LowMild, o.HighMild, o.HighSevere}
			require.Equal(t, c.Outliers, got)
			lag1, _ := Lag1(c.Samples)
			near(t, c.Lag1, lag1, "lag 1")
			if d := FindDrift(c.Samples, 0); d.Verdict != DriftUnknown {
				near(t, c.Kendall[0], d.Tau, "tau")
				near(t, c.Kendall[1], d.P, "p of tau")
			}
			near(t, c.Dip, dip(sorted), "dip")
			change, ok := Detectable(sorted, 0.95, 0.8, 0)
			require.Equal(t, len(sorted) >= 6, ok)
			if c.Detect > 0 {
				near(t, c.Detect, change, "detectable change")
			}
			require.Equal(t, before, c.Samples, "the argument is left as it was")
		})
	}
}

// The samples 1, 2, ... n are their own ranks.
func TestRanksOfIntervalsAgreeWithR(t *testing.T) {
	all := make([]float64, 1_000_000)
	for i := range all {
		all[i] = float64(i + 1)
	}
	for _, c := range readVectors(t).Ranks {
		ci, ok := QuantileCI(all[:int(c[0])], c[1], c[2])
		require.Equal(t, c[3] > 0, ok, "%v", c)
		require.Equal(t, []float64{c[3], c[4]}, []float64{ci.Lo, ci.Hi}, "%v", c)
		// The logarithms of factorials of a million leave nine digits.
		require.InDelta(t, c[5], ci.Level, 1e-8, "%v", c)
	}
}

func TestHolmAgreesWithR(t *testing.T) {
	for _, c := range readVectors(t).Holm {
		got := Holm(c.P)
		require.Len(t, got, len(c.P))
		for i := range got {
			near(t, c.Adjusted[i], got[i], "adjusted p")
		}
	}
}

// The rules keep running sums where the vectors evaluate NVBench's formulas afresh
// at each sample; both have to stop at the same one, 0 being never.
func TestRulesStopWhereTheFormulasOfNVBenchDo(t *testing.T) {
	for _, c := range readVectors(t).Rules {
		t.Run(c.Name, func(t *testing.T) {
			for name, r := range map[string]struct {
				rule Rule
				want int
			}{
				"stdrel":  {StdRel(0.005, 500_000), c.StdRel},
				"entropy": {Entropy(), c.Entropy},
			} {
				stopper := NewStopper(Plan{Rule: r.rule, MinSamples: 10, Device: -1, Wall: -1})
				stopped := 0
				for _, x := range c.Samples {
					if d := stopper.Add(x, Spent{}); d.Stop() {
						require.Equal(t, Converged, d.Verdict)
						stopped = d.Samples
						break
					}
				}
				require.Equal(t, r.want, stopped, name)
			}
		})
	}
}
