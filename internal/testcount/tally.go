package main

import (
	"fmt"
	"slices"
	"strings"
)

// counts of tests, each counted once.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// lines is the form in which results are kept: verdict, package and test.
func lines(results []result) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "%s %s %s\n", r.verdict, r.pkg, r.test)
	}
	return b.String()
}

// parse reads kept results.
func parse(text string) ([]result, error) {
	var results []result
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || weight[fields[0]] == 0 {
			return nil, fmt.Errorf("not a result: %q", line)
		}
		results = append(results, result{fields[0], fields[1], fields[2]})
	}
	return results, nil
}

var weight = map[string]int{"skip": 1, "pass": 2, "fail": 3}

// failing are those that failed, each test once.
func failing(results []result) (failed []result) {
	for _, r := range results {
		if r.verdict == "fail" && !slices.Contains(failed, r) {
			failed = append(failed, r)
		}
	}
	return failed
}

// count counts results. Of several runs of one test a failure outweighs a pass, and a
// pass a skip.
func count(results []result) counts {
	worst := map[[2]string]string{}
	for _, r := range results {
		key := [2]string{r.pkg, r.test}
		if weight[r.verdict] > weight[worst[key]] {
			worst[key] = r.verdict
		}
	}
	var c counts
	for _, verdict := range worst {
		switch verdict {
		case "pass":
			c.passed++
		case "fail":
			c.failed++
		case "skip":
			c.skipped++
		}
	}
	return c
}
