package main

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/new-backend.md can be followed to the letter: its files compile in a module
// of their own, and fail as the page says.
func TestPageCanBeFollowedToTheLetter(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command and the source tree")
	}
	here := strings.TrimSpace(command(t, ".", "go", "list", "-m", "-f", "{{.Dir}} {{.Path}}"))
	root, module, _ := strings.Cut(here, " ")
	text, err := os.ReadFile(filepath.Join(root, "docs", "new-backend.md"))
	require.NoError(t, err)

	dir := t.TempDir()
	files := regexp.MustCompile("(?s)```go\n// (\\S+\\.go)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, files, 4)
	for _, f := range files {
		formatted, err := format.Source([]byte(f[2]))
		require.NoError(t, err, f[1])
		require.Equal(t, string(formatted), f[2], "%s is not formatted", f[1])
		require.NoError(t, os.WriteFile(filepath.Join(dir, f[1]), formatted, 0o600))
	}
	steps := regexp.MustCompile(`(?m)^go mod .*?( +#.*)?$`).FindAllString(string(text), -1)
	require.Len(t, steps, 2)
	for _, step := range steps {
		args := strings.Fields(regexp.MustCompile(` +#.*$`).ReplaceAllString(step, ""))
		for i := range args {
			args[i] = strings.Replace(args[i], "-replace="+module+"=../devevents", "-replace="+module+"="+root, 1)
		}
		command(t, dir, args[0], args[1:]...)
	}

	command(t, dir, "go", "vet", ".")
	cmd := exec.Command("go", "test", ".")
	cmd.Dir = dir
	printed, err := cmd.CombinedOutput()
	require.Error(t, err)
	promised := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(string(text))
	require.Len(t, promised, 2)
	for line := range strings.Lines(promised[1]) {
		require.Contains(t, string(printed), strings.TrimSpace(line))
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s", name, strings.Join(args, " "))
	return string(out)
}
