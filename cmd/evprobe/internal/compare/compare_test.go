package compare

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

func file(name, driver string, v probe.Verdict, trip float64) File {
	return File{name, &document.Document{
		Outcome: "passed", Library: &document.Library{DriverVersionText: driver},
		Checks: []probe.Result{{Name: "cost", Verdict: v, Numbers: map[string]any{"round_trip_median_ns": trip, "trips": 200.0}}},
	}}
}

func TestTwoFilesAreSetSideBySideWithTheChange(t *testing.T) {
	r := Documents([]File{file("x/before.json", "12.8", probe.Pass, 6000), file("x/after.json", "13.0", probe.Fail, 9000)})
	require.Equal(t, []string{"before", "after"}, r.Files)
	require.Equal(t, []Difference{{"driver", []string{"12.8", "13.0"}}}, r.About)
	require.Equal(t, []Difference{{"cost", []string{"pass", "fail"}}}, r.Verdicts)
	require.Empty(t, r.Figures[0].Outliers, "of two files neither is the odd one")
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	require.Regexp(t, `(?m)^cost: round_trip_median +6µs +9µs +\+50.0 %$`, b.String())
	require.Contains(t, b.String(), "1 figures are the same in all 2 files")
	require.NotContains(t, b.String(), "trips ")
}

func TestManyFilesGiveTheSpreadAndTheOddOneByName(t *testing.T) {
	var files []File
	for i, trip := range []float64{6000, 6100, 5900, 6050, 9000} {
		files = append(files, file("node"+string(rune('a'+i))+".json", "13.0", probe.Pass, trip))
	}
	r := Documents(files)
	require.Empty(t, r.About)
	f := r.Figures[0]
	require.Equal(t, "cost: round_trip_median", f.Name)
	require.Equal(t, "ns", f.Unit)
	require.InDelta(t, 6050, f.Median, 0)
	require.InDelta(t, 3100.0/6050, *f.Spread, 1e-9)
	require.Equal(t, []string{"nodee"}, f.Outliers)
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	require.Regexp(t, `(?m)^cost: round_trip_median +5.9µs +6.05µs +9µs +51.2 % +nodee$`, b.String())
	require.Contains(t, b.String(), "far from the others: nodee in 1 figures")
}

func TestFigureThatAFileLacksIsADash(t *testing.T) {
	with, without := file("a.json", "", probe.Pass, 6000), file("b.json", "", probe.Pass, 0)
	without.Document.Checks = nil
	with.Document.Bench = &bench.Report{Results: []bench.Result{{Group: "memset", Case: "fill", Latency: &bench.Summary{Median: 1500}}, {Group: "spin"}}}
	r := Documents([]File{with, without})
	require.Nil(t, r.Figures[0].Values[1])
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	require.Regexp(t, `(?m)^cost: round_trip_median +6µs +- +-$`, b.String())
	require.Regexp(t, `(?m)^bench: memset/fill median +1.5µs +- +-$`, b.String())
	require.Equal(t, []string{"pass", ""}, r.Verdicts[0].Values)
}

func TestFilesOfOneNameKeepTheirFolders(t *testing.T) {
	require.Equal(t, []string{"a/x.json", "b/x.json"}, names([]File{{Name: "a/x.json"}, {Name: "b/x.json"}}))
	require.Equal(t, []string{"x.json", "x.json (2)"}, names([]File{{Name: "x.json"}, {Name: "x.json"}}))
}

func TestFigureAtZeroHasNoSpread(t *testing.T) {
	zero, one := 0.0, 1.0
	f := figure("handles: live_events_delta", []*float64{&zero, &zero, &one}, []string{"a", "b", "c"})
	require.Nil(t, f.Spread)
	require.Equal(t, []string{"c"}, f.Outliers)
	require.Equal(t, "-", percent(f.Spread))
	require.Equal(t, "-", change(&zero, &one))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestComparisonThatCannotBeWrittenIsAnError(t *testing.T) {
	require.ErrorContains(t, Documents([]File{file("a", "", probe.Pass, 1), file("b", "", probe.Pass, 2)}).Write(full{}), "no space")
}
