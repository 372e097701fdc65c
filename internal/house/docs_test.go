package house_test

import (
	"go/ast"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package says in doc.go what it is for. One that others can import shows it
// too, as an Example, which runs on the simulated device where it can.
func TestEveryPackageExplainsItself(t *testing.T) {
	for dir, list := range packages(sources(t, root(t))) {
		var documented, example, checked, main bool
		private := strings.Contains("/"+dir+"/", "/internal/")
		for _, s := range list {
			main = main || s.syntax.Name.Name == "main"
			documented = documented || s.syntax.Doc != nil && (path.Base(s.name) == "doc.go" || main || private)
			if !s.test {
				continue
			}
			for _, e := range doc.Examples(s.syntax) {
				example = true
				checked = checked || e.Output != ""
			}
		}
		if !documented {
			t.Errorf("%s: no package comment, in doc.go where others can import it", dir)
		}
		if main || private {
			continue
		}
		switch roomOf(dir) {
		case "events/cuda", "events/hip", "events/opencl", "events/eventstest":
			checked = true // it needs a device, or a test to run in
		}
		switch {
		case !example:
			t.Errorf("%s: no Example", dir)
		case !checked:
			t.Errorf("%s: no Example with an // Output: comment", dir)
		}
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	code     = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	notASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	top := root(t)
	for _, file := range files(t, top) {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		text := code.ReplaceAllString(fence.ReplaceAllString(read(t, top, file), ""), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") {
				continue // elsewhere
			}
			to := file
			if target != "" {
				to = path.Join(path.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(top, to)); err != nil {
				t.Errorf("%s: no file for the link %s", file, match[1])
				continue
			}
			if anchor != "" && !anchors(read(t, top, to))[anchor] {
				t.Errorf("%s: no heading for the link %s", file, match[1])
			}
		}
	}
}

// anchors are the fragments that a markdown reader gives to the headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := notASlug.ReplaceAllString(strings.ToLower(match[1]), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return found
}

const faults = "docs/faults.md"

var (
	report   = regexp.MustCompile(`\b[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+#[0-9]+\b`)
	testName = regexp.MustCompile("`([^`]+)`")
)

// docs/faults.md is the way from a public report to the test that keeps its
// fault out, so what it names exists, and a test that cites a report is in it.
func TestFaultTableAndTestsAgree(t *testing.T) {
	top := root(t)
	all := sources(t, top)
	exists := map[string]bool{}
	cites := map[string]map[string]bool{}
	for _, s := range all {
		for _, decl := range s.syntax.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			name := s.dir + "." + f.Name.Name
			isTest := s.test && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"))
			if !isTest && roomOf(s.dir) != "events/eventstest" {
				continue
			}
			exists[name] = true
			for _, cite := range report.FindAllString(f.Doc.Text(), -1) {
				if cites[name] == nil {
					cites[name] = map[string]bool{}
				}
				cites[name][cite] = true
			}
		}
	}
	for _, file := range files(t, top) {
		exists[file] = exists[file] || path.Ext(file) == ".txtar"
	}

	listed := map[string]map[string]bool{}
	for _, row := range rows(read(t, top, faults)) {
		if len(row) != 3 {
			t.Errorf("%s: a row with %d columns: %v", faults, len(row), row)
			continue
		}
		reports := report.FindAllString(row[1], -1)
		if row[0] == "" || len(reports) == 0 {
			t.Errorf("%s: a row without a fault or a report: %v", faults, row)
		}
		names := testName.FindAllStringSubmatch(row[2], -1)
		if len(names) == 0 {
			t.Errorf("%s: %q has no test", faults, row[0])
		}
		for _, match := range names {
			name := match[1]
			if !exists[name] {
				t.Errorf("%s: %q names %s, which does not exist", faults, row[0], name)
			}
			if listed[name] == nil {
				listed[name] = map[string]bool{}
			}
			for _, r := range reports {
				listed[name][r] = true
			}
		}
	}
	for name, reports := range cites {
		var missing []string
		for r := range reports {
			if !listed[name][r] {
				missing = append(missing, r)
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			t.Errorf("%s: no row with this test and these reports, which it cites:\n| FAULT | %s | `%s` |", faults, strings.Join(missing, ", "), name)
		}
	}
}

// rows are the cells of every table row below a header.
func rows(text string) [][]string {
	var list [][]string
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		if strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| --") {
			inTable = true
			continue
		}
		if !inTable {
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		list = append(list, row)
	}
	return list
}
