package stats

import (
	"fmt"
	"math"
	"slices"
)

// Change is the answer of a comparison in a word.
type Change string

// The answers, of what is compared with a base.
const (
	Same    Change = "same"   // the difference is below the threshold
	Faster  Change = "faster" // beyond the threshold
	Slower  Change = "slower"
	Unclear Change = "unclear" // the samples do not tell
)

// ComparePower is the probability with which a comparison finds the effect that
// [Finding] calls the smallest, and with which the number of samples that would settle
// one does.
const ComparePower = 0.95

// sureOfNoise is how probable it is that noise is no larger than planning takes it for,
// which knows it from samples alone.
const sureOfNoise = 0.9

// Projections beyond so many are no plan.
const neverSettled = 1_000_000

// Finding is an [Effect] with what follows from it among the others of its family.
type Finding struct {
	Change Change `json:"verdict"`
	Why    string `json:"why"` // in a sentence
	// Ratio is the time over that of the base: 1.02 is 2 % slower. 0 where nothing could be compared.
	Ratio float64 `json:"ratio"`
	// CI is the interval of Ratio, of this comparison alone; absent where there are too few samples.
	CI        *Interval `json:"ci,omitempty"`
	Threshold float64   `json:"threshold"`
	// Smallest is the smallest relative slowdown that would have been called one with a
	// probability of at least 95 %; absent where there are too few samples to say.
	Smallest *float64 `json:"smallest_effect,omitempty"`
	// Needed is how many differences would settle an unclear answer, in the unit of N, if
	// the ratio is what it seems, or the least that can tell where Why says so; absent where
	// no number would, and where all is clear.
	Needed *int `json:"needed,omitempty"`
	// N is what it rests on: blocks, or samples of the shorter run.
	N       int `json:"n"`
	Refused int `json:"refused"` // blocks or samples without a logarithm, or without a partner
	// PDifferent and PSame are the p-values, after the correction of Holm for the family,
	// of a difference within the threshold and of one beyond it. The answer needs one
	// of them to be at most 1 less the level.
	PDifferent float64 `json:"p_different"`
	PSame      float64 `json:"p_same"`
	Family     int     `json:"family"` // how many comparisons were corrected for
}

// Judge answers a family of comparisons together. The chance that even one of those
// which are the same is called faster or slower is at most 1 less the level, and so is
// the chance that one which differs is called the same. The family has so many members,
// or as many as there are effects; of those that are not here nothing is clear.
func Judge(effects []Effect, family int) []Finding {
	family = max(family, len(effects))
	different, same := slices.Repeat([]float64{1}, family), slices.Repeat([]float64{1}, family)
	for i := range effects {
		different[i], same[i] = effects[i].different, effects[i].same
	}
	different, same = Holm(different), Holm(same)
	findings := make([]Finding, len(effects))
	for i := range effects {
		findings[i] = effects[i].judge(different[i], same[i], family)
	}
	return findings
}

func (e *Effect) judge(different, same float64, family int) Finding {
	f := Finding{
		Change: Unclear, Threshold: e.question.Threshold, N: e.n, Refused: e.refused,
		PDifferent: different, PSame: same, Family: family, CI: e.ci,
	}
	if e.n == 0 {
		f.Why = "nothing to compare: no samples above 0 on both sides"
		return f
	}
	f.Ratio = bounded(math.Exp(e.log))
	f.Smallest = e.smallest(family)
	alpha := 1 - e.question.Level
	percent := digits(100 * e.question.Threshold)
	switch {
	case different <= alpha && e.log > 0:
		f.Change, f.Why = Slower, "slower by more than "+percent+" %"
	case different <= alpha:
		f.Change, f.Why = Faster, "faster by more than "+percent+" %"
	case same <= alpha:
		f.Change, f.Why = Same, "no difference of "+percent+" % or more"
	default:
		f.Needed, f.Why = e.needed(family)
	}
	return f
}

// margin is the distance that the differences tell apart with the power, where one
// comparison of a family has its share of false alarms. It shrinks with the root of
// their number.
func (e *Effect) margin(family int, power float64) float64 {
	alpha := (1 - e.question.Level) / e.question.looks() / float64(max(family, 1))
	noise := e.se * math.Sqrt(e.df/chiSquareQuantile(1-sureOfNoise, e.df))
	return (studentQuantile(1-alpha/2, e.df) + normalQuantile(power)) * noise
}

func (e *Effect) smallest(family int) *float64 {
	if e.ci == nil {
		return nil
	}
	change := math.Expm1(math.Log1p(e.question.Threshold) + e.slack + e.margin(family, ComparePower))
	return said(change, change <= MaxMagnitude)
}

// needed projects how many differences would make the answer clear.
func (e *Effect) needed(family int) (*int, string) {
	threshold := math.Log1p(e.question.Threshold)
	size := math.Abs(e.log)
	distance, power := size-threshold-e.slack, ComparePower
	if size < threshold {
		distance, power = threshold-size-e.slack, (1+ComparePower)/2 // two ends to stay within
	}
	switch {
	case e.why != "":
		needed := max(e.longer, e.n+1)
		return &needed, e.why + ", so the number is the least that can tell"
	case e.df < 1 || e.se == 0 && e.ci == nil:
		needed := max(e.least(family), e.n+1)
		return &needed, "too few samples to plan with, so the number is the least that can tell"
	case distance <= 0 && e.slack > threshold/4:
		return nil, "the clock's step is " + digits(100*e.slack) + " % of the time: longer samples would tell, more of them would not"
	case distance <= 0:
		return nil, "the ratio lies on the threshold, as far as can be seen"
	}
	n := float64(e.n) * math.Pow(e.margin(family, power)/distance, 2)
	if !(n < neverSettled) {
		return nil, "the ratio lies so near the threshold that no number of samples would do"
	}
	needed := max(int(math.Ceil(n)), e.least(family), e.n+1)
	why := "the interval reaches across the threshold"
	if min(e.different, e.same) <= 1-e.question.Level {
		why = fmt.Sprintf("clear by itself, not as one of %d comparisons", family)
	}
	return &needed, why
}

// digits is a percentage for a sentence.
func digits(v float64) string { return fmt.Sprintf("%.3g", v) }
