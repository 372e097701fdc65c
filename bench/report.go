package bench

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema names the layout of a report as JSON: docs/schema/bench.schema.json.
const Schema = "devevents.bench/1"

// Report is everything that a run has measured.
type Report struct {
	Schema     string     `json:"schema"`     // "devevents.bench/1"
	Provenance Provenance `json:"provenance"` // where the numbers come from
	Results    []Result   `json:"results"`    // in the order in which the cases were defined

	Comparisons []Comparison `json:"comparisons,omitempty"` // of rows that were measured in turn
}

// Failed reports whether any case failed.
func (r *Report) Failed() bool {
	for i := range r.Results {
		if r.Results[i].Status == Failed {
			return true
		}
	}
	return false
}

// Mismatch names what differs between two reports so that their numbers must not be
// compared: see Provenance.Mismatch, and for cases that both have, what they were
// measured with. Cases that only one of them has are no mismatch.
func (r *Report) Mismatch(other *Report) []string {
	list := r.Provenance.Mismatch(other.Provenance)
	for i := range r.Results {
		a := &r.Results[i]
		for j := range other.Results {
			b := &other.Results[j]
			if a.Name() != b.Name() {
				continue
			}
			if x, y := a.instrument()+r.turns(a.Name()), b.instrument()+other.turns(b.Name()); x != y {
				list = append(list, a.Name()+": "+x+" and "+y)
			}
		}
	}
	return list
}

// turns is with which rows one was measured in turn, which leave it another cache and
// other clocks than it leaves itself; "" for a row that was measured alone.
func (r *Report) turns(name string) string {
	base := name
	for i := range r.Comparisons {
		if r.Comparisons[i].Other == name {
			base = r.Comparisons[i].Base
		}
	}
	var with []string
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Base == base {
			with = append(with, c.Other)
		}
	}
	if len(with) == 0 {
		return ""
	}
	with = slices.DeleteFunc(append([]string{base}, with...), func(n string) bool { return n == name })
	return ", in turn with " + strings.Join(with, ", ")
}

// instrument is what a case was measured with, in words.
func (r *Result) instrument() string {
	s := r.Label + ", gate " + r.Gate + ", cold " + r.Cold
	if kind := r.modeKind(); kind != "" {
		s += ", mode " + kind
	}
	if r.Fixed {
		s += ", chunk " + strconv.FormatInt(r.Chunk, 10)
	}
	if r.Status == Failed {
		s += ", failed"
	}
	return s
}

// Status is how a case ended.
type Status string

// The ways in which a case ends.
const (
	OK      Status = "ok"
	Failed  Status = "failed" // no result, or one not to be believed; Errors say why
	Skipped Status = "skipped"
)

// Result is one case at one point of the axes.
type Result struct {
	Group  string      `json:"group"`          // the group's name
	Case   string      `json:"case"`           // the case's name
	Axes   []AxisValue `json:"axes,omitempty"` // where the case lies on the axes of its group
	Domain string      `json:"domain"`         // what the group measures
	Status Status      `json:"status"`         // how the case ended
	Skip   string      `json:"skip,omitempty"` // why it was skipped

	Label       string      `json:"label"` // of the backend
	Clock       string      `json:"clock"`
	OnDevice    bool        `json:"on_device"` // durations are the device's
	Calibration Calibration `json:"calibration"`
	Streams     int         `json:"streams,omitempty"`
	Gate        string      `json:"gate,omitempty"`     // "held", or why not
	Cold        string      `json:"cold,omitempty"`     // what was done about the cache
	Mode        string      `json:"mode,omitempty"`     // "hot", "cold (verified)", "graph, rotating (not cold)"; of a device's rows
	ModeWhy     string      `json:"mode_why,omitempty"` // why it is not called cold, or not verified
	Check       *ColdCheck  `json:"cold_check,omitempty"`
	Hot         *Hot        `json:"hot,omitempty"`      // the same case in batches, where AlsoHot asks for them
	Profile     bool        `json:"profile,omitempty"`  // iterations for a profiler, not a measurement
	Position    int         `json:"position,omitempty"` // from 1, where cases were shuffled

	Chunk   int64        `json:"chunk"` // operations a sample, as asked for
	Fixed   bool         `json:"fixed_chunk"`
	WarmUp  WarmUpReport `json:"warm_up"`
	Verdict string       `json:"verdict,omitempty"` // of the stop rule: "converged", "unreachable", "wall budget"
	Stop    string       `json:"why_stopped"`       // the same in a sentence

	Latency *Summary `json:"latency,omitempty"` // nanoseconds an operation; absent without samples
	Rates   []Rate   `json:"rates,omitempty"`
	Clocks  *Clocks  `json:"clocks,omitempty"`
	FloorNS float64  `json:"floor_ns"` // of an operation: what the instrument reads with nothing in it, over the chunk
	Leak    *Share   `json:"leak,omitempty"`
	Escape  *Share   `json:"escape,omitempty"`

	CoolDown  *CoolDownReport  `json:"cool_down,omitempty"` // before the case
	Telemetry *TelemetryReport `json:"telemetry,omitempty"` // while the samples were taken

	Metrics     []MetricSummary `json:"metrics,omitempty"`     // of function, backend and telemetry, merged
	Diagnostics []PassReport    `json:"diagnostics,omitempty"` // one for each pass
	Errors      []ErrorRow      `json:"errors,omitempty"`      // each kind once, with its count
	FailedCount int             `json:"failed_samples"`        // samples that failed and are in no number
	Notes       []string        `json:"notes,omitempty"`       // what a reader must know before believing the numbers
	Samples     []RawSample     `json:"samples,omitempty"`
	Retried     []RawSample     `json:"retried,omitempty"` // samples taken again since the device was held back; they do not count
}

// Name is group, case and axes as one path.
func (r *Result) Name() string {
	parts := []string{r.Group, r.Case}
	for _, a := range r.Axes {
		parts = append(parts, a.Name+"="+a.Value)
	}
	return strings.Join(parts, "/")
}

// WarmUpReport says how the case was warmed up.
type WarmUpReport struct {
	Runs int           `json:"runs"`      // how many
	Took time.Duration `json:"took_ns"`   // on the host
	Why  string        `json:"why_ended"` // what ended it
}

// Clocks are medians over the samples: whole samples, not operations.
type Clocks struct {
	Enqueue  time.Duration  `json:"enqueue_ns"` // host time until the function returned
	Device   *time.Duration `json:"device_ns,omitempty"`
	Complete time.Duration  `json:"complete_ns"`       // host time until the work was known to be done
	Idle     *time.Duration `json:"idle_ns,omitempty"` // complete without device
}

// Rate is a throughput, at the median latency.
type Rate struct {
	Unit  string   `json:"unit"` // "op/s", "GiB/s", "TFLOP/s", "item/s"
	Value float64  `json:"value"`
	Peak  *float64 `json:"of_peak,omitempty"` // as a share of the declared peak
}

// Share is how many samples of those looked at had a fault.
type Share struct {
	Count int `json:"count"` // how many
	Of    int `json:"of"`    // of how many
}

// MetricSummary is a row of the table of metrics.
type MetricSummary struct {
	Section string   `json:"section,omitempty"` // with Name and Unit what tells metrics apart
	Name    string   `json:"name"`              // for programs
	Unit    string   `json:"unit,omitempty"`    // of the values
	Display string   `json:"display,omitempty"` // the name for people; Name if empty
	Format  string   `json:"format,omitempty"`  // how to print a value, for fmt
	Integer *int64   `json:"integer,omitempty"` // the exact value, where all values are that one integer
	Summary *Summary `json:"summary,omitempty"` // absent where no value was finite
	Dropped int      `json:"dropped,omitempty"` // NaN and infinities
}

// PassReport is what one diagnostic pass said. It never mixes with metrics.
type PassReport struct {
	Name    string          `json:"name"`              // of the pass
	Error   string          `json:"error,omitempty"`   // why it has no metrics
	Metrics []MetricSummary `json:"metrics,omitempty"` // that it gave
}

// ErrorRow is a failure, and how often it happened.
type ErrorRow struct {
	Title string `json:"title"`          // "CUDA error", "error"
	Name  string `json:"name,omitempty"` // "cuda_error_code"
	Code  *int64 `json:"code,omitempty"`
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// RawSample is one sample as it was taken, in order.
type RawSample struct {
	Duration   time.Duration `json:"duration_ns"`         // what counts as its time
	Iterations int64         `json:"iterations"`          // operations in it
	Chunks     int64         `json:"chunks"`              // chunks in it
	Enqueue    time.Duration `json:"enqueue_ns"`          // host time of queueing
	Complete   time.Duration `json:"complete_ns"`         // host time until the device was done
	Leaked     string        `json:"leaked,omitempty"`    // "yes", "no"; absent: nobody looked
	Escaped    string        `json:"escaped,omitempty"`   // the same
	Throttled  string        `json:"throttled,omitempty"` // what held the device back at a reading beside the sample; absent: nothing known
}
