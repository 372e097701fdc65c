package page

import (
	"html/template"
	"strconv"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/ladder"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

// picture is one figure of the page.
type picture struct {
	Title   string
	Caption string
	SVG     template.HTML // empty where there is nothing to draw: Caption says why
}

func pictures(d *document.Document) []picture {
	return []picture{
		fromSeries(d, "order", "event_deltas", picture{
			Title:   "Time between events",
			Caption: "Spans between events recorded one right after the other on one stream. Narrow and at multiples of the tick is good.",
		}, func(s probe.Series) (template.HTML, string) {
			return histogram("Histogram of spans between events", s.Values)
		}),
		fromSeries(d, "drift", "clock_residual", picture{
			Title:   "Clock residual",
			Caption: "How far the device's clock strays from a straight line against the host's, with the drift itself taken out.",
		}, func(s probe.Series) (template.HTML, string) {
			return lines("Clock residual against time", []curve{{points: zip(s.At, s.Values)}},
				axis{name: "seconds"}, axis{name: "residual", unit: "ns", zero: true}), ""
		}),
		fromSeries(d, "cost", "round_trips", picture{
			Title:   "Round trips",
			Caption: "Host time from recording an event on an idle stream until the wait for it has returned.",
		}, func(s probe.Series) (template.HTML, string) { return histogram("Histogram of round trips", s.Values) }),
		bandwidth(d),
	}
}

// fromSeries draws readings of a check, if it has them.
func fromSeries(d *document.Document, check, name string, p picture, draw func(probe.Series) (svg template.HTML, note string)) picture {
	for _, c := range d.Checks {
		for _, s := range c.Series {
			if c.Name == check && s.Name == name && len(s.Values) > 1 && (s.At == nil || len(s.At) == len(s.Values)) {
				var note string
				if p.SVG, note = draw(s); note != "" {
					p.Caption = note + " " + p.Caption
				}
				return p
			}
		}
	}
	p.Caption = "Not drawn: the check " + check + " has no readings in this document."
	return p
}

func zip(x, y []float64) (points []point) {
	for i := range y {
		at := float64(i)
		if x != nil {
			at = x[i]
		}
		points = append(points, point{at, y[i]})
	}
	return points
}

func bandwidth(d *document.Document) picture {
	p := picture{
		Title:   "Bandwidth against size",
		Caption: "Bytes written (fill), read (read) or both (copy) in a second of device time, at the median.",
	}
	var curves []curve
	for _, group := range []struct{ name, label string }{{ladder.Memset, "fill"}, {ladder.Read, "read"}, {ladder.Copy, "copy"}} {
		c := curve{name: group.label}
		if d.Bench != nil {
			for i := range d.Bench.Results {
				if r := &d.Bench.Results[i]; r.Group == group.name {
					c.points = append(c.points, rates(r)...)
				}
			}
		}
		if len(c.points) > 0 {
			curves = append(curves, c)
		}
	}
	if curves == nil {
		p.Caption = "Not drawn: no ladder of sizes was measured."
		return p
	}
	p.SVG = lines("Bandwidth against size", curves, axis{name: "size", unit: "B", log: true}, axis{name: "GiB/s", zero: true})
	return p
}

// rates is the point of a row of the ladder, if it was measured.
func rates(r *bench.Result) []point {
	for _, a := range r.Axes {
		n, err := strconv.ParseInt(a.Value, 10, 64)
		if err != nil || n <= 0 {
			continue
		}
		for _, rate := range r.Rates {
			if rate.Unit == "GiB/s" {
				return []point{{float64(n), rate.Value}}
			}
		}
	}
	return nil
}
