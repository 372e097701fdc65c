package bench

import (
	"time"

	"example.com/devevents/bench/internal/stats"
)

// Rule decides by samples alone whether a case has enough of them, from the smallest
// number of samples on. The budgets and the largest number hold whatever it says.
//
//	Add(sample float64)              // the next sample, in nanoseconds an operation
//	Done() (done bool, why string)   // why in words that follow "because"
type Rule = stats.Rule

// ByCount is the rule that n samples are enough.
func ByCount(n int) Rule { return stats.Count(n) }

// ByTotal is the rule that samples which add up to d, in nanoseconds an operation, are
// enough.
func ByTotal(d time.Duration) Rule { return stats.Total(d) }

// ByStdRel is the rule that NVBench calls stdrel: enough time has been measured, and the
// relative standard deviation is below noise or has settled.
func ByStdRel(noise float64, minTime time.Duration) Rule { return stats.StdRel(noise, minTime) }

// ByEntropy is the rule that NVBench calls entropy: the samples bring no new values.
func ByEntropy() Rule { return stats.Entropy() }

// stopper decides when the case has enough samples.
func (c *caseRun) stopper(chunk int64) *stats.Stopper {
	plan := stats.Plan{
		Target:     c.set.precision,
		Quantum:    float64(c.res.Calibration.Quantum) / float64(chunk),
		MinSamples: c.set.minSamples,
		MaxSamples: c.set.maxSamples,
		Device:     c.set.device,
		Wall:       c.set.wall,
	}
	if c.set.rule != nil {
		plan.Rule = c.set.rule()
	}
	return stats.NewStopper(plan)
}

func (c *caseRun) cost() stats.Spent {
	return stats.Spent{Device: c.sum, Wall: c.spent()}
}
