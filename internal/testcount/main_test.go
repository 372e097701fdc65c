package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// feed runs the command over events and returns its exit code, its report and
// the kept results.
func feed(t *testing.T, events string) (code int, report, kept string) {
	t.Helper()
	into := filepath.Join(t.TempDir(), "results")
	var out, errs bytes.Buffer
	code = run([]string{"-into", into}, strings.NewReader(events), &out, &errs)
	require.Empty(t, errs.String())
	text, err := os.ReadFile(into)
	require.NoError(t, err)
	return code, out.String(), string(text)
}

func TestParentsAreNotCountedBesideTheirSubtests(t *testing.T) {
	code, report, kept := feed(t, `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"output","Package":"p","Test":"TestA/y","Output":"    a_test.go:3: no cc\n"}
{"Action":"skip","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.5}
`)
	require.Equal(t, 0, code)
	require.Equal(t, "pass p TestA/x\nskip p TestA/y\n", kept)
	require.Contains(t, report, "skip p TestA/y: a_test.go:3: no cc")
	require.Contains(t, report, "in all 1 passed, 0 failed, 1 skipped")
}

func TestParentThatFailsAloneIsCounted(t *testing.T) {
	code, report, kept := feed(t, `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA","Output":"leaked\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Elapsed":0.5}
`)
	require.Equal(t, 1, code)
	require.Equal(t, "fail p TestA\npass p TestA/x\n", kept)
	require.Contains(t, report, "    leaked\n")
}

func TestPackageThatDiesIsAFailure(t *testing.T) {
	for name, events := range map[string]string{
		"build": `
{"ImportPath":"p","Action":"build-output","Output":"p.go:1: undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`,
		"exit in TestMain": `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"goleak: found 1 goroutine\n"}
{"Action":"fail","Package":"p"}
`,
		"panic in the middle of a test": `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}
`,
		"stream cut": `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
`,
	} {
		t.Run(name, func(t *testing.T) {
			code, report, kept := feed(t, events)
			require.Equal(t, 1, code)
			require.Equal(t, 1, strings.Count(kept, "fail p "), kept)
			require.Contains(t, report, "1 failed")
			if name == "build" {
				require.Contains(t, report, "undefined: x")
			}
		})
	}
}

func TestBenchmarksAndEmptyPackagesAreNotTests(t *testing.T) {
	code, report, kept := feed(t, `
{"Action":"run","Package":"p","Test":"BenchmarkA"}
{"Action":"bench","Package":"p","Test":"BenchmarkA","Output":"1 ns/op"}
{"Action":"pass","Package":"p"}
{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
`)
	require.Equal(t, 0, code)
	require.Empty(t, kept)
	require.Equal(t, "in all 0 passed, 0 failed, 0 skipped\n", strings.TrimPrefix(report, "\n"))
}

func TestClosingLineCountsEachTestOnceAndTheWorstOfItsRuns(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "results")
	require.NoError(t, os.WriteFile(kept, []byte(
		"pass p TestA\npass p TestA\nskip p TestB\npass p TestB\npass p TestC\nfail p TestC\nskip p TestD\npass q TestA\n"), 0o600))
	var out, errs bytes.Buffer
	code := run([]string{"-close", kept}, strings.NewReader(""), &out, &errs)
	require.Equal(t, 1, code)
	require.Equal(t, "FAIL p TestC\n3 passed, 1 failed, 1 skipped\n", out.String(), "whoever sees only the end learns what failed")
	require.Empty(t, errs.String())
}

func TestWrongUseExitsTwo(t *testing.T) {
	garbled := filepath.Join(t.TempDir(), "results")
	require.NoError(t, os.WriteFile(garbled, []byte("perhaps p TestA\n"), 0o600))
	for _, args := range [][]string{{"-nonsense"}, {"stray"}, {"-close", garbled}, {"-close", "nowhere"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, strings.NewReader(""), &out, &errs), args)
		require.NotEmpty(t, errs.String(), args)
		require.Empty(t, out.String(), args)
	}
}
