package house_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stranger copies what the page on new backends shows, as it stands. It must build
// beside this module alone, and fail as the page says.
func TestCodeForNewBackendsBuildsAndFailsAsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs another module")
	}
	top := root(t)
	page := read(t, top, filepath.Join("docs", "new-backend.md"))
	file := func(name string) string {
		m := regexp.MustCompile("(?s)```go\n// " + regexp.QuoteMeta(name) + "\n(.*?)```").FindStringSubmatch(page)
		require.NotNil(t, m, name)
		return m[1]
	}
	block := func(begin string) string {
		m := regexp.MustCompile("(?s)```go\n(" + regexp.QuoteMeta(begin) + ".*?)```").FindStringSubmatch(page)
		require.NotNil(t, m, begin)
		return m[1]
	}
	module := goMod(t, top).Module.Path
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        fmt.Sprintf("module example.org/toy\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, top),
		"toy.go":        file("toy.go"),
		"errors.go":     "package toy\n\nimport \"" + module + "/events\"\n\n" + block("var (\n\tnames"),
		"toy_test.go":   file("toy_test.go"),
		"storm_test.go": "package toy\n\nimport (\n\"testing\"\n\"time\"\n\n\"" + module + "/events/eventstest\"\n)\n\n" + block("func TestContractBesideAStorm"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	require.Empty(t, run("vet", "."))
	out := run("test", "-run", "^TestContract$", ".")
	shown := regexp.MustCompile("(?s)```text\n(rule .*?)```").FindStringSubmatch(page)
	require.NotNil(t, shown)
	for line := range strings.Lines(shown[1]) {
		require.Contains(t, out, strings.TrimSpace(line))
	}
}
