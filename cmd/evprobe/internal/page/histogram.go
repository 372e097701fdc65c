package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"
)

// bars is how many bars a histogram has at most.
const bars = 40

// histogram draws how often readings in ns occur. The largest hundredth may lie far
// away; where it does it is counted in the note, so that the rest can be seen.
func histogram(label string, values []float64) (svg template.HTML, note string) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	low, high := sorted[0], sorted[n-1]
	if cut := sorted[(n-1)*99/100]; high-low > 3*(cut-low) {
		high = cut
	}
	// Readings that are nearly the same are shown as that, and not as wide as the picture.
	middle := sorted[(n-1)/2]
	if room := (middle/5 - (high - low)) / 2; room > 0 {
		low, high = low-room, high+room
	}
	counts, step := count(sorted, low, high)
	x := axis{name: "span", unit: "ns"}.fit(low, low+step*float64(len(counts)))
	most := slices.Max(counts)
	c := newChart(label, x, axis{name: "readings", zero: true}.fit(float64(most)))
	shown := 0
	for i, k := range counts {
		shown += k
		if k == 0 {
			continue
		}
		x0, x1 := c.atX(low+float64(i)*step), c.atX(low+float64(i+1)*step)
		y := c.atY(float64(k))
		fmt.Fprintf(c, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x0, y, max(x1-x0-0.6, 0.8), height-bottom-y)
	}
	fmt.Fprintf(c, `<path class="mark" d="M%.1f %dV%d"/>`, c.atX(middle), top, height-bottom)
	note = "Median " + rough(middle) + ", p95 " + rough(sorted[(n-1)*95/100])
	if beyond := n - shown; beyond > 0 {
		note += fmt.Sprintf("; %d beyond, up to %s", beyond, rough(sorted[n-1]))
	}
	return c.end(), note + "."
}

// rough is a reading in ns with four digits, which is all that fits.
func rough(ns float64) string {
	if ns < 1 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(ns))-3)
	if unit < 1 {
		unit = 1
	}
	return time.Duration(math.Round(ns/unit) * unit).String()
}

// count sorts readings into bars of one width, which is whole where readings are.
func count(sorted []float64, low, high float64) (counts []int, step float64) {
	step = max(math.Ceil((high-low)/bars), 1)
	counts = make([]int, int((high-low)/step)+1)
	for _, v := range sorted {
		if i := int((v - low) / step); v >= low && v <= high && i < len(counts) {
			counts[i]++
		}
	}
	return counts, step
}
