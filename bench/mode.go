package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/devevents/bench/internal/show"
	"example.com/devevents/bench/internal/stats"
	"example.com/devevents/events"
)

// ColdCheck is what was measured to see whether cold is cold. Times are medians of one
// sample each.
type ColdCheck struct {
	Verified bool    `json:"verified"`    // nothing speaks against cold
	Cold     float64 `json:"cold_ns"`     // of the case's samples
	Hot      float64 `json:"hot_ns"`      // with nothing done about the cache, on the same buffers each time
	Thorough float64 `json:"thorough_ns"` // behind a fill of twice the size
	Implied  float64 `json:"implied"`     // bytes a second that the case would have moved
	Memory   float64 `json:"memory"`      // bytes a second that a fill moves
}

// Hot is a case measured in batches with a hot cache. Operations of a batch may overlap
// where the device lets them, so it is no latency.
type Hot struct {
	Batch   int64       `json:"batch"`   // operations of a sample
	Latency *Summary    `json:"latency"` // nanoseconds an operation
	Ratio   float64     `json:"ratio"`   // the case's median over this one; 0 where that is 0
	Samples []RawSample `json:"samples,omitempty"`
}

const (
	checkSamples = 9
	checkDropped = 3    // before them, which find the cache as the ones before left it
	checkSame    = 0.05 // of a median, within which two are the same
	checkAbove   = 1.05 // of memory's rate, above which bytes cannot have come from it
	hotBatches   = 30
	hotLargest   = 256 // operations of a batch: it has to fit behind a gate
)

// The kinds of rows, as they are in Result.Mode and in the configuration of benchstat.
const (
	kindHot    = "hot"
	kindCold   = "cold"
	kindRotate = "rotating"
	kindGraph  = "graph, "
)

// modeKind is the mode without what a check has found.
func (r *Result) modeKind() string {
	kind, _, _ := strings.Cut(r.Mode, " (")
	return kind
}

// judge says in which mode the samples were taken, and whether cold was cold.
func (c *caseRun) judge(chunk int64) {
	if c.st == nil || c.dead != nil || len(c.samples) == 0 {
		return
	}
	k := c.st.cacheState()
	prefix, mode := "", kindHot
	if c.graph > 0 {
		prefix = kindGraph
	}
	switch {
	case k.mode == ColdFlush:
		mode = kindCold + " (" + c.verdict(k, chunk) + ")"
	case k.mode == ColdRotate && k.refused:
		mode, c.res.ModeWhy = kindRotate+" (not cold)", k.why
	case k.mode == ColdRotate:
		mode = kindRotate + " (cold, " + c.verdict(k, chunk) + ")"
	}
	c.res.Mode = prefix + mode
	c.hotBatches()
}

// verdict is "verified", or "not verified" with the reason kept.
func (c *caseRun) verdict(k cachePlan, chunk int64) string {
	why := k.why
	switch {
	case why != "":
	case c.set.work.Bytes <= 0:
		why = "the case declares no Bytes to hold against memory's rate"
	case c.runner.overtime() || c.spent() >= c.set.wall:
		why = "no time was left to check it"
	default:
		var err error
		if why, err = c.checkCold(k, chunk); err != nil {
			why = "the check failed: " + oneLine(err)
		}
	}
	if why == "" {
		return "verified"
	}
	c.res.ModeWhy = why
	return "not verified"
}

// checkCold measures hot, and behind a thorough fill, and says what speaks against cold.
func (c *caseRun) checkCold(k cachePlan, chunk int64) (why string, err error) {
	check := &ColdCheck{Cold: medianOf(durations(c.samples))}
	if check.Memory, err = c.st.fillRate(); err != nil {
		return "", err
	}
	if check.Hot, err = c.heated(heatKept, chunk); err != nil {
		return "", err
	}
	if check.Thorough, err = c.heated(heatThorough, chunk); err != nil {
		return "", err
	}
	if check.Cold > 0 {
		check.Implied = float64(c.set.work.Bytes*chunk) / check.Cold * 1e9
	}
	c.res.Check = check
	tick := 2 * float64(c.res.Calibration.Quantum)
	further := func(a, b float64) bool { return a > b+max(checkSame*b, tick) }
	switch {
	case further(check.Thorough, check.Cold) && k.mode == ColdFlush:
		return fmt.Sprintf("the flush of %s is too small: behind a larger one the work takes %s and not %s", bytesText(k.flush), show.Nanoseconds(check.Thorough), show.Nanoseconds(check.Cold)), nil
	case further(check.Thorough, check.Cold):
		return fmt.Sprintf("the buffers do not keep it cold: behind a fill the work takes %s and not %s", show.Nanoseconds(check.Thorough), show.Nanoseconds(check.Cold)), nil
	case !further(check.Cold, check.Hot):
		return fmt.Sprintf("with a hot cache it takes %s, too: this work does not show what the cache holds", show.Nanoseconds(check.Hot)), nil
	case check.Implied > checkAbove*check.Memory:
		return fmt.Sprintf("%s GB/s were moved, and memory is filled with %s: they came from the cache, or Bytes is wrong", show.Digits(check.Implied/1e9), show.Digits(check.Memory/1e9)), nil
	}
	check.Verified = true
	return "", nil
}

// heated is the median of a few samples with another cache.
func (c *caseRun) heated(h heat, chunk int64) (median float64, err error) {
	if err = c.st.setHeat(h); err != nil {
		return 0, err
	}
	c.pinned = h == heatKept
	c.stage(stageTimed)
	defer func() {
		c.pinned = false
		err = errors.Join(err, c.st.setHeat(heatAsked))
	}()
	var taken []float64
	if c.graph > 0 {
		taken, err = c.replayed(checkDropped+checkSamples, chunk)
	} else {
		for i := 0; i < checkDropped+checkSamples && err == nil; i++ {
			var s Sample
			if s, err = c.one(Iters{N: chunk, Index: i}); err == nil {
				taken = append(taken, float64(s.Duration))
			}
		}
	}
	if err != nil {
		return 0, err
	}
	return medianOf(taken[checkDropped:]), nil
}

func durations(samples []RawSample) []float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		all[i] = float64(s.Duration)
	}
	return all
}

// hotBatches measures the case in batches, where that was asked for.
func (c *caseRun) hotBatches() {
	if c.set.hot <= 0 {
		return
	}
	median := medianOf(c.perOp)
	hot := &Hot{Batch: hotLargest}
	if median > 0 {
		hot.Batch = int64(min(max(float64(c.set.hot)/hotBatches/median, 2), hotLargest))
	}
	if err := c.batches(hot); err != nil {
		c.notes.add("hot batches failed: " + oneLine(err))
		return
	}
	if hot.Latency.Median > 0 {
		hot.Ratio = median / hot.Latency.Median
	}
	c.res.Hot = hot
}

func (c *caseRun) batches(hot *Hot) (err error) {
	if err = c.st.setHeat(heatKept); err != nil {
		return err
	}
	c.pinned = true
	c.stage(stageTimed)
	defer func() {
		c.pinned = false
		err = errors.Join(err, c.st.setHeat(heatAsked))
	}()
	var perOp []float64
	var sum time.Duration
	for i := -1; i < hotBatches || sum < c.set.hot; i++ {
		if len(perOp) > 0 && (c.runner.overtime() || c.spent() >= 2*c.set.wall) || len(perOp) >= c.set.maxSamples {
			break
		}
		s, err := c.one(Iters{N: hot.Batch, Index: i + 1})
		if err != nil {
			return err
		}
		if i < 0 {
			continue // finds the cache as it was
		}
		sum += s.Duration
		hot.Samples = append(hot.Samples, rawOf(s))
		perOp = append(perOp, float64(s.Duration)/float64(s.Iterations))
	}
	if len(perOp) == 0 {
		return fmt.Errorf("no time was left: %w", events.ErrExpired)
	}
	s := stats.Summarize(perOp, stats.Options{Quantum: float64(c.res.Calibration.Quantum) / float64(hot.Batch)})
	hot.Latency = &s
	return nil
}

// modeRows are the lines of a table about the mode.
func (r *Result) modeRows() (rows [][]string) {
	if r.ModeWhy != "" {
		rows = append(rows, []string{"mode", r.Mode + ": " + r.ModeWhy})
	}
	if k := r.Check; k != nil {
		rows = append(rows, []string{"cache", fmt.Sprintf("cold %s, hot %s, behind a larger fill %s; %s GB/s implied, memory is filled with %s",
			show.Nanoseconds(k.Cold), show.Nanoseconds(k.Hot), show.Nanoseconds(k.Thorough), show.Digits(k.Implied/1e9), show.Digits(k.Memory/1e9))})
	}
	if h := r.Hot; h != nil {
		spread := "n/a"
		if share, ok := h.Latency.RelativeHalfWidth(); ok {
			spread = show.Digits(100*share) + " %"
		}
		rows = append(rows, []string{"hot", fmt.Sprintf("%s an operation, ±%s, in %d batches of %d, whose operations may overlap; the case takes %s times as long",
			show.Nanoseconds(h.Latency.Median), spread, h.Latency.N, h.Batch, show.Digits(h.Ratio))})
	}
	return rows
}
