package stats

import (
	"cmp"
	"math"
	"slices"
)

// maxSerial bounds the correlation that [inflation] reckons with: beyond it so few
// independent samples are left that nothing can be said.
const maxSerial = 0.95

// minIndependent is how many samples there must be, once correlation is reckoned off, for
// a trend to be called.
const minIndependent = 6

// inflation is by what factor the variance of a rank trend grows because neighbours are
// alike: (1+phi)/(1-phi), with phi the lag-1 correlation of the ranks after their straight
// line is taken away, so that a trend does not count as correlation. Estimates from few
// samples come out too low, the more so for the line taken away; that is put back, by
// constants that simulations of 10 to 400 samples chose, so that an alarm stays as rare as
// driftP says up to a correlation of 0.7. Below 0 there is nothing to correct, and one or
// two jumps between stretches of equal samples are no correlation.
func inflation(samples []float64) float64 {
	n := len(samples)
	jumps := 0
	for i := 1; i < n; i++ {
		if samples[i] != samples[i-1] {
			jumps++
		}
	}
	if jumps <= 2 {
		return 1
	}
	ranks := ranksOf(samples)
	middle := float64(n-1) / 2
	mean := Mean(ranks)
	var up, wide float64
	for i, r := range ranks {
		t := float64(i) - middle
		up += t * (r - mean)
		wide += t * t
	}
	slope := up / wide
	for i := range ranks {
		ranks[i] -= mean + slope*(float64(i)-middle)
	}
	var products, all float64
	for i, r := range ranks {
		all += r * r
		if i > 0 {
			products += ranks[i-1] * r
		}
	}
	phi, ok := ratio(products, all)
	if !ok {
		return 1
	}
	size := float64(n)
	phi = max(0, min(maxSerial, (size*phi+6)/(size-6)))
	return (1 + phi) / (1 - phi)
}

// trendP is the probability of a rank trend whose probability among independent samples is
// p, among samples whose neighbours are as alike as these. It is 1 where so few independent
// ones are left in them that nothing can be said.
func trendP(p float64, samples []float64) float64 {
	k := inflation(samples)
	if k == 1 {
		return p
	}
	left := float64(len(samples)) / k
	if left < minIndependent {
		return 1
	}
	z := math.Sqrt2 * math.Erfcinv(max(p, math.SmallestNonzeroFloat64)) / math.Sqrt(k)
	return max(p, 2*studentCDF(-z, left-2))
}

// ranksOf gives each sample its rank from 1; equal ones share the middle of theirs.
func ranksOf(samples []float64) []float64 {
	order := make([]int, len(samples))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(samples[a], samples[b]) })
	ranks := make([]float64, len(samples))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && samples[order[j]] == samples[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}
