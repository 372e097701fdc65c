package stats

import (
	"cmp"
	"math"
	"slices"
)

// Comparison is the outcome of [ComparePairs].
type Comparison struct {
	Pairs   int `json:"pairs"`
	Refused int `json:"refused"` // pairs with a member that has no logarithm, and samples without a partner
	Ties    int `json:"ties"`    // pairs of equal members
	// Ratio is the median of other/base: 1.02 says that other takes 2 % longer. 0
	// without pairs.
	Ratio float64 `json:"ratio"`
	// CI is the interval of Ratio, nil where there are too few pairs.
	CI *Interval `json:"ci,omitempty"`
}

// ComparePairs compares samples that were taken in turn, base[i] beside other[i],
// so that what slows the device for a while slows both. It takes the median of
// ln(other/base) and its [MedianCI] and gives both back as ratios; so swapping the
// arguments gives the inverse. Pairs that are not both positive are refused.
func ComparePairs(base, other []float64, level float64) Comparison {
	n := min(len(base), len(other))
	c := Comparison{Refused: max(len(base), len(other)) - n}
	logs := make([]float64, 0, n)
	for i := range n {
		b, o := base[i], other[i]
		if !usable(b) || !usable(o) || b <= 0 || o <= 0 {
			c.Refused++
			continue
		}
		if b == o {
			c.Ties++
		}
		logs = append(logs, math.Log(o)-math.Log(b))
	}
	c.Pairs = len(logs)
	if c.Pairs == 0 {
		return c
	}
	slices.Sort(logs)
	c.Ratio = bounded(math.Exp(Median(logs)))
	if ci, ok := MedianCI(logs, level); ok {
		c.CI = &Interval{Lo: bounded(math.Exp(ci.Lo)), Hi: bounded(math.Exp(ci.Hi)), Level: ci.Level}
	}
	return c
}

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
