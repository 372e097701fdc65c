package compare

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
	"example.com/devevents/internal/schematest"
)

// measured by a device that takes what a case is told to, with 0.3 % of noise.
type device struct {
	random *rand.Rand
	took   float64
	label  string
}

func (d *device) Label() string             { return d.label }
func (d *device) EmitsCPUDiagnostics() bool { return false }
func (d *device) Clock() bench.Clock        { return bench.Clock{Name: "script", Quantum: 1} }
func (d *device) Begin() error              { return nil }
func (d *device) End() error                { return nil }

func (d *device) Collect(bench.Interval) (bench.Sample, error) {
	return bench.Sample{Duration: time.Duration(d.took * math.Exp(0.003*d.random.NormFloat64()))}, nil
}

// reportOf measures cases that take so many nanoseconds; 0 fails, below 0 skips.
func reportOf(seed uint64, cases map[string]float64, order ...string) *bench.Report {
	d := &device{random: rand.New(rand.NewPCG(seed, 4)), label: "scripted"}
	r := bench.NewRunner(bench.On(d), bench.In(bench.GPU), bench.WarmUp(0, 0), bench.Samples(100, 100))
	bench.Group(r, "group", func(g *bench.GroupOf[int]) {
		for _, name := range order {
			ns := cases[name]
			g.Bench(name, func(int, bench.Iters) error {
				switch {
				case ns == 0:
					return os.ErrInvalid
				case ns < 0:
					return bench.Skip("not here")
				}
				d.took = ns
				return nil
			})
		}
	})
	return r.Report()
}

func write(t *testing.T, r *bench.Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, bench.WriteFile(path, r.WriteJSON))
	return path
}

func verdicts(r *Report) map[string]bench.Change {
	all := map[string]bench.Change{}
	for i := range r.Rows {
		all[strings.TrimPrefix(r.Rows[i].Name, "group/")] = r.Rows[i].Change
	}
	return all
}

// A filter, or a case that was added, made all others incomparable, and failed rows were
// compared as if they were good ones. Ours compares what both have, and lists the rest.
func TestRowsOfBothAreComparedAndTheRestIsListed(t *testing.T) {
	before := reportOf(1, map[string]float64{"same": 100_000, "slow": 100_000, "fast": 100_000, "gone": 1000, "breaks": 1000, "mends": 0, "skips": 1000},
		"gone", "same", "slow", "fast", "breaks", "mends", "skips")
	after := reportOf(2, map[string]float64{"same": 100_100, "slow": 103_000, "fast": 95_000, "new": 1000, "breaks": 0, "mends": 1000, "skips": -1},
		"fast", "slow", "same", "new", "breaks", "mends", "skips")
	r, err := Files(write(t, before), write(t, after))
	require.NoError(t, err)
	require.Equal(t, map[string]bench.Change{"same": bench.Same, "slow": bench.Slower, "fast": bench.Faster}, verdicts(r))
	require.Equal(t, "group/fast", r.Rows[0].Name, "in the order of the new report")
	require.InDelta(t, 0.95, r.Rows[0].Ratio, 0.003)
	require.InDelta(t, 100_000, r.Rows[0].OldNS, 300)
	require.Equal(t, 100, r.Rows[0].N)
	require.Equal(t, []string{"group/gone"}, r.OnlyOld)
	require.Equal(t, []string{"group/new"}, r.OnlyNew)
	require.Equal(t, []string{"group/breaks", "group/skips"}, r.Failed)
	require.Equal(t, []string{"group/mends"}, r.NoBase)
	for _, row := range r.Rows {
		require.Equal(t, 3, row.Family)
		require.Greater(t, *row.Smallest, bench.DefaultThreshold)
	}

	r, err = Reports(before, after, Threshold(0.04))
	require.NoError(t, err)
	require.Equal(t, bench.Same, verdicts(r)["slow"])
	r, err = Reports(before, after, Threshold(2))
	require.NoError(t, err)
	require.InDelta(t, bench.DefaultThreshold, r.Threshold, 0)
}

// A run of another driver, device, backend, cache or hold was compared as like with like.
func TestOtherInstrumentsAreRefused(t *testing.T) {
	fresh := func() *bench.Report { return reportOf(1, map[string]float64{"a": 1000, "b": 1000}, "a", "b") }
	dev := bench.Device{Backend: "cuda", Name: "H200", UUID: "1", Driver: "580"}
	for want, change := range map[string]func(r *bench.Report){
		"devices": func(r *bench.Report) {
			other := dev
			other.Driver = "590"
			r.Provenance.Devices = []bench.Device{other}
		},
		"host":              func(r *bench.Report) { r.Provenance.Host = "elsewhere" },
		"locked clock":      func(r *bench.Report) { r.Provenance.Notes = map[string]string{"locked clock": "1980 MHz"} },
		"group/b: scripted": func(r *bench.Report) { r.Results[1].Label = "timing only" },
		"cold flush":        func(r *bench.Report) { r.Results[0].Cold = "flush of 100 MiB" },
		"gate none":         func(r *bench.Report) { r.Results[0].Gate = "none: switched off" },
	} {
		before, after := fresh(), fresh()
		before.Provenance.Devices, after.Provenance.Devices = []bench.Device{dev}, []bench.Device{dev}
		_, err := Reports(before, after)
		require.NoError(t, err)
		change(after)
		_, err = Reports(before, after)
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal, want)
		require.Contains(t, err.Error(), want)
		forced, err := Reports(before, after, Force())
		require.NoError(t, err)
		require.Equal(t, refusal.Reasons, forced.Differs)
		require.Len(t, forced.Rows, 2)
		var out bytes.Buffer
		require.NoError(t, forced.WriteTable(&out))
		require.Contains(t, out.String(), "compared all the same")
	}
	before, after := fresh(), fresh()
	after.Provenance.Revision, after.Provenance.Time = "other", time.Now()
	_, err := Reports(before, after)
	require.NoError(t, err, "what a comparison is for")
	after.Results[1].Status, after.Results[1].Label = bench.Failed, "other"
	r, err := Reports(before, after)
	require.NoError(t, err, "a row that is not compared may differ in what it likes")
	require.Equal(t, []string{"group/b"}, r.Failed)
}

// What is measured in turn finds the cache and the clocks as another case has left them.
func TestRowsInTurnAreNotComparedWithRowsAlone(t *testing.T) {
	inTurn := func(compare bool) *bench.Report {
		d := &device{random: rand.New(rand.NewPCG(1, 5)), label: "scripted"}
		r := bench.NewRunner(bench.On(d), bench.In(bench.GPU), bench.WarmUp(0, 0), bench.Samples(60, 60))
		bench.Group(r, "group", func(g *bench.GroupOf[int]) {
			for _, name := range []string{"a", "b"} {
				g.Bench(name, func(int, bench.Iters) error { d.took = 1000; return nil })
			}
			if compare {
				g.Compare("a", "b")
			}
		})
		return r.Report()
	}
	_, err := Reports(inTurn(true), inTurn(false))
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.ErrorContains(t, err, "group/b: ")
	require.ErrorContains(t, err, "in turn with group/a")
	_, err = Reports(inTurn(true), inTurn(true))
	require.NoError(t, err)
	_, err = Reports(inTurn(false), inTurn(false))
	require.NoError(t, err)
}

func TestReportsWithoutACommonRowAreRefused(t *testing.T) {
	a, b := reportOf(1, map[string]float64{"a": 1000}, "a"), reportOf(1, map[string]float64{"b": 1000}, "b")
	_, err := Reports(a, b)
	require.ErrorContains(t, err, "no row has a result in both: 1 rows are only in the old report, 1 only in the new one")
	twice := *a
	twice.Results = append(twice.Results, a.Results...)
	_, err = Reports(&twice, a)
	require.ErrorContains(t, err, "the old report has two rows named group/a")
	_, err = Reports(a, &twice)
	require.ErrorContains(t, err, "the new report has two rows")
}

func TestFilesThatAreNoReportsAreErrors(t *testing.T) {
	good := write(t, reportOf(1, map[string]float64{"a": 1000}, "a"))
	for text, want := range map[string]string{
		"":                      "is not a report as JSON",
		`{"schema":"other/1"}`:  `the schema is "other/1"`,
		`{"results":"nonsense"`: "is not a report as JSON",
	} {
		bad := filepath.Join(t.TempDir(), "bad.json")
		require.NoError(t, os.WriteFile(bad, []byte(text), 0o600))
		_, err := Files(bad, good)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "old report")
		_, err = Files(good, bad)
		require.ErrorContains(t, err, "new report")
	}
	_, err := Files(good, good+".not")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Of a hundred reports of the same, of twenty rows each, at most a few have a false alarm.
func TestReportsOfTheSameRaiseFewAlarms(t *testing.T) {
	cases := map[string]float64{}
	var order []string
	for i := range 20 {
		name := string(rune('a' + i))
		cases[name], order = 50_000, append(order, name)
	}
	alarms := 0
	for i := range uint64(30) {
		r, err := Reports(reportOf(2*i, cases, order...), reportOf(2*i+1, cases, order...), Threshold(0))
		require.NoError(t, err)
		if r.Count(bench.Slower)+r.Count(bench.Faster) > 0 {
			alarms++
		}
	}
	require.LessOrEqual(t, alarms, 3)
}

func TestEveryFormatHasEveryRow(t *testing.T) {
	before := reportOf(1, map[string]float64{"same": 100_000, "near": 100_000, "gone": 1000, "breaks": 1000}, "same", "near", "gone", "breaks")
	after := reportOf(2, map[string]float64{"same": 100_000, "near": 101_050, "new": 1000, "breaks": 0}, "same", "near", "new", "breaks")
	r, err := Files(write(t, before), write(t, after))
	require.NoError(t, err)
	require.Equal(t, bench.Unclear, verdicts(r)["near"], "on the threshold")
	for name, format := range map[string]struct {
		write func(*bytes.Buffer) error
		parts []string
	}{
		"table":    {func(b *bytes.Buffer) error { return r.WriteTable(b) }, []string{"case ", "same", "only in the old report: group/gone", "0 slower, 0 faster, 1 the same, 1 unclear", "group/near: unclear: "}},
		"markdown": {func(b *bytes.Buffer) error { return r.WriteMarkdown(b) }, []string{"| group/same |", "* only in the new report: group/new"}},
		"csv":      {func(b *bytes.Buffer) error { return r.WriteCSV(b) }, []string{"group/same,same,", "group/breaks,,,,,,,,,,,no result in the new report"}},
		"json":     {func(b *bytes.Buffer) error { return r.WriteJSON(b) }, []string{`"failed":["group/breaks"]`}},
	} {
		var out bytes.Buffer
		require.NoError(t, format.write(&out))
		t.Log("\n" + out.String())
		for _, part := range format.parts {
			require.Contains(t, out.String(), part, name)
		}
		for _, word := range []string{"NaN", "Inf", "%!"} {
			require.NotContains(t, out.String(), word, name)
		}
		if name == "json" {
			s := schematest.Load(t, "../../docs/schema/benchcompare.schema.json")
			require.Empty(t, s.Check(t, out.Bytes()))
			require.NotEmpty(t, s.Check(t, []byte(`{"schema":"other"}`)))
		}
	}
}
