package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/ladder"
)

// defaultLargest ends the ladder well beyond any cache.
const defaultLargest byteSize = 1 << 30

func benchFlags(fs *flag.FlagSet, o *options) {
	largestFlag(fs, o)
	fs.StringVar(&o.format, "format", "ladder", "of what is printed: `ladder|table|markdown|csv|benchstat`")
}

func largestFlag(fs *flag.FlagSet, o *options) {
	o.largest = defaultLargest
	fs.Var(&o.largest, "max", "the largest `size` of fills, reads and copies: 64MiB, 1GiB; copies need twice as much memory")
}

// writers are the formats of evprobe bench.
var writers = map[string]func(*bench.Report, io.Writer) error{
	"ladder":    ladder.Write,
	"table":     (*bench.Report).WriteTable,
	"markdown":  (*bench.Report).WriteMarkdown,
	"csv":       (*bench.Report).WriteCSV,
	"benchstat": (*bench.Report).WriteBenchstat,
}

func acceptBench(o *options, operands []string) error {
	if writers[o.format] == nil {
		return fmt.Errorf("unknown format %q: -format takes ladder|table|markdown|csv|benchstat", o.format)
	}
	return noOperands(o, operands)
}

// judgeBench prints the report, and says how many rows of it are numbers.
func (r *recorder) judgeBench() {
	d := r.doc
	measured, failed, skipped := 0, 0, 0
	for _, row := range d.Bench.Results {
		switch row.Status {
		case bench.OK:
			measured++
		case bench.Failed:
			failed++
		case bench.Skipped:
			skipped++
		}
	}
	if !r.json {
		if err := writers[r.format](d.Bench, r.out.w); err != nil && r.out.err == nil {
			r.out.err = err
		}
	}
	counts := fmt.Sprintf("%d of %d sizes measured, %d failed, %d skipped", measured, len(d.Bench.Results), failed, skipped)
	switch {
	case r.failed != "":
		d.End(document.Failed, exitFailed, counts+", and then the device could not be closed: "+r.failed)
	case failed > 0:
		d.End(document.Failed, exitFailed, counts)
	case measured == 0:
		d.End(document.Failed, exitFailed, counts+": nothing was measured")
	default:
		d.End(document.Passed, exitPassed, counts)
	}
}

// byteSize is a flag for a number of bytes.
type byteSize int64

func (b *byteSize) String() string { return strings.ReplaceAll(ladder.Size(int64(*b)), " ", "") }

// Set reads 4096, 64KiB or 1G; a K is 1024.
func (b *byteSize) Set(text string) error {
	digits := strings.TrimRight(text, "KMGTiBkmgtb ")
	shift, ok := map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text[len(digits):])), "b"), "i")]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || !ok:
		return errors.New("a size is a number with KiB, MiB or GiB after it")
	case n < 0 || n > math.MaxInt64>>shift:
		return errors.New("no such size")
	case n<<shift < ladder.Smallest:
		return fmt.Errorf("the ladder begins at %s", ladder.Size(ladder.Smallest))
	}
	*b = byteSize(n << shift)
	return nil
}
