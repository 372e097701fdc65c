package dl

import (
	"cmp"
	"errors"
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

// folder is an existing directory of the search.
type folder struct {
	path string
	hit  bool // a file in it was tried
}

func newSearch(spec Spec) *search {
	return &search{spec: spec, refused: map[uintptr]string{}, seen: map[string]bool{}, entered: map[string]bool{}}
}

// oneAtATime keeps two searches with OneOnly from loading a copy each between
// their look at the process and their load.
var oneAtATime sync.Mutex

func (s *search) run() (*Library, error) {
	if s.spec.Override != "" {
		return s.exclusive(s.spec.Override, fmt.Sprintf("library path %q, given by the program,", s.spec.Override), "given by the program")
	}
	if value := os.Getenv(s.spec.Env); s.spec.Env != "" && value != "" {
		return s.exclusive(value, fmt.Sprintf("%s=%q", s.spec.Env, value), "given by "+s.spec.Env)
	}
	steps := []func() *Library{s.alreadyLoaded, s.userDirectories, s.namesInOrder, s.otherVersions}
	for _, step := range steps {
		if lib := step(); lib != nil {
			lib.skipped = s.tried
			return lib, nil
		}
	}
	return nil, s.failure()
}

// exclusive uses the path that somebody named, or fails: a fallback would hide
// that their wish was not granted. What names path and who named it.
func (s *search) exclusive(path, what, origin string) (*Library, error) {
	complain := func(reason string) error {
		return s.badOverride(what+" "+reason, path)
	}
	switch {
	case strings.TrimSpace(path) == "":
		return nil, complain("is blank")
	case !plainText(path):
		return nil, complain("has a zero byte in it")
	case isBare(path):
		return nil, complain("does not say in which directory")
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, complain("cannot be made an absolute path: " + err.Error())
	}
	if found := inspect(full); found.keepOff {
		return nil, complain(found.text)
	}
	return s.alone(full, what, origin)
}

// alone tries one candidate and nothing else.
func (s *search) alone(name, what, origin string) (*Library, error) {
	if lib := s.try(name, origin); lib != nil {
		return lib, nil
	}
	if s.verdict != nil {
		u := s.failure()
		u.Detail = what + " was loaded, but " + u.Detail
		return nil, u
	}
	return nil, s.badOverride(what+" cannot be used", name)
}

// badOverride is the answer when the one candidate that was asked for is no good.
func (s *search) badOverride(detail, path string) *events.UnavailableError {
	u := &events.UnavailableError{
		Backend: s.spec.Backend, Cause: events.CauseBadOverride, Detail: detail, Candidates: s.tried,
		Advice: "give the full path of a library file",
	}
	if s.spec.Env != "" {
		u.Advice += ", in the program or in " + s.spec.Env + ", or give none to have it searched for"
	}
	if plainText(path) && !isBare(path) && s.spec.Stem != "" {
		for _, dir := range []string{path, filepath.Dir(path)} {
			if isDirectory(dir) {
				s.dirs = s.enter(s.dirs, dir)
			}
		}
		u.Near = s.near()
	}
	return u
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
		if s.spec.OneOnly {
			s.onlyThis = path
			return nil
		}
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
	if !plainText(name) || !exists(path) {
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

func (s *search) allFolders() []*folder {
	return slices.Concat(s.userDirs, s.dirs)
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
	for _, path := range mapped(s.ofFamily) {
		s.onlyThis = path
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

// knownDirectories expands Spec.Dirs.
func (s *search) knownDirectories(patterns []string) (dirs []*folder) {
	for _, pattern := range patterns {
		dir, ok := expand(pattern)
		if !ok || !filepath.IsAbs(dir) {
			s.unset = append(s.unset, pattern)
			continue
		}
		matches := []string{dir}
		if hasMeta(pattern) {
			matches, _ = filepath.Glob(dir)
			slices.SortFunc(matches, func(a, b string) int { return naturalCompare(b, a) })
		}
		none := true
		for _, match := range matches {
			if isDirectory(match) {
				none = false
				dirs = s.enter(dirs, match)
			}
		}
		if none {
			s.absent = append(s.absent, dir)
		}
	}
	return dirs
}

// enter appends a directory unless it is known under another name or holds stubs.
func (s *search) enter(dirs []*folder, dir string) []*folder {
	resolved := realPath(dir)
	switch {
	case s.entered[resolved]:
	case IsStub(dir):
		s.stubDirs = append(s.stubDirs, dir)
	default:
		dirs = append(dirs, &folder{path: dir})
	}
	s.entered[resolved] = true
	return dirs
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// hasMeta tells a pattern from a plain path.
func hasMeta(path string) bool { return strings.ContainsAny(path, "*?[") }

// expand replaces $VAR. Values stand for themselves even in a pattern. It fails
// if a variable is unset or empty.
func expand(pattern string) (string, bool) {
	ok := true
	dir := os.Expand(pattern, func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			ok = false
		}
		if hasMeta(pattern) && filepath.Separator == '/' {
			value = literal.Replace(value)
		}
		return value
	})
	return dir, ok
}

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// maxNear bounds a list that is there to be read.
const maxNear = 16

// near lists files that look like the library and were not tried.
func (s *search) near() []string {
	front := strings.TrimRight(strings.TrimSuffix(s.spec.Stem, ".so."), "_.")
	if front == "" {
		return nil
	}
	var near []string
	look := func(dir, remark string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			rest, ok := strings.CutPrefix(e.Name(), front)
			if ok && rest != "" && strings.ContainsAny(rest[:1], ".-_") && !s.wasTried(path) && len(near) < maxNear {
				near = append(near, path+remark)
			}
		}
	}
	for _, f := range s.allFolders() {
		look(f.path, "")
		look(filepath.Join(f.path, "stubs"), " (a stub for the linker)")
	}
	return near
}

func (s *search) wasTried(path string) bool {
	return s.seen[realPath(path)] || slices.ContainsFunc(s.tried, func(c events.Candidate) bool { return c.Path == path })
}

// failure says why nothing was taken.
func (s *search) failure() *events.UnavailableError {
	u := &events.UnavailableError{Backend: s.spec.Backend}
	switch {
	case s.verdict != nil:
		var why *events.UnavailableError
		if errors.As(s.verdict, &why) {
			*u = *why
			u.Backend = cmp.Or(u.Backend, s.spec.Backend)
		} else {
			u.Cause, u.Detail = events.CauseSymbolMissing, s.verdict.Error()
		}
		u.Path = cmp.Or(u.Path, s.verdictPath)
	case s.onlyThis != "":
		u.Cause, u.Detail = events.CauseLibraryMissing, "the copy in this process cannot be used"
	case s.stubs > 0 && s.broken == 0:
		u.Cause, u.Detail = events.CauseStubDriver, "only stubs for the linker were found"
		u.Advice = "install the real library (for a driver's, the driver itself), and take the stubs folder off the library path"
	case s.broken > 0:
		u.Cause, u.Detail = events.CauseLibraryMissing, "found, but none of what was found can be loaded"
		u.Advice = "repair or replace one of the files below"
	default:
		u.Cause, u.Detail = events.CauseLibraryMissing, "found no "+orList(s.spec.Names)
		u.Advice = "install it"
	}
	if s.onlyThis != "" {
		u.Detail += "; " + s.onlyThis + " is loaded in this process, and no second copy may be loaded beside it, so the search ended there"
	}
	if s.spec.Env != "" && !strings.Contains(u.Advice, s.spec.Env) {
		u.Advice = strings.TrimPrefix(u.Advice+", or set "+s.spec.Env+" to the full path of the library to use", ", or ")
	}
	u.Candidates = append(s.tried, s.inVain()...)
	u.Near = s.near()
	return u
}

// inVain lists the directories without a candidate, in a few lines.
func (s *search) inVain() []events.Candidate {
	var barren []string
	for _, f := range s.allFolders() {
		if !f.hit {
			barren = append(barren, f.path)
		}
	}
	var all []events.Candidate
	add := func(dirs []string, reason string) {
		if len(dirs) > 0 {
			all = append(all, events.Candidate{Path: strings.Join(dirs, ", "), Reason: reason})
		}
	}
	if s.onlyThis == "" {
		add(barren, "no such library in there")
	}
	add(s.stubDirs, "stubs for the linker; not looked at")
	add(s.absent, "no such directory")
	add(s.unset, "not looked at, since the variable is not set to an absolute path")
	return all
}

// oneLine is an error without the lists that an UnavailableError carries.
func oneLine(err error) string {
	var u *events.UnavailableError
	if !errors.As(err, &u) {
		return err.Error()
	}
	if u.Code != 0 {
		return fmt.Sprintf("%s [%s (%d)]", u.Detail, u.CodeName, u.Code)
	}
	return u.Detail
}

// orList is "a, b or c".
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
