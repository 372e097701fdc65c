package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/devevents/bench/internal/show"
)

// rows are the report as metrics, in a section of their own.
func (t *TelemetryReport) rows() []MetricSummary {
	if t == nil || t.Readings == 0 {
		return nil
	}
	var list []Metric
	add := func(name, display, unit string, v Value) {
		list = append(list, Metric{Section: SectionTelemetry, Name: name, Display: display, Unit: unit, Value: v})
	}
	clock := func(name, display string, c *ClockRange) {
		if c != nil {
			add(name+"_min", display+", lowest", "MHz", Int(int64(c.Min)))
			add(name+"_median", display+", median", "MHz", Float(c.Median))
		}
	}
	number := func(name, display, unit string, v *float64) {
		if v != nil {
			add(name, display, unit, Float(*v))
		}
	}
	span := func(name, display string, d *time.Duration) {
		if d != nil {
			add(name, display, "ms", Float(float64(*d)/1e6))
		}
	}
	clock("sm_clock", "SM clock", t.SMClock)
	clock("memory_clock", "memory clock", t.MemoryClock)
	for _, r := range t.Reasons {
		add("reason_"+strings.ReplaceAll(r.Name, " ", "_"), "held back by "+r.Name, fmt.Sprintf("of %d readings", t.Readings), Int(int64(r.Readings)))
	}
	span("power_limited", "held back by power, in all", t.PowerLimited)
	span("heat_limited", "held back by heat, in all", t.HeatLimited)
	if t.Temperature != nil {
		add("temperature_first", "temperature, first", "C", Int(int64(t.Temperature.First)))
		add("temperature_last", "temperature, last", "C", Int(int64(t.Temperature.Last)))
	}
	number("power_mean", "power, mean", "W", t.Power)
	number("energy", "energy of the window", "J", t.Energy)
	number("energy_per_op", "energy an operation, gaps included", "J", t.EnergyPerOp)
	add("reading_cost", "cost of a reading, between samples", "us", Float(float64(t.Cost)/1e3/float64(t.Readings)))
	var rows table
	rows.add(0, list)
	return summaries(&rows)
}

// line is the report as one line of a table.
func (t *TelemetryReport) line() string {
	var parts []string
	clock := func(name string, c *ClockRange) {
		switch {
		case c == nil:
		case c.Min == c.Max:
			parts = append(parts, fmt.Sprintf("%s %d MHz", name, c.Min))
		default:
			parts = append(parts, fmt.Sprintf("%s %d to %d MHz", name, c.Min, c.Max))
		}
	}
	clock("SM", t.SMClock)
	clock("memory", t.MemoryClock)
	if t.Temperature != nil {
		parts = append(parts, fmt.Sprintf("%d to %d C", t.Temperature.First, t.Temperature.Last))
	}
	if t.Power != nil {
		parts = append(parts, show.Digits(*t.Power)+" W")
	}
	if t.Energy != nil {
		parts = append(parts, show.Digits(*t.Energy)+" J over "+t.Window.Round(time.Millisecond).String())
	}
	for _, r := range t.Reasons {
		parts = append(parts, fmt.Sprintf("%s in %d of %d readings", r.Name, r.Readings, t.Readings))
	}
	if t.Throttled != nil && t.Throttled.Count == 0 {
		parts = append(parts, "nothing held it back")
	}
	return strings.Join(parts, ", ")
}

// heldBack adds the notes that follow from the device's state.
func (c *caseRun) heldBack() {
	t := c.res.Telemetry
	if t == nil {
		return
	}
	if t.Failed > 0 {
		c.notes.add(fmt.Sprintf("%d of %d readings of telemetry failed: %s", t.Failed, t.Failed+t.Readings, t.Error))
	}
	if s := t.Throttled; s != nil && s.Count > 0 {
		c.notes.add(fmt.Sprintf("throttled: %d of %d samples lie beside a reading with %s; they count", s.Count, s.Of, throttledBy(c.samples)))
	}
	if n := len(c.res.Retried); n > 0 {
		c.notes.add(fmt.Sprintf("throttled: %d samples beside a reading with %s were taken again, in %d pauses; they are kept apart and do not count", n, throttledBy(c.res.Retried), t.Retries))
	}
}

// throttledBy lists the reasons of samples, each once.
func throttledBy(samples []RawSample) string {
	var names []string
	for _, s := range samples {
		for name := range strings.SplitSeq(s.Throttled, ", ") {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}
