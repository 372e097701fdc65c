package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of "go test -json" (see "go doc test2json" and, for the
// build events, "go help buildjson").
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// result is how one test ended.
type result struct {
	verdict string // "pass", "fail" or "skip"
	pkg     string
	test    string
}

// wholePackage stands in for a test's name where the package itself failed.
const wholePackage = "(package)"

// suite gathers what is known of one package until it ends.
type suite struct {
	verdicts map[string]string
	order    []string
	output   map[string]*strings.Builder
}

// digest reads events, prints a report and returns the results in the order in
// which the tests ended.
func digest(in io.Reader, out io.Writer) ([]result, error) {
	suites := map[string]*suite{}
	var results []result
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			fmt.Fprintln(out, scan.Text()) // not an event: the go command's own words
			continue
		}
		if e.Package == "" {
			if e.Action == "build-output" {
				fmt.Fprint(out, e.Output)
			}
			continue
		}
		s := suites[e.Package]
		if s == nil {
			s = &suite{verdicts: map[string]string{}, output: map[string]*strings.Builder{}}
			suites[e.Package] = s
		}
		if s.add(e) {
			results = append(results, s.finish(e, out)...)
			delete(suites, e.Package)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	for pkg, s := range suites { // the stream broke off
		results = append(results, s.finish(event{Action: "fail", Package: pkg}, out)...)
	}
	return results, nil
}

// add takes one event and reports whether it ends the package.
func (s *suite) add(e event) (ended bool) {
	switch e.Action {
	case "output":
		if s.output[e.Test] == nil {
			s.output[e.Test] = &strings.Builder{}
		}
		s.output[e.Test].WriteString(e.Output)
	case "run":
		s.set(e.Test, "fail") // until it ends: a test cut short has failed
	case "pass", "fail", "skip":
		if e.Test == "" {
			return true
		}
		s.set(e.Test, e.Action)
	}
	return false
}

func (s *suite) set(test, verdict string) {
	if strings.HasPrefix(test, "Benchmark") {
		return
	}
	if _, known := s.verdicts[test]; !known {
		s.order = append(s.order, test)
	}
	s.verdicts[test] = verdict
}

// finish prints the package and gives its results.
func (s *suite) finish(end event, out io.Writer) []result {
	results := s.leaves(end.Package)
	failed := 0
	for _, r := range results {
		if r.verdict == "fail" {
			failed++
		}
	}
	if end.Action == "fail" && failed == 0 {
		results = append(results, result{"fail", end.Package, wholePackage})
	}

	for _, r := range results {
		switch r.verdict {
		case "fail":
			fmt.Fprintf(out, "FAIL %s %s\n", r.pkg, r.test)
		case "skip":
			fmt.Fprintf(out, "skip %s %s: %s\n", r.pkg, r.test, reason(s.text(r.test)))
		}
	}
	switch {
	case end.Action == "fail":
		for _, test := range s.order {
			if s.verdicts[test] == "fail" {
				fmt.Fprint(out, indent(s.text(test)))
			}
		}
		fmt.Fprint(out, indent(s.text("")))
		if end.FailedBuild != "" {
			fmt.Fprintf(out, "    %s does not build\n", end.FailedBuild)
		}
	case len(results) == 0:
		return nil
	}
	counts := count(results)
	fmt.Fprintf(out, "%-4s %s %.1fs: %s\n", end.Action, end.Package, end.Elapsed, counts)
	return results
}

// leaves drops each test that has subtests, unless it failed on its own account.
func (s *suite) leaves(pkg string) []result {
	parent := map[string]bool{}
	failing := map[string]bool{}
	for _, test := range s.order {
		for i := strings.LastIndexByte(test, '/'); i > 0; i = strings.LastIndexByte(test[:i], '/') {
			parent[test[:i]] = true
			if s.verdicts[test] == "fail" {
				failing[test[:i]] = true
			}
		}
	}
	var results []result
	for _, test := range s.order {
		verdict := s.verdicts[test]
		if parent[test] && (verdict != "fail" || failing[test]) {
			continue
		}
		results = append(results, result{verdict, pkg, test})
	}
	return results
}

func (s *suite) text(test string) string {
	if b := s.output[test]; b != nil {
		return b.String()
	}
	return ""
}

// reason is what a skipped test said: its output without the framing lines.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
