package page

import (
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"
)

// lines draws curves in one frame.
func lines(label string, curves []curve, x, y axis) template.HTML {
	var xs, ys []float64
	for i, c := range curves {
		curves[i].points = slices.DeleteFunc(slices.Clone(c.points), func(p point) bool { return !x.holds(p.x) || !y.holds(p.y) })
		for _, p := range curves[i].points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	c := newChart(label, x.fit(xs...), y.fit(ys...))
	for i, curve := range curves {
		var path strings.Builder
		for j, p := range curve.points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], c.atX(p.x), c.atY(p.y))
		}
		fmt.Fprintf(c, `<path class="line c%d" d="%s"/>`, i, &path)
		for _, p := range curve.points {
			fmt.Fprintf(c, `<circle class="dot c%d" cx="%.1f" cy="%.1f" r="2.5"/>`, i, c.atX(p.x), c.atY(p.y))
		}
		if curve.name != "" {
			at := left + 80*(i+1)
			fmt.Fprintf(c, `<rect class="key c%d" x="%d" y="%d" width="10" height="10"/><text x="%d" y="%d">%s</text>`, i, at, top-17, at+14, top-8, html.EscapeString(curve.name))
		}
	}
	return c.end()
}
