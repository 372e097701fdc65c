package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"example.com/devevents/bench/internal/show"
	"example.com/devevents/bench/internal/stats"
	"example.com/devevents/internal/wholefile"
)

// WriteMarkdown writes the report as tables of markdown.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	var about strings.Builder
	r.Provenance.print(&about)
	for line := range strings.Lines(about.String()) {
		fmt.Fprintf(out, "* %s\n", show.Cell(strings.TrimSpace(line)))
	}
	for _, g := range r.groups() {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n", show.Cell(g[0].Group), show.Cell(g[0].Label))
		show.MarkdownRow(out, caseHeader)
		show.MarkdownRow(out, slices.Repeat([]string{"---"}, len(caseHeader)))
		for i := range g {
			row := caseCells(&g[i])
			show.MarkdownRow(out, append(row, slices.Repeat([]string{""}, len(caseHeader)-len(row))...))
		}
		for i := range g {
			rows := detailRows(&g[i])
			if len(rows)+len(g[i].Notes) == 0 {
				continue
			}
			fmt.Fprintf(out, "\n%s\n\n", show.Cell(strings.TrimPrefix(g[i].Name(), g[i].Group+"/")))
			for _, row := range rows {
				fmt.Fprintf(out, "* %s: %s\n", show.Cell(row[0]), show.Cell(row[1]))
			}
			for _, note := range g[i].Notes {
				fmt.Fprintf(out, "* **%s**\n", show.Cell(note))
			}
		}
		markdownComparisons(out, r.comparisonsOf(g))
	}
	return out.Flush()
}

var csvHeader = []string{"group", "case", "axes", "status", "section", "name", "unit", "value", "low", "high", "smallest", "largest", "n", "text"}

// WriteCSV writes one line for each number: latency, rates, clocks, floor, metrics,
// and one for each error, skip and note.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	for i := range r.Results {
		if err := out.WriteAll(r.Results[i].csv()); err != nil {
			return err
		}
	}
	for i := range r.Comparisons {
		if err := out.WriteAll(csvComparison(&r.Comparisons[i])); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (r *Result) csv() [][]string {
	var axes []string
	for _, a := range r.Axes {
		axes = append(axes, a.Name+"="+a.Value)
	}
	var lines [][]string
	line := func(section, name, unit string, rest ...string) {
		row := append([]string{r.Group, r.Case, strings.Join(axes, " "), string(r.Status), section, name, unit}, rest...)
		lines = append(lines, append(row, slices.Repeat([]string{""}, len(csvHeader)-len(row))...))
	}
	summary := func(section, name, unit string, s *Summary) {
		if s == nil {
			return
		}
		low, high := "", ""
		if s.MedianCI != nil {
			low, high = show.Exact(s.MedianCI.Lo), show.Exact(s.MedianCI.Hi)
		}
		line(section, name, unit, show.Exact(s.Median), low, high, show.Exact(s.Min), show.Exact(s.Max), strconv.Itoa(s.N))
	}
	text := func(section, name, text string) { line(section, name, "", "", "", "", "", "", "", text) }
	if r.Status == Skipped {
		text("case", "skipped", r.Skip)
		return lines
	}
	text("case", "stopped", r.Stop)
	summary("case", "latency", "ns/op", r.Latency)
	if r.Mode != "" {
		text("case", "mode", joinFilled([]string{r.Mode, r.ModeWhy}, ": "))
	}
	if r.Hot != nil {
		summary("hot", "latency", "ns/op", r.Hot.Latency)
	}
	for _, rate := range r.Rates {
		line("case", "rate", rate.Unit, show.Exact(rate.Value))
	}
	if c := r.Clocks; c != nil {
		line("case", "enqueue", "ns", show.Exact(float64(c.Enqueue)))
		if c.Device != nil {
			line("case", "device", "ns", show.Exact(float64(*c.Device)))
			line("case", "idle", "ns", show.Exact(float64(*c.Idle)))
		}
		line("case", "complete", "ns", show.Exact(float64(c.Complete)))
		line("case", "floor", "ns/op", show.Exact(r.FloorNS))
	}
	if r.Leak != nil {
		line("case", "leaked", "samples", strconv.Itoa(r.Leak.Count), "", "", "", "", strconv.Itoa(r.Leak.Of))
	}
	for _, m := range r.Metrics {
		summary(m.Section, m.Name, m.Unit, m.Summary)
	}
	for _, p := range r.Diagnostics {
		for _, m := range p.Metrics {
			summary("diagnostic "+p.Name, m.Name, m.Unit, m.Summary)
		}
		if p.Error != "" {
			text("diagnostic "+p.Name, "error", p.Error)
		}
	}
	for _, e := range r.Errors {
		value := ""
		if e.Code != nil {
			value = strconv.FormatInt(*e.Code, 10)
		}
		line("error", joinFilled([]string{e.Title, e.Name}, " "), "", value, "", "", "", "", strconv.Itoa(e.Count), e.Text)
	}
	for _, n := range r.Notes {
		text("case", "note", n)
	}
	return lines
}

// WriteJSON writes everything, raw samples in the order in which they were taken
// among it. docs/schema/bench.schema.json describes the layout.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// benchstatLines is how many lines a case has at most in the format of benchstat.
const benchstatLines = 20

// WriteBenchstat writes lines that benchstat reads. Each line is a sample, or the
// median of a block of consecutive samples where there are more than 20. Device time
// is device-ns/op, and host time until completion is beside it. A device's rows have their
// mode as configuration, so that benchstat sets none beside another. Cases without a result
// have no line.
func (r *Report) WriteBenchstat(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := &r.Provenance
	fmt.Fprintf(out, "goos: %s\ngoarch: %s\n", p.OS, p.Arch)
	for _, kv := range [][2]string{{"pkg", p.Module}, {"cpu", p.CPU}} {
		if kv[1] != "" {
			fmt.Fprintf(out, "%s: %s\n", kv[0], kv[1])
		}
	}
	for i, d := range p.Devices {
		key := "device"
		if i > 0 {
			key += strconv.Itoa(i)
		}
		fmt.Fprintf(out, "%s: %s\n", key, joinFilled([]string{d.Backend, d.Name, d.UUID}, " "))
	}
	for _, unit := range []string{"ns/op better=lower", "device-ns/op better=lower", "complete-ns/op better=lower", "B/s better=higher", "flop/s better=higher", "item/s better=higher"} {
		fmt.Fprintln(out, "Unit", unit)
	}
	mode := ""
	for i := range r.Results {
		res := &r.Results[i]
		if res.Latency == nil || res.Status != OK {
			continue
		}
		name := "Benchmark" + benchName(res.Name())
		lines := func(kind, name string, samples []RawSample) {
			if kind != mode {
				fmt.Fprintf(out, "mode: %s\n", kind)
				mode = kind
			}
			for _, block := range blocks(len(samples), benchstatLines) {
				res.benchLine(out, name, samples[block[0]:block[1]])
			}
		}
		lines(res.modeKind(), name, res.Samples)
		if res.Hot != nil {
			lines(kindHot, name+"/hot", res.Hot.Samples)
		}
	}
	return out.Flush()
}

// benchName is a name without spaces that begins with a capital letter, as the
// format asks for.
func benchName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	first := []rune(name)
	first[0] = unicode.ToUpper(first[0])
	return string(first)
}

// blocks cuts n consecutive samples into at most k ranges of about one length.
func blocks(n, k int) [][2]int {
	k = min(n, k)
	var list [][2]int
	for i := range k {
		list = append(list, [2]int{i * n / k, (i + 1) * n / k})
	}
	return list
}

func (r *Result) benchLine(w io.Writer, name string, samples []RawSample) {
	var ops int64
	each := make([]float64, len(samples))
	complete := make([]float64, len(samples))
	for i, s := range samples {
		ops += s.Iterations
		each[i] = float64(s.Duration) / float64(s.Iterations)
		complete[i] = float64(s.Complete) / float64(s.Iterations)
	}
	ns := medianOf(each)
	unit := "ns/op"
	if r.OnDevice {
		unit = "device-ns/op"
	}
	fmt.Fprintf(w, "%s %d %s %s", name, ops, show.Exact(ns), unit)
	if r.OnDevice {
		fmt.Fprintf(w, " %s complete-ns/op", show.Exact(medianOf(complete)))
	}
	for _, rate := range r.Rates {
		scale, unit := rateUnit(rate.Unit)
		if ns > 0 && unit != "" {
			fmt.Fprintf(w, " %s %s", show.Exact(rate.Value*scale*r.Latency.Median/ns), unit)
		}
	}
	fmt.Fprintln(w)
}

// rateUnit is a rate's unit as benchstat scales it by itself.
func rateUnit(unit string) (scale float64, base string) {
	switch unit {
	case "GiB/s":
		return 1 << 30, "B/s"
	case "TFLOP/s":
		return 1e12, "flop/s"
	case "item/s":
		return 1, "item/s"
	}
	return 0, ""
}

func medianOf(values []float64) float64 {
	sorted, _ := stats.Sorted(values)
	return stats.Median(sorted)
}

// WriteFile replaces the file at path by what write writes: as a whole, or not at
// all. The folder must exist.
func WriteFile(path string, write func(io.Writer) error) error { return wholefile.Write(path, write) }

// ReadFile reads a report that WriteJSON has written, with the numbers in it checked for
// nothing but their kind.
func ReadFile(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s is not a report as JSON: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: the schema is %q, not %q", path, r.Schema, Schema)
	}
	return &r, nil
}

func sortedKeys(sets ...map[string]string) []string {
	all := map[string]bool{}
	for _, set := range sets {
		for k := range set {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
