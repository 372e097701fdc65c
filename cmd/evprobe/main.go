// Command evprobe measures whether the event timing of a device can be trusted.
//
//	evprobe [-backend auto|cuda|hip|opencl|mock] [-device N] [-json] [-timeout D] [-step-timeout D] [-v]
//	evprobe list
//	evprobe check NAME...
//	evprobe bench
//	evprobe report FILE
//	evprobe diff A.json B.json...
//
// It runs named checks and prints, for each, what was measured and what a
// failure means. With -json it prints exactly one document on stdout, whatever
// happens. Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage,
// 3 no usable library or device, 5 timed out, 130 interrupted or terminated. A
// result that could not be written is never 0; a stdout that was closed before the
// start is /dev/null to a Go program, though, and takes everything.
//
// Whatever calls into a driver does so in a second process of the same program, so
// that a driver that crashes or hangs is reported and not joined.
//
// It needs glibc where it probes a vendor's library: also without cgo such a
// binary is linked dynamically, and does not start in an empty container image.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/cmd/evprobe/internal/term"
)

// The exit codes.
const (
	exitPassed      = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitTimedOut    = 5
	exitInterrupted = 130
)

func main() {
	if os.Getenv(asWorker) != "" {
		runWorker(os.Args[1:])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command{backends: backends(), stdout: stdout, stderr: stderr, worker: ownProgram}.run(ctx, args)
}

// command is evprobe without its surroundings.
type command struct {
	backends       []backend
	stdout, stderr io.Writer
	settings       probe.Settings
	worker         func() (path string, err error) // the program to run workers with; nil works in this process
}

func (c command) run(ctx context.Context, args []string) int {
	began := time.Now()
	o, err := parse(args, c.backends)
	doc := document.New(o.verb.command(), began)
	out := &printer{w: c.stdout, mute: !o.speaks()}
	out.silent, out.colour = out.mute, !out.mute && term.Colour(c.stdout)

	var wantsHelp *helpRequest
	switch {
	case errors.As(err, &wantsHelp):
		doc.End(document.Help, exitPassed, wantsHelp.text)
		out.answer(o, wantsHelp.text)
	case err != nil:
		doc.End(document.Usage, exitUsage, o.misused(err))
	case o.version:
		doc.End(document.Version, exitPassed, doc.Build.String())
		out.answer(o, doc.Build.String()+"\n")
	case o.verb.name == "diff":
		return c.diff(o, doc, out)
	default:
		err := writable(o.page)
		if err != nil { // before minutes are spent on measuring
			doc.End(document.Failed, exitFailed, err.Error())
			out.silent = true
			break
		}
		if len(o.from) == 0 {
			c.measure(ctx, args, o, doc, out)
		}
		doc.DurationMS = float64(time.Since(began).Microseconds()) / 1e3
		if o.page != "" {
			c.report(o, doc, out)
		}
	}
	doc.DurationMS = float64(time.Since(began).Microseconds()) / 1e3
	if o.json {
		out.document(doc)
	}
	return c.exit(doc, out)
}

// exit says on stderr why it is not 0.
func (c command) exit(doc *document.Document, out *printer) int {
	// What a person reads on stdout says itself that checks failed.
	if doc.ExitCode != exitPassed && (doc.ExitCode != exitFailed || out.silent) {
		fmt.Fprintf(c.stderr, "evprobe: %s\n", doc.Summary)
	}
	if out.err != nil {
		fmt.Fprintf(c.stderr, "evprobe: the result could not be written: %v\n", out.err)
		if doc.ExitCode == exitPassed {
			return exitFailed
		}
	}
	return doc.ExitCode
}

// misused says what is wrong with the command line, and where to look.
func (o options) misused(err error) string {
	return err.Error() + "; " + strings.TrimSpace("evprobe "+o.verb.name) + " -h lists the flags"
}

// speaks tells whether stdout is for people, who read there what is going on.
func (o options) speaks() bool {
	return !o.json && o.page != "-" && o.format != "csv" && o.format != "benchstat"
}

// measure has the work done that needs a driver, and fills in the document.
func (c command) measure(ctx context.Context, args []string, o options, doc *document.Document, out *printer) {
	doc.Requested = &document.Requested{
		Backend: o.backend, Device: o.device, TimeoutMS: o.timeout.Milliseconds(),
		StepLimitMS: o.stepLimit.Milliseconds(), Checks: o.checks,
	}
	r := &recorder{ctx: ctx, options: o, doc: doc, out: out, log: zap.NewNop()}
	if o.verbose {
		shared := zapcore.Lock(zapcore.AddSync(c.stderr))
		r.log, r.noise = newLogger(shared), shared
	} else {
		r.progress = newProgress(c.stderr)
	}
	if o.verb.name == "list" {
		c.list(r)
		return
	}
	if !c.isolated(args, r) {
		w := work{options: o, backends: c.backends, settings: c.settings, tell: r.take}
		w.run(ctx)
	}
	r.progress.clear()
	r.judge()
}
