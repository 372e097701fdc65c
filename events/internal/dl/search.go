package dl

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"example.com/devevents/events"
)

// search is one run of Open.
type search struct {
	spec  Spec
	tried []events.Candidate
	// refused has the handles that Accept or the stub rule turned down, with
	// their paths; seen the files that have been tried. Neither is asked twice.
	refused map[uintptr]string
	seen    map[string]bool
	// verdict is the first refusal by Accept, and of which file. The first is of
	// the most preferred library that loads, so it says most.
	verdict     error
	verdictPath string
	stubs       int    // candidates refused as stubs
	broken      int    // files that could not be loaded
	onlyThis    string // OneOnly: the copy in the process that forbids others

	userDirs, dirs []*folder
	entered        map[string]bool // the directories in them, by real path
	stubDirs       []string
	absent, unset  []string
}

func newSearch(spec Spec) *search {
	return &search{spec: spec, refused: map[uintptr]string{}, seen: map[string]bool{}, entered: map[string]bool{}}
}

// oneAtATime keeps two searches with OneOnly from loading a copy each between
// their look at the process and their load.
var oneAtATime sync.Mutex

func (s *search) run() (*Library, error) {
	const orNone = ", or give none to have the library searched for"
	if path := s.spec.Override; path != "" {
		return s.exclusive(path, only{
			what: fmt.Sprintf("library path %q, given by the program,", path), origin: "given by the program",
			cause: events.CauseBadOverride, advice: "give the full path of a library file" + orNone,
		})
	}
	if path := os.Getenv(s.spec.Env); s.spec.Env != "" && path != "" {
		return s.exclusive(path, only{
			what: fmt.Sprintf("%s=%q", s.spec.Env, path), origin: "given by " + s.spec.Env,
			cause: events.CauseBadOverride, advice: "set " + s.spec.Env + " to the full path of a library file, or unset it to have the library searched for",
		})
	}
	for _, step := range []func() *Library{s.alreadyLoaded, s.userDirectories, s.namesInOrder, s.otherVersions} {
		if lib := step(); lib != nil {
			lib.skipped = s.tried
			return lib, nil
		}
	}
	return nil, s.failure()
}

// only is a candidate that is used or nothing is: a fallback would hide that
// somebody's wish was not granted.
type only struct {
	what   string // it, and who asked for it
	origin string
	cause  events.Cause // of a failure to use it
	advice string
}

// exclusive uses the file that somebody named, or fails.
func (s *search) exclusive(path string, o only) (*Library, error) {
	full, err := filepath.Abs(path)
	switch {
	case strings.TrimSpace(path) == "":
		o.what += " is blank"
	case !plainText(path):
		o.what += " has a zero byte in it"
	case isBare(path):
		o.what += " does not say in which directory"
	case err != nil:
		o.what += " cannot be made an absolute path: " + err.Error()
	default:
		return s.alone(full, o)
	}
	return nil, &events.UnavailableError{Backend: s.spec.Backend, Cause: o.cause, Detail: o.what, Advice: o.advice}
}

// alone tries one candidate and nothing else.
func (s *search) alone(name string, o only) (*Library, error) {
	if lib := s.try(name, o.origin); lib != nil {
		return lib, nil
	}
	var near []string
	if !isBare(name) {
		near = s.near(name, filepath.Dir(name))
	}
	if s.verdict != nil {
		u := s.failure()
		u.Detail, u.Near = o.what+" was loaded, but "+u.Detail, near
		return nil, u
	}
	return nil, &events.UnavailableError{
		Backend: s.spec.Backend, Cause: o.cause, Detail: o.what + " cannot be used, and nothing else was tried",
		Advice: o.advice, Candidates: s.tried, Near: near,
	}
}

// alreadyLoaded looks for what somebody else has loaded: sharing it is safe,
// a second copy beside it may not be.
func (s *search) alreadyLoaded() *Library {
	const origin = "already loaded in this process"
	for _, name := range s.spec.Names {
		if handle, err := open(name, true); err == nil {
			if lib := s.consider(handle, name, origin); lib != nil || s.onlyThis != "" {
				return lib
			}
		}
	}
	for _, path := range mapped(s.ofFamily) {
		handle, err := open(path, true)
		if err == nil {
			if lib := s.consider(handle, path, origin); lib != nil || s.onlyThis != "" {
				return lib
			}
			continue
		}
		s.note(path, "is mapped into this process, but the loader does not hand it out")
	}
	return nil
}

// ofFamily tells whether a file name is one of the library's.
func (s *search) ofFamily(base string) bool {
	if s.spec.Stem != "" && (strings.HasPrefix(base, s.spec.Stem) || base == strings.TrimSuffix(s.spec.Stem, ".")) {
		return true
	}
	return slices.Contains(s.spec.Names, base)
}

// userDirectories looks where the user told the loader to look. The loader would
// do so too, but stops at a damaged file and would take a stub.
func (s *search) userDirectories() *Library {
	for _, dir := range filepath.SplitList(os.Getenv(loaderPathVar)) {
		if filepath.IsAbs(dir) && isDirectory(dir) {
			s.userDirs = s.enter(s.userDirs, dir)
		}
	}
	for _, name := range s.spec.Names {
		if lib := s.inFolders(s.userDirs, name, "in "+loaderPathVar); lib != nil {
			return lib
		}
	}
	return nil
}

func (s *search) namesInOrder() *Library {
	// The loader would go through the user's stub directories too. A stub that it
	// loads stays, and answers for the real library wherever that is asked for by name.
	userStubs := s.stubDirs
	s.dirs = s.knownDirectories(s.spec.Dirs)
	for _, name := range s.spec.Names {
		if !isBare(name) {
			s.note(name, "is not a name but a path, and was not tried")
			continue
		}
		if i := slices.IndexFunc(userStubs, func(dir string) bool { return exists(filepath.Join(dir, name)) }); i >= 0 {
			s.noteStub(filepath.Join(userStubs[i], name))
		} else if lib := s.try(name, "known to the system's loader"); lib != nil {
			return lib
		}
		if lib := s.inFolders(s.dirs, name, "in a known directory"); lib != nil {
			return lib
		}
	}
	return nil
}

func (s *search) inFolders(folders []*folder, name, origin string) *Library {
	for _, f := range folders {
		if lib := s.inFolder(f, name, origin); lib != nil {
			return lib
		}
	}
	return nil
}

// inFolder tries a file if it is there and was not tried under another name.
func (s *search) inFolder(f *folder, name, origin string) *Library {
	path := filepath.Join(f.path, name)
	if s.onlyThis != "" || !plainText(name) || !exists(path) {
		return nil
	}
	f.hit = true
	resolved := realPath(path)
	if s.seen[resolved] {
		return nil
	}
	s.seen[resolved] = true
	return s.try(path, origin)
}

// otherVersions looks for files that no name speaks of.
func (s *search) otherVersions() *Library {
	type file struct {
		in            *folder
		base, version string
		rank          int // of the name with the same major; past the last if there is none
	}
	var files []file
	for _, f := range s.allFolders() {
		entries, err := os.ReadDir(f.path)
		if err != nil {
			s.note(f.path, "cannot be listed: "+reasonOf(err).Error())
		}
		for _, e := range entries {
			version, ok := versionOf(s.spec.Stem, e.Name())
			if !ok || slices.Contains(s.spec.Names, e.Name()) {
				continue
			}
			rank := slices.IndexFunc(s.spec.Names, func(name string) bool {
				v, ok := versionOf(s.spec.Stem, name)
				return ok && majorOf(v) == majorOf(version)
			})
			if rank < 0 {
				rank = len(s.spec.Names)
			}
			files = append(files, file{f, e.Name(), version, rank})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(a.rank-b.rank, naturalCompare(b.version, a.version))
	})
	for _, f := range files {
		if lib := s.inFolder(f.in, f.base, "another version, seen in a directory"); lib != nil {
			return lib
		}
	}
	return nil
}

// try loads one candidate, a bare name or an absolute path, and judges it.
func (s *search) try(name, origin string) *Library {
	if s.onlyThis != "" {
		return nil
	}
	if !plainText(name) {
		s.note(fmt.Sprintf("%q", name), "is no name for a library, and was not tried")
		return nil
	}
	if !isBare(name) {
		if IsStub(name) {
			s.noteStub(name)
			return nil
		}
		if found := inspect(name); found.keepOff {
			s.broken++
			s.note(name, found.text)
			return nil
		}
	}
	handle, err := s.load(name)
	switch {
	case s.onlyThis != "":
		s.note(name, "not loaded: "+s.onlyThis+" is in this process already, and a second copy can crash it")
		return nil
	case err != nil && isBare(name):
		s.note(name, explainName(name, err.Error()))
		return nil
	case err != nil:
		s.broken++
		s.note(name, explainPath(name, err.Error()))
		return nil
	}
	return s.consider(handle, name, origin)
}

// load is open under the rule of OneOnly.
func (s *search) load(name string) (uintptr, error) {
	if !s.spec.OneOnly {
		return open(name, false)
	}
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	// The same library again, under whatever name, is no second copy.
	if handle, err := open(name, true); err == nil {
		return handle, nil
	}
	if others := mapped(s.ofFamily); len(others) > 0 {
		s.onlyThis = others[0]
		return 0, nil
	}
	for _, other := range s.spec.Names {
		if handle, err := open(other, true); err == nil {
			s.onlyThis = sysPath(handle, other)
			return 0, nil
		}
	}
	return open(name, false)
}

// consider judges a library that is loaded.
func (s *search) consider(handle uintptr, name, origin string) *Library {
	lib := &Library{handle: handle, path: sysPath(handle, name), origin: origin}
	s.seen[lib.path] = true
	if earlier, known := s.refused[handle]; known {
		if lib.path != name {
			s.note(name, "is "+earlier+", refused above")
		}
		return nil
	}
	if IsStub(lib.path) {
		s.refused[handle] = lib.path
		s.noteStub(lib.path)
	} else if err := s.accept(lib); err == nil {
		return lib
	} else {
		s.refused[handle] = lib.path
		s.note(lib.path, "loads, but "+oneLine(err))
		if s.verdict == nil {
			s.verdict, s.verdictPath = err, lib.path
		}
	}
	if s.spec.OneOnly {
		s.onlyThis = lib.path
	}
	return nil
}

func (s *search) accept(lib *Library) error {
	if s.spec.Accept == nil {
		return nil
	}
	return s.spec.Accept(lib)
}

func (s *search) note(path, reason string) {
	s.tried = append(s.tried, events.Candidate{Path: path, Reason: reason})
}

func (s *search) noteStub(path string) {
	s.stubs++
	s.note(path, "is a stub for the linker, which answers every call with an error; not used")
}
