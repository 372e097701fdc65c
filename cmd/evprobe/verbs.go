package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/devevents/cmd/evprobe/internal/probe"
)

// verb is a subcommand.
type verb struct {
	name     string // empty for evprobe alone
	operands string // what follows the flags, as the help spells it
	about    string // one line
	more     string // further sentences for its help
	examples []string
	device   bool          // it opens a device
	timeout  time.Duration // the default limit of the run
	flags    func(*flag.FlagSet, *options)
	accept   func(o *options, operands []string) error
}

// command is the word that stands for the verb in documents.
func (v *verb) command() string {
	if v.name == "" {
		return "probe"
	}
	return v.name
}

func verbs() []*verb {
	return []*verb{
		{
			about: "run all checks on one device", device: true, timeout: time.Minute,
			examples: []string{
				"evprobe                        # the first GPU that is found",
				"evprobe -backend cuda -json    # one document for machines",
				"evprobe -backend mock          # the simulated device, which every machine has",
			},
			accept: noOperands,
		},
		{
			name: "list", about: "which backends there are, which libraries were tried and why each was refused, and which devices they see",
			more:    "No device is initialised. It ends with 0 if a GPU was seen, or any device of the backend that -backend names.",
			timeout: time.Minute,
			examples: []string{
				"evprobe list                   # all backends",
				"evprobe list -backend cuda -json",
			},
			accept: noOperands,
		},
		{
			name: "check", operands: "NAME...", about: "run the named checks alone",
			device: true, timeout: time.Minute,
			examples: []string{
				"evprobe check order tick",
				"evprobe check record-wait -timeout 5s   # short enough for a health check",
			},
			accept: acceptChecks,
		},
		{
			name: "bench", about: "measure memset, read, copy and spin over a ladder of sizes",
			more:   "Each size is measured with package bench, between events of the device, on a stream that is held back until everything is queued.",
			device: true, timeout: 5 * time.Minute,
			examples: []string{
				"evprobe bench",
				"evprobe bench -max 64MiB -format markdown",
				"evprobe bench -json > bench.json",
			},
			flags:  benchFlags,
			accept: acceptBench,
		},
		{
			name: "report", operands: "FILE", about: "run the checks and the ladder of bench, and write one HTML page to FILE",
			more:   "The page needs no network and no script. With -from it is made from documents that evprobe -json, bench or report have written, and no device is opened. FILE - is standard output.",
			device: true, timeout: 5 * time.Minute,
			examples: []string{
				"evprobe report gpu0.html",
				"evprobe report -json gpu0.html > gpu0.json   # and the document",
				"evprobe report -from gpu0.json gpu0.html     # the page from a document",
			},
			flags:  reportFlags,
			accept: acceptPage,
		},
		{
			name: "diff", operands: "A.json B.json...", about: "set documents side by side: what differs, how far each figure spreads, and which file is the odd one out",
			more: "It ends with 0 if no check's verdict differs, and with 1 otherwise.",
			examples: []string{
				"evprobe diff before.json after.json",
				"evprobe diff node*.json",
			},
			accept: acceptDocuments,
		},
	}
}

func verbNamed(name string) *verb {
	all := verbs()
	if i := slices.IndexFunc(all, func(v *verb) bool { return v.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func verbNames() string {
	var names []string
	for _, v := range verbs()[1:] {
		names = append(names, v.name)
	}
	return strings.Join(names, ", ")
}

func noOperands(o *options, operands []string) error {
	switch {
	case len(operands) == 0:
		return nil
	case verbNamed(operands[0]) != nil:
		return fmt.Errorf("unexpected argument %q: a subcommand comes before the flags", operands[0])
	case o.verb.name != "":
		return fmt.Errorf("unexpected argument %q: evprobe %s takes flags only", operands[0], o.verb.name)
	}
	return fmt.Errorf("unexpected argument %q: the subcommands are %s", operands[0], verbNames())
}

func acceptChecks(o *options, operands []string) error {
	all := strings.Join(probe.Names(), ", ")
	if len(operands) == 0 {
		return fmt.Errorf("evprobe check needs the names of checks: %s", all)
	}
	for _, name := range operands {
		if !slices.Contains(probe.Names(), name) {
			return fmt.Errorf("no check is called %q; there are %s", name, all)
		}
	}
	o.checks = operands
	return nil
}

func acceptPage(o *options, operands []string) error {
	switch {
	case len(operands) != 1:
		return fmt.Errorf("evprobe report needs one FILE for the page, and got %d", len(operands))
	case strings.HasSuffix(operands[0], ".json"):
		return fmt.Errorf("the page would be written to %s, which is named like a document; evprobe report -from %s PAGE.html makes a page from it", operands[0], operands[0])
	case operands[0] == "-" && o.json:
		return errors.New("the page and the document of -json cannot both go to standard output")
	}
	o.page = operands[0]
	return nil
}

func acceptDocuments(o *options, operands []string) error {
	if len(operands) < 2 {
		return fmt.Errorf("evprobe diff needs at least two documents, and got %d", len(operands))
	}
	o.from = operands
	return nil
}
