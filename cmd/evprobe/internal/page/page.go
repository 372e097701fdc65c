// Package page makes one HTML page of a document: readable without a network and
// without scripts, on a phone, on paper, and in the dark.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/ladder"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

//go:embed page.html
var layout string

//go:embed style.css
var style string

// Write writes the page.
func Write(w io.Writer, d *document.Document) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"text": numberText, "sorted": sortedNumbers, "upper": strings.ToUpper, "rung": ladder.Rung, "bandwidth": ladder.Bandwidth,
		"duration": func(ns float64) string { return time.Duration(ns).String() },
	}).Parse(layout)
	if err != nil {
		return err
	}
	return t.Execute(w, view{
		Document: d, Style: template.CSS(style), Title: title(d), About: about(d), Pictures: pictures(d),
		Counts: counts(d), Good: d.Outcome == document.Passed,
		Date: d.Started.UTC().Format("2006-01-02 15:04 UTC"),
	})
}

// view is what the layout shows.
type view struct {
	*document.Document
	Style    template.CSS
	Title    string
	Date     string
	About    []pair
	Pictures []picture
	Counts   string
	Good     bool
}

type pair struct{ Name, Value string }

func title(d *document.Document) string {
	if d.Device == nil {
		return "no device"
	}
	return d.Device.Name
}

func counts(d *document.Document) string {
	n := map[probe.Verdict]int{}
	for _, c := range d.Checks {
		n[c.Verdict]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n[probe.Pass], n[probe.Fail], n[probe.Skip])
}

// about is the environment, without what is not known.
func about(d *document.Document) (list []pair) {
	add := func(name, value string) {
		if value != "" {
			list = append(list, pair{name, value})
		}
	}
	if d.Device != nil {
		add("backend", d.Backend+", device "+strconv.Itoa(d.Device.Ordinal))
		add("kind", string(d.Device.Kind))
		add("vendor", d.Device.Vendor)
		add("PCI bus id", d.Device.PCIBusID)
		add("UUID", d.Device.UUID)
	}
	if lib := d.Library; lib != nil {
		add("library", lib.Path)
		add("spoken to as", lib.API)
		add("runtime version", lib.RuntimeVersionText)
		add("driver version", lib.DriverVersionText)
		add("driver library", lib.Driver)
	}
	add("host", d.Environment.Host)
	add("system", fmt.Sprintf("%s/%s, %d processors", d.Build.OS, d.Build.Arch, d.Environment.CPUs))
	for _, v := range d.Environment.Variables {
		if v.Set {
			add(v.Name, strconv.Quote(v.Value))
		}
	}
	add("program", d.Build.String())
	return list
}

// sortedNumbers are the figures of a check.
func sortedNumbers(numbers map[string]any) (list []pair) {
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, pair{key, numberText(key, numbers[key])})
	}
	return list
}

// numberText is a figure with its unit, which is the last part of its key.
func numberText(key string, value any) string {
	v, ok := value.(float64)
	switch {
	case !ok:
		return "not a number"
	case strings.HasSuffix(key, "_ns"):
		return time.Duration(v).String()
	case strings.HasSuffix(key, "_ppm"):
		return strconv.FormatFloat(v, 'f', 2, 64) + " ppm"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
