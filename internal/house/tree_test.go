package house_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the top of the source tree. These tests are about the tree and the
// way it builds, so they skip where there is no go command, as on the GPU
// machines that test binaries are carried to.
func root(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command: this test is about the source tree, not about a device")
	}
	mod := strings.TrimSpace(command(t, ".", "go", "env", "GOMOD"))
	require.Equal(t, "go.mod", filepath.Base(mod), "the tests of this package run inside the module")
	return filepath.Dir(mod)
}

// script is a script of the project, run in dir.
func script(t *testing.T, dir, name string, args ...string) (code int, printed string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the scripts need bash 4 and GNU tools")
	}
	cmd := exec.Command(filepath.Join(dir, "scripts", name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	require.NoError(t, err)
	return 0, string(out)
}

// command runs a program in dir and returns what it printed.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s %s:\n%s%s", name, strings.Join(args, " "), out, &stderr)
	return string(out)
}

// files lists the project's files, relative to root: what git tracks and what
// it does not ignore, or everything in a tree that is no clone.
func files(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	add := func(file string) {
		if info, err := os.Lstat(filepath.Join(root, file)); err == nil && info.Mode().IsRegular() {
			list = append(list, filepath.ToSlash(file))
		}
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		out := command(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
		for _, file := range strings.Split(strings.TrimRight(out, "\x00"), "\x00") {
			add(file)
		}
		return list
	}
	require.NoError(t, filepath.WalkDir(root, func(file string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		add(rel)
		return err
	}))
	return list
}

func read(t *testing.T, root, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// source is one Go file of the module. Files are parsed as they lie there, so
// that those of other platforms are seen too.
type source struct {
	name    string // relative to root
	dir     string // its package's folder, "." for the root
	test    bool
	syntax  *ast.File
	imports []string
}

var fileSet = token.NewFileSet()

// nested are the folders of the modules under contrib. The rules for rooms, documents and
// imports hold for them, too. tools has no code.
func nested(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	for _, file := range files(t, root) {
		if path.Base(file) == "go.mod" && strings.HasPrefix(file, "contrib/") {
			list = append(list, path.Dir(file))
		}
	}
	require.NotEmpty(t, list)
	return list
}

// sources parses every Go file of the root module and of those under contrib.
func sources(t *testing.T, root string) []source {
	t.Helper()
	others := map[string]bool{}
	all := files(t, root)
	for _, file := range all {
		if path.Base(file) == "go.mod" && file != "go.mod" && !strings.HasPrefix(file, "contrib/") {
			others[path.Dir(file)] = true
		}
	}
	var list []source
	for _, file := range all {
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "testdata/") || inside(others, file) {
			continue
		}
		syntax, err := parser.ParseFile(fileSet, filepath.Join(root, file), nil, parser.ParseComments)
		require.NoError(t, err)
		s := source{name: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), syntax: syntax}
		for _, spec := range syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			s.imports = append(s.imports, name)
		}
		list = append(list, s)
	}
	require.NotEmpty(t, list)
	return list
}

func inside(dirs map[string]bool, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}

// packages groups the sources by folder.
func packages(list []source) map[string][]source {
	pkgs := map[string][]source{}
	for _, s := range list {
		pkgs[s.dir] = append(pkgs[s.dir], s)
	}
	return pkgs
}

// modFile is what the go command says of go.mod.
type modFile struct {
	Module  struct{ Path string }
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct {
		Old, New struct{ Path string }
	}
}

func goMod(t *testing.T, root string) modFile {
	t.Helper()
	var m modFile
	require.NoError(t, json.Unmarshal([]byte(command(t, root, "go", "mod", "edit", "-json")), &m))
	return m
}
