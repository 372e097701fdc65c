package probe

import (
	"math"
	"slices"
	"time"
)

// sample is a set of readings, sorted.
type sample []time.Duration

func newSample(readings []time.Duration) sample {
	s := slices.Clone(readings)
	slices.Sort(s)
	return s
}

// quantile is the smallest reading that is at least as large as the share q of
// all readings. The sample must not be empty.
func (s sample) quantile(q float64) time.Duration {
	i := int(math.Ceil(q*float64(len(s)))) - 1
	return s[min(max(i, 0), len(s)-1)]
}

func (s sample) median() time.Duration { return s.quantile(0.5) }

// gcd is the greatest common divisor of non-negative durations; 0 has every divisor.
func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
