package house_test

import (
	"regexp"
	"strings"
	"testing"
)

// forbidden are things that no file of the project may say. They are put
// together from pieces so that this file does not say them either.
var forbidden = []struct {
	what    string
	pattern *regexp.Regexp
	only    string // a suffix of the files that it is looked for in
}{
	{what: "a folder of somebody's machine", pattern: regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(work|farm|root|home/[a-z]+)/`)},
	{what: "how the project is made, not what it is", pattern: regexp.MustCompile(`(?i)\bses` + `sions?\b|\bissues? #?[0-9]`)},
	{what: "a number of a list that readers do not have", pattern: regexp.MustCompile(`\bC(0[1-9]|[1-5][0-9])\b`)},
	{what: "the host of a package registry", pattern: regexp.MustCompile(`proxy\.golang` + `\.org|sum\.golang` + `\.org|deb\.debian` + `\.org|registry\.npmjs` + `\.org`)},
	{what: "unfinished work", pattern: regexp.MustCompile(`\bTO` + `DO\b|\bFIX` + `ME\b|\bXX` + `X\b`)},
	{what: "a test that skips itself for no reason", pattern: regexp.MustCompile(`\.Skip` + `Now\(\)|\.Skip` + `\(\)`), only: "_test.go"},
}

func TestFilesSayNothingOfTheMachineTheyWereMadeOn(t *testing.T) {
	top := root(t)
	for _, file := range files(t, top) {
		if strings.HasSuffix(file, "go.sum") {
			continue
		}
		text := read(t, top, file)
		if strings.Contains(text, "\x00") {
			continue
		}
		number := 0
		for line := range strings.Lines(text) {
			number++
			for _, f := range forbidden {
				if strings.HasSuffix(file, f.only) && f.pattern.MatchString(line) {
					t.Errorf("%s:%d: %s: %s", file, number, f.what, strings.TrimSpace(line))
				}
			}
		}
	}
}
