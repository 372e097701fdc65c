package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
)

// bars is how many bars a histogram has at most.
const bars = 40

// histogram draws how often readings in ns occur. The largest hundredth may lie far
// away; where it does it is counted in words, so that the rest can be seen.
func histogram(label string, values []float64) template.HTML {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	low, high := sorted[0], sorted[n-1]
	if cut := sorted[(n-1)*99/100]; high-low > 3*(cut-low) && cut > low {
		high = cut
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
	middle := sorted[(n-1)/2]
	fmt.Fprintf(c, `<path class="mark" d="M%.1f %dV%d"/>`, c.atX(middle), top, height-bottom)
	note := "median " + x.text(middle) + ", p95 " + x.text(sorted[(n-1)*95/100])
	if beyond := n - shown; beyond > 0 {
		note += fmt.Sprintf("; %d beyond, up to %s", beyond, x.text(sorted[n-1]))
	}
	fmt.Fprintf(c, `<text class="note" x="%d" y="%d">%s</text>`, left, height-6, note)
	return c.end()
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
