package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/ladder"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// defaultStepLimit is long enough for the first call on a machine with many devices
// and no persistence daemon.
const defaultStepLimit = 30 * time.Second

// What goes on outside the checks, as messages name it.
const (
	inOpen  = "open"
	inBench = "bench"
	inClose = "close"
)

// work is all that calls into a driver. It tells what it does and what came of it, and
// ends within the limits of o, also when a call does not return.
type work struct {
	options
	backends []backend
	settings probe.Settings
	tell     func(message)
	doing    func(check, step string) // is told each step of a check from any goroutine, may be nil
}

// run does what the command line asks for.
func (w work) run(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if w.verb.device {
		w.probe(limited)
	} else {
		w.list(limited)
	}
	w.tell(message{Ended: true})
}

// probe opens a device, measures and closes the device. Each of the three may hang.
func (w work) probe(ctx context.Context) {
	dev := w.choose(ctx)
	if dev == nil {
		return
	}
	w.tell(message{Opened: dev.opening()})
	lost := false
	if w.verb.name != inBench {
		s := w.settings
		s.Watch, s.Only, s.StepLimit, s.Step = w, w.checks, w.stepLimit, w.doing
		outcome := dev.check(ctx, s)
		if !outcome.Complete {
			w.tell(message{EndedEarly: true, Unfinished: outcome.Unfinished})
			return
		}
		lost = outcome.Lost
	}
	if w.largest > 0 && !lost && !w.ladder(ctx, dev) {
		return
	}
	failed, ok := within(ctx, w, inClose, "closing the device", dev.close)
	if ok && failed != nil {
		w.tell(message{CloseError: failed.Error()})
	}
}

// choose opens the backend that was asked for, or with auto the first that has
// something else than the host's own processors, which are no answer to a question
// about GPUs. It tells which were tried in vain, and gives nil where all were.
func (w work) choose(ctx context.Context) *opened {
	type answer struct {
		dev *opened
		err error
	}
	for _, b := range w.backends {
		if b.name != w.backend && (w.backend != auto || !b.auto) {
			continue
		}
		a, ok := within(ctx, w, inOpen, "opening backend "+b.name, func() answer {
			dev, err := b.openDevice(w.device, w.backend == auto)
			return answer{dev, err}
		})
		if !ok {
			return nil
		}
		if a.err == nil {
			return a.dev
		}
		refused := document.Refused(explain(b.name, a.err))
		w.tell(message{Unavailable: &refused})
	}
	return nil
}

// ladder runs the benchmarks. It cannot be stopped in the middle of a size, so it is
// left behind when the time is up.
func (w work) ladder(ctx context.Context, dev *opened) bool {
	began := time.Now()
	stepped := make(chan string, 1)
	done := make(chan message, 1)
	go func() {
		report := dev.bench(ladder.Settings{
			Largest: int64(w.largest),
			Step: func(what string) error {
				select {
				case stepped <- what:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		})
		done <- message{Bench: report}
	}()
	doing := "preparing"
	limit := time.NewTimer(w.stepLimit)
	defer limit.Stop()
	for {
		select {
		case m := <-done:
			w.tell(m)
			return true
		case doing = <-stepped:
			w.tell(message{Step: &step{In: inBench, Doing: doing}})
			limit.Reset(w.stepLimit)
			continue
		case <-ctx.Done():
		case <-limit.C:
		}
		u := left(inBench, doing, began)
		u.StepLimit = ctx.Err() == nil
		u.Hung = u.StepLimit
		w.tell(message{EndedEarly: true, Unfinished: u})
		return false
	}
}

// list says what is known of each backend.
func (w work) list(ctx context.Context) {
	type answer struct {
		found document.Backend
		err   error
	}
	for _, b := range w.backends {
		if b.name != w.backend && w.backend != auto {
			continue
		}
		a, ok := within(ctx, w, inOpen, "opening backend "+b.name, func() answer {
			found, err := b.list()
			return answer{found, err}
		})
		if !ok {
			return
		}
		if a.err != nil {
			refused := document.Refused(explain(b.name, a.err))
			a.found = document.Backend{Status: document.StatusUnavailable, Refusal: &refused}
		} else {
			a.found.Status = document.StatusUsable
		}
		a.found.Name = b.name
		// Empty lists, not null.
		a.found.Skipped = append([]events.Candidate{}, a.found.Skipped...)
		a.found.Devices = append([]document.Device{}, a.found.Devices...)
		w.tell(message{Backend: &a.found})
	}
}

// Running implements probe.Watcher.
func (w work) Running(index, count int, name, doing string) {
	if w.doing != nil {
		doing = "" // the check says it itself; this is a sign of life
	}
	w.tell(message{Step: &step{Index: index, Count: count, In: name, Doing: doing}})
}

// Done implements probe.Watcher.
func (w work) Done(r probe.Result) { w.tell(message{Result: &r}) }

// left describes a call outside the checks that was left behind.
func left(what, doing string, since time.Time) *probe.Unfinished {
	return &probe.Unfinished{Check: what, Step: doing, RunningMS: float64(time.Since(since).Microseconds()) / 1e3, Hung: true}
}

var errStepLimit = errors.New("the step took longer than it may")

// within runs a call that may never return. Once the context has ended, or the limit of
// a step is over, the call gets a moment to come back; then it is left behind, and so
// is told.
func within[T any](ctx context.Context, w work, what, doing string, call func() T) (result T, ok bool) {
	began := time.Now()
	w.tell(message{Step: &step{In: what, Doing: doing}})
	limited, cancel := context.WithTimeoutCause(ctx, w.stepLimit, errStepLimit)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- call() }()
	select {
	case result = <-done:
		return result, true
	case <-limited.Done():
	}
	select {
	case result = <-done:
		return result, true
	case <-time.After(probe.DefaultGrace):
	}
	u := left(what, doing, began)
	u.StepLimit = errors.Is(context.Cause(limited), errStepLimit)
	w.tell(message{EndedEarly: true, Unfinished: u})
	return result, false
}

// whatEnded says in words which limit ended a run.
func whatEnded(o options, u *probe.Unfinished) string {
	if u != nil && u.StepLimit {
		return fmt.Sprintf("timed out: one step took longer than %v", o.stepLimit)
	}
	return fmt.Sprintf("timed out after %v", o.timeout)
}
