//go:build (amd64 || arm64) && !android && !faketime

package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"example.com/devevents/events"

	"github.com/stretchr/testify/require"
)

// Runtime-only installs have no bare .so.
// rapidsai/kvikio#200, CauldronDevelopmentLLC/cbang#181, warpfront/hipfire#64.
func TestVersionedNameAloneIsFound(t *testing.T) {
	k := newKin(t)
	want := k.good("lib", "11.0")
	lib := requireWorks(t, k.spec("none", "lib"), want)
	require.Equal(t, "in a known directory", lib.Origin())
	require.Equal(t, "not known to the system's loader", reasonFor(t, lib.Skipped(), k.stem+"13"))
}

// chelsea0x3b/cudarc#451, ollama/ollama#602.
func TestFullVersionAloneIsFound(t *testing.T) {
	k := newKin(t)
	requireWorks(t, k.spec("lib"), k.good("lib", "13.0.96"))
}

// The next major is a working library, not a missing one. chelsea0x3b/cudarc#451.
func TestMajorThatNobodyNamedIsFound(t *testing.T) {
	k := newKin(t)
	k.good("lib", "9")
	k.good("lib", "14")
	requireWorks(t, k.spec("lib"), k.good("lib", "15"))
}

func TestFullVersionOfANameComesBeforeAnUnknownMajor(t *testing.T) {
	k := newKin(t)
	k.good("lib", "15")
	k.good("lib", "12.8.90")
	k.good("lib", "12.10.1")
	k.good("other", "13.0.1")
	requireWorks(t, k.spec("lib", "other"), k.path("other", "13.0.1"))

	k = newKin(t)
	k.good("lib", "15")
	k.good("lib", "12.8.90")
	k.good("lib", "11.8.89") // of the name 11.0
	requireWorks(t, k.spec("lib"), k.good("lib", "12.10.1"))
}

// Two majors are a choice, never an error, and the order of the names decides it
// whatever the order of the directories.
// NVIDIA/cudnn-frontend#211, NVIDIA/cudnn-frontend#270, ROCm/rocm-systems#1872.
func TestTwoMajorsFollowTheOrderOfNames(t *testing.T) {
	k := newKin(t)
	k.good("a", "12")
	requireWorks(t, k.spec("a", "b"), k.good("b", "13"))

	k = newKin(t)
	want := k.good("a", "12")
	k.good("b", "13")
	spec := k.spec("b", "a")
	spec.Names = []string{k.stem + "12", k.stem + "13"}
	requireWorks(t, spec, want)
}

func TestOverrideAndVariableWinOverEverything(t *testing.T) {
	k := newKin(t)
	resident := k.good("resident", "13")
	requireWorks(t, k.spec("resident"), resident)
	k.good("lib", "13")
	byEnv, byOption := k.good("env", "12"), k.good("option", "11.0")

	t.Setenv("LD_LIBRARY_PATH", filepath.Join(k.dir, "lib"))
	t.Setenv("DL_TEST_LIBRARY", byEnv)
	require.Equal(t, "given by DL_TEST_LIBRARY", requireWorks(t, k.spec("lib"), byEnv).Origin())
	spec := k.spec("lib")
	spec.Override = byOption
	require.Equal(t, "given by the program", requireWorks(t, spec, byOption).Origin())
}

// An override that silently gives something else is worse than none, and an empty
// one must not open this program. JuliaGPU/AMDGPU.jl#721, CauldronDevelopmentLLC/cbang#181.
func TestBadOverrideIsNamedAndNothingElseIsTried(t *testing.T) {
	k := newKin(t)
	good := k.good("lib", "13")
	stub := k.good("stubs", "13")
	program, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(k.dir, "link.so")
	require.NoError(t, os.Symlink(stub, link))
	for name, c := range map[string]struct{ value, says string }{
		"blank":            {" \t", `DL_TEST_LIBRARY=" \t" is blank`},
		"folder":           {filepath.Dir(good), "is a directory, not a library file"},
		"bare name":        {k.stem + "13", "does not say in which directory"},
		"missing":          {good + ".not", "does not exist"},
		"missing folder":   {"/no/such/folder/x.so", "neither does its directory"},
		"relative missing": {"./no/such.so", "does not exist"},
		"stub":             {stub, "is a stub for the linker"},
		"link to a stub":   {link, "is a stub for the linker"},
		"this program":     {program, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DL_TEST_LIBRARY", c.value)
			u := requireUnavailable(t, k.spec("lib"), events.CauseBadOverride)
			require.Contains(t, u.Error(), "DL_TEST_LIBRARY=")
			require.Contains(t, u.Error(), c.says)
			require.Contains(t, u.Advice, "DL_TEST_LIBRARY")
			require.LessOrEqual(t, len(u.Candidates), 1, "something else was tried")
		})
	}
	t.Run("folder shows what is in it", func(t *testing.T) {
		t.Setenv("DL_TEST_LIBRARY", filepath.Dir(good))
		require.Contains(t, requireUnavailable(t, k.spec(), events.CauseBadOverride).Near, good)
	})
	t.Run("by option", func(t *testing.T) {
		for _, value := range []string{" ", "\x00", "\x00" + good, filepath.Dir(good), "x.so"} {
			spec := k.spec("lib")
			spec.Override = value
			u := requireUnavailable(t, spec, events.CauseBadOverride)
			require.Contains(t, u.Detail, "given by the program")
		}
	})
	t.Run("empty is unset", func(t *testing.T) {
		t.Setenv("DL_TEST_LIBRARY", "")
		requireWorks(t, k.spec("lib"), good)
	})
	t.Run("relative with a slash", func(t *testing.T) {
		t.Chdir(k.dir)
		t.Setenv("DL_TEST_LIBRARY", "lib/"+filepath.Base(good))
		requireWorks(t, k.spec(), good)
	})
}

// A list for the loader is a wish of the user's.
func TestUserDirectoriesComeBeforeKnownOnes(t *testing.T) {
	k := newKin(t)
	k.good("lib", "13")
	want := k.good("mine", "12")
	t.Setenv("LD_LIBRARY_PATH", "relative::/no/such:"+filepath.Dir(want))
	require.Equal(t, "in LD_LIBRARY_PATH", requireWorks(t, k.spec("lib"), want).Origin())

	// What a relative one means depends on where the program is started.
	k = newKin(t)
	k.good("lib", "13")
	t.Chdir(k.dir)
	t.Setenv("LD_LIBRARY_PATH", "lib")
	_ = requireUnavailable(t, k.spec(), events.CauseLibraryMissing)
}

func TestPatternsAreTakenNewestFirst(t *testing.T) {
	k := newKin(t)
	k.good("cuda-9.2/lib64", "13")
	k.good("cuda-12.8/lib64", "13")
	want := k.good("cuda-13.0/lib64", "13")
	requireWorks(t, k.spec("cuda-*/lib64"), want)
}

func TestVariablesInDirectories(t *testing.T) {
	k := newKin(t)
	want := k.good("odd[1]*/python3.11/lib", "13")
	t.Setenv("DL_TEST_HOME", filepath.Join(k.dir, "odd[1]*"))
	t.Setenv("DL_TEST_RELATIVE", "odd")
	spec := k.spec()
	spec.Dirs = []string{"$DL_TEST_UNSET/lib", "$DL_TEST_UNSET*/lib", "$DL_TEST_RELATIVE/lib", "$DL_TEST_HOME/python*/lib"}
	requireWorks(t, spec, want)

	spec.Names, spec.Stem, spec.Dirs = []string{"libnever.so.1"}, "", append(spec.Dirs[:3], "below/here")
	u := requireUnavailable(t, spec, events.CauseLibraryMissing)
	require.Contains(t, reasonFor(t, u.Candidates, "$DL_TEST_UNSET, $DL_TEST_RELATIVE, below/here"), "no absolute path")
}

// One library in the process is safer than two: what the program has loaded is
// used, under the soname or under the mapped file's name.
func TestLoadedAlreadyComesFirst(t *testing.T) {
	for name, flags := range map[string]func(kin) []string{
		"by soname":   func(k kin) []string { return []string{"-Wl,-soname," + k.stem + "12"} },
		"by its file": func(kin) []string { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKin(t)
			k.good("lib", "13")
			resident := put(t, k.path("elsewhere", "12.9.1"), nil)
			compile(t, resident, goodSource, flags(k)...)
			_, err := OpenExact(resident)
			require.NoError(t, err)
			require.Equal(t, "already loaded in this process", requireWorks(t, k.spec("lib"), resident).Origin())
			require.Equal(t, []string{resident}, MappedFiles(k.stem))
		})
	}
}

// A bundled copy may have the bare name.
func TestLoadedAlreadyUnderTheBareName(t *testing.T) {
	k := newKin(t)
	k.good("lib", "13")
	bare := put(t, filepath.Join(k.dir, strings.TrimSuffix(k.stem, ".")), goodImage(t))
	_, err := OpenExact(bare)
	require.NoError(t, err)
	requireWorks(t, k.spec("lib"), bare)
}

// A second copy of HIP crashed inside it, so a search may forbid one.
func TestNoSecondCopyIsEverLoaded(t *testing.T) {
	refuse := func(*Library) error { return errors.New("it is too old") }
	t.Run("resident refused", func(t *testing.T) {
		k := newKin(t)
		resident := k.good("old", "11.0")
		_, err := OpenExact(resident)
		require.NoError(t, err)
		spec := k.spec("lib")
		k.good("lib", "13")
		spec.OneOnly, spec.Accept = true, refuse
		u := requireUnavailable(t, spec, events.CauseSymbolMissing)
		require.Contains(t, u.Detail, resident+" is loaded in this process, and no second copy")
		require.Equal(t, []string{resident}, MappedFiles(k.stem))
	})
	t.Run("first refused", func(t *testing.T) {
		k := newKin(t)
		first := k.good("lib", "13")
		k.good("lib", "12")
		spec := k.spec("lib")
		spec.OneOnly, spec.Accept = true, refuse
		u := requireUnavailable(t, spec, events.CauseSymbolMissing)
		require.Equal(t, []string{first}, MappedFiles(k.stem))
		require.Contains(t, u.Near, k.path("lib", "12"))
	})
	t.Run("override beside a resident", func(t *testing.T) {
		k := newKin(t)
		resident := k.good("old", "12")
		_, err := OpenExact(resident)
		require.NoError(t, err)
		spec := k.spec()
		spec.OneOnly, spec.Override = true, k.good("new", "12")
		u := requireUnavailable(t, spec, events.CauseBadOverride)
		require.Contains(t, u.Error(), "not loaded: "+resident+" is in this process already")
		require.Equal(t, []string{resident}, MappedFiles(k.stem))

		// It is known by its soname too.
		k = newKin(t)
		resident = put(t, filepath.Join(k.dir, "strange"), nil)
		compile(t, resident, goodSource, "-Wl,-soname,"+k.stem+"12")
		_, err = OpenExact(resident)
		require.NoError(t, err)
		spec = k.spec()
		spec.OneOnly, spec.Override = true, k.good("new", "13")
		_ = requireUnavailable(t, spec, events.CauseBadOverride)
		require.Empty(t, MappedFiles(k.stem))

		// The same file under another name is no second copy.
		spec.Override = filepath.Join(k.dir, "link")
		require.NoError(t, os.Symlink(resident, spec.Override))
		requireWorks(t, spec, resident)
	})
	t.Run("first refused, whatever its file is called", func(t *testing.T) {
		k := newKin(t)
		first := put(t, filepath.Join(k.dir, "lib", "strange"), goodImage(t))
		require.NoError(t, os.Symlink(first, k.path("lib", "13")))
		k.good("lib", "12")
		spec := k.spec("lib")
		spec.OneOnly, spec.Accept = true, refuse
		_ = requireUnavailable(t, spec, events.CauseSymbolMissing)
		require.Empty(t, MappedFiles(k.stem))
	})
	t.Run("code that the loader does not know", func(t *testing.T) {
		k := newKin(t)
		resident := k.good("old", "12")
		f, err := os.Open(resident)
		require.NoError(t, err)
		defer f.Close()
		data, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
		require.NoError(t, err)
		require.Empty(t, MappedFiles(k.stem), "a file that is only read is not loaded")
		require.NoError(t, syscall.Munmap(data))
		code, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
		require.NoError(t, err)
		defer func() { require.NoError(t, syscall.Munmap(code)) }()
		spec := k.spec("lib")
		want := k.good("lib", "13")
		spec.OneOnly = true
		u := requireUnavailable(t, spec, events.CauseLibraryMissing)
		require.Contains(t, reasonFor(t, u.Candidates, resident), "is mapped into this process")
		require.Contains(t, u.Detail, resident)
		spec.OneOnly = false
		requireWorks(t, spec, want)
	})
	t.Run("many at once", func(t *testing.T) {
		rounds := 200
		if testing.Short() {
			rounds = 20
		}
		for range rounds {
			k := newKin(t)
			k.good("lib", "12")
			k.good("lib", "13")
			start := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 8 {
				spec := k.spec("lib")
				spec.OneOnly, spec.Names = true, spec.Names[i%2:]
				wg.Go(func() {
					<-start
					_, _ = Open(spec)
				})
			}
			close(start)
			wg.Wait()
			require.Len(t, MappedFiles(k.stem), 1)
		}
	})
}

// badFiles puts everything that is not a library where one is expected, and
// returns what must be said about each.
func badFiles(t *testing.T, k kin, dir string) map[string]string {
	t.Helper()
	image := goodImage(t)
	patch := func(at int, b ...byte) []byte {
		c := append([]byte(nil), image...)
		copy(c[at:], b)
		return c
	}
	says := map[string]string{}
	file := func(version, text string, content []byte) {
		says[put(t, k.path(dir, version), content)] = text
	}
	other, name := []byte{183, 0}, "arm64"
	if runtime.GOARCH == "arm64" {
		other, name = []byte{62, 0}, "x86-64"
	}
	file("13", "is a 32-bit library", patch(4, 1))
	file("13.1", "is a library for another processor (64-bit, "+name+")", patch(18, other...))
	file("13.2", "is an empty file", nil)
	file("13.3", "is a linker script, not a library", []byte("/* GNU ld script */\nINPUT ( libx.so.1 )\n"))
	file("13.4", "is a library cut short after", image[:len(image)/4])
	file("13.5", "is an ELF file cut short after 20 bytes", image[:20])
	file("13.6", "is a text file, not a library", []byte("version https://git-lfs.github.com/spec/v1\n"))
	file("13.7", "is not an ELF file", []byte{0xca, 0xfe, 0xba, 0xbe, 0})
	file("13.8", "not a shared library (ET_EXEC)", patch(16, 2, 0))
	says[k.path(dir, "12")] = "is a dangling link: ./gone does not exist"
	require.NoError(t, os.Symlink("./gone", k.path(dir, "12")))
	says[k.path(dir, "12.1")] = "is a link that cannot be followed: too many levels of symbolic links"
	require.NoError(t, os.Symlink(k.stem+"12.1", k.path(dir, "12.1")))
	says[k.path(dir, "11.0")] = "is a directory, not a library file"
	require.NoError(t, os.Mkdir(k.path(dir, "11.0"), 0o755))
	says[k.path(dir, "11.1")] = "is not a regular file but a named pipe"
	require.NoError(t, syscall.Mkfifo(k.path(dir, "11.1"), 0o600))

	needed := filepath.Join(t.TempDir(), "libneeded-by-kin.so.1")
	compile(t, needed, "int needed(void) { return 1; }\n", "-Wl,-soname,libneeded-by-kin.so.1")
	needy := put(t, k.path(dir, "13.9"), nil)
	compile(t, needy, "int needed(void); int answer(void) { return needed(); }\n", needed)
	says[needy] = "exists, 64-bit, " + machines[ourMachine[runtime.GOARCH]] + ", but it needs libneeded-by-kin.so.1: "
	require.NoError(t, os.Remove(needed))
	return says
}

// ollama/ollama#5493, ROCm/rocm-systems#8427, ollama/ollama#3751.
func TestBadFilesDoNotHideAGoodOne(t *testing.T) {
	k := newKin(t)
	badFiles(t, k, "bad")
	lib := requireWorks(t, k.spec("bad", "lib"), k.good("lib", "12"))
	require.Contains(t, reasonFor(t, lib.Skipped(), k.path("bad", "13")), "is a 32-bit library")

	// Also where a good one is only found by listing.
	k = newKin(t)
	bad := badFiles(t, k, "bad")
	lib = requireWorks(t, k.spec("bad", "lib"), k.good("lib", "10"))
	for path, text := range bad {
		require.Contains(t, reasonFor(t, lib.Skipped(), path), text)
	}
}

// For a file of another processor the loader says that there is none, and for a
// missing dependency it names only that. ROCm/rocm-systems#8427, ollama/ollama#5493.
func TestEachBadFileGetsItsOwnReason(t *testing.T) {
	k := newKin(t)
	bad := badFiles(t, k, "bad")
	u := requireUnavailable(t, k.spec("bad"), events.CauseLibraryMissing)
	for path, text := range bad {
		require.Contains(t, reasonFor(t, u.Candidates, path), text)
	}
	for path, text := range bad {
		_, err := OpenExact(path)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, path)
	}
}

// A library needed by a library that is needed.
func TestMissingDependencyOfADependency(t *testing.T) {
	k := newKin(t)
	dir := filepath.Join(k.dir, "lib")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	inner, middle := filepath.Join(dir, "libinner-of-kin.so.1"), filepath.Join(dir, "libmiddle-of-kin.so.1")
	compile(t, inner, "int inner(void) { return 1; }\n", "-Wl,-soname,libinner-of-kin.so.1")
	compile(t, middle, "int inner(void); int middle(void) { return inner(); }\n", inner, "-Wl,-soname,libmiddle-of-kin.so.1", "-Wl,-rpath,"+dir)
	compile(t, k.path("lib", "13"), "int middle(void); int answer(void) { return middle(); }\n", middle, "-Wl,-rpath,"+dir, "-Wl,-rpath-link,"+dir)
	require.NoError(t, os.Remove(inner))
	u := requireUnavailable(t, k.spec("lib"), events.CauseLibraryMissing)
	require.Contains(t, reasonFor(t, u.Candidates, k.path("lib", "13")), "but it needs, through another library, libinner-of-kin.so.1: ")
}

// A failure lists every name, every file and every directory, what was seen beside
// them, and the way out. CauldronDevelopmentLLC/cbang#181, chelsea0x3b/cudarc#451.
func TestFailureListsEverythingTried(t *testing.T) {
	k := newKin(t)
	front := strings.TrimSuffix(k.stem, ".so.")
	near := put(t, filepath.Join(k.dir, "lib", front+"_static.a"), []byte("!<arch>\n"))
	old := put(t, k.path("lib", "13.bak"), goodImage(t))
	stub := put(t, filepath.Join(k.dir, "lib", "stubs", front+".so"), goodImage(t))
	put(t, filepath.Join(k.dir, "lib", front+"art.so.1"), goodImage(t)) // another library
	put(t, filepath.Join(k.dir, "empty", "README"), nil)
	spec := k.spec("lib", "empty", "gone", "gone-*/lib")
	u := requireUnavailable(t, spec, events.CauseLibraryMissing)
	for _, name := range spec.Names {
		require.Equal(t, "not known to the system's loader", reasonFor(t, u.Candidates, name))
		require.Contains(t, u.Detail, name)
	}
	require.Equal(t, "no such library in there", reasonFor(t, u.Candidates, strings.Join(spec.Dirs[:2], ", ")))
	require.Equal(t, "no such directory", reasonFor(t, u.Candidates, strings.Join(spec.Dirs[2:], ", ")))
	require.ElementsMatch(t, []string{near, old, stub + " (a stub for the linker)"}, u.Near)
	require.Contains(t, u.Advice, "DL_TEST_LIBRARY")
}

// The known directories of every vendor are many; the report must stay readable.
func TestFailureInAllKnownDirectoriesIsShort(t *testing.T) {
	for name, dirs := range map[string][]string{"cuda": CUDADirs(), "driver": DriverDirs(), "hip": HIPDirs()} {
		require.NotEmpty(t, dirs, name)
		spec := newKin(t).spec()
		spec.Dirs = dirs
		u := requireUnavailable(t, spec, events.CauseLibraryMissing)
		require.LessOrEqual(t, len(u.Candidates), len(spec.Names)+3)
		for _, dir := range dirs {
			if strings.Contains(dir, "$") {
				continue
			}
			// Folders that are there are listed once, whatever their names lead to.
			if there, err := filepath.Glob(dir); err == nil && len(there) > 0 {
				continue
			}
			require.Contains(t, u.Error(), dir)
		}
	}
}

func TestNearMissesAreBounded(t *testing.T) {
	k := newKin(t)
	for i := range 3 * maxNear {
		put(t, k.path("lib", "13.bak"+strings.Repeat("k", i)), nil)
	}
	require.Len(t, requireUnavailable(t, k.spec("lib"), events.CauseLibraryMissing).Near, maxNear)
}

// The toolkit's stub of the driver loads and then fails every call.
// NVIDIA/warp#219, numba/numba#9732.
func TestStubsAreNeverTaken(t *testing.T) {
	k := newKin(t)
	stub := k.good("cuda/stubs", "13")
	k.good("cuda/stubs/deep", "13")
	require.NoError(t, os.MkdirAll(filepath.Join(k.dir, "lib"), 0o755))
	require.NoError(t, os.Symlink(stub, k.path("lib", "13")))
	require.NoError(t, os.Symlink(filepath.Dir(stub), filepath.Join(k.dir, "hidden")))
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(stub))
	spec := k.spec("lib", "cuda/stubs", "cuda/stubs/deep", "hidden")
	u := requireUnavailable(t, spec, events.CauseStubDriver)
	require.Contains(t, reasonFor(t, u.Candidates, k.path("lib", "13")), "is a stub for the linker")
	require.Empty(t, MappedFiles(k.stem), "a stub was loaded")
	_, err := OpenExact(stub)
	require.ErrorContains(t, err, "is a stub for the linker")
	require.Empty(t, MappedFiles(k.stem), "a stub was loaded")

	requireWorks(t, k.spec("lib", "real"), k.good("real", "13"))
	require.True(t, IsStub(k.path("lib", "13")))
	require.False(t, IsStub(k.path("real", "13")))
}

// One absent symbol is the caller's to judge, and another candidate's chance.
// chelsea0x3b/cudarc#422, chelsea0x3b/cudarc#464, NVIDIA/go-nvlib#87.
func TestAbsentSymbolPassesACandidateOver(t *testing.T) {
	needsExtra := func(l *Library) error {
		if l.Lookup("extra") == 0 {
			return errors.New("it lacks extra")
		}
		return nil
	}
	k := newKin(t)
	poor := k.good("lib", "13")
	spec := k.spec("lib")
	spec.Accept = needsExtra
	u := requireUnavailable(t, spec, events.CauseSymbolMissing)
	require.Equal(t, poor, u.Path)
	require.Equal(t, "loads, but it lacks extra", reasonFor(t, u.Candidates, poor))

	rich := put(t, k.path("lib", "12"), nil)
	compile(t, rich, goodSource+"int extra(void) { return 1; }\n")
	lib := requireWorks(t, spec, rich)
	require.Equal(t, "loads, but it lacks extra", reasonFor(t, lib.Skipped(), poor))
}

// What the library answered decides the cause, of the candidate preferred most.
func TestRefusalGivesTheCause(t *testing.T) {
	k := newKin(t)
	k.good("lib", "12")
	path := k.good("lib", "13")
	spec := k.spec("lib")
	spec.Accept = func(l *Library) error {
		if l.Path() != path {
			return errors.New("it lacks everything")
		}
		return &events.UnavailableError{Cause: events.CauseDriverMissing, Detail: "the driver is missing or too old", Code: 35, CodeName: "cudaErrorInsufficientDriver", Version: 13000}
	}
	u := requireUnavailable(t, spec, events.CauseDriverMissing)
	require.Equal(t, "test", u.Backend)
	require.Equal(t, path, u.Path)
	require.EqualValues(t, 35, u.Code)
	require.Equal(t, 13000, u.Version)
	require.Equal(t, "loads, but the driver is missing or too old [cudaErrorInsufficientDriver (35)]", reasonFor(t, u.Candidates, path))

	k.good("lib", "11.0")
	spec.Override = path
	u = requireUnavailable(t, spec, events.CauseDriverMissing)
	require.Contains(t, u.Detail, "given by the program, was loaded, but the driver is missing")
	require.Len(t, u.Candidates, 1)
}

// Directories of one toolkit lead to one file under many names; the library behind
// it may be slow to answer.
func TestOneFileIsJudgedOnce(t *testing.T) {
	k := newKin(t)
	file := k.good("targets/lib", "13.0.96")
	require.NoError(t, os.Symlink(filepath.Base(file), k.path("targets/lib", "13")))
	require.NoError(t, os.Symlink("targets/lib", filepath.Join(k.dir, "lib64")))
	require.NoError(t, os.MkdirAll(filepath.Join(k.dir, "flat"), 0o755))
	require.NoError(t, os.Symlink(file, k.path("flat", "12")))
	asked := 0
	spec := k.spec("lib64", "targets/lib", "flat")
	spec.Accept = func(*Library) error { asked++; return errors.New("no") }
	u := requireUnavailable(t, spec, events.CauseSymbolMissing)
	require.Equal(t, 1, asked)
	require.Equal(t, file, u.Path)

	// A directory or a damaged file under two names is reported once.
	k = newKin(t)
	put(t, k.path("lib", "13.0.96"), nil)
	require.NoError(t, os.Symlink(k.stem+"13.0.96", k.path("lib", "13")))
	require.NoError(t, os.Mkdir(filepath.Join(k.dir, "empty"), 0o755))
	require.NoError(t, os.Symlink("empty", filepath.Join(k.dir, "same")))
	u = requireUnavailable(t, k.spec("empty", "same", "lib"), events.CauseLibraryMissing)
	require.Equal(t, []events.Candidate{
		{Path: k.stem + "13", Reason: "not known to the system's loader"},
		{Path: k.path("lib", "13"), Reason: "is an empty file (the loader says: file too short)"},
		{Path: k.stem + "12", Reason: "not known to the system's loader"},
		{Path: k.stem + "11.0", Reason: "not known to the system's loader"},
		{Path: filepath.Join(k.dir, "empty"), Reason: "no such library in there"},
	}, u.Candidates)

	// Also if it was in the process before, under its soname and its file's name.
	k = newKin(t)
	resident := put(t, k.path("lib", "13"), nil)
	compile(t, resident, goodSource, "-Wl,-soname,"+k.stem+"13")
	_, err := OpenExact(resident)
	require.NoError(t, err)
	asked = 0
	spec = k.spec("lib")
	spec.Accept = func(*Library) error { asked++; return errors.New("no") }
	u = requireUnavailable(t, spec, events.CauseSymbolMissing)
	require.Equal(t, 1, asked)
	require.Equal(t, "is "+resident+", refused above", reasonFor(t, u.Candidates, k.stem+"13"))
}

// Whatever an override says, it is the library that is used, or it is named in the
// error; nothing else is tried in its place.
func FuzzOverride(f *testing.F) {
	for _, value := range []string{"", " ", "/", ".", "lib", "libx.so.1", "./x.so", "/dev/null", "/proc/self/exe", "a\nb", "\x00", "%s%n", "~/x.so", "/etc/passwd:/x"} {
		f.Add(value)
	}
	k := newKin(f)
	good := k.good("lib", "13")
	f.Fuzz(func(t *testing.T, value string) {
		spec := k.spec("lib")
		spec.Override = value
		lib, err := Open(spec)
		if value == "" || filepath.Clean(value) == good {
			require.NoError(t, err)
			require.Equal(t, good, lib.Path())
			return
		}
		var u *events.UnavailableError
		require.ErrorAs(t, err, &u, "%q opened %s", value, lib.Path())
		require.Equal(t, events.CauseBadOverride, u.Cause)
		require.NotEmpty(t, u.Advice)
		require.LessOrEqual(t, len(u.Candidates), 1, "something else was tried")
		require.Contains(t, u.Error(), fmt.Sprintf("%q", value))
	})
}
