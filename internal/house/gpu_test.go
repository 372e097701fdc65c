package house_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Test binaries travel to machines that have a GPU and no Go. What runs there
// must be the tests, all of them, and a failure must not get lost on the way.
func TestScriptsCarryTestsToAMachineWithoutGo(t *testing.T) {
	top := root(t)
	build, there := t.TempDir(), t.TempDir()
	t.Setenv("BUILD", build)
	t.Setenv("LIMIT", "120")
	parts := []string{"tests"}
	if !testing.Short() {
		parts = append(parts, "probe")
	}
	code, printed := script(t, top, "gpu-build", "./events/mock", "./internal/house")
	require.Equal(t, 0, code, printed)
	copyFile(t, filepath.Join(top, "scripts", "gpu-run"), filepath.Join(there, "scripts", "gpu-run"))

	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("OUT", out)
	t.Setenv("BACKEND", "mock")
	t.Setenv("PATH", "/usr/bin:/bin")
	code, printed = script(t, there, "gpu-run", parts...)
	require.Equal(t, 0, code, printed)
	table := read(t, out, "table.txt")
	require.Regexp(t, `(?m)^events/mock +ok +[1-9][0-9]* +0 +[0-9]+ +[0-9]+$`, table)
	require.NotContains(t, table, "internal/house", "tests of the repository have nothing to run there")
	if !testing.Short() {
		require.Regexp(t, `(?m)^evprobe -backend mock \(exit 0\) +ok `, table)
		require.Contains(t, read(t, out, "evprobe.json"), `"schema"`)
	}

	tree := t.TempDir()
	command(t, tree, "tar", "-xzf", filepath.Join(build, "gpu.tar.gz"))
	require.NoError(t, os.RemoveAll(filepath.Join(tree, "pkg")))
	broken := filepath.Join(tree, "pkg", "broken")
	require.NoError(t, os.MkdirAll(broken, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "pkg.test"), []byte("#!/bin/sh\necho it died\nexit 2\n"), 0o700))
	command(t, tree, "tar", "-czf", filepath.Join(build, "gpu.tar.gz"), ".")
	code, printed = script(t, there, "gpu-run", "tests")
	require.Equal(t, 1, code, printed)
	require.Regexp(t, `(?m)^broken +FAILED +0 +1 +0 `, read(t, out, "table.txt"))
	require.Contains(t, read(t, out, "tests.log"), "it died")
}
