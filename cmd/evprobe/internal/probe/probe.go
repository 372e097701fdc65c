package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip"
)

// Result is what came of one check.
type Result struct {
	Name        string         `json:"name"`
	Verdict     Verdict        `json:"verdict"`
	Expectation string         `json:"expectation"`
	Measurement string         `json:"measurement"`      // what was measured, also where it failed; may be empty
	Reason      string         `json:"reason,omitempty"` // why it failed or was skipped
	Meaning     string         `json:"meaning_of_failure"`
	Numbers     map[string]any `json:"numbers"` // the unit is the last part of each key
	Series      []Series       `json:"series,omitempty"`
	Code        int32          `json:"code,omitempty"` // the driver's, where it failed by one
	CodeName    string         `json:"code_name,omitempty"`
	DurationMS  float64        `json:"duration_ms"`
}

// Series is single readings, for pictures. There are at most 1000 of them.
type Series struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`         // of the values
	At     []float64 `json:"at,omitempty"` // seconds since the first reading, where that matters
	Values []float64 `json:"values"`
}

// Unfinished is the check that was running when the context ended.
type Unfinished struct {
	Check     string  `json:"check"`
	Step      string  `json:"step"` // what it was doing
	RunningMS float64 `json:"running_ms"`
	// Hung says that it did not stop either when the context ended: in all
	// likelihood a call into the backend does not return.
	Hung bool `json:"hung"`
	// StepLimit says that it was ended for one step that took too long, before the
	// time of the whole run was over.
	StepLimit bool `json:"step_limit"`
}

// Outcome is what came of a run. Results has one entry for every check, those
// that did not run included.
type Outcome struct {
	Results    []Result
	Unfinished *Unfinished
	// Complete says that the context did not end first.
	Complete bool
	// Lost says that nothing works on the device any more.
	Lost bool
}

// Count is how many results have the verdict.
func (o Outcome) Count(v Verdict) int {
	n := 0
	for _, r := range o.Results {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// About is what is known of a backend before any check runs.
type About struct {
	Library        *Library // nil where the backend loads none
	Device         int      // the ordinal that was asked for
	DeviceCount    int
	RuntimeVersion int // in the vendor's numbering, 0 where it is unknown or no number
	DriverVersion  int
	RuntimeText    string // as people spell it, empty if unknown
	DriverText     string
	// CommandsStamped says that the driver stamps the beginning and the end of every
	// command by itself, as on OpenCL's profiling queues.
	CommandsStamped bool
}

// Library is what the backend says that it loaded.
type Library struct {
	API    string // "runtime", "driver" where that library is used directly, or "icd" for OpenCL's loader
	Path   string
	Driver string // the driver's library beneath it, empty where there is none
}

// DefaultGrace is longer than any step of a check that does not hang.
const DefaultGrace = 250 * time.Millisecond

// Settings of a run. The zero value is what evprobe uses.
type Settings struct {
	// DriftSpan is how long the drift of the clocks is watched; 0 is 3 s.
	DriftSpan time.Duration
	// Patience is how long a check waits for what must come soon on a device that
	// has little to do; 0 is 5 s.
	Patience time.Duration
	// Grace is how long a check may take to notice that the context has
	// ended; 0 is DefaultGrace.
	Grace time.Duration
	// StepLimit is how long one step of a check may take; 0 is no limit.
	StepLimit time.Duration
	// Only has the names of the checks to run, in any order; empty is all.
	Only []string
	// Step is told each step of a check before it is taken, on the goroutine of the
	// check, so that it is known also if the process dies in it. Nil is nobody.
	Step func(check, step string)
	// Watch sees the run go by, on the goroutine that called Run.
	Watch Watcher
}

// Watcher sees a run go by.
type Watcher interface {
	// Running is called when a check begins, and every 100 ms while it runs.
	Running(index, count int, name, step string)
	// Done is called when there is a result, also for a check that did not run.
	Done(Result)
}

type silent struct{}

func (silent) Running(int, int, string, string) {}
func (silent) Done(Result)                      {}

// check is one entry of the list. It passes if run returns nil, is skipped if
// run returns a skipError, and fails on any other error.
type check[E any, S comparable] struct {
	name    string
	expect  string
	meaning string
	run     func(*env[E, S]) error
}

// device is what the checks of a run share.
type device[E any, S comparable] struct {
	events.EventApi[E, S]
	about    About
	settings Settings
	stop     context.CancelCauseFunc // ends the run

	query   events.Querier[E]
	rounds  events.RoundQuerier[E]
	asker   events.CaptureAsker[S]
	untimed events.UntimedCreator[E]
	ident   events.Identifier
	stats   events.StatsReader
	gate    events.Gate[S]
	scratch events.Scratch[S]
	graphs  events.Graphs[E, S]
	stamper events.Stamper[E]
	timer   events.TimerReader
	host    func() int64 // the host's clock where it is simulated too, else nil

	prepared sync.Once
	before   events.Stats  // at the start, where stats is there
	provoked atomic.Uint64 // clamps that the checks made on purpose
}

// prepare looks for the abilities. It asks the backend, which may hang, so it
// belongs to the first check that runs.
func (d *device[E, S]) prepare() {
	api := d.EventApi
	d.query, _ = events.Ability[events.Querier[E]](api)
	d.rounds, _ = events.Ability[events.RoundQuerier[E]](api)
	d.asker, _ = events.Ability[events.CaptureAsker[S]](api)
	d.untimed, _ = events.Ability[events.UntimedCreator[E]](api)
	d.ident, _ = events.Ability[events.Identifier](api)
	d.stats, _ = events.Ability[events.StatsReader](api)
	d.gate, _ = events.Ability[events.Gate[S]](api)
	d.scratch, _ = events.Ability[events.Scratch[S]](api)
	d.graphs, _ = events.Ability[events.Graphs[E, S]](api)
	d.stamper, _ = events.Ability[events.Stamper[E]](api)
	d.timer, _ = events.Ability[events.TimerReader](api)
	if simulated, ok := events.Ability[events.HostClocker](api); ok {
		d.host = simulated.HostClock()
	}
	if d.stats != nil {
		d.before = d.stats.EventStats()
	}
}

// Run runs the checks one after another until the context ends.
func Run[E any, S comparable](ctx context.Context, api events.EventApi[E, S], about About, s Settings) Outcome {
	checks := list[E, S]()
	if len(s.Only) > 0 {
		checks = slices.DeleteFunc(checks, func(c check[E, S]) bool { return !slices.Contains(s.Only, c.name) })
	}
	return run(ctx, api, about, s, checks)
}

func run[E any, S comparable](ctx context.Context, api events.EventApi[E, S], about About, s Settings, checks []check[E, S]) Outcome {
	if s.DriftSpan <= 0 {
		s.DriftSpan = 3 * time.Second
	}
	if s.Patience <= 0 {
		s.Patience = 5 * time.Second
	}
	if s.Grace <= 0 {
		s.Grace = DefaultGrace
	}
	if s.Watch == nil {
		s.Watch = silent{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &device[E, S]{EventApi: api, about: about, settings: s, stop: cancel}
	out := Outcome{Complete: true}
	var skipRest string // why the checks from here on do not run
	for i, c := range checks {
		if skipRest == "" && ctx.Err() != nil {
			out.Complete = false
			skipRest = "not run: " + whyEnded(ctx) + " before its turn"
		}
		if skipRest != "" {
			out.add(s.Watch, c.result(Skip, skipRest))
			continue
		}
		r, fault, unfinished := supervise(ctx, d, c, i, len(checks))
		switch {
		case unfinished != nil:
			out.Complete, out.Unfinished = false, unfinished
			skipRest = "not run: " + whyEnded(ctx) + " in check " + c.name
		case fault:
			out.Lost = true
			skipRest = "not run: after the fault in check " + c.name + " nothing works on this device any more"
		}
		out.add(s.Watch, r)
	}
	return out
}

func (o *Outcome) add(w Watcher, r Result) {
	o.Results = append(o.Results, r)
	w.Done(r)
}

func (c check[E, S]) result(v Verdict, reason string) Result {
	return Result{
		Name: c.name, Verdict: v, Expectation: c.expect, Meaning: c.meaning,
		Reason: reason, Numbers: map[string]any{},
	}
}

// errStepLimit ends a run of which one step takes too long.
var errStepLimit = errors.New("a step took longer than it may")

func whyEnded(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStepLimit):
		return "one step took too long"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the time ran out"
	}
	return "interrupted"
}

// outOfTime tells the end of a run by a limit of ours from an interrupt.
func outOfTime(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStepLimit) || errors.Is(cause, context.DeadlineExceeded)
}

// finished is what a check's goroutine hands over.
type finished struct {
	err         error
	measurement string
	numbers     map[string]any
	series      []Series
}

// StepResolution is how often a check is asked which step it is at.
const StepResolution = 100 * time.Millisecond

// supervise runs one check on a goroutine of its own. Once the context has
// ended the check gets a moment to notice; then it is left behind, and nothing
// that it may still write to is looked at.
func supervise[E any, S comparable](ctx context.Context, d *device[E, S], c check[E, S], index, count int) (Result, bool, *Unfinished) {
	began := time.Now()
	e := newEnv(ctx, d, c.name)
	watch := d.settings.Watch
	watch.Running(index, count, c.name, "") // before the check says anything itself
	done := make(chan finished, 1)
	go func() { done <- e.execute(c) }()
	tick := time.NewTicker(StepResolution)
	defer tick.Stop()
	ended := ctx.Done()
	var grace <-chan time.Time
	limit := stepLimit{limit: d.settings.StepLimit}
	for {
		select {
		case f := <-done:
			if f.err != nil && ctx.Err() != nil && errors.Is(f.err, ctx.Err()) {
				return unfinished(ctx, e, c, began, false)
			}
			r := c.result(Pass, "")
			var skip *skipError
			switch {
			case errors.As(f.err, &skip):
				r.Verdict, r.Reason = Skip, skip.reason
			case f.err != nil:
				r.Verdict, r.Reason = Fail, f.err.Error()
			}
			var refused *events.DriverError
			if r.Verdict == Fail && errors.As(f.err, &refused) {
				r.Code, r.CodeName = refused.Code, refused.Name
			}
			r.Measurement, r.Numbers, r.DurationMS = f.measurement, f.numbers, milliseconds(time.Since(began))
			r.Series = f.series
			return r, errors.Is(f.err, events.ErrDeviceFault) || errors.Is(f.err, events.ErrContextLost), nil
		case <-tick.C:
			step := e.lastStep()
			watch.Running(index, count, c.name, step)
			if limit.exceeded(step, time.Now()) {
				d.stop(errStepLimit)
			}
		case <-ended:
			ended, grace = nil, time.After(d.settings.Grace)
		case <-grace:
			return unfinished(ctx, e, c, began, true)
		}
	}
}

// unfinished is the result of a check that the end of the run cut off. Only a
// hang is held against the device.
func unfinished[E any, S comparable](ctx context.Context, e *env[E, S], c check[E, S], began time.Time, hung bool) (Result, bool, *Unfinished) {
	took := time.Since(began)
	u := &Unfinished{
		Check: c.name, Step: e.lastStep(), RunningMS: milliseconds(took), Hung: hung,
		StepLimit: errors.Is(context.Cause(ctx), errStepLimit),
	}
	r := c.result(Skip, fmt.Sprintf("not finished: %s %v after it began; last step: %s", whyEnded(ctx), took.Round(time.Millisecond), u.Step))
	if hung && outOfTime(ctx) {
		r.Verdict = Fail
		r.Reason = fmt.Sprintf("hangs: no end %v after it began; last step: %s", took.Round(time.Millisecond), u.Step)
	}
	r.DurationMS = u.RunningMS
	return r, false, u
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
