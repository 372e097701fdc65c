package bench

import (
	"math"
	"slices"
	"time"
)

const (
	quantumParts  = 400  // a reading is tried as so many steps at most
	quantumRefs   = 12   // of so many readings and differences
	quantumShare  = 0.9  // of the readings must be whole steps
	quantumSlack  = 0.1  // of a step that a reading may be off
	quantumOff    = 0.75 // ns that any reading may be off: it is rounded to one
	quantumFinest = 4.0  // ns; below it rounding leaves only whole nanoseconds to look for
)

// quantum is the step of the clock that readings come from: the longest of which nearly
// all readings are whole multiples, within rounding and a tenth of it. Those of spread must be
// so by themselves: they are of many lengths, where the others may be multiples of the
// pace at which events are taken. The smallest
// difference seen will not do: the readings of a clock of 24 MHz are 41 and 42 ns apart
// and differ by 1 ns where they are rounded. A nanosecond is the least there is to see.
func quantum(readings, spread []time.Duration) time.Duration {
	distinct := slices.Concat(readings, spread)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	values := make([]float64, 0, len(distinct))
	var steps []float64
	for i, r := range distinct {
		if r > 0 {
			values = append(values, float64(r))
		}
		if i > 0 && distinct[i-1] >= 0 {
			steps = append(steps, float64(r-distinct[i-1]))
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	refs := slices.Concat(values[:min(len(values), quantumRefs)], steps[:min(len(steps), quantumRefs)])
	best := 0.0
	for _, ref := range refs {
		for parts := 1; parts <= quantumParts && ref/float64(parts) >= max(best, quantumFinest); parts++ {
			if q := wholeSteps(values, ref, float64(parts)); q > best && whole(spread, q) {
				best = q
			}
		}
	}
	if best > 0 {
		return time.Duration(math.Round(best))
	}
	for q := time.Duration(3); q > 1; q-- {
		if len(values) > 0 && !slices.ContainsFunc(distinct, func(r time.Duration) bool { return r%q != 0 }) {
			return q
		}
	}
	return 1
}

// wholeSteps fits a step near ref/parts to values in ascending order, better with each of
// them, and gives 0 where they are no multiples of one.
func wholeSteps(values []float64, ref, parts float64) float64 {
	q := ref / parts
	products, squares := ref*parts, parts*parts
	fit, off := q, 0
	for _, v := range values {
		n := math.Round(v / fit)
		if math.Abs(v-n*fit) > max(quantumOff, 2*quantumSlack*fit) {
			if off++; float64(off) > (1-quantumShare)*float64(len(values)) {
				return 0
			}
			continue
		}
		products += n * v
		squares += n * n
		fit = products / squares
	}
	if math.Abs(fit-q) > quantumSlack*q || !whole(values, fit) {
		return 0
	}
	return fit
}

// whole reports whether nearly all readings are whole steps.
func whole[T time.Duration | float64](readings []T, step float64) bool {
	off := 0
	for _, r := range readings {
		if v := float64(r); math.Abs(v-math.Round(v/step)*step) > max(quantumOff, quantumSlack*step) {
			off++
		}
	}
	return float64(off) <= (1-quantumShare)*float64(len(readings))
}
