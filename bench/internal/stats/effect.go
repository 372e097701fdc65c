package stats

import (
	"math"
	"slices"
)

// Question is what a comparison is asked.
type Question struct {
	// Threshold is how large a relative difference must be to count, 0.01 for 1 %. Ratios
	// between 1/(1+Threshold) and 1+Threshold are the same. Anything but a number from 0
	// to below 1 is [DefaultThreshold].
	Threshold float64
	// Level of the interval, and the complement of the chance of a false alarm, in
	// (0, 1). Anything else is [DefaultLevel].
	Level float64
	// Quantum is the clock's step in the unit of the samples, 0 where it is not known.
	Quantum float64
	// Look is the number of this look, from 1, where samples are taken until the answer
	// is clear, and 0 where their number was fixed before. The chance of a false alarm is
	// shared out among the looks, 1/(j(j+1)) of it to the j-th, so that all of them
	// together, however many, have no more than it.
	Look int
}

// DefaultThreshold is the smallest difference that counts where none is given.
const DefaultThreshold = 0.01

func (q Question) clean() Question {
	if !(q.Threshold >= 0 && q.Threshold < 1) {
		q.Threshold = DefaultThreshold
	}
	if !fraction(q.Level) {
		q.Level = DefaultLevel
	}
	q.Quantum = cleanQuantum(q.Quantum)
	return q
}

// looks is by how much this look must be surer than an only one.
func (q Question) looks() float64 {
	if q.Look < 1 {
		return 1
	}
	return float64(q.Look) * float64(q.Look+1)
}

// Effect is how the times of one thing relate to those of another. Make one with
// [CompareBlocks] or [CompareMedians] and turn it into words with [Judge].
type Effect struct {
	n, refused int
	log        float64 // of the ratio
	ci         *Interval
	se, df     float64 // standard error of log, and what it rests on
	slack      float64 // the clock's step, as a part of the time
	different  float64 // the p-value of "within the threshold"
	same       float64 // and of "beyond the threshold"
	paired     bool
	why        string // there is no answer, "" where there may be one
	longer     int    // the samples from which there would be
	question   Question
}

// CompareBlocks compares what was measured in turn: base[b] are the samples of one in
// block b, other[b] those of the other, as many of each and in an order that a coin
// decided block by block. A block counts as one difference, the mean of ln(other) less
// that of ln(base). If the two are the same, its sign is that of the coin, whatever
// neighbouring samples have in common: so the signed ranks of the differences are
// tested, and the ratio and its interval are those of Hodges and Lehmann. Blocks with
// an empty side, or a sample that has no logarithm, are refused.
func CompareBlocks(base, other [][]float64, q Question) Effect {
	q = q.clean()
	n := min(len(base), len(other))
	e := Effect{refused: max(len(base), len(other)) - n, different: 1, same: 1, paired: true, question: q}
	differences := make([]float64, 0, n)
	var all [2][]float64
	for b := range n {
		x, okX := meanLog(base[b])
		y, okY := meanLog(other[b])
		if !okX || !okY {
			e.refused++
			continue
		}
		differences = append(differences, y-x)
		all[0] = append(all[0], base[b]...)
		all[1] = append(all[1], other[b]...)
	}
	e.n = len(differences)
	if e.n == 0 {
		return e
	}
	slices.Sort(differences)
	for _, side := range all {
		sorted, _ := Sorted(side)
		if mostCommon(sorted) > 2.0/3 { // noise does not carry the mean across the steps
			e.slack = max(e.slack, step(q.Quantum, sorted))
		}
	}
	level := 1 - (1-q.Level)/q.looks()
	var ok bool
	var ci Interval
	e.log, ci, ok = walshInterval(differences, level)
	e.df = float64(e.n - 1)
	switch {
	case ok:
		e.widen(ci.Lo, ci.Hi)
		e.se = ci.HalfWidth() / studentQuantile((1+ci.Level)/2, e.df)
	case e.n > 1: // enough to plan with
		e.se = Stddev(differences) / math.Sqrt(float64(e.n))
	}
	e.ask(func(shift float64) (greater, less float64) { return signedRank(differences, shift) })
	return e
}

// meanLog is the mean of the logarithms, where all have one.
func meanLog(samples []float64) (float64, bool) {
	var total float64
	for _, x := range samples {
		if !usable(x) || x <= 0 {
			return 0, false
		}
		total += math.Log(x)
	}
	return total / float64(len(samples)), len(samples) > 0
}

// mostCommon is the share of the sample that is there most often.
func mostCommon(sorted []float64) float64 {
	most, run := 0, 0
	for i, x := range sorted {
		if i == 0 || x != sorted[i-1] {
			run = 0
		}
		run++
		most = max(most, run)
	}
	return float64(most) / float64(max(len(sorted), 1))
}

// step is the clock's step as a part of the median.
func step(quantum float64, sorted []float64) float64 {
	median := Median(sorted)
	share, _ := ratio(tick(quantum, median), median)
	return share
}

// widen sets the interval of the ratio from that of its logarithm.
func (e *Effect) widen(lo, hi float64) {
	e.ci = &Interval{
		Lo: bounded(math.Exp(lo - e.slack)), Hi: bounded(math.Exp(hi + e.slack)),
		Level: e.question.Level,
	}
}

// ask tests whether the logarithm of the ratio is within the threshold or beyond it.
// A difference that the clock's step could have made is none, and a sameness that its
// step could hide neither.
func (e *Effect) ask(test func(shift float64) (greater, less float64)) {
	threshold := math.Log1p(e.question.Threshold)
	above, _ := test(threshold + e.slack)
	_, below := test(-threshold - e.slack)
	e.different = min(1, 2*min(above, below)*e.question.looks())
	if threshold > e.slack {
		_, notAbove := test(threshold - e.slack)
		notBelow, _ := test(-threshold + e.slack)
		e.same = min(1, 2*max(notAbove, notBelow)*e.question.looks())
	}
}

// least is the number of differences from which there can be an answer at all.
func (e *Effect) least(family int) int {
	if !e.paired {
		return MinSamplesMedians
	}
	alpha := (1 - e.question.Level) / e.question.looks() / float64(max(family, 1))
	return int(math.Ceil(1 - math.Log2(alpha))) // all signs alike
}
