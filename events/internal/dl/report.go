package dl

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/devevents/events"
)

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
		u.Cause, u.Detail = events.CauseLibraryMissing, "library files were found, and none of them can be loaded"
		u.Advice = "mend what is wrong with one of the files below"
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
	var dirs []string
	for _, f := range s.allFolders() {
		dirs = append(dirs, f.path)
	}
	u.Near = s.near(dirs...)
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
	add(s.unset, "unset, or no absolute path: not searched")
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
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !plainText(name) })
	switch last := len(names) - 1; last {
	case -1:
		return "library, since no usable name was given"
	case 0:
		return names[0]
	default:
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
}

// maxNear bounds a list that is there to be read.
const maxNear = 16

// near lists files that look like the library and were not tried.
func (s *search) near(dirs ...string) []string {
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
	for _, dir := range dirs {
		look(dir, "")
		look(filepath.Join(dir, "stubs"), " (a stub for the linker)")
	}
	return near
}

func (s *search) wasTried(path string) bool {
	return s.seen[realPath(path)] || slices.ContainsFunc(s.tried, func(c events.Candidate) bool { return c.Path == path })
}
