package house_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module moves to its final home in one command, and nothing that names the
// old path stays behind.
func TestRenamedModuleBuilds(t *testing.T) {
	top := root(t)
	old := goMod(t, top).Module.Path
	const moved = "github.com/zz-acme/gpu.events"

	dir := filepath.Join(t.TempDir(), "tree")
	for _, file := range files(t, top) {
		copyFile(t, filepath.Join(top, file), filepath.Join(dir, file))
	}
	for name, text := range map[string]string{
		"notes.md":       "See https://" + old + ", " + old + "/fence and " + old + " " + old + ".\n",
		"unrelated.md":   old + "-tools and my" + old + " are other projects.\n",
		"not-to-read.go": "// Package notes sorts its imports.\npackage notes\n\nimport (\n\t_ \"" + old + "/events\"\n\n\t_ \"" + old + "/events/mock\"\n\t_ \"github.com/a/b\"\n)\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "docs", "notes"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "docs", "notes", name), []byte(text), 0o600))
	}
	command(t, dir, "git", "init", "-q")

	code, printed := script(t, dir, "rename-module", moved)
	require.Equal(t, 0, code, printed)

	require.Equal(t, moved, goMod(t, dir).Module.Path)
	require.Equal(t, "See https://"+moved+", "+moved+"/fence and "+moved+" "+moved+".\n", read(t, dir, "docs/notes/notes.md"))
	require.Equal(t, old+"-tools and my"+old+" are other projects.\n", read(t, dir, "docs/notes/unrelated.md"))
	require.Less(t, strings.Index(read(t, dir, "docs/notes/not-to-read.go"), "github.com/a/b"),
		strings.Index(read(t, dir, "docs/notes/not-to-read.go"), moved+"/events/mock"), "imports are sorted anew")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "docs", "notes")))
	for _, file := range files(t, dir) {
		require.NotContains(t, read(t, dir, file), old, file)
	}
	require.Empty(t, strings.TrimSpace(command(t, dir, "gofmt", "-l", ".")))

	t.Setenv("CGO_ENABLED", "0")
	// Without trimmed paths nothing could come from the build cache, since the
	// folder differs each time.
	command(t, dir, "go", "build", "-trimpath", "./...")
	command(t, dir, "go", "vet", "-trimpath", "./...")
	for _, name := range nested(t, dir) {
		require.Equal(t, moved+"/"+name, goMod(t, filepath.Join(dir, name)).Module.Path)
		command(t, filepath.Join(dir, name), "go", "list", "-test", "-deps", "./...") // nothing is missing
		if !strings.Contains(name, "/internal/") {
			command(t, filepath.Join(dir, name), "go", "vet", "-trimpath", "./...")
		}
	}
	code, printed = script(t, dir, "rename-module", moved)
	require.Equal(t, 0, code, "a second time is no mistake: %s", printed)
}

// A path that go.mod could not hold is refused before anything is written.
func TestRenameRefusesWhatIsNoModulePath(t *testing.T) {
	top := root(t)
	before := read(t, top, "go.mod")
	for _, args := range [][]string{nil, {""}, {"devevents"}, {"example.com"}, {"https://example.com/x"}, {"example.com/a b"}, {"example.com/a|b"}, {"a.org/x", "a.org/y"}} {
		code, out := script(t, top, "rename-module", args...)
		require.Equal(t, 2, code, args)
		require.Contains(t, out, "usage: ", args)
	}
	require.Equal(t, before, read(t, top, "go.mod"))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.NoError(t, err)
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
	require.NoError(t, os.WriteFile(to, text, info.Mode().Perm()))
}
