package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm adjusts the p-values of a family of tests so that, with each compared to
// the same threshold, the chance of even one false alarm stays at that threshold
// (Holm 1979). The result is in the order of the argument. What is no probability
// counts as 1.
func Holm(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	order := make([]int, len(p))
	for i, x := range p {
		order[i] = i
		adjusted[i] = 1
		if x >= 0 && x <= 1 {
			adjusted[i] = x
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(adjusted[a], adjusted[b]) })
	var floor float64
	for rank, i := range order {
		floor = max(floor, min(1, adjusted[i]*float64(len(p)-rank)))
		adjusted[i] = floor
	}
	return adjusted
}

// Detectable returns the smallest relative change of the median that a comparison
// with a second run of as many samples and the same noise finds with this power,
// by a two-sided test at 1-level: (z_level + z_power) sqrt(2) SE / |median|, where
// the standard error is the median's half-interval over its own z. It is at
// least one quantum. It is false where there is no interval, for a median of 0,
// and for a level or power outside (0, 1) or so small that it says nothing.
func Detectable(sorted []float64, level, power, quantum float64) (float64, bool) {
	ci, ok := MedianCI(sorted, level)
	if !ok || !fraction(power) {
		return 0, false
	}
	z := -normalQuantile((1 - ci.Level) / 2)
	if !(z > 0) {
		return 0, false
	}
	median := Median(sorted)
	se := ci.HalfWidth() / z
	change := (normalQuantile(power) - normalQuantile((1-level)/2)) * math.Sqrt2 * se
	least := tick(quantum, median)
	if !(change > least) { // a power near 0 has no z
		change = least
	}
	return ratio(change, math.Abs(median))
}

// SamplesFor projects how many samples shrink a width (an interval's, or a
// detectable change) from have, at n samples, to want: it shrinks with the square
// root of their number. At least n, and at most math.MaxInt32, which stands for
// "never".
func SamplesFor(n int, have, want float64) int {
	switch {
	case have <= want:
		return n
	case !(want > 0):
		return math.MaxInt32
	}
	needed := math.Ceil(float64(n) * (have / want) * (have / want))
	if !(needed < math.MaxInt32) {
		return math.MaxInt32
	}
	return max(n, int(needed))
}
