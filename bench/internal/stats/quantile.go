package stats

import "math"

// A tail quantile of few samples is its largest one under another name. These are
// the counts from which two samples can be expected beyond it.
const (
	MinSamplesP95 = 40
	MinSamplesP99 = 200
)

// Interval is a confidence interval.
type Interval struct {
	Lo float64 `json:"lo"` // in the unit of what it is the interval of
	Hi float64 `json:"hi"`
	// Level is the probability with which intervals made this way hold the true
	// value, for independent samples: at or above the level asked for, because
	// order statistics only offer steps.
	Level float64 `json:"level"`
}

// HalfWidth is half the distance between the ends.
func (i Interval) HalfWidth() float64 { return (i.Hi - i.Lo) / 2 }

// Quantile returns the p-quantile, in the unit of the samples, by linear
// interpolation between order statistics at p(n-1): type 7 of Hyndman and Fyfe
// (1996). A p below 0 counts as 0, one above 1 as 1. Without samples it is 0.
func Quantile(sorted []float64, p float64) float64 {
	sorted = trim(sorted)
	if len(sorted) == 0 {
		return 0
	}
	if !(p > 0) { // NaN too
		return sorted[0]
	}
	last := len(sorted) - 1
	at := min(p, 1) * float64(last)
	below := int(at)
	if below >= last {
		return sorted[last]
	}
	between := sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
	return min(between, sorted[below+1]) // rounding never lifts it past the next
}

// Median is the 0.5-quantile of [Quantile].
func Median(sorted []float64) float64 { return Quantile(sorted, 0.5) }

// MedianCI is [QuantileCI] of the median. An interval of 95 % needs 6 samples, one
// of 99 % needs 8; [MinSamplesMedianCI] says how many a level needs.
func MedianCI(sorted []float64, level float64) (Interval, bool) {
	return QuantileCI(sorted, 0.5, level)
}

// MinSamplesMedianCI is the smallest number of samples from which [MedianCI] has
// an interval of this level, 0 for a level outside (0, 1).
func MinSamplesMedianCI(level float64) int {
	if !fraction(level) {
		return 0
	}
	n := 1
	for ; ; n++ { // ends by 60: float64 has no level closer to 1
		if _, _, _, ok := orderCI(n, 0.5, level); ok {
			return n
		}
	}
}

// QuantileCI returns an interval of the p-quantile whose ends are samples: from
// the l-th smallest to the u-th, where by the binomial distribution each side
// misses with at most (1-level)/2. It assumes independent samples and nothing
// about their distribution; equal samples only make it hold more often. It is
// false where too few samples were taken for the level, and for a p or level
// outside (0, 1).
func QuantileCI(sorted []float64, p, level float64) (Interval, bool) {
	sorted = trim(sorted)
	l, u, achieved, ok := orderCI(len(sorted), p, level)
	if !ok {
		return Interval{}, false
	}
	return Interval{Lo: sorted[l-1], Hi: sorted[u-1], Level: achieved}, true
}

// orderCI finds the ranks, counted from 1, of the order statistics that enclose
// the p-quantile of n samples. With B binomial(n, p), the rank l misses with
// P(B < l) and u with P(B >= u).
func orderCI(n int, p, level float64) (l, u int, achieved float64, ok bool) {
	if n < 1 || !fraction(p) || !fraction(level) {
		return 0, 0, 0, false
	}
	l, below := lowerRank(n, p, (1-level)/2)
	fromTop, above := lowerRank(n, 1-p, (1-level)/2)
	if l < 1 || fromTop < 1 {
		return 0, 0, 0, false
	}
	return l, n + 1 - fromTop, max(0, 1-below-above), true
}

// lowerRank returns the largest l with P(B < l) <= most for B binomial(n, p), and
// that probability; 0 if there is none.
func lowerRank(n int, p, most float64) (l int, missed float64) {
	most *= 1 + 1e-9 // a probability that is equal but for rounding will do
	// Terms further below the mean than this add less than 1e-30.
	mean := float64(n) * p
	k := max(0, int(mean-12*math.Sqrt(mean*(1-p))-30))
	term := binomial(n, k, p)
	for term == 0 && k < n { // smaller than a float64 can be
		k++
		term = binomial(n, k, p)
	}
	odds := p / (1 - p)
	for k <= n && missed+term <= most {
		missed += term
		term *= float64(n-k) / float64(k+1) * odds
		k++
	}
	return k, missed
}

// binomial is P(B = k) for B binomial(n, p).
func binomial(n, k int, p float64) float64 {
	choose := logGamma(n+1) - logGamma(k+1) - logGamma(n-k+1)
	return math.Exp(choose + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

func logGamma(x int) float64 {
	v, _ := math.Lgamma(float64(x))
	return v
}
