//go:build (amd64 || arm64) && !android && !faketime

package dl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/devevents/events"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// scratch outlives the tests: what they load stays mapped.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(child())
	}
	var err error
	if scratch, err = os.MkdirTemp("", "dltest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

// compile makes a shared library with the C compiler.
func compile(t testing.TB, out, source string, flags ...string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no C compiler (cc), and a CI run must not skip this")
		}
		t.Skip("no C compiler (cc) to make libraries with")
	}
	c := filepath.Join(t.TempDir(), "lib.c")
	require.NoError(t, os.WriteFile(c, []byte(source), 0o600))
	args := append([]string{"-shared", "-fPIC", "-o", out, c}, flags...)
	text, err := exec.Command(cc, args...).CombinedOutput()
	require.NoError(t, err, "%s", text)
}

const goodSource = "int answer(void) { return 42; }\n"

var goodOnce struct {
	sync.Mutex
	image []byte
}

// goodImage is a small library without a soname. Copies of it are libraries of
// their own to the loader.
func goodImage(t testing.TB) []byte {
	t.Helper()
	goodOnce.Lock()
	defer goodOnce.Unlock()
	if goodOnce.image == nil {
		out := filepath.Join(scratch, "good.so")
		compile(t, out, goodSource)
		image, err := os.ReadFile(out)
		require.NoError(t, err)
		goodOnce.image = image
	}
	return goodOnce.image
}

// put writes a file and the directories above it.
func put(t testing.TB, path string, content []byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o755))
	return path
}

var families atomic.Int64

// kin is a library family of one test: libraries stay loaded, so no two tests may
// share a name. It has a directory of its own.
type kin struct {
	t    testing.TB
	stem string
	dir  string
}

func newKin(t testing.TB) kin {
	t.Helper()
	t.Setenv("LD_LIBRARY_PATH", "")
	stem := fmt.Sprintf("libkin%d.so.", families.Add(1))
	return kin{t: t, stem: stem, dir: filepath.Join(scratch, stem+"d")}
}

// path of a version in a directory of the family.
func (k kin) path(dir, version string) string { return filepath.Join(k.dir, dir, k.stem+version) }

// good puts a working library there.
func (k kin) good(dir, version string) string {
	k.t.Helper()
	return put(k.t, k.path(dir, version), goodImage(k.t))
}

// spec is the usual question: three majors, in the directories named.
func (k kin) spec(dirs ...string) Spec {
	s := Spec{Backend: "test", Stem: k.stem, Env: "DL_TEST_LIBRARY"}
	for _, v := range []string{"13", "12", "11.0"} {
		s.Names = append(s.Names, k.stem+v)
	}
	for _, d := range dirs {
		s.Dirs = append(s.Dirs, filepath.Join(k.dir, d))
	}
	return s
}

// requireWorks opens and calls the library, which must be the file at path.
func requireWorks(t testing.TB, spec Spec, path string) *Library {
	t.Helper()
	lib, err := Open(spec)
	require.NoError(t, err)
	require.Equal(t, path, lib.Path())
	fn := lib.Lookup("answer")
	require.NotZero(t, fn)
	r, _, _ := purego.SyscallN(fn)
	require.EqualValues(t, 42, int32(r))
	return lib
}

// requireUnavailable opens in vain.
func requireUnavailable(t testing.TB, spec Spec, cause events.Cause) *events.UnavailableError {
	t.Helper()
	lib, err := Open(spec)
	require.Nil(t, lib)
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.Equal(t, cause, u.Cause, "%v", err)
	t.Logf("reads:\n%v", err)
	return u
}

// reasonFor is why a path was not taken.
func reasonFor(t testing.TB, tried []events.Candidate, path string) string {
	t.Helper()
	for _, c := range tried {
		if c.Path == path {
			return c.Reason
		}
	}
	require.Fail(t, "not among the candidates", "%s in %v", path, tried)
	return ""
}
