package house_test

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A service that measures on the simulated device, or on none, stays a static
// binary that starts in an empty container (ebitengine/purego#398,
// divVerent/aaaaxy#632).
func TestProgramWithoutVendorIsStatic(t *testing.T) {
	top := root(t)
	pkgs := packages(sources(t, top))
	module := goMod(t, top).Module.Path

	var code strings.Builder
	code.WriteString("package main\n")
	for _, dir := range []string{"events", "events/mock", "fence", "profiler", "bench"} {
		if len(pkgs[dir]) > 0 {
			fmt.Fprintf(&code, "import _ %q\n", module+"/"+dir)
		}
	}
	code.WriteString("func main() {}\n")

	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("GOOS", "linux")
	file, err := elf.Open(buildProgram(t, top, code.String()))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for _, segment := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, segment.Type, "the binary asks for a dynamic loader")
	}
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}

// buildProgram builds a program as if it lay inside this module, which it has to
// in order to import what it imports, and returns the binary's path.
func buildProgram(t *testing.T, top, code string) string {
	t.Helper()
	tmp := t.TempDir()
	source, overlay, binary := filepath.Join(tmp, "main.go"), filepath.Join(tmp, "overlay.json"), filepath.Join(tmp, "program")
	require.NoError(t, os.WriteFile(source, []byte(code), 0o600))
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(top, "internal", "house", "program", "main.go"): source,
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	command(t, top, "go", "build", "-overlay", overlay, "-o", binary, "./internal/house/program")
	return binary
}
