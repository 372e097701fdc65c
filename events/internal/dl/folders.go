package dl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is an existing directory of the search.
type folder struct {
	path string
	hit  bool // a file in it was tried
}

func (s *search) allFolders() []*folder {
	return slices.Concat(s.userDirs, s.dirs)
}

// knownDirectories expands Spec.Dirs.
func (s *search) knownDirectories(patterns []string) (dirs []*folder) {
	for _, pattern := range patterns {
		dir, ok := expand(pattern)
		if !ok || !filepath.IsAbs(dir) {
			s.passOver(pattern)
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

// passOver remembers why a directory was not looked at: by its variables, which
// are few, rather than the many directories that each would give.
func (s *search) passOver(pattern string) {
	reasons := []string{pattern}
	if strings.Contains(pattern, "$") {
		reasons = nil
		os.Expand(pattern, func(name string) string {
			reasons = append(reasons, "$"+name)
			return ""
		})
	}
	for _, reason := range reasons {
		if !slices.Contains(s.unset, reason) {
			s.unset = append(s.unset, reason)
		}
	}
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
