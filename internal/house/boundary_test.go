package house_test

import (
	"debug/elf"
	"go/ast"
	"go/parser"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedOfPurego are its functions and constants that calls into C are made of.
// Registering a function by its Go type is not among them: it panics at bad types,
// reads a whole register where C fills half of one, and scrambles structs and floats
// on some processors.
var allowedOfPurego = []string{"SyscallN", "Dlopen", "Dlsym", "RTLD_NOW", "RTLD_LOCAL", "RTLD_NOLOAD", "RTLD_DEFAULT"}

// ebitengine/purego#507, ebitengine/purego#187, ebitengine/purego#176,
// ebitengine/purego#158, ebitengine/purego#210
func TestCallsIntoCHaveOneShape(t *testing.T) {
	calls := 0
	for _, s := range sources(t, root(t)) {
		if s.test || !slices.Contains(s.imports, "unsafe") && !slices.Contains(s.imports, "github.com/ebitengine/purego") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && exprName(sel.X) == "purego" && !slices.Contains(allowedOfPurego, sel.Sel.Name) {
				t.Errorf("%s: purego.%s: calls into C go through SyscallN alone", at(sel), sel.Sel.Name)
			}
			return true
		})
		for _, decl := range s.syntax.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			calls += results(t, f)
			for _, where := range stackAddresses(f) {
				t.Errorf("%s: the address of a variable of this function: the stack moves, and C goes on with the old place; use memory of the heap", where)
			}
		}
	}
	require.GreaterOrEqual(t, calls, 3, "the calls were looked for in the wrong place")
}

// results checks that what SyscallN returns, a whole register of which C defines a
// part, is narrowed or handed on as it is.
func results(t *testing.T, f *ast.FuncDecl) (calls int) {
	t.Helper()
	var registers []string
	ast.Inspect(f.Body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return true
		}
		if call, ok := assign.Rhs[0].(*ast.CallExpr); ok && exprName(call.Fun) == "purego.SyscallN" {
			calls++
			registers = append(registers, exprName(assign.Lhs[0]))
			for _, more := range assign.Lhs[1:] {
				if exprName(more) != "_" {
					t.Errorf("%s: %s: C functions return one register here", at(more), exprName(more))
				}
			}
		}
		return true
	})
	fine := map[ast.Node]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				fine[e] = true
			}
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				fine[e] = true
			}
		case *ast.CallExpr:
			if name := exprName(n.Fun); name == "int32" || name == "status" {
				fine[n.Args[0]] = true
			}
		case *ast.Ident:
			if slices.Contains(registers, n.Name) && !fine[n] {
				t.Errorf("%s: %s is a whole register: convert it to int32, or return it", at(n), n.Name)
			}
		}
		return true
	})
	return calls
}

// stackAddresses are the conversions uintptr(unsafe.Pointer(&v)) of a function whose
// v is the function's own, and not what a receiver or a parameter points to. What is
// passed to the Call of a procedure of syscall's is kept in place by the compiler.
func stackAddresses(f *ast.FuncDecl) (found []string) {
	given := map[string]bool{}
	for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			_, pointer := field.Type.(*ast.StarExpr)
			for _, name := range field.Names {
				given[name.Name] = pointer
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Call" {
			return false
		}
		if exprName(call.Fun) != "uintptr" || len(call.Args) != 1 {
			return true
		}
		inner, ok := call.Args[0].(*ast.CallExpr)
		if !ok || exprName(inner.Fun) != "unsafe.Pointer" {
			return true
		}
		if address, ok := inner.Args[0].(*ast.UnaryExpr); ok && !given[rootOf(address.X)] {
			found = append(found, at(call))
		}
		return true
	})
	return found
}

// rootOf is the variable that an expression begins with: f in f.word[1].
func rootOf(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return rootOf(e.X)
	case *ast.IndexExpr:
		return rootOf(e.X)
	}
	return ""
}

// The rules find what they are for.
func TestBadCallsIntoCAreFound(t *testing.T) {
	file, err := parser.ParseFile(fileSet, "bad.go", `package bad
func elapsed(fn uintptr) float32 {
	var ms float32
	purego.SyscallN(fn, uintptr(unsafe.Pointer(&ms)))
	return ms
}
func (f *frame) kept() uintptr { return uintptr(unsafe.Pointer(&f.word[0])) }
func (f frame) lost() uintptr { return uintptr(unsafe.Pointer(&f.word[0])) }
`, 0)
	require.NoError(t, err)
	var found []int
	for _, decl := range file.Decls {
		found = append(found, len(stackAddresses(decl.(*ast.FuncDecl))))
	}
	require.Equal(t, []int{1, 0, 1}, found)
}

// A race build without cgo is refused by the go command, and a caller of C behaves
// otherwise with cgo than without; so both are tested, and said to be.
// ebitengine/purego#318, shirou/gopsutil#1774, golang/go#9918
func TestBothBuildModesAreTested(t *testing.T) {
	top := root(t)
	ci := read(t, top, ".ci/run")
	leg := func(name string) string {
		match := regexp.MustCompile(`(?ms)^leg_` + name + `\(\) \{\n(.*?)^\}`).FindStringSubmatch(ci)
		require.NotNil(t, match, "no leg %s", name)
		return match[1]
	}
	require.Regexp(t, `export CGO_ENABLED=0\b`, leg("test"))
	require.Regexp(t, `(?m)^\s*gotest .*\./\.\.\.$`, leg("test"))
	require.Regexp(t, `export CGO_ENABLED=1\b`, leg("race"))
	require.Regexp(t, `go list \./\.\.\. `, leg("race"))
	require.Regexp(t, `(?m)^\s*gotest -race .*"\$\{packages\[@\]\}"$`, leg("race"))
	legs := regexp.MustCompile(`(?m)^main (.*) --`).FindStringSubmatch(ci)
	require.NotNil(t, legs)
	require.Subset(t, strings.Fields(legs[1]), []string{"test", "race"}, "without arguments both run")
	for _, said := range []string{"CGO_ENABLED=0", "CGO_ENABLED=1 go test -race"} {
		require.Contains(t, read(t, top, "CONTRIBUTING.md"), said)
	}
}

// A program that loads a vendor's library asks for a dynamic loader and a C library,
// cgo or not, and "does not exist" in an empty container. What is said of it is true.
// ebitengine/purego#398, ebitengine/purego#132, divVerent/aaaaxy#632
func TestProgramWithAVendorNeedsGlibcAndSaysSo(t *testing.T) {
	top := root(t)
	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("GOOS", "linux")
	t.Setenv("GOARCH", "amd64")
	binary := filepath.Join(t.TempDir(), "evprobe")
	command(t, top, "go", "build", "-o", binary, "./cmd/evprobe")
	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	require.True(t, slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }))
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.Contains(t, libraries, "libc.so.6")
	for _, needed := range libraries {
		require.Regexp(t, `^lib(c|dl|pthread)\.so\.`, needed, "one more library that a machine must have")
	}
	for name, text := range map[string]string{"README.md": read(t, top, "README.md"), "cmd/evprobe": command(t, top, "go", "doc", "./cmd/evprobe")} {
		for _, word := range []string{"glibc", "dynamic", "container"} {
			require.Contains(t, text, word, name)
		}
	}
	require.Contains(t, read(t, top, "README.md"), "musl")
}

// A wall clock is set by people and time daemons, and what is measured with it jumps.
// LMCache/LMCache#3103
func TestNothingIsMeasuredWithTheWallClock(t *testing.T) {
	date := "profiler/gpupprof/encode.go" // a profile has a field for its date
	for _, s := range sources(t, root(t)) {
		if s.name == date || s.test || !slices.ContainsFunc([]string{"events", "fence", "profiler"}, func(dir string) bool { return s.dir == dir || strings.HasPrefix(s.dir, dir+"/") }) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}, sel.Sel.Name) {
				t.Errorf("%s: %s reads the wall clock: take the difference of two times, which is monotonic", at(sel), sel.Sel.Name)
			}
			return true
		})
	}
}
