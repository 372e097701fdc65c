package gputest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Compile makes a native baseline of a C file and gives its path. Without a C compiler the
// test is skipped, and fails where a GPU is required or CI=true.
func Compile(tb testing.TB, source string, flags ...string) string {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		cc, err = exec.LookPath("gcc")
	}
	if err != nil {
		if Required() || os.Getenv("CI") == "true" {
			tb.Fatal("the native baseline needs a C compiler, and there is none")
		}
		tb.Skip("the native baseline needs a C compiler")
	}
	out := filepath.Join(tb.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"-O2", "-o", out, source}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		tb.Fatalf("compiling the native baseline: %v\n%s", err, text)
	}
	return out
}

// Raw writes a measurement's samples to the folder that DEVEVENTS_RAW names.
func Raw(tb testing.TB, name string, samples any) {
	tb.Helper()
	dir := os.Getenv("DEVEVENTS_RAW")
	if dir == "" {
		return
	}
	text, err := json.MarshalIndent(samples, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}
