package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// A picture is 900 by 420 points, with a logarithmic axis of microseconds.
const (
	pictureWidth, pictureHeight = 900, 420
	left, right, top, bottom    = 70, 230, 30, 50
)

var colours = [...]string{"#0b6e4f", "#c1292e", "#7a5c99", "#d68c1f", "#1f6fb2"}

type picture struct {
	strings.Builder
	x0, x1, y0, y1 float64 // what the axes begin and end at
	logX, logY     bool
}

func newPicture(title, x, y string, x0, x1, y0, y1 float64, logX, logY bool) *picture {
	p := &picture{x0: x0, x1: x1, y0: y0, y1: y1, logX: logX, logY: logY}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", pictureWidth, pictureHeight)
	fmt.Fprintf(p, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="18" font-size="14">%s</text>`+"\n", left, title)
	fmt.Fprintf(p, `<text x="%d" y="%d">%s</text><text transform="translate(16 %d) rotate(-90)">%s</text>`+"\n",
		(left+pictureWidth-right)/2-40, pictureHeight-10, x, pictureHeight-bottom-60, y)
	for _, t := range ticks(x0, x1, logX) {
		at := p.atX(t)
		fmt.Fprintf(p, `<path d="M%.1f %d V%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", at, top, pictureHeight-bottom, at, pictureHeight-bottom+16, t)
	}
	for _, t := range ticks(y0, y1, logY) {
		at := p.atY(t)
		fmt.Fprintf(p, `<path d="M%d %.1f H%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", left, at, pictureWidth-right, left-6, at+4, t)
	}
	return p
}

func ticks(from, to float64, logarithmic bool) (all []float64) {
	if logarithmic {
		for t := from; t <= to*1.001; t *= 10 {
			all = append(all, t)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10((to-from)/2)))
	for (to-from)/step > 8 {
		step *= 2
	}
	for t := math.Ceil(from/step) * step; t <= to; t += step {
		all = append(all, math.Round(t*1e6)/1e6)
	}
	return all
}

func part(v, from, to float64, logarithmic bool) float64 {
	if logarithmic {
		v, from, to = math.Log(max(v, from)), math.Log(from), math.Log(to)
	}
	return min(max((v-from)/(to-from), 0), 1)
}

func (p *picture) atX(v float64) float64 {
	return left + part(v, p.x0, p.x1, p.logX)*(pictureWidth-right-left)
}

func (p *picture) atY(v float64) float64 {
	return pictureHeight - bottom - part(v, p.y0, p.y1, p.logY)*(pictureHeight-bottom-top)
}

func (p *picture) key(i int, name string) {
	fmt.Fprintf(p, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
		pictureWidth-right+12, top+20*i, colours[i], pictureWidth-right+30, top+20*i+10, name)
}

func (p *picture) save(path string) error {
	p.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(p.String()), 0o644)
}

// methods are the profiler and its rivals, with how far each put a window from the
// middle of the truth.
func (x *experiment) methods() (names []string, far [1 + rivalCount]func(w *window) (float64, bool)) {
	names = append([]string{"profiler"}, rivalNames[:]...)
	far[0] = func(w *window) (float64, bool) {
		return micro((w.span.Start.Sub(x.prof.Origin()) - w.truth.middle()).Abs()), true
	}
	for i := range rivalCount {
		far[1+i] = func(w *window) (float64, bool) {
			return micro((w.rival[i] - w.truth.middle()).Abs()), w.rival[i] != 0
		}
	}
	return names, far
}

// drawErrors puts every method's distance from the truth against time.
func (x *experiment) drawErrors(path string) error {
	names, far := x.methods()
	end := 1.0
	if n := len(x.windows); n > 0 {
		end = x.windows[n-1].truth.to.Seconds()
	}
	p := newPicture("Distance from the middle of the truth, against time", "seconds", "microseconds", 0, end, 0.01, 1000, false, true)
	every := max(1, len(x.windows)/3000)
	for i, name := range names {
		p.key(i, name)
		fmt.Fprintf(p, `<g fill="%s" fill-opacity="0.5">`+"\n", colours[i])
		for j := 0; j < len(x.windows); j += every {
			if d, known := far[i](x.windows[j]); known {
				fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="1"/>`, p.atX(x.windows[j].truth.to.Seconds()), p.atY(d))
			}
		}
		p.WriteString("</g>\n")
	}
	return p.save(path)
}

// drawDistributions puts the part of windows against the distance that they lie within,
// and that their bounds are.
func (x *experiment) drawDistributions(path string) error {
	names, far := x.methods()
	p := newPicture("Part of the windows that lie so near to the middle of the truth, and the profiler's bounds", "microseconds", "part of the windows", 0.01, 1000, 0, 1, true, false)
	curve := func(i int, name string, all []float64) {
		p.key(i, name)
		slices.Sort(all)
		fmt.Fprintf(p, `<path fill="none" stroke="%s" stroke-width="2" d="`, colours[i])
		for j := range 200 {
			q := float64(j) / 199
			command := "L"
			if j == 0 {
				command = "M"
			}
			if len(all) > 0 {
				fmt.Fprintf(p, "%s%.1f %.1f", command, p.atX(all[int(q*float64(len(all)-1))]), p.atY(q))
			}
		}
		p.WriteString("\"/>\n")
	}
	for i, name := range names {
		var all []float64
		for _, w := range x.windows {
			if d, known := far[i](w); known {
				all = append(all, d)
			}
		}
		curve(i, name, all)
	}
	var bounds []float64
	for _, w := range x.windows {
		bounds = append(bounds, micro(w.span.Bound))
	}
	curve(len(names), "the profiler's bounds", bounds)
	return p.save(path)
}
