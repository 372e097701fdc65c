package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/devevents/cmd/evprobe/internal/probe"
)

const auto = "auto"

// options are what the command line says.
type options struct {
	verb      *verb
	backend   string
	device    int
	timeout   time.Duration
	stepLimit time.Duration
	json      bool
	version   bool
	verbose   bool

	checks  []string // of check; empty is all
	page    string   // of report
	from    []string // documents of report and diff
	largest byteSize // of bench and report
	format  string   // of bench
}

// helpRequest is the error that stands for a request for help; its text is the help.
type helpRequest struct{ text string }

func (e *helpRequest) Error() string { return e.text }

// parse reads the command line. Whether JSON is wanted is known even if the
// rest cannot be understood, since JSON readers need an answer also then.
func parse(args []string, all []backend) (options, error) {
	o := options{json: wantsJSON(args), verb: verbs()[0]}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "-h")
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		v := verbNamed(args[0])
		if v == nil {
			return o, noOperands(&o, args[:1])
		}
		o.verb, args = v, args[1:]
	}
	names := []string{auto}
	for _, b := range all {
		names = append(names, b.name)
	}
	choice := strings.Join(names, "|")

	fs := flag.NewFlagSet("evprobe", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.backend, o.timeout, o.stepLimit = auto, o.verb.timeout, defaultStepLimit
	if o.verb.timeout > 0 {
		about := "which runtime to probe: `" + choice + "`; auto takes the first that finds a device which is not the host's own processors"
		if !o.verb.device {
			about = "which runtime to list: `" + choice + "`; auto lists all"
		}
		fs.StringVar(&o.backend, "backend", o.backend, about)
		fs.DurationVar(&o.timeout, "timeout", o.timeout, "limit of the whole run, also when a driver hangs")
		fs.DurationVar(&o.stepLimit, "step-timeout", o.stepLimit, "limit of one step, after which the driver is said to hang")
		fs.BoolVar(&o.verbose, "v", false, "log to stderr what is done, and what the driver prints")
	}
	if o.verb.device {
		fs.IntVar(&o.device, "device", 0, "the device's `ordinal`, as this process counts them")
	}
	fs.BoolVar(&o.version, "version", false, "say which build this is, and do nothing else")
	var json bool // read by wantsJSON
	fs.BoolVar(&json, "json", false, "print one JSON document on stdout, at every exit code")
	if o.verb.flags != nil {
		o.verb.flags(fs, &o)
	}

	operands, err := parseAll(fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, &helpRequest{help(o.verb, fs)}
	case err != nil:
		return o, err
	case o.version:
		return o, nil
	case !slices.Contains(names, o.backend):
		return o, fmt.Errorf("unknown backend %q: -backend takes %s", o.backend, choice)
	case o.device < 0:
		return o, fmt.Errorf("device %d: devices are counted from 0", o.device)
	case o.verb.timeout > 0 && o.timeout <= 0:
		return o, fmt.Errorf("timeout %v: it must be above 0", o.timeout)
	case o.stepLimit < probe.StepResolution:
		return o, fmt.Errorf("step-timeout %v: it must be at least %v, since steps are looked at that often", o.stepLimit, probe.StepResolution)
	}
	return o, o.verb.accept(&o, operands)
}

// parseAll also takes flags that come after operands.
func parseAll(fs *flag.FlagSet, args []string) (operands []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if i := len(args) - len(rest); i > 0 && args[i-1] == "--" {
			return append(operands, rest...), nil
		}
		// Standard output is spelled as a dash.
		for len(rest) > 0 && (rest[0] == "-" || !strings.HasPrefix(rest[0], "-")) {
			operands, rest = append(operands, rest[0]), rest[1:]
		}
		if len(rest) == 0 {
			return operands, nil
		}
		args = rest
	}
}

func wantsJSON(args []string) bool {
	wanted := false
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if name != "json" || !strings.HasPrefix(arg, "-") {
			continue
		}
		on, err := strconv.ParseBool(value)
		wanted = !given || err != nil || on
	}
	return wanted
}
