package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/devevents/bench/internal/show"
	"example.com/devevents/bench/internal/stats"
	"example.com/devevents/events"
)

// notes are what a reader must know, each once, with a count where it came again.
type notes struct {
	order  []string
	counts map[string]int
}

func (n *notes) add(text string) {
	if n.counts == nil {
		n.counts = map[string]int{}
	}
	if n.counts[text] == 0 {
		n.order = append(n.order, text)
	}
	n.counts[text]++
}

// once adds a note without a count.
func (n *notes) once(text string) {
	if n.counts[text] == 0 {
		n.add(text)
	}
}

func (n *notes) list() []string {
	var out []string
	for _, text := range n.order {
		if c := n.counts[text]; c > 1 {
			text = fmt.Sprintf("%s (%d times)", text, c)
		}
		out = append(out, text)
	}
	return out
}

// maxErrorRows is how many different failures a case shows.
const maxErrorRows = 8

// errorRows counts failures by what they say.
type errorRows struct {
	rows []ErrorRow
	rest int
}

// explainer is a backend that knows the numbers of its vendor's failures.
type explainer interface {
	explain(err error) (title, name string, code int64, ok bool)
}

// oneLine is the first of joined errors, which caused the others, and how many came
// with it. What is no number is spelled out: programs look for the usual words to find
// broken reports.
func oneLine(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if more {
		first += fmt.Sprintf(" (and %d more after it)", 1+strings.Count(rest, "\n"))
	}
	return strings.NewReplacer("NaN", "not-a-number", "+Inf", "plus infinity", "-Inf", "minus infinity").Replace(first)
}

func (e *errorRows) add(b Backend, err error) {
	row := ErrorRow{Title: "error", Text: oneLine(err), Count: 1}
	if x, ok := b.(explainer); ok {
		if title, name, code, ok := x.explain(err); ok {
			row.Title, row.Name, row.Code = title, name, &code
		}
	}
	for i := range e.rows {
		if e.rows[i].Title == row.Title && e.rows[i].Text == row.Text {
			e.rows[i].Count++
			return
		}
	}
	if len(e.rows) == maxErrorRows {
		e.rest++
		return
	}
	e.rows = append(e.rows, row)
}

// explain implements explainer: the number that the vendor's library returned.
func (d *DeviceEvents[E, S]) explain(err error) (title, name string, code int64, ok bool) {
	var driver *events.DriverError
	if !errors.As(err, &driver) {
		return "", "", 0, false
	}
	return d.vendor + " error", d.prefix + "_error_code", int64(driver.Code), true
}

// finish makes the result from what was kept.
func (c *caseRun) finish() {
	r := c.res
	r.Samples = c.samples
	r.Errors = c.errs.rows
	if c.errs.rest > 0 {
		c.notes.add(fmt.Sprintf("%d more failures with other words", c.errs.rest))
	}
	r.Metrics = append(summaries(&c.metrics), r.Telemetry.rows()...)
	for k, n := range c.metrics.clashes {
		c.notes.add(fmt.Sprintf("function and backend both give %s; the backend's values count, %d of the function's are left out", k.name, n))
	}
	switch {
	case r.Status == Skipped:
	case c.dead != nil || len(c.samples) == 0:
		r.Status = Failed
		if r.Stop == "" {
			r.Stop = "failed"
		}
	default:
		r.Status = OK
	}
	if len(c.samples) > 0 && !r.Profile {
		c.describe()
	}
	c.heldBack()
	r.Notes = append(r.Notes, c.notes.list()...)
}

// describe computes what the samples say.
func (c *caseRun) describe() {
	r := c.res
	r.Latency = summarize(c.perOp, c.resolution())
	iterations := make([]float64, len(c.samples))
	for i, s := range c.samples {
		iterations[i] = float64(s.Iterations)
	}
	slices.Sort(iterations)
	r.FloorNS = float64(r.Calibration.Floor()) / iterations[len(iterations)/2]
	r.Clocks = c.clocks()
	c.rates()
	r.Leak = share(c.samples, func(s RawSample) string { return s.Leaked })
	r.Escape = share(c.samples, func(s RawSample) string { return s.Escaped })
	if r.OnDevice && r.Leak == nil && c.graph == 0 { // a graph is on the device as a whole when it begins
		c.notes.add("whether launching lies in the interval is not known: the backend cannot query")
	}
	c.warn()
}

// share counts the samples with a fault among those that were looked at.
func share(samples []RawSample, answer func(RawSample) string) *Share {
	var sh Share
	for _, s := range samples {
		switch answer(s) {
		case Yes.String():
			sh.Count++
			sh.Of++
		case No.String():
			sh.Of++
		}
	}
	if sh.Of == 0 {
		return nil
	}
	return &sh
}

// warn adds the notes that follow from the numbers.
func (c *caseRun) warn() {
	r := c.res
	median := r.Latency.Median
	switch {
	case median == 0:
		least := "the clock's step, which is not known"
		if step := c.resolution(); step > 0 {
			least = show.Nanoseconds(step)
		}
		c.notes.add("below resolution: the median reads 0; it is less than " + least)
	case r.FloorNS > 0 && median < 10*r.FloorNS:
		c.notes.add("near the floor: " + show.Nanoseconds(median) + " of which up to " + show.Nanoseconds(r.FloorNS) + " is what the instrument reads with nothing in it; it is not subtracted")
	}
	if r.Leak != nil && r.Leak.Count > 0 {
		c.notes.add(fmt.Sprintf("launch latency may lie in %d of %d samples: the device was ahead of the host", r.Leak.Count, r.Leak.Of))
	}
	// Work that escapes does so in every sample; a host that was held up looks like it once.
	if r.Escape != nil && r.Escape.Of > 1 && 2*r.Escape.Count > r.Escape.Of {
		c.notes.add(fmt.Sprintf("escaped: after %d of %d samples looked at the device was still busy; work seems to run on another stream than the measured one", r.Escape.Count, r.Escape.Of))
	}
	for _, rate := range r.Rates {
		if rate.Peak != nil && *rate.Peak > 1.05 {
			c.notes.add(fmt.Sprintf("impossible? %s %s is %.0f %% of the declared peak: cached, escaped or wrongly declared work", show.Digits(rate.Value), rate.Unit, 100**rate.Peak))
		}
	}
	c.shape()
}

// shape adds what is odd about the samples as a set.
func (c *caseRun) shape() {
	l := c.res.Latency
	if l.SlowFirst {
		c.notes.add("the first sample took " + show.Nanoseconds(c.perOp[0]) + ", far from the others: something was not warm")
	}
	if l.Drift.Verdict == stats.DriftUp || l.Drift.Verdict == stats.DriftDown {
		c.notes.add(fmt.Sprintf("drift: the last third differs from the first by %s%s", sign(l.Drift.Change), show.Nanoseconds(math.Abs(l.Drift.Change))))
	}
	if l.Modes.Two {
		c.notes.add("two modes: one number does not describe these samples; look at the raw ones")
	}
	if l.Correlated {
		c.notes.add(fmt.Sprintf("neighbouring samples are correlated (lag-1 %.2f): the interval is too narrow", *l.Lag1))
	}
}

func sign(v float64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}

// resolution is the quantum over an operation's share of a sample, 0 if it is not known.
func (c *caseRun) resolution() float64 {
	q := c.res.Calibration.Quantum
	return float64(q) / float64(max(c.samples[0].Iterations, 1))
}

func (c *caseRun) clocks() *Clocks {
	median := func(of func(RawSample) time.Duration) time.Duration {
		all := make([]time.Duration, len(c.samples))
		for i, s := range c.samples {
			all[i] = of(s)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	clocks := &Clocks{
		Enqueue:  median(func(s RawSample) time.Duration { return s.Enqueue }),
		Complete: median(func(s RawSample) time.Duration { return s.Complete }),
	}
	if c.res.OnDevice {
		device := median(func(s RawSample) time.Duration { return s.Duration })
		idle := median(func(s RawSample) time.Duration { return max(s.Complete-s.Duration, 0) })
		clocks.Device, clocks.Idle = &device, &idle
	}
	return clocks
}

// rates are throughputs at the median; a median of 0 has none.
func (c *caseRun) rates() {
	median := c.res.Latency.Median
	if median <= 0 {
		return
	}
	add := func(unit string, each, scale, peak float64) {
		if each <= 0 {
			return
		}
		rate := Rate{Unit: unit, Value: each / median * 1e9 / scale}
		if peak > 0 {
			share := rate.Value / (peak / scale)
			rate.Peak = &share
		}
		c.res.Rates = append(c.res.Rates, rate)
	}
	work, peak := c.set.work, c.set.peak
	add("op/s", 1, 1, 0)
	add("GiB/s", float64(work.Bytes), 1<<30, float64(peak.Bytes))
	add("TFLOP/s", work.Flops, 1e12, peak.Flops)
	add("item/s", float64(work.Items), 1, float64(peak.Items))
}

// Summary describes a set of samples. Every number in it is finite; what the samples
// do not allow to say is absent.
type Summary = stats.Summary

func summarize(samples []float64, quantum float64) *Summary {
	s := stats.Summarize(samples, stats.Options{Quantum: quantum})
	return &s
}

// summaries are the rows of a table.
func summaries(t *table) []MetricSummary {
	var rows []MetricSummary
	for i := range t.columns {
		col := &t.columns[i]
		row := MetricSummary{
			Section: col.Section, Name: col.Name, Unit: col.Unit,
			Display: col.Display, Format: col.Format, Dropped: col.rejected,
		}
		if len(col.values) > 0 {
			if all, same := col.integers(); all && same {
				v := col.values[0].i
				row.Integer = &v
			}
			values := make([]float64, len(col.values))
			for i, v := range col.values {
				values[i] = v.Float64()
			}
			row.Summary = summarize(values, 0)
		}
		rows = append(rows, row)
	}
	return rows
}
