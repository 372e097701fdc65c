package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"example.com/devevents/events"
)

// Library is a loaded shared library. It stays loaded for the life of the
// process. Its methods may be called from any goroutine.
type Library struct {
	handle  uintptr
	path    string
	origin  string
	skipped []events.Candidate
}

// Path is the file that is mapped into the process, whatever name was asked for.
func (l *Library) Path() string {
	if l == nil {
		return ""
	}
	return l.path
}

// Origin says in a few words which step of the search found the library.
func (l *Library) Origin() string {
	if l == nil {
		return ""
	}
	return l.origin
}

// Skipped lists what was tried before this library, in order. The caller must
// not change it.
func (l *Library) Skipped() []events.Candidate {
	if l == nil {
		return nil
	}
	return l.skipped
}

// Lookup is the address of a function, or 0 if the library has none of that
// name. Like the loader it also looks into the libraries that this one needs.
func (l *Library) Lookup(name string) uintptr {
	// A zero handle means "anything in this program" to the loader.
	if l == nil || l.handle == 0 || !plainText(name) {
		return 0
	}
	return sysLookup(l.handle, name)
}

// Spec says what to look for.
type Spec struct {
	Backend string   // for errors: "cuda"
	Names   []string // file names the loader may know, in order of preference
	// Stem is what every version's file name begins with: "libcudart.so.",
	// "cudart64_". Empty: no other versions are looked for.
	Stem string
	// Override is a path to use instead of searching. Empty: none.
	Override string
	// Env names the environment variable that does the same. Unset and empty
	// mean the same.
	Env string
	// Dirs are the directories to look in. They may hold glob patterns, whose
	// matches are taken newest version first, and $VAR forms; a directory with a
	// variable that is unset is left out, and so is one that is not absolute.
	Dirs []string
	// OneOnly forbids a second copy of the library in the process: once one is
	// loaded, by us or by anyone, it is that one or none.
	OneOnly bool
	// Accept judges a candidate that loaded: nil takes it, an error passes it
	// over with the error as the reason. If nothing is taken, an
	// *events.UnavailableError from here gives the failure its cause. Nil takes all.
	Accept func(candidate *Library) error
}

// Open searches for a library as the package comment says. If none can be used
// the error is an *events.UnavailableError that lists everything tried.
func Open(spec Spec) (*Library, error) {
	if !supported {
		return nil, notThisPlatform(spec.Backend)
	}
	return newSearch(spec).run()
}

// OpenExact loads one library and tries nothing else: the file at path or, for a
// path without a separator, what the loader knows under that name.
func OpenExact(path string) (*Library, error) {
	name := filepath.Base(path)
	if !supported {
		return nil, notThisPlatform(name)
	}
	s := newSearch(Spec{Backend: name})
	o := only{
		what: fmt.Sprintf("library %q", path), origin: "asked for by path",
		cause: events.CauseLibraryMissing, advice: "give the full path of a library file",
	}
	if isBare(path) && plainText(path) && strings.TrimSpace(path) != "" {
		o.origin = "asked for by name"
		return s.alone(path, o)
	}
	return s.exclusive(path, o)
}

// notThisPlatform is the answer where there is nothing to look for.
func notThisPlatform(backend string) *events.UnavailableError {
	return &events.UnavailableError{
		Backend: backend,
		Cause:   events.CauseNotThisPlatform,
		Detail:  "no CUDA or HIP runtime exists here, and no OpenCL loader that could be loaded (" + runtime.GOOS + "/" + runtime.GOARCH + ")",
		Advice:  "run on linux/amd64, linux/arm64 or windows, or use the simulated device",
	}
}

// MappedFiles lists the files mapped into this process as code whose names begin
// with prefix, so that a copy loaded by somebody else can be named in an error.
// It is empty where the system does not tell.
func MappedFiles(prefix string) []string {
	return mapped(func(base string) bool { return strings.HasPrefix(base, prefix) })
}

// IsStub tells whether path, or the file that it leads to, lies in a directory of
// link-time stubs.
func IsStub(path string) bool {
	return hasStubs(path) || hasStubs(realPath(path))
}

func hasStubs(path string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if part == "stubs" {
			return true
		}
	}
	return false
}

// open is the only way to the system's loader: whatever else a caller forgot, it
// never asks for this program itself.
func open(name string, resident bool) (uintptr, error) {
	if !plainText(name) {
		return 0, errNoName
	}
	return sysOpen(name, resident)
}

var errNoName = errors.New("no name for a library")

// isBare tells a name for the loader to search from a path.
func isBare(path string) bool { return !strings.ContainsFunc(path, isSeparator) }

func isSeparator(r rune) bool { return r == '/' || r == filepath.Separator }

// plainText refuses what would reach C as another string than it is here: cut at
// the zero byte, or empty, which names this program.
func plainText(s string) bool { return s != "" && !strings.ContainsRune(s, 0) }
