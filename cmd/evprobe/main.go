// Command evprobe measures whether the event timing of a device can be trusted.
//
//	evprobe [-backend auto|cuda|hip|opencl|mock] [-device N] [-json] [-timeout D] [-v]
//
// It runs named checks and prints, for each, what was measured and what a
// failure means. With -json it prints exactly one document on stdout, whatever
// happens. Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage,
// 3 no usable library or device, 5 timed out, 130 interrupted or terminated. A
// result that could not be written is never 0; a stdout that was closed before the
// start is /dev/null to a Go program, though, and takes everything.
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

	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command{backends: backends(), stdout: stdout, stderr: stderr}.run(ctx, args)
}

// command is evprobe without its surroundings.
type command struct {
	backends       []backend
	stdout, stderr io.Writer
	settings       probe.Settings
}

func (c command) run(ctx context.Context, args []string) int {
	began := time.Now()
	doc := newDocument(began)
	o, err := parse(args, c.backends)
	out := &printer{w: c.stdout, json: o.json}
	log := newLogger(c.stderr, o.verbose)

	var wantsHelp *helpRequest
	switch {
	case errors.As(err, &wantsHelp):
		doc.end("help", exitPassed, wantsHelp.text)
		out.text(wantsHelp.text)
	case err != nil:
		doc.end("usage", exitUsage, err.Error()+"; evprobe -h lists the flags")
	case o.version:
		doc.end("version", exitPassed, doc.Build.String())
		out.text(doc.Build.String() + "\n")
	default:
		doc.Requested = &requested{Backend: o.backend, Device: o.device, TimeoutMS: o.timeout.Milliseconds()}
		c.probe(ctx, o, doc, out, log)
	}
	doc.DurationMS = float64(time.Since(began).Microseconds()) / 1e3

	if o.json {
		out.document(doc)
	}
	// What a person reads on stdout says itself that checks failed.
	if doc.ExitCode != exitPassed && (o.json || doc.ExitCode != exitFailed) {
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

func (d *document) end(outcome string, code int, summary string) {
	d.Outcome, d.ExitCode, d.Summary = outcome, code, summary
}

// probe opens a device, runs the checks and closes the device. Each of the
// three may hang in a driver.
func (c command) probe(ctx context.Context, o options, doc *document, out *printer, log *zap.Logger) {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()

	type choice struct {
		opened      *opened
		unavailable []*events.UnavailableError
	}
	opening := time.Now()
	found, ok := within(limited, func() choice {
		o, u := choose(c.backends, o.backend, o.device)
		return choice{o, u}
	})
	if !ok {
		doc.endEarly(ctx, o.timeout, left("open", "opening backend "+o.backend, opening))
		return
	}
	doc.setUnavailable(found.unavailable)
	for _, u := range found.unavailable {
		log.Info("backend unavailable", zap.String("backend", u.Backend), zap.Error(u))
	}
	dev := found.opened
	if dev == nil {
		doc.end("unavailable", exitUnavailable, whyNone(o.backend, found.unavailable))
		return
	}
	doc.setOpened(dev)
	out.refused(found.unavailable)
	out.header(dev)

	s := c.settings
	s.Watch = &watch{out: out, log: log, progress: newProgress(c.stderr, o.verbose)}
	outcome := dev.check(limited, s)
	doc.Checks, doc.Unfinished = outcome.Results, outcome.Unfinished
	if !outcome.Complete {
		doc.endEarly(ctx, o.timeout, outcome.Unfinished)
		out.failures(doc)
		return
	}
	doc.judge(outcome)
	closing := time.Now()
	failed, ok := within(limited, dev.close)
	switch {
	case !ok:
		doc.endEarly(ctx, o.timeout, left("close", "closing the device", closing))
	case failed != nil:
		doc.end("failed", exitFailed, fmt.Sprintf("%d of %d checks passed, and then the device could not be closed: %v",
			outcome.Count(probe.Pass), len(outcome.Results), failed))
	}
	out.text(doc.Summary + "\n")
	out.failures(doc)
}

// left describes a call outside the checks that was left behind.
func left(what, step string, since time.Time) *probe.Unfinished {
	return &probe.Unfinished{Check: what, Step: step, RunningMS: float64(time.Since(since).Microseconds()) / 1e3, Hung: true}
}

// within runs a call that may never return. Once the context has ended the call
// gets a moment to come back; then it is left behind.
func within[T any](ctx context.Context, call func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- call() }()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
	}
	select {
	case result = <-done:
		return result, true
	case <-time.After(probe.DefaultGrace):
		return result, false
	}
}

// judge says what the results of a complete run amount to.
func (d *document) judge(o probe.Outcome) {
	passed, failed, skipped := o.Count(probe.Pass), o.Count(probe.Fail), o.Count(probe.Skip)
	counts := fmt.Sprintf("%d of %d checks passed, %d failed, %d skipped", passed, len(o.Results), failed, skipped)
	switch {
	case failed > 0:
		d.end("failed", exitFailed, counts+": do not rely on this device's event timing")
	case passed == 0:
		d.end("failed", exitFailed, counts+": nothing was measured")
	default:
		d.end("passed", exitPassed, counts+": what was measured of this device's event timing can be trusted")
	}
}

// endEarly is the end of a run whose time ran out or that was interrupted.
func (d *document) endEarly(ctx context.Context, timeout time.Duration, u *probe.Unfinished) {
	d.Unfinished = u
	where := ""
	if u != nil {
		where = " in " + u.Check
		if u.Hung {
			where += ", which hangs"
		}
		where += "; last step: " + u.Step
	}
	if ctx.Err() != nil {
		d.end("interrupted", exitInterrupted, "interrupted"+where)
		return
	}
	d.end("timed-out", exitTimedOut, fmt.Sprintf("timed out after %v%s", timeout, where))
}

// whyNone is one line for people; the document has the rest.
func whyNone(backend string, tried []*events.UnavailableError) string {
	var why []string
	for _, u := range tried {
		why = append(why, inOneLine(u))
	}
	s := "no usable device: " + strings.Join(why, "; ")
	if backend != "mock" {
		s += "; -backend mock probes a simulated device instead"
	}
	return s
}
