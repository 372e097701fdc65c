package house_test

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms says which packages of this module the code of each room may import:
// the arrows of ARCHITECTURE.md. A path stands for itself and all below it; the
// longest match decides; a room may always import what lies below itself.
var rooms = map[string][]string{
	"events":                    {"internal/slab"},
	"events/eventstest":         {"events"},
	"events/mock":               {"events"},
	"events/internal":           {"events"},
	"events/internal/fakesuite": {"events", "events/eventstest", "events/internal"}, // for tests alone
	"events/cuda":               {"events", "events/internal"},
	"events/hip":                {"events", "events/internal"},
	"events/opencl":             {"events", "events/internal"},
	"fence":                     {"events", "internal/alarm", "internal/ctxerr", "internal/slab"},
	"profiler":                  {"events", "internal/ctxerr", "internal/labels"},
	"profiler/gpupprof":         {"internal/labels", "internal/wholefile", "profiler"},
	"profiler/timeline":         {"events", "profiler"},
	"bench":                     {"events", "internal/wholefile"},
	"bench/compare":             {"bench"},
	"contrib/otel":              {"events", "internal/ctxerr", "internal/labels", "profiler"},
	"contrib/prometheus":        {"events", "internal/labels", "profiler"},
	"cmd":                       {"bench", "bench/compare", "profiler", "fence", "events", "events/mock", "events/cuda", "events/hip", "events/opencl"},
	"examples":                  {"bench", "profiler", "fence", "events", "events/mock", "events/cuda", "events/hip", "events/opencl"},
	"internal/alone":            {},
	"internal/crowd":            {"events", "fence"},
	"internal/gputest":          {"events", "events/cuda", "events/opencl"},
	"internal/house":            {},
	"internal/labels":           {"events"},
	"internal/testcount":        {},
	"internal/alarm":            {},
	"internal/ctxerr":           {},
	"internal/slab":             {},
	"internal/wholefile":        {},
	"internal/schematest":       {},
}

// roomOf is the longest key of rooms that the folder lies in.
func roomOf(dir string) string {
	best := ""
	for room := range rooms {
		if (dir == room || strings.HasPrefix(dir, room+"/")) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

func TestArrowsPointOneWay(t *testing.T) {
	top := root(t)
	module := goMod(t, top).Module.Path
	for _, s := range sources(t, top) {
		from := roomOf(s.dir)
		if from == "" {
			t.Errorf("%s lies in no room: add %s to the table above and to ARCHITECTURE.md", s.name, s.dir)
			continue
		}
		if s.test {
			continue // a test may bring in a device of its choice
		}
		for _, imported := range s.imports {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			to := roomOf(dir)
			if to == from || slices.Contains(rooms[from], to) {
				continue
			}
			t.Errorf("%s imports %s: no arrow goes from %s to %s", s.name, imported, from, to)
		}
	}
}

// Callers of purego and unsafe stay where one review covers them all.
func TestOnlyTheInternalsTouchUnsafeAndPurego(t *testing.T) {
	for _, s := range sources(t, root(t)) {
		inside := roomOf(s.dir) == "events/internal"
		for _, imported := range s.imports {
			switch {
			case imported == "C":
				t.Errorf("%s uses cgo: nothing here may", s.name)
			case inside:
			case imported == "unsafe" || imported == "github.com/ebitengine/purego" || strings.HasPrefix(imported, "github.com/ebitengine/purego/"):
				t.Errorf("%s imports %s: only packages under events/internal may", s.name, imported)
			}
		}
	}
}

// A program that never touches a vendor pays nothing for one: importing purego
// alone makes a CGO_ENABLED=0 binary dynamic, so that it needs a C library
// (ebitengine/purego#398).
func TestLayersAndTheSimulatedDeviceNeedNoPurego(t *testing.T) {
	top := root(t)
	pkgs := packages(sources(t, top))
	args := []string{"list", "-deps", "-f", "{{.ImportPath}}"}
	for _, dir := range []string{"events", "events/eventstest", "events/mock", "fence", "profiler", "bench"} {
		if len(pkgs[dir]) > 0 {
			args = append(args, "./"+dir)
		}
	}
	t.Setenv("CGO_ENABLED", "0")
	deps := strings.Fields(command(t, top, "go", args...))
	require.Contains(t, deps, goMod(t, top).Module.Path+"/events")
	for _, dep := range deps {
		require.NotContains(t, dep, "purego")
		require.NotEqual(t, "runtime/cgo", dep)
	}
}

// pure are the calls that a package variable may be set from: they neither look
// at the machine nor leave anything behind.
var pure = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer",
	"sync.OnceFunc", "sync.OnceValue", "sync.OnceValues",
	"math.NaN", "math.Inf", "math.Float32frombits", "math.Float64frombits", "float32", "float64",
	"time.Duration", "reflect.TypeFor", "new", "make", "len",
	"syscall.NewLazyDLL", "kernel32.NewProc", // looked up at the first call
}

// Importing does nothing: a package whose import looked for a GPU ended
// programs on machines without one (gorgonia/cu calls os.Exit from init).
func TestImportingDoesNothing(t *testing.T) {
	for _, s := range sources(t, root(t)) {
		if room := roomOf(s.dir); s.test || s.syntax.Name.Name == "main" || room == "cmd" || room == "examples" {
			continue // nobody else imports them
		}
		for _, decl := range s.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: an init function runs for everyone who imports the package", at(d))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, call := range calls(d) {
					if name := exprName(call.Fun); !slices.Contains(pure, name) {
						t.Errorf("%s: a package variable calls %s when the package is imported; call it from Open, or through sync.OnceValue", at(call), name)
					}
				}
			}
		}
	}
}

func at(n ast.Node) string { return fileSet.Position(n.Pos()).String() }

// calls finds what runs when a declaration is evaluated: every call outside a
// function literal's body, and a literal that is called on the spot.
func calls(n ast.Node) []*ast.CallExpr {
	var list []*ast.CallExpr
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			switch ast.Unparen(n.Fun).(type) {
			case *ast.StarExpr, *ast.ArrayType, *ast.FuncType, *ast.InterfaceType: // a conversion
			default:
				list = append(list, n)
			}
		}
		return true
	})
	return list
}

// exprName is how a called function is written: "errors.New", "make".
func exprName(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprName(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return exprName(e.X)
	case *ast.IndexListExpr:
		return exprName(e.X)
	case *ast.FuncLit:
		return "a function literal"
	}
	return "something"
}

func TestDirectRequirementsStayFew(t *testing.T) {
	allowed := []string{
		"github.com/ebitengine/purego",
		"github.com/rogpeppe/go-internal",
		"github.com/stretchr/testify",
		"go.uber.org/goleak",
		"go.uber.org/zap",
		"golang.org/x/sys",
	}
	var direct []string
	for _, r := range goMod(t, root(t)).Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	require.Subset(t, allowed, direct, "anything heavy belongs in a nested module")
}

// Whoever uses events or profiler alone gets nothing of the bridges: neither in what is
// built, nor in go.mod and go.sum, where each of their modules would be one more to review.
func TestRootModuleHoldsNothingOfTheBridges(t *testing.T) {
	top := root(t)
	bridged := []string{"go.opentelemetry.io/", "github.com/prometheus/"}
	for _, file := range []string{"go.mod", "go.sum"} {
		for _, name := range bridged {
			require.NotContains(t, read(t, top, file), name, file)
		}
	}
	for _, s := range sources(t, top) {
		if strings.HasPrefix(s.dir, "contrib/") {
			continue
		}
		for _, imported := range s.imports {
			for _, name := range bridged {
				if strings.HasPrefix(imported, name) {
					t.Errorf("%s imports %s: a bridge is a nested module under contrib", s.name, imported)
				}
			}
		}
	}
}

// A nested module is named after its folder and built with the root module beside it,
// whose own module of the same name may not have been published yet. Neither one brings
// the other's dependencies, and the collector is for tests alone.
func TestNestedModulesStandOnTheRootAlone(t *testing.T) {
	top := root(t)
	module := goMod(t, top).Module.Path
	heavy := map[string]string{
		"contrib/otel":                        "go.opentelemetry.io/otel",
		"contrib/otel/internal/collectortest": "go.opentelemetry.io/",
		"contrib/prometheus":                  "github.com/prometheus/",
	}
	all := nested(t, top)
	require.Len(t, all, len(heavy))
	for _, dir := range all {
		m := goMod(t, filepath.Join(top, dir))
		require.Equal(t, module+"/"+dir, m.Module.Path)
		replaced := map[string]string{}
		for _, r := range m.Replace {
			replaced[r.Old.Path] = path.Join(dir, r.New.Path)
		}
		require.Equal(t, ".", replaced[module], dir)
		for _, r := range m.Require {
			switch {
			case strings.HasPrefix(r.Path, module+"/"):
				require.Equal(t, strings.TrimPrefix(r.Path, module+"/"), replaced[r.Path], dir)
			case strings.HasPrefix(r.Path, "go.opentelemetry.io/") || strings.HasPrefix(r.Path, "github.com/prometheus/"):
				require.True(t, strings.HasPrefix(r.Path, heavy[dir]) || r.Indirect, "%s requires %s", dir, r.Path)
			}
			require.False(t, strings.Contains(r.Path, "/collector") && dir != "contrib/otel/internal/collectortest", "%s requires %s", dir, r.Path)
		}
	}
}
