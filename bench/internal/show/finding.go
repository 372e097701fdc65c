package show

import (
	"fmt"
	"math"

	"example.com/devevents/bench/internal/stats"
)

// FindingHeader is the heading of FindingCells.
var FindingHeader = []string{"verdict", "ratio", "95 % interval", "would see"}

// FindingCells are the cells of what a comparison has found: the verdict, the ratio, its
// interval, and the smallest effect that would have been seen.
func FindingCells(f *stats.Finding) []string {
	ratio, interval, smallest := "n/a", "n/a", "n/a"
	if f.Ratio > 0 {
		ratio = Ratio(f.Ratio)
	}
	if f.CI != nil {
		interval = Ratio(f.CI.Lo) + " .. " + Ratio(f.CI.Hi)
	}
	if f.Smallest != nil {
		smallest = Percent(*f.Smallest)
	}
	return []string{string(f.Change), ratio, interval, smallest}
}

// FindingNote says of an unclear finding why it is so and what would settle it, each
// difference being so many samples of either side; it is "" for the others.
func FindingNote(f *stats.Finding, samplesEach int) string {
	switch {
	case f.Change != stats.Unclear:
		return ""
	case f.Needed == nil:
		return "unclear: " + f.Why
	}
	return fmt.Sprintf("unclear: %s; %d samples of each would settle it, if the ratio is what it seems", f.Why, *f.Needed*samplesEach)
}

// Ratio is a ratio to a hundredth of a percent.
func Ratio(r float64) string {
	if r >= 100 || r < 0.01 {
		return Digits(r)
	}
	return fmt.Sprintf("%.4f", r)
}

// Percent is a share in percent.
func Percent(share float64) string {
	percent := min(share, math.MaxFloat64/100) * 100
	if percent < 1e6 {
		percent = math.Round(percent*1e3) / 1e3
	}
	return Digits(percent) + " %"
}
