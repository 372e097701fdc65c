package stats

import (
	"math"
	"slices"
)

// MaxMagnitude bounds a sample, in ns. It is far beyond any duration (the
// universe is 4e26 ns old) and so small that squares and sums of samples stay
// finite.
const MaxMagnitude = 1e100

// float32Step is the relative distance of neighbouring float32 values, the type
// in which vendors hand out spans.
const float32Step = 0x1p-23

func usable(x float64) bool {
	return math.Abs(x) <= MaxMagnitude // false for NaN
}

// Finite returns the samples that can be reckoned with, in their order, and how
// many were refused. It returns the argument itself where nothing is refused.
func Finite(samples []float64) (kept []float64, refused int) {
	bad := slices.IndexFunc(samples, func(x float64) bool { return !usable(x) })
	if bad < 0 {
		return samples, 0
	}
	kept = slices.Clone(samples[:bad])
	for _, x := range samples[bad:] {
		if usable(x) {
			kept = append(kept, x)
		}
	}
	return kept, len(samples) - len(kept)
}

// Sorted returns the samples that can be reckoned with in ascending order, in a
// slice of its own, and how many were refused.
func Sorted(samples []float64) (sorted []float64, refused int) {
	kept, refused := Finite(samples)
	if refused == 0 {
		kept = slices.Clone(kept)
	}
	slices.Sort(kept)
	return kept, refused
}

// trim leaves out what an ascending slice may hold at its ends that cannot be
// reckoned with; slices.Sort puts NaN first.
func trim(sorted []float64) []float64 {
	for len(sorted) > 0 && !usable(sorted[0]) {
		sorted = sorted[1:]
	}
	for len(sorted) > 0 && !usable(sorted[len(sorted)-1]) {
		sorted = sorted[:len(sorted)-1]
	}
	return sorted
}

// ratio is a/b, or the largest float64 of its sign where that overflows; ok is
// false for b = 0.
func ratio(a, b float64) (r float64, ok bool) {
	if b == 0 {
		return 0, false
	}
	return bounded(a / b), true
}

func bounded(x float64) float64 {
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// tick is the smallest difference that means anything among samples round the
// median: the clock's, or that of the float32 they came in.
func tick(quantum, median float64) float64 {
	return max(cleanQuantum(quantum), math.Abs(median)*float32Step)
}

// cleanQuantum takes a quantum that is no size for "not known".
func cleanQuantum(quantum float64) float64 {
	if usable(quantum) && quantum > 0 {
		return quantum
	}
	return 0
}

// sum adds with Neumaier's compensation, so that the mean of a million equal
// samples is that sample.
func sum(samples []float64) float64 {
	var total, lost float64
	for _, x := range samples {
		t := total + x
		if math.Abs(total) >= math.Abs(x) {
			lost += (total - t) + x
		} else {
			lost += (x - t) + total
		}
		total = t
	}
	return total + lost
}

// normalQuantile is the p-quantile of the standard normal distribution, for p
// strictly between 0 and 1.
func normalQuantile(p float64) float64 {
	return math.Sqrt2 * math.Erfinv(2*p-1)
}

// fraction says whether x lies strictly between 0 and 1, as a level, a power or a
// share must.
func fraction(x float64) bool {
	return x > 0 && x < 1
}
