package stats

import (
	"math"
	"slices"
)

// Lag1 returns the correlation of each sample with the one before it, between -1
// and 1. Near 0 the samples look independent, which the intervals of this package
// assume; well above it the intervals are too narrow. It is false for fewer than
// three samples and where all are equal.
func Lag1(samples []float64) (float64, bool) {
	kept, _ := Finite(samples)
	if len(kept) < 3 {
		return 0, false
	}
	if slices.Min(kept) == slices.Max(kept) {
		return 0, false
	}
	mean := Mean(kept)
	var products float64
	for i := 1; i < len(kept); i++ {
		products += (kept[i-1] - mean) * (kept[i] - mean)
	}
	r, ok := ratio(products, squares(kept, mean))
	return max(-1, min(1, r)), ok // the squares of tiny differences can be 0
}

// Correlated says whether a [Lag1] of n samples is further above 0 than 99 % of
// independent samples come (2.326/sqrt(n)), so that intervals are too narrow. A
// negative one makes them too wide, which misleads nobody. Below 20 samples it
// never is.
func Correlated(lag1 float64, n int) bool {
	return n >= 20 && lag1 > 2.326/math.Sqrt(float64(n))
}

// DriftVerdict says in a word whether samples moved as they were taken.
type DriftVerdict string

// The verdicts of [FindDrift].
const (
	DriftUnknown DriftVerdict = "unknown" // too few samples to say
	DriftNone    DriftVerdict = "none"
	DriftUp      DriftVerdict = "up" // later samples are longer
	DriftDown    DriftVerdict = "down"
)

// What a drift takes: samples for the normal approximation of the rank test, a
// probability, and a size below which it is real but nobody's concern.
const (
	minSamplesDrift = 10
	driftP          = 0.01
	driftSize       = 0.005
)

// Drift says whether samples moved with their place in the run, as they do while
// a device warms up or slows down.
type Drift struct {
	Verdict DriftVerdict `json:"verdict"`
	// P is the two-sided probability of a trend at least this clear among samples
	// in random order.
	P float64 `json:"p"`
	// Adjusted is P among samples whose neighbours are as alike as these, at least P.
	Adjusted float64 `json:"p_adjusted"`
	// Tau is Kendall's tau-b of the samples with their index, from -1 to 1.
	Tau float64 `json:"tau"`
	// Change is the median of the last third less that of the first, in the unit
	// of the samples.
	Change float64 `json:"change"`
}

// FindDrift tests samples, in the order in which they were taken, for a trend: the
// rank test of Mann and Kendall against the index, normal approximation with
// corrections for ties and continuity. The verdict is a drift if Adjusted is below 0.01
// and the medians of the first and last third differ by more than the quantum and
// 0.5 % of the median, in the direction of the trend. Fewer than 10 samples are "unknown". Where
// neighbours are correlated, Adjusted takes P's place, and samples that are worth fewer than
// 6 independent ones are no drift: nothing can be said of them.
func FindDrift(samples []float64, quantum float64) Drift {
	kept, _ := Finite(samples)
	n := len(kept)
	if n < minSamplesDrift {
		return Drift{Verdict: DriftUnknown, P: 1, Adjusted: 1}
	}
	d := Drift{Verdict: DriftNone}
	d.Tau, d.P = mannKendall(kept)
	d.Adjusted = trendP(d.P, kept)
	third := n / 3
	first, _ := Sorted(kept[:third])
	last, _ := Sorted(kept[n-third:])
	d.Change = Median(last) - Median(first)
	all, _ := Sorted(kept)
	median := Median(all)
	size := max(tick(quantum, median), driftSize*math.Abs(median))
	switch {
	case d.Adjusted >= driftP:
	case d.Tau > 0 && d.Change > size:
		d.Verdict = DriftUp
	case d.Tau < 0 && d.Change < -size:
		d.Verdict = DriftDown
	}
	return d
}

// mannKendall returns Kendall's tau-b of the samples with their index and its
// two-sided p-value.
func mannKendall(samples []float64) (tau, p float64) {
	n := float64(len(samples))
	sorted := slices.Clone(samples)
	discordant := inversions(sorted, make([]float64, len(sorted)))
	var tiedPairs, tiedVariance float64
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		tiedPairs += t * (t - 1) / 2
		tiedVariance += t * (t - 1) * (2*t + 5)
		i = j
	}
	pairs := n * (n - 1) / 2
	untied := pairs - tiedPairs
	variance := (n*(n-1)*(2*n+5) - tiedVariance) / 18
	if untied <= 0 || variance <= 0 {
		return 0, 1
	}
	s := untied - 2*float64(discordant)
	z := max(0, math.Abs(s)-1) / math.Sqrt(variance)
	return s / math.Sqrt(pairs*untied), math.Erfc(z / math.Sqrt2)
}

// inversions sorts x and returns how many pairs were in descending order.
func inversions(x, scratch []float64) int64 {
	if len(x) < 2 {
		return 0
	}
	half := len(x) / 2
	left, right := x[:half], x[half:]
	count := inversions(left, scratch[:half]) + inversions(right, scratch[half:])
	merged := scratch[:0]
	for len(left) > 0 && len(right) > 0 {
		if left[0] <= right[0] {
			merged, left = append(merged, left[0]), left[1:]
		} else {
			merged, right = append(merged, right[0]), right[1:]
			count += int64(len(left))
		}
	}
	merged = append(append(merged, left...), right...)
	copy(x, merged)
	return count
}
