package stats

import (
	"math"
	"slices"
)

// exactRanks is up to how many differences the distribution of the signed ranks is
// enumerated; above, the normal one is as good.
const exactRanks = 60

// signedRank is Wilcoxon's test of the differences d against a shift: greater is the
// probability of signed ranks at least as far up as those of d-shift where each sign
// is a fair coin, less the same downwards. Ranks of equal sizes are shared, and
// differences of 0 are left out, both within the distribution as well.
func signedRank(d []float64, shift float64) (greater, less float64) {
	type ranked struct {
		size float64
		up   bool
	}
	var all []ranked
	for _, x := range d {
		if x != shift {
			all = append(all, ranked{math.Abs(x - shift), x > shift})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		switch {
		case a.size < b.size:
			return -1
		case a.size > b.size:
			return 1
		}
		return 0
	})
	doubled := make([]int, len(all)) // twice the rank: shared ones are halves
	up := 0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].size == all[i].size {
			j++
		}
		for k := i; k < j; k++ {
			doubled[k] = i + 1 + j
			if all[k].up {
				up += doubled[k]
			}
		}
		i = j
	}
	total, squares := 0, 0.0
	for _, r := range doubled {
		total += r
		squares += float64(r) * float64(r)
	}
	if len(all) == 0 {
		return 1, 1
	}
	if len(all) <= exactRanks {
		return atLeast(doubled, up), atLeast(doubled, total-up)
	}
	tail := func(above int) float64 {
		z := (float64(above) - float64(total)/2 - 1) / (math.Sqrt(squares) / 2) // 1: half a rank, for continuity
		return math.Erfc(z/math.Sqrt2) / 2
	}
	return tail(up), tail(total - up)
}

// atLeast is the probability that the ranks which fair coins choose add up to so much.
func atLeast(ranks []int, sum int) float64 {
	ways := rankSums(ranks)
	p := 0.0
	for _, w := range ways[min(sum, len(ways)):] {
		p += w
	}
	return min(1, p)
}

// rankSums is the distribution of the sum of those ranks that fair coins choose.
func rankSums(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([]float64, total+1)
	ways[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for s := reached; s >= 0; s-- {
			w := ways[s] / 2
			if s >= r {
				w += ways[s-r] / 2
			}
			ways[s] = w
		}
	}
	return ways
}

// walshInterval is Hodges and Lehmann's estimate of the centre of sorted differences,
// the median of the means of all pairs, and the interval of this level that belongs to
// signedRank; ok is false where there are too few differences for one.
func walshInterval(sorted []float64, level float64) (centre float64, ci Interval, ok bool) {
	n := len(sorted)
	pairs := n * (n + 1) / 2
	centre = (walsh(sorted, (pairs+1)/2) + walsh(sorted, pairs/2+1)) / 2
	out, missed := signedRankBound(n, (1-level)/2)
	if out < 0 {
		return centre, Interval{}, false
	}
	return centre, Interval{Lo: walsh(sorted, out+1), Hi: walsh(sorted, pairs-out), Level: 1 - 2*missed}, true
}

// signedRankBound is the largest sum of ranks of n differences that has at most the
// given probability of not being passed, and that probability; -1 if there is none.
func signedRankBound(n int, most float64) (bound int, missed float64) {
	if n > exactRanks {
		mean := float64(n) * float64(n+1) / 4
		sd := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
		bound = int(math.Floor(mean - 0.5 + normalQuantile(most)*sd))
		if bound < 0 {
			return -1, 0
		}
		return bound, math.Erfc((mean-0.5-float64(bound))/sd/math.Sqrt2) / 2
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	bound = -1
	for s, p := range rankSums(ranks) {
		if missed+p > most*(1+1e-9) {
			break
		}
		bound, missed = s, missed+p
	}
	return bound, missed
}

// walsh is the k-th smallest, from 1, of the means of all pairs of sorted numbers, each
// paired with itself as well. It looks for it among the float64s, so that memory stays
// that of the numbers.
func walsh(sorted []float64, k int) float64 {
	below := func(t float64) int { // pairs whose sum is at most t
		count, j := 0, len(sorted)-1
		for i := range sorted {
			for j >= i && sorted[i]+sorted[j] > t {
				j--
			}
			if j < i {
				break
			}
			count += j - i + 1
		}
		return count
	}
	lo, hi := ordinal(2*sorted[0]), ordinal(2*sorted[len(sorted)-1])
	for lo < hi {
		mid := lo + (hi-lo)/2
		if below(ordered(mid)) >= k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return ordered(lo) / 2
}

// ordinal numbers the float64s in ascending order; ordered is its inverse.
func ordinal(x float64) uint64 {
	bits := math.Float64bits(x)
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func ordered(n uint64) float64 {
	if n>>63 != 0 {
		return math.Float64frombits(n &^ (1 << 63))
	}
	return math.Float64frombits(^n)
}
