package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"example.com/devevents/profiler"
)

// summary is what came out. Times are in microseconds.
type summary struct {
	Date    string `json:"date"`
	Device  string `json:"device"`
	Driver  string `json:"driver"`
	Runtime string `json:"runtime"`
	Load    bool   `json:"load"`

	Windows    int     `json:"windows"`
	Unplaced   int     `json:"unplaced"` // dropped, failed or without an answer of the timer around them
	Settled    int     `json:"settled"`
	Answers    int     `json:"timer_answers"`
	AnswerP50  float64 `json:"timer_answer_width_p50"`
	TruthP50   float64 `json:"truth_width_p50"`
	TruthP99   float64 `json:"truth_width_p99"`
	Violations int     `json:"violations"`   // bounds that do not meet the truth
	BeforeCall int     `json:"before_call"`  // starts placed before the call that opened the window
	EmptyPair  float64 `json:"empty_pair"`   // between two events with nothing between them
	Ours       method  `json:"ours"`         // of the profiler
	Rivals     []named `json:"rivals"`       // each the start of the same windows
	BoundP50   float64 `json:"bound_p50"`    // of the profiler
	BoundP99   float64 `json:"bound_p99"`    //
	BoundMax   float64 `json:"bound_max"`    //
	BestWidth  float64 `json:"best_bracket"` // of its comparisons of the clocks
	Drift      float64 `json:"drift_ppm"`
	DriftOff   float64 `json:"drift_uncertainty_ppm"`
	Anchors    uint64  `json:"anchors"`
	Rejected   uint64  `json:"anchors_rejected"`
}

// method is how far placements lie from the truth: from its nearer end, 0 inside of it,
// and from its middle.
type method struct {
	P50       float64 `json:"error_p50"`
	P99       float64 `json:"error_p99"`
	Max       float64 `json:"error_max"`
	MiddleP50 float64 `json:"to_the_middle_p50"`
	MiddleP99 float64 `json:"to_the_middle_p99"`
}

type named struct {
	Name string `json:"name"`
	method
}

func micro(d time.Duration) float64 { return float64(d) / 1e3 }

func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)-1))]
}

const (
	// linksAround is how many answers of the timer on each side limit a moment.
	linksAround = 4
	// strays is by how much the clocks' rate may differ from its mean over the run.
	strays = 10e-6
)

// truthOf is when the device's timer showed a value, on the host's clock.
func (x *experiment) truthOf(timer uint64, slope float64) (interval, bool) {
	i, _ := slices.BinarySearchFunc(x.links, timer, func(l link, t uint64) int { return cmp.Compare(l.timer, t) })
	if i == 0 || i == len(x.links) {
		return interval{}, false
	}
	from, to := time.Duration(-1<<62), time.Duration(1<<62)
	for _, l := range x.links[max(0, i-linksAround):min(len(x.links), i+linksAround)] {
		apart := float64(int64(timer - l.timer))
		moved := time.Duration(apart * slope)
		slack := time.Duration(strays*max(apart, -apart)) + 32 // and the timer's step
		from = max(from, l.before+moved-slack)
		to = min(to, l.after+moved+slack)
	}
	return interval{from, to}, from <= to
}

// distance is how far outside of an interval a moment lies.
func (i interval) distance(at time.Duration) time.Duration {
	return max(i.from-at, at-i.to, 0)
}

func (i interval) middle() time.Duration { return i.from + (i.to-i.from)/2 }

// judge compares.
func (x *experiment) judge() *summary {
	s := &summary{Answers: len(x.links), EmptyPair: micro(x.empty)}
	first, last := x.links[0], x.links[len(x.links)-1]
	slope := float64(last.before+last.after-first.before-first.after) / 2 / float64(last.timer-first.timer)
	var answers, truths, bounds []time.Duration
	var errs, mids [1 + rivalCount][]time.Duration
	for _, l := range x.links {
		answers = append(answers, l.after-l.before)
	}
	kept := x.windows[:0]
	for _, w := range x.windows {
		span, placed := x.spans[w.id]
		kernel, known := x.truthOf(w.first, slope)
		if !placed || !known {
			s.Unplaced++
			continue
		}
		// The event lies before the kernel's first reading by some part of what the two
		// events read more than the kernel, and by no more than all of it.
		gap := max(0, span.Duration-time.Duration(w.last-w.first))
		w.truth, w.span = interval{kernel.from - gap, kernel.to}, span
		kept = append(kept, w)
		at := span.Start.Sub(x.prof.Origin())
		truths, bounds = append(truths, w.truth.to-w.truth.from), append(bounds, span.Bound)
		if w.truth.distance(at) > span.Bound {
			s.Violations++
		}
		if at < w.opened {
			s.BeforeCall++
		}
		if span.Quality == profiler.QualitySettled {
			s.Settled++
		}
		note := func(i int, at time.Duration) {
			errs[i] = append(errs[i], w.truth.distance(at))
			mids[i] = append(mids[i], (at - w.truth.middle()).Abs())
		}
		note(0, at)
		for i, r := range w.rival {
			if r != 0 {
				note(1+i, r)
			}
		}
	}
	x.windows = kept
	of := func(i int) method {
		return method{micro(quantile(errs[i], 0.5)), micro(quantile(errs[i], 0.99)), micro(quantile(errs[i], 1)), micro(quantile(mids[i], 0.5)), micro(quantile(mids[i], 0.99))}
	}
	s.Windows, s.AnswerP50 = len(kept), micro(median(answers))
	s.TruthP50, s.TruthP99 = micro(median(truths)), micro(quantile(truths, 0.99))
	s.BoundP50, s.BoundP99, s.BoundMax = micro(median(bounds)), micro(quantile(bounds, 0.99)), micro(quantile(bounds, 1))
	s.Ours = of(0)
	for i, name := range rivalNames {
		s.Rivals = append(s.Rivals, named{name, of(1 + i)})
	}
	c := x.prof.ClockStats()
	s.BestWidth, s.Drift, s.DriftOff, s.Anchors, s.Rejected = micro(c.BestBracket), c.DriftPPM, c.DriftUncertaintyPPM, c.Anchors, c.Rejected
	return s
}

func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "%s, driver %s, runtime %s, %s; load %t\n", s.Device, s.Driver, s.Runtime, s.Date, s.Load)
	fmt.Fprintf(w, "%d windows (%d settled, %d not compared); %d answers of the timer, %.2f us wide; truth %.2f us wide (p50; p99 %.2f)\n",
		s.Windows, s.Settled, s.Unplaced, s.Answers, s.AnswerP50, s.TruthP50, s.TruthP99)
	fmt.Fprintf(w, "bound p50 %.2f p99 %.2f max %.2f us; %d violations; %d starts before their call; drift %.2f +- %.2f ppm; %d anchors, %d rejected, best %.2f us\n",
		s.BoundP50, s.BoundP99, s.BoundMax, s.Violations, s.BeforeCall, s.Drift, s.DriftOff, s.Anchors, s.Rejected, s.BestWidth)
	fmt.Fprintf(w, "%-34s %10s %10s %10s %14s %14s   us\n", "error", "p50", "p99", "max", "to middle p50", "p99")
	for _, m := range append([]named{{"profiler", s.Ours}}, s.Rivals...) {
		fmt.Fprintf(w, "%-34s %10.2f %10.2f %10.2f %14.2f %14.2f\n", m.Name, m.P50, m.P99, m.Max, m.MiddleP50, m.MiddleP99)
	}
}

// write keeps every window, and the pictures.
func (x *experiment) write(dir string) (err error) {
	f, err := os.Create(filepath.Join(dir, "windows.csv.gz"))
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	c := csv.NewWriter(z)
	row := []string{"truth_from_ns", "truth_to_ns", "start_ns", "bound_ns", "duration_ns", "quality"}
	for i := range rivalCount {
		row = append(row, "rival_"+strconv.Itoa(i)+"_ns")
	}
	err = c.Write(row)
	for _, w := range x.windows {
		if err != nil {
			break
		}
		row = row[:0]
		// Relative to the middle of the truth, but for that itself.
		mid := w.truth.middle()
		at := w.span.Start.Sub(x.prof.Origin())
		for _, d := range []time.Duration{w.truth.from, w.truth.to, at - mid, w.span.Bound, w.span.Duration} {
			row = append(row, strconv.FormatInt(int64(d), 10))
		}
		row = append(row, w.span.Quality.String())
		for _, r := range w.rival {
			text := ""
			if r != 0 {
				text = strconv.FormatInt(int64(r-mid), 10)
			}
			row = append(row, text)
		}
		err = c.Write(row)
	}
	c.Flush()
	for _, step := range []func() error{c.Error, z.Close, f.Close} {
		if failed := step(); err == nil {
			err = failed
		}
	}
	if err != nil {
		return err
	}
	if err := x.drawErrors(filepath.Join(dir, "errors.svg")); err != nil {
		return err
	}
	return x.drawDistributions(filepath.Join(dir, "distributions.svg"))
}
