package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/devevents/bench"
	"example.com/devevents/bench/internal/stats"
)

// Schema names the layout of a report as JSON: docs/schema/benchcompare.schema.json.
const Schema = "devevents.benchcompare/1"

// Report is the comparison of two reports of package bench.
type Report struct {
	Schema    string  `json:"schema"`    // the constant Schema
	Old       Side    `json:"old"`       // what ratios are to
	New       Side    `json:"new"`       // what is faster or slower
	Threshold float64 `json:"threshold"` // how large a relative difference must be to count
	// Differs is what must be the same for numbers to be compared, and is not: empty
	// unless Force was given.
	Differs []string `json:"differs,omitempty"`
	Rows    []Row    `json:"rows"` // in the order of the new report

	OnlyOld []string `json:"only_old,omitempty"` // names of rows that the other one lacks
	OnlyNew []string `json:"only_new,omitempty"`
	Failed  []string `json:"failed,omitempty"`  // rows of both that have no result in the new one
	NoBase  []string `json:"no_base,omitempty"` // rows of both that have no result in the old one alone
}

// Side is one of the two reports.
type Side struct {
	Path     string    `json:"path,omitempty"`     // "" where it was no file
	Time     time.Time `json:"time"`               // when it was measured
	Revision string    `json:"revision,omitempty"` // of git
	Dirty    bool      `json:"dirty"`              // the tree had changes that the revision does not
}

// Row is what was found about one row of both reports. N and Needed count samples of
// each side.
type Row struct {
	Name string `json:"name"` // group, case and axes as one path
	bench.Finding
	OldNS float64 `json:"old_ns"` // medians, in ns an operation
	NewNS float64 `json:"new_ns"`
	OldN  int     `json:"old_samples"`
	NewN  int     `json:"new_samples"`
}

// Refusal is the error for reports whose numbers must not be compared.
type Refusal struct {
	Reasons []string // what differs, or that there is nothing in common; a line each
	// Forcible says that Force would compare all the same: the instruments differ, and
	// there are rows to compare.
	Forcible bool
}

// Error has a line for each reason.
func (r *Refusal) Error() string {
	return "the reports must not be compared:\n  " + strings.Join(r.Reasons, "\n  ")
}

type settings struct {
	threshold float64
	force     bool
}

// Option sets up a comparison.
type Option func(*settings)

// Threshold is how large a difference must be to count, 0.01 for 1 %, from 0 to below 1;
// anything else is bench.DefaultThreshold. With 0 no row is ever the same.
func Threshold(share float64) Option { return func(s *settings) { s.threshold = share } }

// Force compares reports of other instruments all the same, and lists what differs.
func Force() Option { return func(s *settings) { s.force = true } }

// Files compares two reports that bench has written as JSON. See Reports.
func Files(oldPath, newPath string, opts ...Option) (*Report, error) {
	before, err := bench.ReadFile(oldPath)
	if err != nil {
		return nil, fmt.Errorf("reading the old report: %w", err)
	}
	after, err := bench.ReadFile(newPath)
	if err != nil {
		return nil, fmt.Errorf("reading the new report: %w", err)
	}
	r, err := Reports(before, after, opts...)
	if r != nil {
		r.Old.Path, r.New.Path = oldPath, newPath
	}
	return r, err
}

// Reports compares the rows that both reports have a result of. The error is a Refusal
// where the reports come from different instruments, unless forced, and where they have
// no row in common. It changes nothing of them.
func Reports(before, after *bench.Report, opts ...Option) (*Report, error) {
	s := settings{threshold: bench.DefaultThreshold}
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	if !(s.threshold >= 0 && s.threshold < 1) {
		s.threshold = bench.DefaultThreshold
	}
	r := &Report{
		Schema: Schema, Old: sideOf(before), New: sideOf(after), Threshold: s.threshold, Rows: []Row{},
	}
	pairs, err := r.pair(before, after)
	if err != nil {
		return nil, err
	}
	r.Differs = differs(before, after, pairs)
	if len(r.Differs) > 0 && !s.force {
		return nil, &Refusal{Reasons: r.Differs, Forcible: true}
	}
	effects := make([]stats.Effect, len(pairs))
	for i, p := range pairs {
		effects[i] = stats.CompareMedians(perOperation(p.old), perOperation(p.new), stats.Question{
			Threshold: s.threshold, Quantum: max(p.old.Latency.Quantum, p.new.Latency.Quantum),
		})
	}
	for i, f := range stats.Judge(effects, len(effects)) {
		p := pairs[i]
		r.Rows = append(r.Rows, Row{
			Name: p.new.Name(), Finding: f,
			OldNS: p.old.Latency.Median, NewNS: p.new.Latency.Median,
			OldN: len(p.old.Samples), NewN: len(p.new.Samples),
		})
	}
	return r, nil
}

// Count is how many rows have the verdict.
func (r *Report) Count(verdict bench.Change) int {
	n := 0
	for i := range r.Rows {
		if r.Rows[i].Change == verdict {
			n++
		}
	}
	return n
}

func sideOf(r *bench.Report) Side {
	p := &r.Provenance
	return Side{Time: p.Time, Revision: p.Revision, Dirty: p.Dirty}
}

// pair is a row of both reports.
type pair struct{ old, new *bench.Result }

// pair finds the rows that can be compared and lists the others.
func (r *Report) pair(before, after *bench.Report) ([]pair, error) {
	olds, err := named(before, "old")
	if err != nil {
		return nil, err
	}
	news, err := named(after, "new")
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for i := range after.Results {
		a := &after.Results[i]
		b, both := olds[a.Name()]
		switch {
		case !both:
			r.OnlyNew = append(r.OnlyNew, a.Name())
		case !measured(a):
			r.Failed = append(r.Failed, a.Name())
		case !measured(b):
			r.NoBase = append(r.NoBase, a.Name())
		default:
			pairs = append(pairs, pair{b, a})
		}
	}
	for i := range before.Results {
		if name := before.Results[i].Name(); news[name] == nil {
			r.OnlyOld = append(r.OnlyOld, name)
		}
	}
	if len(pairs)+len(r.Failed) == 0 {
		return nil, &Refusal{Reasons: []string{fmt.Sprintf("no row has a result in both: %d rows are only in the old report, %d only in the new one", len(r.OnlyOld), len(r.OnlyNew))}}
	}
	return pairs, nil
}

// named are a report's rows by name.
func named(r *bench.Report, which string) (map[string]*bench.Result, error) {
	rows := map[string]*bench.Result{}
	for i := range r.Results {
		name := r.Results[i].Name()
		if rows[name] != nil {
			return nil, &Refusal{Reasons: []string{fmt.Sprintf("the %s report has two rows named %s", which, name)}}
		}
		rows[name] = &r.Results[i]
	}
	return rows, nil
}

// measured reports whether a row has samples that mean something.
func measured(r *bench.Result) bool {
	return r.Status == bench.OK && !r.Profile && r.Latency != nil && len(r.Samples) > 0
}

// differs names what two reports must not differ in, looking at the rows compared alone.
func differs(before, after *bench.Report, pairs []pair) []string {
	a, b := *before, *after
	a.Results, b.Results = nil, nil
	for _, p := range pairs {
		a.Results, b.Results = append(a.Results, *p.old), append(b.Results, *p.new)
	}
	return slices.Clip(a.Mismatch(&b))
}

// perOperation are a row's samples in the order in which they were taken.
func perOperation(r *bench.Result) []float64 {
	times := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		times[i] = float64(s.Duration) / float64(max(s.Iterations, 1))
	}
	return times
}
