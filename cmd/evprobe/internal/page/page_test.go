package page

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/hint"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// wellFormed reads a picture as XML and checks that every number in it lies within it.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, svg)
	}
	require.NotRegexp(t, `NaN|Inf`, svg)
	for _, m := range regexp.MustCompile(` (?:x|cx)="([-0-9.]+)"`).FindAllStringSubmatch(svg, -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		require.True(t, x >= 0 && x <= width, m[0])
	}
	for _, m := range regexp.MustCompile(` (?:y|cy)="([-0-9.]+)"`).FindAllStringSubmatch(svg, -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		require.True(t, y >= 0 && y <= height, m[0])
	}
}

func TestPicturesOfOddReadingsStayWithinTheirFrame(t *testing.T) {
	for name, values := range map[string][]float64{
		"all the same": {1280, 1280, 1280}, "zeros": {0, 0}, "two": {1, 2}, "far outlier": append(make([]float64, 500), 1e12),
		"wide": {1, 1e3, 1e6, 1e9}, "fractions": {0.25, 0.5}, "large": {1e17, 2e17},
	} {
		svg, note := histogram("h", values)
		wellFormed(t, string(svg))
		require.Contains(t, note, "Median", name)
		wellFormed(t, string(lines("l", []curve{{points: zip(nil, values)}}, axis{name: "x"}, axis{name: "y", unit: "ns", zero: true})))
	}
	negative := []float64{-300, -200, 400}
	wellFormed(t, string(lines("l", []curve{{name: "a & b", points: zip([]float64{0, 1, 2}, negative)}}, axis{name: "x"}, axis{name: "y", unit: "ns", zero: true})))
	wellFormed(t, string(lines("l", []curve{{points: []point{{4096, 0}}}}, axis{unit: "B", log: true}, axis{zero: true})))
	wellFormed(t, string(lines("l", []curve{{points: []point{{0, math.NaN()}}}}, axis{log: true}, axis{}.fit())))
}

func TestHistogramCountsEveryReading(t *testing.T) {
	counts, step := count([]float64{0, 1, 1, 2, 80}, 0, 80)
	sum := 0
	for _, k := range counts {
		sum += k
	}
	require.Equal(t, 5, sum)
	require.InDelta(t, 2, step, 0)
	_, note := histogram("h", append(make([]float64, 500), 1e12))
	require.Contains(t, note, "; 1 beyond, up to 16m40s.")
}

func TestTicksAreRoundAndFew(t *testing.T) {
	require.Equal(t, []float64{0, 500, 1000}, axis{from: 0, to: 1080}.ticks(5)[:3])
	for _, a := range []axis{{from: 0, to: 3}, {from: -1e-9, to: 1e-9}, {from: 1e9, to: 1e9 + 7}, {from: 1280, to: 1281, unit: "ns"}, {from: 4096, to: 1 << 40, log: true}} {
		ticks := a.ticks(6)
		require.NotEmpty(t, ticks)
		require.LessOrEqual(t, len(ticks), 8, "%+v", a)
	}
}

func TestPageSaysWhatWentWrongAndWhatToDo(t *testing.T) {
	d := document.New("report", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	d.End(document.Crashed, 1, "the driver crashed")
	d.Crash = &document.Crash{Signal: "SIGSEGV", Output: "goroutine 1 <running>"}
	d.Hints = []hint.Hint{*hint.For("cuda", 802)}
	d.Unavailable = []document.Refusal{{Backend: "hip", Cause: events.CauseLibraryMissing, Detail: "none", Candidates: []events.Candidate{{Path: "libamdhip64.so.7", Reason: "not there"}}}}
	d.Checks = []probe.Result{{Name: "tick", Verdict: probe.Fail, Reason: "coarse", Expectation: "fine", Meaning: "rounding", Numbers: map[string]any{"tick_ns": 2000.0, "odd_ppm": nil, "spans": 3.0, "drift_ppm": 1.5}}}
	d.Bench = &bench.Report{Results: []bench.Result{{Group: "copy", Status: bench.Failed, Errors: []bench.ErrorRow{{Text: "no memory"}}}}}
	var b strings.Builder
	require.NoError(t, Write(&b, d))
	for _, want := range []string{
		"no device", "crashed</strong> the driver crashed", "What to do about code 802", "fabric manager", "goroutine 1 &lt;running&gt;", "library-missing",
		"libamdhip64.so.7", "Without it rounding.", "2µs", "not a number", "1.50 ppm", "no memory", "Not drawn: no ladder",
	} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "<svg")
}
