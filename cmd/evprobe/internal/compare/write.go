package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the comparison for a person to read.
func (r *Result) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	r.differences(t, "what differs", r.About)
	r.differences(t, "verdicts that differ", r.Verdicts)
	same := 0
	if len(r.Files) == 2 {
		row(t, "figure", r.Files[0], r.Files[1], "change")
	} else {
		row(t, "figure", "min", "median", "max", "spread", "outliers")
	}
	for _, f := range r.Figures {
		switch {
		case f.Min == f.Max && !f.absent():
			same++
		case len(r.Files) == 2:
			row(t, f.Name, f.text(f.Values[0]), f.text(f.Values[1]), change(f.Values[0], f.Values[1]))
		default:
			row(t, f.Name, f.text(&f.Min), f.text(&f.Median), f.text(&f.Max), percent(f.Spread), strings.Join(f.Outliers, ", "))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d figures are the same in all %d files\n", same, len(r.Files))
	if odd := r.odd(); err == nil && odd != "" {
		_, err = fmt.Fprintln(w, odd)
	}
	return err
}

func (r *Result) differences(t io.Writer, title string, list []Difference) {
	if len(list) == 0 {
		return
	}
	row(t, append([]string{title}, r.Files...)...)
	for _, d := range list {
		cells := []string{d.Name}
		for _, v := range d.Values {
			cells = append(cells, orDash(v))
		}
		row(t, cells...)
	}
	row(t)
}

// odd names the files by how many figures they are far from the others in.
func (r *Result) odd() string {
	times := map[string]int{}
	for _, f := range r.Figures {
		for _, name := range f.Outliers {
			times[name]++
		}
	}
	var said []string
	for _, name := range r.Files {
		if times[name] > 0 {
			said = append(said, fmt.Sprintf("%s in %d figures", name, times[name]))
		}
	}
	if said == nil {
		return ""
	}
	return "far from the others: " + strings.Join(said, ", ")
}

func row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (f *Figure) absent() bool {
	for _, v := range f.Values {
		if v == nil {
			return true
		}
	}
	return false
}

func (f *Figure) text(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case f.Unit == "ns":
		return time.Duration(*v).String()
	}
	return strings.TrimSpace(strconv.FormatFloat(*v, 'g', 6, 64) + " " + f.Unit)
}

func change(a, b *float64) string {
	if a == nil || b == nil || *a == 0 {
		return "-"
	}
	return strings.Replace(fmt.Sprintf("%+.1f %%", (*b-*a) / *a * 100), "-0.0 ", "+0.0 ", 1)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", *v*100)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
