package bench

import (
	"fmt"
	"math"
	"strings"

	"example.com/devevents/bench/internal/show"
)

// SectionCPU is the section of metrics that describe the processor.
const SectionCPU = "cpu"

// Metric is one number of one sample, given by the function or by the backend.
// Metrics of both meet in one table, whose key is section, name and unit: those with
// the same key make one row.
type Metric struct {
	Section string // groups rows of a table; "" is the case's own
	Name    string // the key, fit for a file: "cuda_event_ms"
	Unit    string // "ms", "GiB/s", "" for a plain number
	Display string // what a table shows; "" is Name
	Format  string // a verb of package fmt for one float64, "%.3f"; "" is four digits, integers in full
	Value   Value
}

// Value is a number that keeps its kind: an integer beyond 2^53 stays what it is.
type Value struct {
	f       float64
	i       int64
	integer bool
}

// Float is a floating point value. NaN and infinities are dropped where they would
// enter a table, and counted.
func Float(v float64) Value { return Value{f: v} }

// Int is an integer value.
func Int(v int64) Value { return Value{i: v, integer: true} }

// Float64 is the value as a float64.
func (v Value) Float64() float64 {
	if v.integer {
		return float64(v.i)
	}
	return v.f
}

// Int64 is the value as an integer, and whether it is one.
func (v Value) Int64() (int64, bool) { return v.i, v.integer }

func (v Value) finite() bool {
	return v.integer || !math.IsNaN(v.f) && !math.IsInf(v.f, 0)
}

// key is the identity of a row.
type key struct{ section, name, unit string }

func (m Metric) key() key { return key{m.Section, m.Name, m.Unit} }

// column is the row of a table in the making: one metric over the samples.
type column struct {
	Metric   // how to show it, as first given
	values   []Value
	samples  []int // the number of the sample that each value belongs to
	rejected int   // NaN and infinities
}

// table collects metrics over the samples of a case, in the order in which keys
// first appeared.
type table struct {
	columns []column
	index   map[key]int
	clashes map[key]int // given twice in one sample
}

// add takes the metrics of one sample. A key that the sample already has is the
// clash of a function and a backend; the first one stays.
func (t *table) add(sample int, metrics []Metric) {
	for _, m := range metrics {
		i, known := t.index[m.key()]
		if !known {
			if t.index == nil {
				t.index = map[key]int{}
			}
			i = len(t.columns)
			t.index[m.key()] = i
			t.columns = append(t.columns, column{Metric: m})
		}
		c := &t.columns[i]
		switch {
		case !m.Value.finite():
			c.rejected++
		case len(c.samples) > 0 && c.samples[len(c.samples)-1] == sample:
			if t.clashes == nil {
				t.clashes = map[key]int{}
			}
			t.clashes[m.key()]++
		default:
			c.values = append(c.values, m.Value)
			c.samples = append(c.samples, sample)
		}
	}
}

// integers reports whether all values are integers, and whether they are all equal.
func (c *column) integers() (all, same bool) {
	same = true
	for _, v := range c.values {
		if !v.integer {
			return false, false
		}
		same = same && v.i == c.values[0].i
	}
	return true, same
}

// number shows a value as the metric's format says. A format that is not one for a
// float64 is not used.
func number(v float64, format string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "n/a"
	}
	if format != "" {
		if s := fmt.Sprintf(format, v); !strings.Contains(s, "%!") {
			return s
		}
	}
	return show.Digits(v)
}
