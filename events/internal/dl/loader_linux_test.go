//go:build (amd64 || arm64) && !android && !faketime

package dl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/devevents/events"

	"github.com/stretchr/testify/require"
)

// The loader keeps its last error per thread and a goroutine changes threads, so
// unlocked calls get each other's texts, or none.
// NVIDIA/go-nvml#69, daos-stack/daos#11596, ebitengine/purego#244.
func TestLoaderTextIsNotAnotherGoroutines(t *testing.T) {
	const goroutines = 64
	each := 2000
	if testing.Short() {
		each = 50
	}
	var wrong atomic.Int64
	var example atomic.Value
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("libmissing-%d-%d.so.1", g, i)
				handle, err := open(name, false)
				if handle != 0 || err == nil || !strings.HasPrefix(err.Error(), name+": ") {
					wrong.Add(1)
					example.Store(fmt.Sprintf("%s: %v", name, err))
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, wrong.Load(), "for example %v", example.Load())
}

func TestFailuresOfManyGoroutinesNameTheirOwnLibrary(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	var wg sync.WaitGroup
	failures := make([]error, 64)
	for g := range failures {
		wg.Go(func() {
			_, failures[g] = Open(Spec{Backend: "test", Names: []string{fmt.Sprintf("libmissing-%d.so.1", g)}})
		})
	}
	wg.Wait()
	for g, err := range failures {
		require.ErrorContains(t, err, fmt.Sprintf("tried libmissing-%d.so.1: not known to the system's loader", g))
		require.Equal(t, 1, strings.Count(err.Error(), "\n"))
	}
}

// RTLD_NOLOAD of a file that exists and is not loaded leaves the loader's text empty.
func TestEmptyLoaderTextIsReplaced(t *testing.T) {
	k := newKin(t)
	_, err := open(k.good("lib", "13"), true)
	require.ErrorIs(t, err, errNoReason)
}

// To the loader the empty name is this program, and then its symbols are missing.
// JuliaGPU/AMDGPU.jl#721, CauldronDevelopmentLLC/cbang#181.
func TestOurOwnProgramIsNeverOpened(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	for _, name := range []string{"", "\x00", "\x00libm.so.6", "libm.so.6\x00"} {
		for _, resident := range []bool{true, false} {
			handle, err := open(name, resident)
			require.Zero(t, handle)
			require.Error(t, err)
		}
		for _, oneOnly := range []bool{true, false} {
			spec := Spec{Backend: "test", Names: []string{name}, OneOnly: oneOnly, Dirs: []string{scratch}}
			u := requireUnavailable(t, spec, events.CauseLibraryMissing)
			require.Equal(t, "is no name for a library, and was not tried", reasonFor(t, u.Candidates, fmt.Sprintf("%q", name)))
		}
		_, err := OpenExact(name)
		require.ErrorIs(t, err, events.ErrUnavailable)
	}
	program, err := os.Executable()
	require.NoError(t, err)
	_, err = OpenExact(program)
	require.ErrorIs(t, err, events.ErrUnavailable)

	// A zero handle means anything in the program, and C's functions are in it.
	require.Zero(t, (&Library{}).Lookup("malloc"))
	require.Zero(t, (*Library)(nil).Lookup("malloc"))
	require.Empty(t, (*Library)(nil).Path()+(*Library)(nil).Origin())
	require.Empty(t, (*Library)(nil).Skipped())
}

func TestPathInPlaceOfANameIsRefused(t *testing.T) {
	k := newKin(t)
	spec := k.spec()
	spec.Names = []string{k.good("lib", "13")}
	u := requireUnavailable(t, spec, events.CauseLibraryMissing)
	require.Contains(t, reasonFor(t, u.Candidates, spec.Names[0]), "not a name but a path")
}

// The soname says which library was asked for; the path says which one came.
func TestPathIsTheMappedFile(t *testing.T) {
	lib, err := OpenExact("libm.so.6")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(lib.Path()), lib.Path())
	require.NotZero(t, lib.Lookup("cos"))
	require.Zero(t, lib.Lookup("no_such_function"))
	require.Zero(t, lib.Lookup(""))
	require.Zero(t, lib.Lookup("cos\x00"))
	require.Contains(t, MappedFiles("libm.so."), lib.Path())

	byName, err := Open(Spec{Backend: "test", Names: []string{"libm.so.6"}})
	require.NoError(t, err)
	require.Equal(t, lib.Path(), byName.Path())
	require.Equal(t, "already loaded in this process", byName.Origin())
}

// An upgrade replaces the file under a running program.
func TestReplacedFileIsStillFoundInTheProcess(t *testing.T) {
	k := newKin(t)
	path := k.good("lib", "12")
	_, err := OpenExact(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	requireWorks(t, k.spec("lib"), path)
}

func TestStringOfTheLoadersIsCopied(t *testing.T) {
	text := []byte("/usr/lib/libx.so.1\x00more")
	require.Equal(t, "/usr/lib/libx.so.1", cString(&text[0]))
	require.Empty(t, cString(nil))
}

func TestMappingIsReadFromItsLine(t *testing.T) {
	_, ok := parseMapping("7f25a2f5d000-7f25a2f83000 r-xp 00000000 fd:00 1234 [vdso]")
	require.False(t, ok)
	m, ok := parseMapping("7f25a2f5d000-7f25a2f83000 r-xp 00000000 fd:00 1234                       /opt/my lib/libx.so.1 (deleted)")
	require.True(t, ok)
	require.Equal(t, mapping{0x7f25a2f5d000, 0x7f25a2f83000, true, "/opt/my lib/libx.so.1"}, m)
	m, ok = parseMapping("7f25a2f5d000-7f25a2f83000 r--p 00000000 fd:00 1234 /opt/libx.so.1")
	require.True(t, ok)
	require.False(t, m.code)
}

// childVar makes the test binary do one search in a process of its own: the loader
// reads its search path only at the start of a program. hideVar takes the path out
// of the variable afterwards, so that only the loader knows it.
const (
	childVar = "DL_TEST_CHILD"
	hideVar  = "DL_TEST_HIDE"
)

func child() int {
	if os.Getenv(hideVar) != "" {
		os.Unsetenv("LD_LIBRARY_PATH")
	}
	name := os.Getenv(childVar)
	lib, err := Open(Spec{Backend: "test", Names: []string{name}})
	fmt.Println(lib.Path(), lib.Origin(), err)
	fmt.Println("mapped", MappedFiles(name))
	return 0
}

func runChild(t *testing.T, name, libraryPath, hide string) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program)
	c.Env = append(os.Environ(), childVar+"="+name, hideVar+"="+hide, "LD_LIBRARY_PATH="+libraryPath)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// NVIDIA/warp#219, numba/numba#9732.
func TestLoaderFindsByNameAndBringsNoStub(t *testing.T) {
	k := newKin(t)
	good, stub := k.good("lib", "13"), k.good("stubs", "13")
	name := filepath.Base(good)
	require.Contains(t, runChild(t, name, filepath.Dir(good), "hide"), good+" known to the system's loader <nil>\n")
	out := runChild(t, name, filepath.Dir(stub), "hide")
	require.Contains(t, out, "test unavailable (stub-driver)")
	require.Contains(t, out, "tried "+stub+": is a stub for the linker")

	// A stub that was loaded would answer for the real library from then on.
	out = runChild(t, name, filepath.Dir(stub), "")
	require.Contains(t, out, "tried "+stub+": is a stub for the linker")
	require.Contains(t, out, "mapped []\n")
}

// The loader itself says which file of its search was damaged.
func TestLoaderStoppedByADamagedFile(t *testing.T) {
	k := newKin(t)
	path := put(t, k.path("lib", "13"), []byte("INPUT ( libx.so.1 )\n"))
	out := runChild(t, filepath.Base(path), filepath.Dir(path), "hide")
	require.Contains(t, out, "the loader found "+path+", which is a linker script")
}
