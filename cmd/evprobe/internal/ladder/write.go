package ladder

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"example.com/devevents/bench"
)

// Write writes one line for each rung. What else is known of it is in the report's own
// formats.
func Write(r *bench.Report, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "work\tsize\tmedian\tmin\tp95\trate\t")
	for i := range r.Results {
		row := &r.Results[i]
		fmt.Fprintf(t, "%s\t%s\t", row.Group, Rung(row))
		if row.Latency == nil {
			fmt.Fprintf(t, "%s\t\t\t\t  %s\n", row.Status, why(row))
			continue
		}
		p95 := "-" // too few samples to know it
		if row.Latency.P95 != nil {
			p95 = span(*row.Latency.P95)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", span(row.Latency.Median), span(row.Latency.Min), p95, Bandwidth(row))
	}
	return t.Flush()
}

func span(ns float64) string { return time.Duration(ns).String() }

// Rung is where a row stands on its ladder: a size, or a length of time.
func Rung(row *bench.Result) string {
	if len(row.Axes) == 0 {
		return ""
	}
	a := row.Axes[0]
	if n, err := strconv.ParseInt(a.Value, 10, 64); err == nil && a.Name == "bytes" {
		return Size(n)
	}
	return a.Value
}

// Bandwidth is a row's rate in GiB/s as text, empty where it has none.
func Bandwidth(row *bench.Result) string {
	for _, rate := range row.Rates {
		if rate.Unit == "GiB/s" {
			return strconv.FormatFloat(rate.Value, 'f', 1, 64) + " GiB/s"
		}
	}
	return ""
}

// why is what kept a row from being measured.
func why(row *bench.Result) string {
	if row.Skip != "" {
		return row.Skip
	}
	for _, e := range row.Errors {
		return e.Text
	}
	return row.Stop
}
