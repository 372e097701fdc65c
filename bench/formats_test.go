package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench/internal/show"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/schematest"
)

// specimens is a report with everything in it: a measured case, axes, metrics, a
// failure with a code, a skip, diagnostics, notes, and names that break formats.
func specimens(t *testing.T) *Report {
	b := newBed(t)
	b.runner.Note("driver", "580.159")
	b.bench(b.work(5*time.Microsecond), Bytes(1<<20), Flops(1e6), Peak(Work{Bytes: 1e9}), Samples(250, 250))
	Group(b.runner, `odd | "names", <all>`, func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU), Samples(7, 7))
		g.Axis("type", "a b", "c,d")
		g.Context(func(c *Case) (int, error) {
			if v, _ := c.Axis("type"); v == "c,d" {
				return 0, Skip("not today,\nperhaps tomorrow")
			}
			return 0, nil
		})
		g.Diagnose("pass", func(int) ([]Metric, error) {
			return []Metric{{Name: "x", Value: Int(3)}}, errors.New("half of it")
		})
		g.BenchSample("a case", func(_ int, it Iters) (Done, error) {
			if it.Index == 3 {
				return Done{}, errors.New("no")
			}
			return Done{Metrics: []Metric{{Name: "nan", Value: Float(nan)}, {Section: "s", Name: "i", Unit: "u", Format: "%d", Value: Int(7)}}},
				b.dev.Work(b.stream, time.Microsecond)
		})
	})
	b.runner.Fail("broken", errors.New("two\nlines"))
	b.dev.Script(mock.Fault{Op: mock.OpEventRecord, Lose: true})
	b.bench(b.work(time.Microsecond))
	return b.runner.Report()
}

func TestJSONKeepsEverythingAndFollowsTheSchema(t *testing.T) {
	report := specimens(t)
	checkOutputs(t, report)
	var out bytes.Buffer
	require.NoError(t, report.WriteJSON(&out))
	require.Empty(t, schematest.Load(t, benchSchema).Check(t, out.Bytes()))
	var back Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, report.Results, back.Results, "nothing is lost on the way")
	require.Len(t, back.Results[0].Samples, 250)
	require.NotNil(t, back.Results[0].Latency.P99)
	require.Equal(t, "GPU-00000000-0000-4000-8000-000000000001", back.Provenance.Devices[0].UUID)
	require.Equal(t, "580.159", back.Provenance.Notes["driver"])
}

func TestCSVHasALineForEachNumber(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, specimens(t).WriteCSV(&out))
	lines, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err, "every line has as many fields")
	require.Equal(t, csvHeader, lines[0])
	found := map[string]bool{}
	for _, l := range lines[1:] {
		found[l[3]+" "+l[4]+" "+l[5]] = true
	}
	for _, want := range []string{
		"ok case latency", "ok case device", "ok case floor", "ok case leaked", "ok  mock_event_ms", "ok case stopped",
		"ok diagnostic pass x", "ok diagnostic pass error", "skipped case skipped", "failed error mock error mock_error_code", "ok case note",
	} {
		require.True(t, found[want], "%s in %v", want, found)
	}
}

func TestMarkdownTablesHaveTheirColumns(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, specimens(t).WriteMarkdown(&out))
	columns := 0
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns != 0 {
			require.Equal(t, columns, n, line)
		}
		columns = n
	}
	require.Contains(t, out.String(), `## odd \| "names", &lt;all>`)
}

func TestTableIsAligned(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, specimens(t).WriteTable(&out))
	t.Log("\n" + out.String())
	var header string
	for line := range strings.Lines(out.String()) {
		require.Equal(t, strings.TrimRight(line, " \n")+"\n", line, "no spaces at the end of a line")
		switch {
		case strings.Contains(line, "latency/op"):
			header = line
		case strings.HasPrefix(line, "  case ") && strings.Contains(line, "us "):
			require.Equal(t, strings.Index(header, "latency/op"), strings.Index(line, "6."), line)
		}
	}
}

// benchstat reads the text unchanged, takes device time for a time and knows which
// direction is better.
func TestBenchstatReadsOurText(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command, to run benchstat")
	}
	dir := t.TempDir()
	for name, d := range map[string]time.Duration{"old": 20 * time.Microsecond, "new": 10 * time.Microsecond} {
		b := newBed(t)
		n := 0
		b.bench(func(it Iters) error {
			n++
			return b.work(d + time.Duration(n%7)*32*time.Nanosecond)(it)
		}, Bytes(1<<20), Samples(100, 100))
		Group(b.runner, "host", func(g *GroupOf[int]) {
			g.Set(On(constant(d)), FixedChunk(1), Samples(20, 20))
			g.Bench("case", nothing)
		})
		require.NoError(t, WriteFile(filepath.Join(dir, name), b.runner.Report().WriteBenchstat))
	}
	text, err := os.ReadFile(filepath.Join(dir, "old"))
	require.NoError(t, err)
	t.Log("\n" + string(text))
	for _, unit := range []string{"device-ns/op better=lower", "complete-ns/op better=lower", "ns/op better=lower", "B/s better=higher", "flop/s better=higher"} {
		require.Contains(t, string(text), "\nUnit "+unit+"\n")
	}
	require.Equal(t, 20+20, strings.Count(string(text), "\nBenchmark"))
	cmd := exec.Command("go", "tool", "-modfile=../tools/go.mod", "benchstat", filepath.Join(dir, "old"), filepath.Join(dir, "new"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Log("\n" + string(out))
	for _, want := range []string{"device-sec/op", "complete-sec/op", "B/s", "sec/op", "-46.", "+8", "Group/case", "Host/case"} {
		require.Contains(t, string(out), want)
	}
	require.NotContains(t, string(out), "syntax")
}

func TestBlocksCoverAllSamples(t *testing.T) {
	for _, n := range []int{0, 1, 19, 20, 21, 399, 20_000} {
		list := blocks(n, 20)
		require.Len(t, list, min(n, 20))
		next := 0
		for _, b := range list {
			require.Equal(t, next, b[0])
			require.Greater(t, b[1], b[0])
			next = b[1]
		}
		require.Equal(t, n, next)
	}
}

// Reports that were written in place were lost with a run that broke off, and files
// named by the second overwrote each other.
func TestFileIsReplacedAsAWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	require.NoError(t, WriteFile(path, write("first")))
	err := WriteFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of the sec")
		return errors.New("broke off")
	})
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "broke off")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(text))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")
	require.NoError(t, WriteFile(path, write("second")))
	require.Error(t, WriteFile(filepath.Join(filepath.Dir(path), "no", "such", "folder"), write("x")))
}

func TestCommandLineWritesFilesBesideTheTable(t *testing.T) {
	dir := t.TempDir()
	define := func(r *Runner) {
		r.Set(quick(20, 20)...)
		Group(r, "g", func(g *GroupOf[int]) {
			g.Set(On(constant(1000)), In(GPU))
			g.Bench("c", nothing)
		})
	}
	args := []string{"-format", "markdown"}
	for _, f := range formatNames() {
		args = append(args, "-o", f+"="+filepath.Join(dir, f))
	}
	code, out, _ := command(t, define, args...)
	require.Zero(t, code)
	require.Contains(t, out, "| case |")
	for _, f := range formatNames() {
		text, err := os.ReadFile(filepath.Join(dir, f))
		require.NoError(t, err)
		require.NotEmpty(t, text)
	}
	code, _, errOut := command(t, define, "-o", "json="+filepath.Join(dir, "no", "where"))
	require.Equal(t, 1, code, "a report that could not be written is no success")
	require.Contains(t, errOut, "where")
}

func TestNumbersAreReadable(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 12.3456: "12.35", 0.0123456: "0.01235", 123456.78: "123456.8", 1e9: "1000000000", 1.5e16: "1.500e+16", 1.2346e-7: "1.235e-07",
	} {
		require.Equal(t, want, show.Digits(v))
	}
	require.Equal(t, "n/a", number(nan, ""))
	require.Equal(t, "3.14", number(3.14159, "%.2f"))
	require.Equal(t, "3.142", number(3.14159, "%d"), "a verb for integers is not used")
	require.Equal(t, "1.500 ms 2 us", show.Nanoseconds(1.5e6)+" "+show.Nanoseconds(2000))
	require.Equal(t, []string{"driver: 580 and 590"}, Provenance{Notes: map[string]string{"driver": "580"}}.Mismatch(Provenance{Notes: map[string]string{"driver": "590"}}))
	require.Empty(t, Provenance{Revision: "a"}.Mismatch(Provenance{Revision: "b"}))
	require.Equal(t, "Group_x", benchName("group x"))
}
