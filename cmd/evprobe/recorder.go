package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/hint"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

// recorder takes what the work says into the document, and shows it as it comes.
type recorder struct {
	options
	ctx      context.Context // of the whole program: its end is an interrupt
	doc      *document.Document
	out      *printer
	log      *zap.Logger
	progress *progress
	noise    io.Writer // for what a driver prints, nil where nobody wants it

	now    step      // what is going on
	since  time.Time // and since when
	failed string    // why the device could not be closed
	early  bool      // a limit or an interrupt ended it
	ended  bool      // the work said that it was over
}

func (r *recorder) take(m message) {
	switch {
	case m.Step != nil:
		r.step(*m.Step)
	case m.Unavailable != nil:
		r.progress.clear()
		r.doc.Unavailable = append(r.doc.Unavailable, *m.Unavailable)
		r.log.Info("backend unavailable", zap.String("backend", m.Unavailable.Backend), zap.String("why", whole(m.Unavailable)))
	case m.Opened != nil:
		r.progress.clear()
		r.doc.Backend, r.doc.Library, r.doc.Device = m.Opened.Backend, m.Opened.Library, m.Opened.Device
		r.out.refused(r.doc.Unavailable)
		r.out.header(r.doc)
	case m.Result != nil:
		r.progress.clear()
		r.result(*m.Result)
	case m.Bench != nil:
		r.progress.clear()
		r.doc.Bench = m.Bench
	case m.Backend != nil:
		r.progress.clear()
		r.doc.Backends = append(r.doc.Backends, *m.Backend)
	case m.EndedEarly:
		r.early, r.doc.Unfinished = true, m.Unfinished
	case m.CloseError != "":
		r.failed = m.CloseError
	}
	r.ended = r.ended || m.Ended
}

func (r *recorder) step(s step) {
	if s.Doing == "" {
		s.Doing = "start"
		if s.In == r.now.In {
			s.Doing = r.now.Doing
		}
	}
	if s.In != r.now.In || s.Doing != r.now.Doing {
		r.since = time.Now()
	}
	if s.In != r.now.In {
		r.log.Debug("begins", zap.String("check", s.In), zap.String("step", s.Doing))
		r.progress.begin(r.since)
	}
	if s.In == r.now.In && s.Count == 0 {
		s.Index, s.Count = r.now.Index, r.now.Count // which not everybody knows
	}
	r.now = s
	where := s.In
	if s.Count > 0 {
		where = fmt.Sprintf("[%d/%d] %s", s.Index+1, s.Count, s.In)
	}
	r.progress.show(where + ": " + s.Doing)
}

func (r *recorder) result(v probe.Result) {
	r.doc.Checks = append(r.doc.Checks, v)
	r.out.result(v)
	r.log.Debug("check is over", zap.String("check", v.Name), zap.String("verdict", string(v.Verdict)),
		zap.String("reason", v.Reason), zap.Float64("duration_ms", v.DurationMS))
}

// rest gives the checks that did not come to their turn a result, and the one that
// was running the verdict that is given.
func (r *recorder) rest(running probe.Verdict, what string) {
	if r.verb.name == "bench" || r.verb.name == "list" {
		return
	}
	give := r.result
	if r.doc.Device == nil { // for people one sentence about it is enough
		give = func(v probe.Result) { r.doc.Checks = append(r.doc.Checks, v) }
	}
	for _, name := range probe.Names() {
		if len(r.checks) > 0 && !slices.Contains(r.checks, name) ||
			slices.ContainsFunc(r.doc.Checks, func(v probe.Result) bool { return v.Name == name }) {
			continue
		}
		if name == r.now.In {
			give(probe.NotRun(name, running, fmt.Sprintf("%s; last step: %s", what, r.now.Doing)))
		} else {
			give(probe.NotRun(name, probe.Skip, "not run: "+what+" in "+r.now.In))
		}
	}
}

// cutOff ends the record of work that did not say its last word. A hang is one of the
// worker; an interrupt is nobody's fault.
func (r *recorder) cutOff(hung bool) {
	r.early = true
	r.doc.Unfinished = &probe.Unfinished{
		Check: r.now.In, Step: r.now.Doing, RunningMS: float64(time.Since(r.since).Microseconds()) / 1e3, Hung: hung,
	}
	if hung {
		r.rest(probe.Fail, "hangs: no sign of life from the driver")
	} else {
		r.rest(probe.Skip, "interrupted")
	}
}

// judge says what the run amounts to.
func (r *recorder) judge() {
	d := r.doc
	r.hints()
	if r.early || d.Crash != nil || r.ctx.Err() != nil {
		r.rest(probe.Skip, "the run ended early") // where nobody has said more
	}
	switch {
	case r.ctx.Err() != nil:
		d.End(document.Interrupted, exitInterrupted, "interrupted"+where(d.Unfinished))
	case d.Crash != nil:
		d.End(document.Crashed, exitFailed, crashed(d.Crash))
	case r.early:
		d.End(document.TimedOut, exitTimedOut, whatEnded(r.options, d.Unfinished)+where(d.Unfinished))
	case d.Device == nil && d.Backend == "" && len(d.Checks) == 0:
		d.End(document.Unavailable, exitUnavailable, whyNone(r.backend, d.Unavailable))
		return
	case r.verb.name == "bench":
		r.judgeBench()
	default:
		r.judgeChecks()
	}
	if d.ExitCode == exitPassed || d.ExitCode == exitFailed {
		r.out.summary(d)
	}
	r.out.hints(d)
	r.out.failures(d)
}

func (r *recorder) judgeChecks() {
	d := r.doc
	passed, failed, skipped := count(d, probe.Pass), count(d, probe.Fail), count(d, probe.Skip)
	counts := fmt.Sprintf("%d of %d checks passed, %d failed, %d skipped", passed, len(d.Checks), failed, skipped)
	switch {
	case r.failed != "":
		d.End(document.Failed, exitFailed, fmt.Sprintf("%d of %d checks passed, and then the device could not be closed: %s", passed, len(d.Checks), r.failed))
	case failed > 0:
		d.End(document.Failed, exitFailed, counts+": do not rely on this device's event timing")
	case passed == 0:
		d.End(document.Failed, exitFailed, counts+": nothing was measured")
	default:
		d.End(document.Passed, exitPassed, counts+": what was measured of this device's event timing can be trusted")
	}
}

func count(d *document.Document, v probe.Verdict) int {
	n := 0
	for _, r := range d.Checks {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// hints collects the advice about all codes that were met, each once.
func (r *recorder) hints() {
	add := func(h *hint.Hint) {
		if h != nil && !slices.Contains(r.doc.Hints, *h) {
			r.doc.Hints = append(r.doc.Hints, *h)
		}
	}
	for _, u := range r.doc.Unavailable {
		add(u.Hint)
	}
	for _, v := range r.doc.Checks {
		add(hint.For(r.doc.Backend, v.Code))
	}
	for _, b := range r.doc.Backends {
		if b.Refusal != nil {
			add(b.Refusal.Hint)
		}
	}
}

// where is the end of a sentence about a run that ended early.
func where(u *probe.Unfinished) string {
	if u == nil || u.Check == "" {
		return ""
	}
	s := " in " + u.Check
	if u.Hung {
		s += ", which hangs"
	}
	return s + "; last step: " + u.Step
}

// whyNone is one line for people; the document has the rest.
func whyNone(backend string, tried []document.Refusal) string {
	var why []string
	for i := range tried {
		why = append(why, inOneLine(&tried[i]))
	}
	s := "no usable device: " + strings.Join(why, "; ")
	if backend != "mock" {
		s += "; -backend mock probes a simulated device instead"
	}
	return s
}
