package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"example.com/devevents/cmd/evprobe/internal/ladder"
)

// A picture is this many points wide and high: about as wide as a phone, so that its
// text stays readable there.
const (
	width, height            = 420, 250
	left, right, top, bottom = 60, 12, 24, 42
)

type point struct{ x, y float64 }

// curve is a line, named where there are several.
type curve struct {
	name   string
	points []point
}

// axis is what an axis shows.
type axis struct {
	name string
	unit string // "ns" and "B" are spelled with larger units; empty is plain
	log  bool
	zero bool // 0 lies on it
	from float64
	to   float64
}

// chart draws in a frame.
type chart struct {
	strings.Builder
	x, y axis
}

func newChart(label string, x, y axis) *chart {
	c := &chart{x: x, y: y}
	fmt.Fprintf(c, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><title>%s</title>`, width, height, html.EscapeString(label), html.EscapeString(label))
	for _, t := range y.ticks(5) {
		at := c.atY(t)
		fmt.Fprintf(c, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, at, width-right, left-6, at+4, y.text(t))
	}
	end := math.Inf(-1)
	for _, t := range x.ticks(6) {
		at, text := c.atX(t), x.text(t)
		fmt.Fprintf(c, `<path class="grid" d="M%.1f %dV%d"/>`, at, top, height-bottom)
		// Labels do not run into each other, nor out of the picture.
		half := float64(len([]rune(text))) * 3.8
		middle := min(max(at, half), width-half)
		if middle-half > end {
			fmt.Fprintf(c, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, middle, height-bottom+15, text)
			end = middle + half + 4
		}
	}
	fmt.Fprintf(c, `<text class="name" x="%d" y="%d" text-anchor="end">%s</text>`, width-right, height-6, html.EscapeString(x.name))
	fmt.Fprintf(c, `<text class="name" x="%d" y="%d">%s</text>`, left, top-8, html.EscapeString(y.name))
	return c
}

func (c *chart) end() template.HTML {
	c.WriteString("</svg>")
	return template.HTML(c.String()) //nolint:gosec // numbers, and texts that were escaped
}

func (c *chart) atX(v float64) float64 { return left + c.x.part(v)*(width-left-right) }
func (c *chart) atY(v float64) float64 {
	return height - bottom - c.y.part(v)*(height-top-bottom)
}

// fit makes the axis hold all values.
func (a axis) fit(values ...float64) axis {
	a.from, a.to = math.Inf(1), math.Inf(-1)
	if a.zero {
		a.from, a.to = 0, 0
	}
	for _, v := range values {
		if a.holds(v) {
			a.from, a.to = min(a.from, v), max(a.to, v)
		}
	}
	switch {
	case a.from > a.to:
		a.from, a.to = 1, 2
	case a.from == a.to && a.log:
		a.from, a.to = a.from/2, a.to*2
	case a.from == a.to:
		room := max(math.Abs(a.from)/10, 1)
		if a.zero && a.from == 0 {
			a.from = -room
		} else {
			a.from -= room
		}
		a.to += room
	case a.zero && a.from == 0:
		a.to *= 1.08
	case a.zero:
		room := (a.to - a.from) * 0.08
		a.from, a.to = a.from-room, a.to+room
	}
	return a
}

// holds tells whether a value can lie on the axis at all.
func (a axis) holds(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0)
}

// part is where on the axis a value lies, from 0 to 1.
func (a axis) part(v float64) float64 {
	if a.log {
		return math.Log(v/a.from) / math.Log(a.to/a.from)
	}
	return (v - a.from) / (a.to - a.from)
}

// ticks are round values on the axis, about n of them.
func (a axis) ticks(n int) (all []float64) {
	if a.log {
		step := 1.0
		for math.Log(a.to/a.from)/math.Log(4)/step > float64(n) {
			step++
		}
		for v := a.from; v <= a.to*1.001; v *= math.Pow(4, step) {
			all = append(all, v)
		}
		return all
	}
	least := 0.0
	if a.unit == "ns" {
		least = 1 // the labels are whole
	}
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/float64(n))))
	for i := 0; (a.to-a.from)/step > float64(n) || step < least; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	for i := math.Ceil(a.from / step); i*step <= a.to; i++ {
		all = append(all, i*step)
	}
	return all
}

func (a axis) text(v float64) string {
	switch a.unit {
	case "ns":
		if v == 0 {
			return "0"
		}
		return time.Duration(math.Round(v)).String()
	case "B":
		return ladder.Size(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
