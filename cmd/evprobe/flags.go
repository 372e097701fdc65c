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
	backend string
	device  int
	timeout time.Duration
	json    bool
	version bool
	verbose bool
}

// helpRequest is the error that stands for a request for help; its text is the help.
type helpRequest struct{ text string }

func (e *helpRequest) Error() string { return e.text }

// parse reads the command line. Whether JSON is wanted is known even if the
// rest cannot be understood, since JSON readers need an answer also then.
func parse(args []string, all []backend) (options, error) {
	o := options{json: wantsJSON(args)}
	names := []string{auto}
	for _, b := range all {
		names = append(names, b.name)
	}
	choice := strings.Join(names, "|")

	fs := flag.NewFlagSet("evprobe", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.backend, "backend", auto, "which runtime to probe: `"+choice+"`; auto takes the first that finds a device which is not the host's own processors")
	fs.IntVar(&o.device, "device", 0, "the device's `ordinal`, as this process counts them")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "limit of the whole run, also when a driver hangs")
	fs.BoolVar(&o.version, "version", false, "say which build this is, and do nothing else")
	fs.BoolVar(&o.verbose, "v", false, "log to stderr what is done")
	var json bool // read by wantsJSON
	fs.BoolVar(&json, "json", false, "print one JSON document on stdout, at every exit code")

	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, &helpRequest{help(fs)}
	case err != nil:
		return o, err
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: evprobe takes flags only", fs.Arg(0))
	case !slices.Contains(names, o.backend):
		return o, fmt.Errorf("unknown backend %q: -backend takes %s", o.backend, choice)
	case o.device < 0:
		return o, fmt.Errorf("device %d: devices are counted from 0", o.device)
	case o.timeout <= 0:
		return o, fmt.Errorf("timeout %v: it must be above 0", o.timeout)
	}
	return o, nil
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

func help(fs *flag.FlagSet) string {
	var b strings.Builder
	b.WriteString("evprobe measures whether the event timing of a GPU can be trusted.\n\nUsage: evprobe [flags]\n\n")
	fs.SetOutput(&b)
	fs.PrintDefaults()
	b.WriteString("\nChecks: " + strings.Join(probe.Names(), ", ") + "\n")
	b.WriteString(`
Exit codes:
    0  all checks passed (or help or the version was asked for)
    1  a check failed
    2  wrong usage
    3  no usable library or device
    5  timed out
  130  interrupted or terminated
`)
	return b.String()
}
