package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
)

// file is a report of rows that take so many nanoseconds, or fail for 0.
func file(t *testing.T, host string, rows map[string]time.Duration) string {
	t.Helper()
	r := &bench.Report{Schema: bench.Schema, Provenance: bench.Provenance{Host: host}}
	for name, took := range rows {
		res := bench.Result{Group: "g", Case: name, Status: bench.Failed}
		if took > 0 {
			res.Status, res.Latency = bench.OK, &bench.Summary{Median: float64(took)}
			for i := range time.Duration(60) {
				res.Samples = append(res.Samples, bench.RawSample{Duration: took + took*(i*37%60-30)/10_000, Iterations: 1})
			}
		}
		r.Results = append(r.Results, res)
	}
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, bench.WriteFile(path, r.WriteJSON))
	return path
}

func benchcompare(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(args, &o, &e)
	t.Log(code, "\n"+o.String()+e.String())
	return code, o.String(), e.String()
}

const us = time.Microsecond

// A comparison that always ended with 0 gated nothing.
func TestExitCodesGate(t *testing.T) {
	before := file(t, "a", map[string]time.Duration{"x": 100 * us, "y": 100 * us})
	slower := file(t, "a", map[string]time.Duration{"x": 103 * us, "y": 100 * us})
	faster := file(t, "a", map[string]time.Duration{"x": 97 * us, "y": 100 * us})
	near := file(t, "a", map[string]time.Duration{"x": 101 * us, "y": 100 * us})
	failed := file(t, "a", map[string]time.Duration{"x": 0, "y": 100 * us})
	missing := file(t, "a", map[string]time.Duration{"y": 100 * us})
	elsewhere := file(t, "b", map[string]time.Duration{"x": 100 * us, "y": 100 * us})
	other := file(t, "a", map[string]time.Duration{"z": 100 * us})
	for _, c := range []struct {
		want int
		args []string
	}{
		{exitPassed, []string{before, before}},
		{exitPassed, []string{before, faster}},
		{exitPassed, []string{before, near}},
		{exitPassed, []string{before, missing}},
		{exitFailed, []string{before, slower}},
		{exitFailed, []string{before, failed}},
		{exitPassed, []string{"-threshold", "5%", before, slower}},
		{exitPassed, []string{"-fail-on", "none", before, slower}},
		{exitFailed, []string{"-fail-on", "faster", before, faster}},
		{exitFailed, []string{"-fail-on", "slower,unclear", before, near}},
		{exitFailed, []string{"-fail-on", "missing", before, missing}},
		{exitUsage, []string{before}},
		{exitUsage, []string{before, before, before}},
		{exitUsage, []string{"-fail-on", "broken", before, before}},
		{exitUsage, []string{"-format", "xml", before, before}},
		{exitUsage, []string{"-threshold", "200%", before, before}},
		{exitUsage, []string{"-nonsense", before, before}},
		{exitUsage, []string{before, before + ".not"}},
		{exitNotComparable, []string{before, elsewhere}},
		{exitNotComparable, []string{"-force", before, other}},
		{exitPassed, []string{"-force", before, elsewhere}},
	} {
		code, _, errOut := benchcompare(t, c.args...)
		require.Equal(t, c.want, code, "%v", c.args)
		require.Equal(t, c.want != exitPassed, errOut != "", "a failure says why: %v", c.args)
		require.LessOrEqual(t, strings.Count(errOut, "\n"), 3)
	}
}

// The way out that an error names has to be one.
func TestRefusalNamesForceOnlyWhereItHelps(t *testing.T) {
	before := file(t, "a", map[string]time.Duration{"x": 100 * us})
	elsewhere := file(t, "b", map[string]time.Duration{"x": 100 * us})
	other := file(t, "a", map[string]time.Duration{"z": 100 * us})
	code, out, errOut := benchcompare(t, before, elsewhere)
	require.Equal(t, exitNotComparable, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "host: a and b")
	require.Contains(t, errOut, "-force")
	code, _, errOut = benchcompare(t, before, other)
	require.Equal(t, exitNotComparable, code)
	require.Contains(t, errOut, "no row has a result in both")
	require.NotContains(t, errOut, "-force")
}

func TestFormatsAndHelp(t *testing.T) {
	before := file(t, "a", map[string]time.Duration{"x": 100 * us})
	for format, part := range map[string]string{"table": "case ", "markdown": "| case |", "csv": "name,verdict", "json": `"schema":"devevents.benchcompare/1"`} {
		code, out, _ := benchcompare(t, "-format", format, before, before)
		require.Zero(t, code)
		require.Contains(t, out, part)
	}
	code, out, errOut := benchcompare(t, "-h")
	require.Zero(t, code)
	require.Empty(t, errOut)
	for _, part := range []string{"examples:", "exit codes:", "-fail-on", "-threshold"} {
		require.Contains(t, out, part)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestResultThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	before := file(t, "a", map[string]time.Duration{"x": 100 * us})
	var e bytes.Buffer
	require.Equal(t, exitNotWritten, run([]string{before, before}, full{}, &e))
	require.Contains(t, e.String(), "no space left")
}
