// Package compare sets documents of evprobe side by side.
package compare

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"example.com/devevents/cmd/evprobe/internal/document"
)

// Schema names the layout of a comparison as JSON.
const Schema = "devevents.evprobe.diff/1"

// File is a document and what it is called.
type File struct {
	Name     string
	Document *document.Document
}

// Result is what a comparison found. The lists of values have one entry for each file.
type Result struct {
	Schema   string       `json:"schema"`
	Files    []string     `json:"files"`
	About    []Difference `json:"about"`    // of machine, device and software, as far as they differ
	Verdicts []Difference `json:"verdicts"` // checks whose verdicts differ
	Figures  []Figure     `json:"figures"`
}

// Difference is something that is not the same everywhere.
type Difference struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // empty where a file has none
}

// Figure is one number in all files.
type Figure struct {
	Name   string     `json:"name"` // "order: smallest_span"
	Unit   string     `json:"unit"` // "ns", "ppm" or empty
	Values []*float64 `json:"values"`
	Min    float64    `json:"min"`
	Median float64    `json:"median"`
	Max    float64    `json:"max"`
	// Spread is the distance from the smallest to the largest as a part of the median,
	// null where that is 0.
	Spread   *float64 `json:"spread"`
	Outliers []string `json:"outliers"` // files far from the others; of three files or more
}

// Documents compares.
func Documents(files []File) *Result {
	r := &Result{Schema: Schema, Files: names(files), About: []Difference{}, Verdicts: []Difference{}, Figures: []Figure{}}
	for _, what := range about {
		r.About = appendIfDifferent(r.About, what.name, files, what.of)
	}
	var checks []string
	figures := map[string][]*float64{}
	var order []string
	for i, f := range files {
		for _, c := range f.Document.Checks {
			if !slices.Contains(checks, c.Name) {
				checks = append(checks, c.Name)
			}
		}
		for _, n := range numbers(f.Document) {
			if figures[n.name] == nil {
				figures[n.name] = make([]*float64, len(files))
				order = append(order, n.name)
			}
			figures[n.name][i] = &n.value
		}
	}
	for _, name := range checks {
		r.Verdicts = appendIfDifferent(r.Verdicts, name, files, func(d *document.Document) string { return verdict(d, name) })
	}
	for _, name := range order {
		r.Figures = append(r.Figures, figure(name, figures[name], r.Files))
	}
	return r
}

func appendIfDifferent(list []Difference, name string, files []File, of func(*document.Document) string) []Difference {
	d := Difference{Name: name}
	for _, f := range files {
		d.Values = append(d.Values, of(f.Document))
	}
	if len(slices.Compact(slices.Clone(d.Values))) > 1 {
		list = append(list, d)
	}
	return list
}

// about is what must be the same for figures to be comparable.
var about = []struct {
	name string
	of   func(*document.Document) string
}{
	{"outcome", func(d *document.Document) string { return d.Outcome }},
	{"host", func(d *document.Document) string { return d.Environment.Host }},
	{"backend", func(d *document.Document) string { return d.Backend }},
	{"device", func(d *document.Document) string { return device(d).Name }},
	{"PCI", func(d *document.Document) string { return device(d).PCIBusID }},
	{"UUID", func(d *document.Document) string { return device(d).UUID }},
	{"library", func(d *document.Document) string { return library(d).Path }},
	{"runtime", func(d *document.Document) string { return library(d).RuntimeVersionText }},
	{"driver", func(d *document.Document) string { return library(d).DriverVersionText }},
	{"driver library", func(d *document.Document) string { return library(d).Driver }},
	{"evprobe", func(d *document.Document) string { return d.Build.String() }},
}

func device(d *document.Document) document.Device {
	if d.Device == nil {
		return document.Device{}
	}
	return *d.Device
}

func library(d *document.Document) document.Library {
	if d.Library == nil {
		return document.Library{}
	}
	return *d.Library
}

func verdict(d *document.Document, name string) string {
	for _, c := range d.Checks {
		if c.Name == name {
			return string(c.Verdict)
		}
	}
	return ""
}

type number struct {
	name  string
	value float64
}

// numbers are all figures of a document: those of the checks, and the ladder's medians.
func numbers(d *document.Document) (all []number) {
	for _, c := range d.Checks {
		for _, key := range slices.Sorted(maps.Keys(c.Numbers)) {
			if v, ok := c.Numbers[key].(float64); ok {
				all = append(all, number{c.Name + ": " + key, v})
			}
		}
	}
	if d.Bench == nil {
		return all
	}
	for i := range d.Bench.Results {
		if row := &d.Bench.Results[i]; row.Latency != nil {
			all = append(all, number{"bench: " + row.Name() + " median_ns", row.Latency.Median})
		}
	}
	return all
}

func figure(name string, values []*float64, files []string) Figure {
	f := Figure{Name: name, Values: values, Outliers: []string{}}
	for _, unit := range []string{"ns", "ppm"} {
		if short, ok := strings.CutSuffix(name, "_"+unit); ok {
			f.Name, f.Unit = short, unit
		}
	}
	var known []float64
	for _, v := range values {
		if v != nil {
			known = append(known, *v)
		}
	}
	f.Min, f.Median, f.Max = slices.Min(known), median(known), slices.Max(known)
	if f.Median != 0 {
		spread := (f.Max - f.Min) / math.Abs(f.Median)
		f.Spread = &spread
	}
	if len(known) < 3 {
		return f
	}
	limit := outlying(known, f.Median)
	for i, v := range values {
		if v != nil && math.Abs(*v-f.Median) > limit {
			f.Outliers = append(f.Outliers, files[i])
		}
	}
	return f
}

// outlying is how far from the median is too far: five times what is usual, and a
// tenth of the median, below which nobody would act.
func outlying(values []float64, middle float64) float64 {
	var off []float64
	for _, v := range values {
		off = append(off, math.Abs(v-middle))
	}
	const normal = 1.4826 // from a median deviation to a standard one
	return max(5*normal*median(off), math.Abs(middle)/10)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// names are what the files are called: without folders and the ending where that
// leaves them different.
func names(files []File) []string {
	var short, long []string
	for _, f := range files {
		long = append(long, f.Name)
		base := filepath.Base(f.Name)
		short = append(short, strings.TrimSuffix(base, filepath.Ext(base)))
	}
	if len(slices.Compact(slices.Sorted(slices.Values(short)))) == len(files) {
		return short
	}
	for i := range long {
		if slices.Contains(long[:i], long[i]) {
			long[i] = fmt.Sprintf("%s (%d)", long[i], i+1)
		}
	}
	return long
}
