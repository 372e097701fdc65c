package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// MinSamplesMedians is how many samples each of two runs needs for [CompareMedians].
const MinSamplesMedians = 20

// How many batches a run is cut into. Batches are independent only if they are much
// longer than samples resemble each other. In simulated runs of the same, with a correlation
// of 0.9 and 1000 samples, batches half as long as these let more false alarms through among
// the answers than the level allows.
const (
	leastBatches = 6
	mostBatches  = 30
	batchReaches = 8
)

// CompareMedians compares the medians of two runs that were taken one after the other,
// each in the order in which it was measured. Samples of a run resemble their
// neighbours, which makes a median less certain than their number says. By how much is
// estimated from batches of consecutive samples: the shares of them that lie above the
// median scatter more than those of independent samples would. The ranks of the
// median's interval are moved out by that, the intervals of the two are joined by their
// distances from the medians (Zou and Donner 2008), and Student's distribution answers
// for the small number of batches. No distribution of the samples is assumed.
//
// Batches are longer the further samples resemble each other. Where fewer than six would
// be long enough, nothing is called different or the same, and the number of samples that
// would do is named. What it cannot see is what is the same for all samples of one run and
// not for the other (the memory's layout, the clocks of the day), and in runs of fewer than
// about 200 samples how alike they are.
func CompareMedians(base, other []float64, q Question) Effect {
	q = q.clean()
	a, refusedA := newRun(base)
	b, refusedB := newRun(other)
	e := Effect{n: min(a.n(), b.n()), refused: refusedA + refusedB, different: 1, same: 1, question: q}
	if e.n == 0 {
		return e
	}
	e.log = b.median - a.median
	e.slack = max(step(q.Quantum, a.times), step(q.Quantum, b.times))
	if e.n < MinSamplesMedians {
		return e
	}
	if min(a.batches, b.batches) < leastBatches {
		e.longer = max(a.longEnough(), b.longEnough())
		e.why = fmt.Sprintf("samples resemble each other over %.2g and %.2g neighbours, too many for runs of %d and %d", a.reach, b.reach, a.n(), b.n())
		return e
	}
	join := func(z float64) (lo, hi float64) {
		loA, hiA := a.interval(z)
		loB, hiB := b.interval(z)
		return e.log - math.Hypot(b.median-loB, hiA-a.median), e.log + math.Hypot(hiB-b.median, a.median-loA)
	}
	one := func(r run) float64 {
		lo, hi := r.interval(1)
		return (hi - lo) / 2
	}
	va, vb := one(a)*one(a), one(b)*one(b)
	e.df = float64(min(a.batches, b.batches) - 1)
	if va+vb > 0 { // Welch and Satterthwaite
		e.df = (va + vb) * (va + vb) / (va*va/float64(a.batches-1) + vb*vb/float64(b.batches-1))
	}
	e.se = math.Sqrt(va + vb)
	z := studentQuantile(1-(1-q.Level)/q.looks()/2, e.df)
	if lo, hi := join(z); !math.IsInf(hi-lo, 0) {
		e.widen(lo, hi)
	}
	e.ask(func(shift float64) (greater, less float64) {
		greater, less = 1, 1
		if e.log > shift {
			greater = studentCDF(-farthest(func(z float64) bool { lo, _ := join(z); return lo > shift }), e.df)
		}
		if e.log < shift {
			less = studentCDF(-farthest(func(z float64) bool { _, hi := join(z); return hi < shift }), e.df)
		}
		return greater, less
	})
	return e
}

// farthest is the largest z, up to 40, for which apart holds, where it holds for all
// smaller ones.
func farthest(apart func(z float64) bool) float64 {
	lo, hi := 0.0, 40.0
	for range 60 {
		if mid := (lo + hi) / 2; apart(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// run is what is known of the median of one run's samples.
type run struct {
	times   []float64 // ascending
	logs    []float64 // of times
	median  float64   // of logs
	batches int
	spread  float64 // standard deviation of the number of samples above the true median
	alike   float64 // correlation of neighbours, of their sides of the median
	reach   float64 // over how many neighbours samples resemble each other
}

func (r run) n() int { return len(r.times) }

// newRun leaves out samples that have no logarithm.
func newRun(samples []float64) (run, int) {
	kept := slices.DeleteFunc(slices.Clone(samples), func(x float64) bool { return !usable(x) || x <= 0 })
	var r run
	r.times, _ = Sorted(kept)
	for _, x := range r.times {
		r.logs = append(r.logs, math.Log(x))
	}
	r.median = Median(r.logs)
	n := len(kept)
	middle := Median(r.times)
	sides := make([]float64, n)
	for i, x := range kept {
		sides[i] = float64(cmp.Compare(x, middle)) / 2
	}
	r.alike = alike(sides)
	r.reach = reach(r.alike)
	r.batches = min(max(int(math.Sqrt(float64(n)/2)), 10), mostBatches, max(n, 1))
	if r.reach > 0 {
		r.batches = max(1, min(r.batches, int(float64(n)/(batchReaches*r.reach))))
	}
	each := make([]float64, r.batches) // above the median, less what half of them would be
	for b := range each {
		each[b] = sum(sides[b*n/r.batches : (b+1)*n/r.batches])
	}
	// Independent samples scatter by n/4; those that repel each other are taken for such.
	batched := squares(each, Mean(each)) / float64(max(r.batches-1, 1)) * float64(r.batches)
	r.spread = math.Sqrt(max(float64(n)/4, batched))
	return r, len(samples) - n
}

// interval is that of the median of the logarithms, z standard deviations to each side:
// between ranks, linearly, and without an end where the samples do not reach so far.
func (r run) interval(z float64) (lo, hi float64) {
	last := float64(r.n() - 1)
	from, to := last/2-z*r.spread, last/2+z*r.spread
	if from < 0 || to > last {
		return math.Inf(-1), math.Inf(1)
	}
	return Quantile(r.logs, from/last), Quantile(r.logs, to/last)
}

// longEnough is how many samples have batches enough in nearly all cases: where samples
// resemble each other further than in this run, by chance, and seem to do so further still
// in the longer one.
func (r run) longEnough() int {
	further := func(lag1, n float64) float64 { // by chance, one time in twenty
		return min(lag1+1.645*math.Sqrt(max(1-lag1*lag1, 0)/n), 1)
	}
	worst := further(min(r.alike, 1), float64(r.n()))
	n := float64(r.n())
	for range 20 { // settles: a longer run is less uncertain
		n = min(math.Ceil(leastBatches*batchReaches*reach(further(worst, n))), neverSettled)
	}
	return int(n)
}

// alike is the correlation of neighbouring samples' sides of the median. Few samples show
// less of it than there is (Kendall 1954).
func alike(sides []float64) float64 {
	lag1, ok := Lag1(sides)
	if !ok {
		return 0
	}
	return lag1 + (1+3*lag1)/float64(len(sides))
}

// reach is over how many neighbours samples resemble each other whose sides of the median
// have this correlation: the distance at which the correlation of a process of first order,
// of normal samples, falls to 1/e.
func reach(lag1 float64) float64 {
	correlation := math.Sin(min(lag1, 1) * math.Pi / 2)
	if correlation <= 0 {
		return 0
	}
	return -1 / math.Log(min(correlation, 1-1e-9))
}
