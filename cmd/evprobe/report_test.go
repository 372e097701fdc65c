package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events/mock"
)

// saved writes the document of a run to a file.
func saved(t *testing.T, got output) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, os.WriteFile(path, []byte(got.stdout), 0o600))
	return path
}

func TestReportIsMadeFromDocumentsWithoutADevice(t *testing.T) {
	t.Parallel()
	checks := saved(t, evprobe(t.Context(), simulated(t), nil, "check", "order", "cost", "-json"))
	ladder := saved(t, evprobe(t.Context(), simulated(t), nil, "bench", "-json", "-max", "16KiB"))
	never := func(int) (*opened, error) { t.Error("a device was opened"); return nil, missing }
	got := evprobe(t.Context(), never, never, "report", "-from", checks, "-from", ladder, "-")
	require.Equal(t, exitPassed, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.True(t, strings.HasPrefix(got.stdout, "<!DOCTYPE html>"))
	require.Equal(t, 3, strings.Count(got.stdout, "<svg "), "no clock was watched, so that is no picture")
	require.Contains(t, got.stdout, "Not drawn: the check drift has no readings in this document.")
	require.Contains(t, got.stdout, "16 KiB")
	require.NotContains(t, got.stdout, "<script")
	require.NotRegexp(t, `(src|href)="(http|//)`, got.stdout)
}

func TestPageIsWrittenAlsoWhereThereIsNoDevice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.html")
	got := evprobe(t.Context(), refusing(missing), nil, "report", "-json", path)
	require.Equal(t, exitUnavailable, got.code)
	require.Equal(t, document.Unavailable, got.document(t).Outcome)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), "libcudart.so.13")
	require.Contains(t, string(page), "library-missing")
}

// What a driver says of itself is text, whatever is in it.
func TestTextOfADriverIsNoMarkup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.html")
	evil := canned(nil, probe.Result{Name: "order", Verdict: probe.Pass, Measurement: "<script>alert(1)</script>", Series: []probe.Series{
		{Name: "event_deltas", Values: []float64{1, 2, 3}},
	}})
	got := evprobe(t.Context(), evil, nil, "check", "order", "-json")
	require.Equal(t, exitPassed, evprobe(t.Context(), evil, nil, "report", "-from", saved(t, got), path).code)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(page), "<script")
	require.Contains(t, string(page), "&lt;script&gt;")
}

// A place that takes no page is found out before minutes are spent on measuring.
func TestPageThatCannotBeWrittenIsNotSuccess(t *testing.T) {
	t.Parallel()
	never := func(int) (*opened, error) { t.Error("a device was opened"); return nil, missing }
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, place := range []string{filepath.Join(file, "page.html"), filepath.Join(t.TempDir(), "none", "page.html"), t.TempDir()} {
		got := evprobe(t.Context(), never, never, "report", place)
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.stderr, "the page cannot be written: ")
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
		require.Empty(t, got.stdout)
		doc := evprobe(t.Context(), never, never, "report", "-json", place).document(t)
		require.Equal(t, exitFailed, doc.ExitCode)
	}
}

func TestWrongUseOfASubcommandSaysWhatIsRight(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"check":                         "needs the names of checks: library, device",
		"check nope":                    `no check is called "nope"; there are library, device, handles`,
		"check order -frob":             "-frob; evprobe check -h lists the flags",
		"list order":                    "evprobe list takes flags only",
		"-backend mock list":            "a subcommand comes before the flags",
		"frob":                          "the subcommands are list, check, bench, report, diff",
		"bench -max 7KiB -format xml":   "-format takes ladder|table|markdown|csv|benchstat",
		"bench -max 1KiB":               "the ladder begins at 4 KiB",
		"bench -max lots":               "a size is a number with KiB, MiB or GiB after it",
		"bench -max 99999999999GiB":     "no such size",
		"report":                        "needs one FILE for the page, and got 0",
		"report a.html b.html":          "got 2",
		"report a.json":                 "-from a.json PAGE.html",
		"report -json -":                "cannot both go to standard output",
		"report -from none.json -":      "none.json: no such file",
		"diff a.json":                   "at least two documents, and got 1",
		"diff none.json other.json":     "none.json: no such file",
		"check order -step-timeout -3s": "step-timeout -3s: it must be at least 100ms",
	} {
		got := evprobe(t.Context(), refusing(missing), nil, strings.Fields(args)...)
		require.Equal(t, exitUsage, got.code, args)
		require.Contains(t, got.stderr, want, args)
		require.Contains(t, got.stderr, " -h lists the flags", args)
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), args)
	}
}

func TestEachSubcommandHasHelpWithExamples(t *testing.T) {
	t.Parallel()
	for _, v := range verbs() {
		for _, args := range [][]string{{v.name, "-h"}, {"help", v.name}} {
			args = strings.Fields(strings.Join(args, " "))
			got := evprobe(t.Context(), refusing(missing), nil, args...)
			require.Equal(t, exitPassed, got.code, args)
			require.Contains(t, got.stdout, "Examples:\n  evprobe")
			require.Contains(t, got.stdout, "Exit codes:")
			require.Contains(t, got.stdout, "-json")
		}
		for _, e := range v.examples {
			words := strings.Fields(strings.SplitN(strings.SplitN(e, "#", 2)[0], ">", 2)[0])
			require.Equal(t, "evprobe", words[0])
			words = strings.Fields(strings.ReplaceAll(strings.Join(words[1:], " "), "node*.json", "node1.json node2.json"))
			_, err := parse(words, backends())
			require.NoError(t, err, e)
		}
	}
}

func TestNamedChecksRunAlone(t *testing.T) {
	t.Parallel()
	doc := evprobe(t.Context(), simulated(t), nil, "check", "tick", "-json", "order").document(t)
	require.Equal(t, "check", doc.Command)
	require.Equal(t, []string{"tick", "order"}, doc.Requested.Checks)
	require.Len(t, doc.Checks, 2)
	require.Equal(t, "order", doc.Checks[0].Name)
	nothing := evprobe(t.Context(), simulated(t), nil, "check", "library")
	require.Equal(t, exitFailed, nothing.code, "a health check that measured nothing is not healthy")
}

func TestLadderIsPrintedInEachFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"ladder": "memset  4 KiB", "table": "fill/bytes=4096", "markdown": "| fill/bytes=4096", "csv": "4096", "benchstat": "BenchmarkMemset",
	} {
		got := evprobe(t.Context(), simulated(t), nil, "bench", "-max", "4KiB", "-format", format)
		require.Equal(t, exitPassed, got.code, got.stderr)
		require.Contains(t, strings.ToLower(got.stdout), strings.ToLower(want), format)
		require.Equal(t, format == "csv" || format == "benchstat", !strings.Contains(got.stdout, "mock device 0"), "what a program reads has no headline")
	}
	got := evprobe(t.Context(), simulated(t), nil, "bench", "-max", "4KiB", "-json")
	require.Empty(t, validate(t, got.stdout))
	doc := got.document(t)
	require.Equal(t, "bench", doc.Command)
	require.NotEmpty(t, doc.Bench.Results)
	require.Empty(t, doc.Checks)
}

func TestLadderThatFailsIsNotSuccess(t *testing.T) {
	t.Parallel()
	got := evprobe(t.Context(), simulated(t, mock.Fault{Op: mock.OpScratchMemset, Code: mock.CodeUnknown}), nil, "bench", "-max", "4KiB")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stdout, "0 of 7 sizes measured, 7 failed")
	require.Contains(t, got.stdout, "mockErrorUnknown (999)")
}

func TestLadderThatHangsEndsWith5(t *testing.T) {
	t.Parallel()
	got := evprobe(t.Context(), simulated(t, mock.Fault{Op: mock.OpScratchMemset, Hang: true}), nil, "bench", "-max", "4KiB", "-json", "-step-timeout", "200ms")
	require.Equal(t, exitTimedOut, got.code)
	doc := got.document(t)
	require.Equal(t, "bench", doc.Unfinished.Check)
	require.Equal(t, "memset of 4 KiB", doc.Unfinished.Step)
	require.True(t, doc.Unfinished.StepLimit)
}

func TestDiffOfTwoRunsNamesWhatChanged(t *testing.T) {
	t.Parallel()
	good := saved(t, evprobe(t.Context(), canned(nil, pass), nil, "-json"))
	failed := pass
	failed.Verdict = probe.Fail
	bad := saved(t, evprobe(t.Context(), canned(nil, failed), nil, "-json"))
	require.Equal(t, exitPassed, evprobe(t.Context(), nil, nil, "diff", good, good).code)
	got := evprobe(t.Context(), nil, nil, "diff", good, bad)
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^order +pass +fail$`, got.stdout)
	machine := evprobe(t.Context(), nil, nil, "diff", "-json", good, bad)
	require.Equal(t, exitFailed, machine.code)
	require.Contains(t, machine.stdout, `"schema": "devevents.evprobe.diff/1"`)
	require.Empty(t, validateDiff(t, machine.stdout))
	var stderr bytes.Buffer
	require.Equal(t, exitFailed, command{stdout: full{}, stderr: &stderr}.run(context.Background(), []string{"diff", good, good}))
	require.Contains(t, stderr.String(), "no space left on device")
}
