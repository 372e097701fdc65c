package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"example.com/devevents/bench/internal/show"
)

// comparisonsOf are those whose rows are among the results.
func (r *Report) comparisonsOf(results []Result) []*Comparison {
	var list []*Comparison
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if slices.ContainsFunc(results, func(res Result) bool { return res.Name() == c.Other }) {
			list = append(list, c)
		}
	}
	return list
}

// comparisonRows are a heading and a row for each comparison.
func comparisonRows(list []*Comparison) [][]string {
	rows := [][]string{append([]string{"compared", "with"}, append(show.FindingHeader, "blocks", "seed")...)}
	for _, c := range list {
		row := append([]string{c.inGroup(c.Other), c.inGroup(c.Base)}, show.FindingCells(&c.Finding)...)
		rows = append(rows, append(row, strconv.Itoa(c.N), strconv.FormatInt(c.Seed, 10)))
	}
	return rows
}

func (c *Comparison) inGroup(name string) string { return strings.TrimPrefix(name, c.Group+"/") }

// note is what a reader must know of a comparison, or "".
func (c *Comparison) note() string {
	text := show.FindingNote(&c.Finding, c.PerBlock)
	if text != "" {
		text = c.inGroup(c.Other) + ": " + text
	}
	return text
}

func printComparisons(w io.Writer, list []*Comparison) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w)
	show.Table(w, "  ", comparisonRows(list))
	for _, c := range list {
		if note := c.note(); note != "" {
			fmt.Fprintln(w, "      !", note)
		}
	}
}

func markdownComparisons(w io.Writer, list []*Comparison) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w)
	show.Markdown(w, comparisonRows(list))
	fmt.Fprintln(w)
	for _, c := range list {
		if note := c.note(); note != "" {
			fmt.Fprintf(w, "* **%s**\n", show.Cell(note))
		}
	}
}

// csvComparison are the lines of a comparison, under the group and the name of its row.
func csvComparison(c *Comparison) [][]string {
	line := func(name, value, low, high, n, text string) []string {
		return []string{c.Group, c.inGroup(c.Other), "", string(c.Change), "compare", name, "", value, low, high, "", "", n, text}
	}
	low, high := "", ""
	if c.CI != nil {
		low, high = show.Exact(c.CI.Lo), show.Exact(c.CI.Hi)
	}
	lines := [][]string{line("ratio", show.Exact(c.Ratio), low, high, strconv.Itoa(c.N*c.PerBlock), "to "+c.inGroup(c.Base)+": "+c.Why)}
	if c.Smallest != nil {
		lines = append(lines, line("smallest effect seen", show.Exact(*c.Smallest), "", "", "", ""))
	}
	if n, ok := c.SamplesNeeded(); ok {
		lines = append(lines, line("samples needed", strconv.Itoa(n), "", "", "", ""))
	}
	return lines
}
