package compare

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"example.com/devevents/bench"
	"example.com/devevents/bench/internal/show"
)

// WriteTable writes the comparison for a person to read, aligned.
func (r *Report) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "old: %s\nnew: %s\n\n", r.Old, r.New)
	show.Table(out, "", r.cells())
	fmt.Fprintln(out)
	for _, line := range r.lines() {
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

// WriteMarkdown writes the comparison as a table of markdown, for a comment on a change.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "* old: %s\n* new: %s\n\n", show.Cell(r.Old.String()), show.Cell(r.New.String()))
	show.Markdown(out, r.cells())
	fmt.Fprintln(out)
	for _, line := range r.lines() {
		fmt.Fprintf(out, "* %s\n", show.Cell(line))
	}
	return out.Flush()
}

// WriteCSV writes one line for each row, and one for each that was not compared.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"name", "verdict", "old_ns", "new_ns", "ratio", "low", "high", "smallest_effect", "old_samples", "new_samples", "samples_needed", "text"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		low, high, smallest, needed := "", "", "", ""
		if row.CI != nil {
			low, high = show.Exact(row.CI.Lo), show.Exact(row.CI.Hi)
		}
		if row.Smallest != nil {
			smallest = show.Exact(*row.Smallest)
		}
		if row.Needed != nil {
			needed = strconv.Itoa(*row.Needed)
		}
		lines = append(lines, []string{
			row.Name, string(row.Change), show.Exact(row.OldNS), show.Exact(row.NewNS), show.Exact(row.Ratio), low, high,
			smallest, strconv.Itoa(row.OldN), strconv.Itoa(row.NewN), needed, row.Why,
		})
	}
	for _, rest := range r.rest() {
		for _, name := range rest.names {
			lines = append(lines, []string{name, "", "", "", "", "", "", "", "", "", "", rest.what})
		}
	}
	return out.WriteAll(lines)
}

// WriteJSON writes everything. docs/schema/benchcompare.schema.json describes the layout.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// String is where a report is from, in words.
func (s Side) String() string {
	text := s.Path
	if text == "" {
		text = "a report"
	}
	text += ", " + s.Time.Format("2006-01-02 15:04:05 UTC")
	if s.Revision != "" {
		text += ", " + s.Revision[:min(12, len(s.Revision))]
		if s.Dirty {
			text += " with changes"
		}
	}
	return text
}

func (r *Report) cells() [][]string {
	rows := [][]string{append([]string{"case", "old", "new"}, append(show.FindingHeader, "n")...)}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := append([]string{row.Name, show.Nanoseconds(row.OldNS), show.Nanoseconds(row.NewNS)}, show.FindingCells(&row.Finding)...)
		rows = append(rows, append(cells, fmt.Sprintf("%d, %d", row.OldN, row.NewN)))
	}
	return rows
}

// rest are the rows that were not compared.
func (r *Report) rest() []rest {
	return []rest{
		{"no result in the new report", r.Failed},
		{"no result in the old report", r.NoBase},
		{"only in the old report", r.OnlyOld},
		{"only in the new report", r.OnlyNew},
	}
}

type rest struct {
	what  string
	names []string
}

// lines are what stands below the table.
func (r *Report) lines() []string {
	var lines []string
	for i := range r.Rows {
		if note := show.FindingNote(&r.Rows[i].Finding, 1); note != "" {
			lines = append(lines, r.Rows[i].Name+": "+note)
		}
	}
	for _, rest := range r.rest() {
		if len(rest.names) > 0 {
			lines = append(lines, rest.what+": "+strings.Join(rest.names, ", "))
		}
	}
	for _, d := range r.Differs {
		lines = append(lines, "compared all the same, though these differ: "+d)
	}
	return append(lines, fmt.Sprintf("%d slower, %d faster, %d the same, %d unclear, by %s or more; these are two runs, which differ by more than their samples show",
		r.Count(bench.Slower), r.Count(bench.Faster), r.Count(bench.Same), r.Count(bench.Unclear), show.Percent(r.Threshold)))
}
