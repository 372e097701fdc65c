// Command benchcompare says what has become faster or slower between two reports that
// package bench has written as JSON.
//
//	benchcompare [-threshold 1%] [-force] [-format table] [-fail-on slower,failed] OLD.json NEW.json
//
// Rows are compared that both files have; the others are listed. Files from another
// machine, device, driver or instrument are refused. Exit codes: 0 nothing of what -fail-on
// names, 1 something of it, 2 wrong usage or a file that cannot be read, 3 not
// comparable, 4 the result could not be written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"example.com/devevents/bench"
	"example.com/devevents/bench/compare"
)

// The exit codes.
const (
	exitPassed        = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNotComparable = 3
	exitNotWritten    = 4
)

const usage = `usage: benchcompare [flags] OLD.json NEW.json

Says what has become faster or slower between two reports that package bench has written
with -o json=FILE: row by row, by the medians, with an interval. A row is slower only if
its whole interval lies beyond the threshold, with all rows considered together; where the
samples do not tell it is unclear, and the note says how many would.

examples:
  benchcompare old.json new.json
  benchcompare -threshold 2% -format markdown old.json new.json
  benchcompare -fail-on slower,unclear,failed,missing old.json new.json   # a strict gate
  benchcompare -fail-on none -force cuda12.json cuda13.json               # only look

exit codes:
  0  nothing of what -fail-on names
  1  something of it
  2  wrong usage, or a file that cannot be read
  3  not comparable: other instruments (-force compares them all the same), or no common rows
  4  the result could not be written

flags:
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// formats are the ways to write a comparison.
var formats = map[string]func(*compare.Report, io.Writer) error{
	"table":    (*compare.Report).WriteTable,
	"markdown": (*compare.Report).WriteMarkdown,
	"csv":      (*compare.Report).WriteCSV,
	"json":     (*compare.Report).WriteJSON,
}

// gates are what -fail-on may name.
var gates = map[string]func(*compare.Report) int{
	"slower":  func(r *compare.Report) int { return r.Count(bench.Slower) },
	"faster":  func(r *compare.Report) int { return r.Count(bench.Faster) },
	"unclear": func(r *compare.Report) int { return r.Count(bench.Unclear) },
	"failed":  func(r *compare.Report) int { return len(r.Failed) },
	"missing": func(r *compare.Report) int { return len(r.OnlyOld) },
}

func run(args []string, out, errOut io.Writer) int {
	fs := flag.NewFlagSet("benchcompare", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // what is wrong is said once, below
	opts := []compare.Option{}
	fs.Func("threshold", "how large a `difference` must be to count: 0.01 or 1% (default 1%)", func(text string) error {
		share, err := bench.ParseShare(text)
		opts = append(opts, compare.Threshold(share))
		return err
	})
	force := fs.Bool("force", false, "compare files of other instruments all the same, and list what differs")
	format := fs.String("format", "table", "table, markdown, csv or json")
	failOn := fs.String("fail-on", "slower,failed", "what ends in exit code 1, with commas: slower, faster, unclear, failed (no result in NEW), missing (not in NEW), or none")
	fail := func(code int, err error) int {
		fmt.Fprintln(errOut, "benchcompare:", err)
		return code
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(out)
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
		return exitPassed
	} else if err != nil {
		return fail(exitUsage, fmt.Errorf("%w; benchcompare -h explains", err))
	}
	write, ok := formats[*format]
	if !ok {
		return fail(exitUsage, fmt.Errorf("-format %s: there are table, markdown, csv and json", *format))
	}
	watched, err := parseGates(*failOn)
	if err != nil {
		return fail(exitUsage, err)
	}
	if fs.NArg() != 2 {
		return fail(exitUsage, fmt.Errorf("%d files given, not 2; flags come before them; benchcompare -h explains", fs.NArg()))
	}
	if *force {
		opts = append(opts, compare.Force())
	}
	report, err := compare.Files(fs.Arg(0), fs.Arg(1), opts...)
	var refusal *compare.Refusal
	switch {
	case errors.As(err, &refusal):
		if refusal.Forcible {
			err = fmt.Errorf("%w\n-force compares them all the same", err)
		}
		return fail(exitNotComparable, err)
	case err != nil:
		return fail(exitUsage, err)
	}
	if err := write(report, out); err != nil {
		return fail(exitNotWritten, err)
	}
	code := exitPassed
	for _, gate := range watched {
		if n := gates[gate](report); n > 0 {
			fmt.Fprintf(errOut, "benchcompare: %s: %d\n", gate, n)
			code = exitFailed
		}
	}
	return code
}

// parseGates reads what -fail-on names.
func parseGates(text string) ([]string, error) {
	if text == "none" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for _, name := range list {
		if gates[name] == nil {
			return nil, fmt.Errorf("-fail-on %q: there are slower, faster, unclear, failed and missing, with commas between them, or none", text)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
