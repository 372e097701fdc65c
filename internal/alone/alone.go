// Package alone runs a test in a process of its own: where nothing is mapped or
// initialised yet, with another environment, or with no threads but its own. It is for
// tests.
package alone

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const mark = "DEVEVENTS_TEST_ALONE"

// Inside reports whether this is the process that Run has made for the test.
func Inside(t *testing.T) bool { return os.Getenv(mark) == t.Name() }

// Run reports true in a process of the test's own. Elsewhere it makes one, with env added
// to the environment, and reports false when that has passed; its failure or skip is the
// test's.
func Run(t *testing.T, env ...string) bool {
	t.Helper()
	if Inside(t) {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Each part of a subtest's name is a pattern of its own.
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	child := exec.Command(self, "-test.run", pattern, "-test.v", "-test.timeout=5m")
	child.Env = append(append(os.Environ(), mark+"="+t.Name()), env...)
	text, err := child.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("in a process of its own: %v\n%s", err, text)
	case strings.Contains(string(text), "--- SKIP: "+t.Name()):
		t.Skipf("in a process of its own: %s", text)
	case !strings.Contains(string(text), "--- PASS: "+t.Name()):
		t.Fatalf("it did not run in a process of its own: %s", text)
	}
	t.Logf("in a process of its own:\n%s", text)
	return false
}
