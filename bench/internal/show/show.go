package show

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Digits is four significant digits, without an exponent where that is readable.
func Digits(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case v == math.Trunc(v) && a < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1e7 || a < 1e-4:
		return strconv.FormatFloat(v, 'e', 3, 64)
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-int(math.Floor(math.Log10(a)))), 64)
}

// Exact is a number as short as it can be read back.
func Exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Nanoseconds shows a time an operation.
func Nanoseconds(ns float64) string {
	switch {
	case ns >= 1e9:
		return Digits(ns/1e9) + " s"
	case ns >= 1e6:
		return Digits(ns/1e6) + " ms"
	case ns >= 1e3:
		return Digits(ns/1e3) + " us"
	}
	return Digits(ns) + " ns"
}

// Cell keeps text from being taken for the structure of a table of markdown.
func Cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;").Replace(text)
}

// MarkdownRow writes a row of a table of markdown.
func MarkdownRow(w io.Writer, cells []string) {
	for _, c := range cells {
		fmt.Fprint(w, "| ", Cell(c), " ")
	}
	fmt.Fprintln(w, "|")
}

// Markdown writes rows as a table of markdown, the first one as its heading.
func Markdown(w io.Writer, rows [][]string) {
	for i, row := range rows {
		MarkdownRow(w, row)
		if i == 0 {
			MarkdownRow(w, slices.Repeat([]string{"---"}, len(row)))
		}
	}
}

// Widths are those of the columns of rows. A row of two cells below a longer heading is
// one whose second cell runs on.
func Widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		if len(row) == 2 && len(rows) > 1 && len(rows[0]) > 2 {
			row = row[:1]
		}
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Row writes cells in columns, without spaces at the end of the line.
func Row(w io.Writer, indent string, row []string, widths []int) {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
	}
	fmt.Fprintln(w, indent+strings.TrimRight(b.String(), " "))
}

// Table writes rows in aligned columns.
func Table(w io.Writer, indent string, rows [][]string) {
	widths := Widths(rows)
	for _, row := range rows {
		Row(w, indent, row, widths)
	}
}
