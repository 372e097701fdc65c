package bench

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"example.com/devevents/bench/internal/show"
)

// WriteTable writes the report for a person to read, aligned.
func (r *Report) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	r.Provenance.print(out)
	for _, g := range r.groups() {
		fmt.Fprintf(out, "\n%s\n", joinFilled([]string{g[0].Group, g[0].Label}, ": "))
		printGroup(out, g)
		printComparisons(out, r.comparisonsOf(g))
	}
	return out.Flush()
}

// groups are runs of results of one group and backend.
func (r *Report) groups() [][]Result {
	var groups [][]Result
	from := 0
	for i := range r.Results {
		if i > from && (r.Results[i].Group != r.Results[from].Group || r.Results[i].Label != r.Results[from].Label) {
			groups, from = append(groups, r.Results[from:i]), i
		}
	}
	if from < len(r.Results) {
		groups = append(groups, r.Results[from:])
	}
	return groups
}

// print is a line or two on where the numbers are from.
func (p *Provenance) print(w io.Writer) {
	parts := []string{p.Time.Format("2006-01-02 15:04:05 UTC"), p.Host, p.OS + "/" + p.Arch, p.CPU, p.Go}
	if p.Revision != "" {
		rev := p.Revision[:min(12, len(p.Revision))]
		if p.Dirty {
			rev += " with changes"
		}
		parts = append(parts, rev)
	}
	fmt.Fprintln(w, joinFilled(parts, ", "))
	for _, d := range p.Devices {
		fmt.Fprintln(w, joinFilled([]string{d.Backend + ": " + d.Name, d.UUID, d.PCIBusID, d.Driver, d.Runtime}, ", "))
	}
	if p.Shuffle != nil {
		fmt.Fprintf(w, "shuffled: -shuffle %d gives the same order\n", *p.Shuffle)
	}
	for _, why := range p.NoTelemetry {
		fmt.Fprintln(w, "no telemetry:", why)
	}
	for _, k := range sortedKeys(p.Notes) {
		fmt.Fprintf(w, "%s: %s\n", k, p.Notes[k])
	}
}

func joinFilled(parts []string, sep string) string {
	var filled []string
	for _, p := range parts {
		if p != "" {
			filled = append(filled, p)
		}
	}
	return strings.Join(filled, sep)
}

// columns of the line of a case.
var caseHeader = []string{"case", "latency/op", "±95%", "rate", "floor/op", "leaked", "n", "stopped"}

// caseCells are the cells of the line of a case.
func caseCells(r *Result) []string {
	name := strings.TrimPrefix(r.Name(), r.Group+"/")
	if r.Status == Skipped {
		return []string{name, "skipped: " + r.Skip}
	}
	if r.Mode != "" {
		name += " [" + r.Mode + "]"
	}
	if r.Profile && r.Status == OK {
		return []string{name, "profiled", "", "", "", "", strconv.Itoa(len(r.Samples)), r.Stop}
	}
	if r.Latency == nil {
		return []string{name, "no result", "", "", "", "", "0", r.Stop}
	}
	latency := show.Nanoseconds(r.Latency.Median)
	if r.Latency.Median == 0 {
		latency = "< " + show.Nanoseconds(max(r.Latency.Quantum, 1e-3))
	}
	spread := "n/a"
	if share, ok := r.Latency.RelativeHalfWidth(); ok {
		spread = show.Digits(100*share) + " %"
	}
	floor, leaked := "n/a", "n/a"
	if r.FloorNS > 0 {
		floor = show.Nanoseconds(r.FloorNS)
	}
	if r.Leak != nil {
		leaked = fmt.Sprintf("%d/%d", r.Leak.Count, r.Leak.Of)
	} else if !r.OnDevice {
		leaked = "-"
	}
	return []string{name, latency, spread, r.rateText(), floor, leaked, strconv.Itoa(r.Latency.N), r.Stop}
}

// rateText is the first rate that says more than operations a second.
func (r *Result) rateText() string {
	if len(r.Rates) == 0 {
		return "n/a"
	}
	rate := r.Rates[0]
	if len(r.Rates) > 1 {
		rate = r.Rates[1]
	}
	text := show.Digits(rate.Value) + " " + rate.Unit
	if rate.Peak != nil {
		text += fmt.Sprintf(" (%.0f %% of peak)", 100**rate.Peak)
	}
	return text
}

// printGroup prints the lines of a group's cases, each with what belongs to it below.
func printGroup(w io.Writer, results []Result) {
	lines := [][]string{caseHeader}
	var below [][]string
	for i := range results {
		lines = append(lines, caseCells(&results[i]))
		for _, row := range detailRows(&results[i]) {
			below = append(below, row[:len(row)-1]) // the last cell may be long
		}
	}
	widths := show.Widths(lines)
	inner := show.Widths(below)
	show.Row(w, "  ", lines[0], widths)
	for i := range results {
		show.Row(w, "  ", lines[i+1], widths)
		for _, row := range detailRows(&results[i]) {
			show.Row(w, "      ", row, inner)
		}
		for _, note := range results[i].Notes {
			fmt.Fprintln(w, "      !", note)
		}
	}
}

// detailRows are the rows below a case: clocks, metrics, diagnostics, errors.
func detailRows(r *Result) [][]string {
	var rows [][]string
	if c := r.Clocks; c != nil && c.Device != nil {
		rows = append(rows, []string{"clocks", fmt.Sprintf("enqueue %s, device %s, complete %s, idle %s",
			show.Nanoseconds(float64(c.Enqueue)), show.Nanoseconds(float64(*c.Device)), show.Nanoseconds(float64(c.Complete)), show.Nanoseconds(float64(*c.Idle)))})
	}
	if r.Gate != "" && r.Latency != nil {
		rows = append(rows, []string{"gate", r.Gate + "; cold: " + r.Cold + "; escaped work: " + escapeText(r)})
	}
	rows = append(rows, r.modeRows()...)
	if c := r.CoolDown; c != nil {
		rows = append(rows, []string{"cool-down", fmt.Sprintf("%v, ended by %s", round(c.Took), c.Why)})
	}
	for i := range r.Metrics {
		if r.Metrics[i].Section != SectionTelemetry { // one line says it
			rows = append(rows, metricRow(&r.Metrics[i], ""))
		}
	}
	if t := r.Telemetry; t != nil && t.Readings > 0 {
		rows = append(rows, []string{"device", t.line()})
	}
	for _, p := range r.Diagnostics {
		if p.Error != "" {
			rows = append(rows, []string{p.Name, "failed: " + p.Error})
		}
		for i := range p.Metrics {
			rows = append(rows, metricRow(&p.Metrics[i], p.Name+": "))
		}
	}
	for _, e := range r.Errors {
		text := e.Text
		if e.Code != nil {
			text = fmt.Sprintf("%s=%d: %s", e.Name, *e.Code, text)
		}
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Count)
		}
		rows = append(rows, []string{e.Title, text})
	}
	return rows
}

func escapeText(r *Result) string {
	switch {
	case r.Escape != nil:
		return fmt.Sprintf("%d of %d", r.Escape.Count, r.Escape.Of)
	case strings.HasPrefix(r.Mode, kindGraph):
		return "none while it was captured"
	}
	return "not looked for, the backend cannot wait for a whole device"
}

// metricRow is name, value and unit of a metric.
func metricRow(m *MetricSummary, prefix string) []string {
	name := m.Display
	if name == "" {
		name = m.Name
	}
	if m.Section != "" {
		name = m.Section + ": " + name
	}
	value := "n/a"
	switch {
	case m.Integer != nil:
		value = strconv.FormatInt(*m.Integer, 10)
	case m.Summary != nil:
		value = number(m.Summary.Median, m.Format)
	}
	if m.Unit != "" {
		value += " " + m.Unit
	}
	if m.Dropped > 0 {
		value += fmt.Sprintf(" (%d values were not finite)", m.Dropped)
	}
	return []string{prefix + name, value}
}
