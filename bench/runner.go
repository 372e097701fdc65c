package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/devevents/bench/internal/stats"
)

// Runner runs groups and collects their results. Make one with NewRunner, or let
// Main and Run do it. It is for one goroutine.
type Runner struct {
	set      settings
	flags    []Option
	filter   *regexp.Regexp
	listing  bool
	axes     map[string]axis
	used     map[string]bool
	total    time.Duration
	clock    func() int64
	report   Report
	progress progress
	listed   []string

	effects    []stats.Effect // of the report's comparisons
	versus     []string       // cases to compare, from the command line
	versusUsed bool

	measured   bool // a case has been
	pause      func(time.Duration)
	stateLimit time.Duration // of a reading of telemetry
	hung       error         // a reading never came back
}

// NewRunner makes a runner. The options hold for all groups.
func NewRunner(opts ...Option) *Runner {
	return &Runner{
		set:   defaults().with(opts),
		axes:  map[string]axis{},
		used:  map[string]bool{},
		clock: hostClock(),

		pause:      time.Sleep,
		stateLimit: telemetryLimit,

		report: Report{
			Schema:     Schema,
			Provenance: newProvenance(),
			Results:    []Result{},
		},
	}
}

// Set sets what holds for the groups that follow.
func (r *Runner) Set(opts ...Option) { r.set = r.set.with(opts) }

// Note records something about the run in the report's provenance: a driver's
// version, a clock that was locked. A second note of a key replaces the first.
func (r *Runner) Note(key, value string) {
	if r.report.Provenance.Notes == nil {
		r.report.Provenance.Notes = map[string]string{}
	}
	r.report.Provenance.Notes[key] = value
}

// Report is what has been measured so far. It is the runner's until no group runs any more.
func (r *Runner) Report() *Report { return &r.report }

// override replaces the values of axes by those of the command line.
func (r *Runner) override(axes []axis) ([]axis, error) {
	axes = slices.Clone(axes)
	for i := range axes {
		if given, ok := r.axes[axes[i].name]; ok {
			axes[i] = given
			r.used[given.name] = true
		}
	}
	points := 1
	for _, a := range axes {
		if points *= len(a.values); points > maxAxis {
			return nil, fmt.Errorf("the axes have more than %d combinations", maxAxis)
		}
	}
	return axes, nil
}

// Fail reports that a group cannot be measured at all, as a row of its own: a device
// that does not open, for one.
func (r *Runner) Fail(group string, err error) {
	res := Result{
		Group: group, Case: "(all)", Status: Failed, Stop: "failed",
		Errors: []ErrorRow{{Title: "error", Text: strings.ReplaceAll(err.Error(), "\n", "; "), Count: 1}},
	}
	r.report.Results = append(r.report.Results, res)
}

// Release closes what the groups have used, and reports an error of it in the
// provenance's notes: nothing measured is worth less for it.
func (r *Runner) Release(what io.Closer) {
	if err := what.Close(); err != nil {
		r.Note("closing", oneLine(err))
	}
}

// overtime reports whether the run's own budget is spent.
func (r *Runner) overtime() bool {
	return r.total > 0 && time.Duration(r.clock()) >= r.total
}

// run runs one case, or several that are compared, of a group with so many comparisons.
func (r *Runner) run(jobs []*job, family int) {
	wanted := func(j *job) bool {
		res := Result{Group: j.group, Case: j.name, Axes: j.axes}
		return r.filter == nil || r.filter.MatchString(res.Name())
	}
	if !slices.ContainsFunc(jobs, wanted) {
		return
	}
	if len(jobs) > 1 && !r.listing && jobs[0].set.profile == 0 {
		r.match(jobs, family)
		return
	}
	for _, j := range jobs {
		r.single(j)
	}
}

// single runs one case.
func (r *Runner) single(j *job) {
	res := r.resultOf(j)
	if r.listing {
		r.listed = append(r.listed, res.Name())
		return
	}
	c := r.caseOf(j, &res)
	r.coolDown(j, &res)
	if r.overtime() {
		r.late(&res)
	} else {
		c.run()
		r.measured = true
	}
	r.progress.done()
	r.report.Results = append(r.report.Results, res)
}

func (r *Runner) resultOf(j *job) Result {
	return Result{Group: j.group, Case: j.name, Axes: j.axes, Domain: j.set.domain.String()}
}

// late skips a case for which there is no time left.
func (r *Runner) late(res *Result) {
	res.Status, res.Skip, res.Stop = Skipped, "the time for all cases together is over", "skipped"
}

// caseOf is a case about to be measured into a result.
func (r *Runner) caseOf(j *job, res *Result) *caseRun {
	if j.set.backend == nil {
		j.set.backend = r.backendFor(j.set.domain)
	}
	res.Label = j.set.backend.Label()
	c := &caseRun{job: j, runner: r, b: j.set.backend, now: hostClock(), res: res}
	if h, ok := j.set.backend.(interface{ hostNow() func() int64 }); ok {
		c.now = h.hostNow()
	}
	return c
}

// backendFor is what a group without a backend is measured with.
func (r *Runner) backendFor(d Domain) Backend {
	if d == CPU || d == Mixed {
		return CPUCounters()
	}
	return WallClock()
}

// Main is the main function of a benchmark program: it takes the process's
// arguments, runs the groups that define makes, prints the report, and ends the process
// with 0, with 1 if a case failed, or with 2 for a wrong command line.
func Main(define func(r *Runner)) {
	os.Exit(Run(flag.CommandLine, os.Args[1:], os.Stdout, os.Stderr, define))
}

// Run is Main for programs that have flags of their own, and for tests: it adds its
// flags to fs and parses args. It returns what Main exits with.
func Run(fs *flag.FlagSet, args []string, out, errOut io.Writer, define func(r *Runner)) int {
	r := NewRunner()
	o := r.addFlags(fs)
	fs.SetOutput(errOut)
	fail := func(code int, err error) int {
		fmt.Fprintln(errOut, "bench:", err)
		return code
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if fs.NArg() > 0 {
		return fail(2, fmt.Errorf("unexpected argument %q; all settings are flags", fs.Arg(0)))
	}
	if err := o.check(); err != nil {
		return fail(2, err)
	}
	r.progress = progressTo(errOut)
	define(r)
	r.progress.done()
	if r.listing {
		for _, name := range r.listed {
			fmt.Fprintln(out, name)
		}
		return 0
	}
	for name := range r.axes {
		if !r.used[name] {
			return fail(2, fmt.Errorf("-a %s: no group that ran has such an axis", name))
		}
	}
	if len(r.versus) > 0 && !r.versusUsed {
		return fail(2, fmt.Errorf("-compare %s: no group that ran has all these cases", strings.Join(r.versus, ",")))
	}
	if len(r.report.Results) == 0 {
		return fail(1, errors.New("no case ran: see -list and -run"))
	}
	if err := o.compare(&r.report); err != nil {
		return fail(1, err)
	}
	if err := o.write(out, &r.report); err != nil {
		return fail(1, err)
	}
	if r.report.Failed() {
		return 1
	}
	return 0
}

// outputs are the formats and files that the command line asks for.
type outputs struct {
	runner *Runner
	format string
	files  []string // format=path
	run    string
	total  time.Duration
	like   string
	force  bool
	other  Report // that like names
}

func (r *Runner) addFlags(fs *flag.FlagSet) *outputs {
	o := &outputs{runner: r}
	option := func(o Option) { r.flags = append(r.flags, o) }
	duration := func(name, usage string, with func(time.Duration) Option) {
		fs.Func(name, usage, func(text string) error {
			d, err := time.ParseDuration(text)
			if err == nil && d <= 0 {
				err = errors.New("must be above 0")
			}
			if err == nil {
				option(with(d))
			}
			return err
		})
	}
	fs.StringVar(&o.run, "run", "", "run only cases whose group/case/axis=value matches this `regexp`")
	fs.BoolVar(&r.listing, "list", false, "list the cases and run none")
	fs.Func("a", "values of an `axis`: size=1024, size=[1,2], size=[16:64:16], size[pow2]=[10:20]; may be repeated", func(text string) error {
		a, err := parseAxis(text)
		r.axes[a.name] = a
		return err
	})
	duration("time", "measured time of a case at most (default 1s)", DeviceBudget)
	duration("wall", "host time of a case at most (default 5s)", WallBudget)
	fs.DurationVar(&o.total, "total", 0, "host time of all cases together at most (default no limit)")
	fs.Func("n", "take exactly `n` samples, within the budgets", func(text string) error {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return errors.New("must be a number above 0")
		}
		option(Samples(n, n))
		return nil
	})
	orderFlags(fs, option)
	fs.Func("profile", "warm up, then run exactly `n` iterations without gate and fill, marked for a profiler; nothing is computed from them", func(text string) error {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return errors.New("must be a number above 0")
		}
		option(Profile(n))
		return nil
	})
	r.compareFlags(fs, option)
	fs.BoolFunc("no-gate", "never hold a stream back", func(string) error { option(WithoutGate()); return nil })
	fs.Func("cold", "the device's cache when a sample begins: `auto`, none or flush", func(text string) error {
		for mode := ColdAuto; mode <= ColdFlush; mode++ {
			if text == mode.String() {
				option(Cold(mode))
				return nil
			}
		}
		return errors.New("there are auto, none and flush")
	})
	fs.StringVar(&o.like, "like", "", "the JSON of an earlier run at `path`: refuse to report where machine, device, driver, notes or a case's instrument differ from it")
	fs.BoolVar(&o.force, "force", false, "with -like: report all the same, and list what differs")
	fs.StringVar(&o.format, "format", "table", "what to print: "+strings.Join(formatNames(), ", "))
	fs.Func("o", "also write `format=path`; the file is replaced as a whole or not at all; may be repeated", func(text string) error {
		o.files = append(o.files, text)
		return nil
	})
	return o
}

// check is what can be wrong before anything runs.
func (o *outputs) check() error {
	if o.run != "" {
		re, err := regexp.Compile(o.run)
		if err != nil {
			return fmt.Errorf("-run: %w", err)
		}
		o.runner.filter = re
	}
	o.runner.total = o.total
	if formats[o.format] == nil {
		return fmt.Errorf("-format %s: there are %s", o.format, strings.Join(formatNames(), ", "))
	}
	for _, f := range o.files {
		name, path, ok := strings.Cut(f, "=")
		if !ok || path == "" || formats[name] == nil {
			return fmt.Errorf("-o %s: write format=path; the formats are %s", f, strings.Join(formatNames(), ", "))
		}
	}
	if o.like != "" {
		other, err := ReadFile(o.like)
		if err != nil {
			return fmt.Errorf("-like %s: %w", o.like, err)
		}
		o.other = *other
	}
	return nil
}

// compare refuses a report that is not like the one of -like.
func (o *outputs) compare(report *Report) error {
	if o.like == "" {
		return nil
	}
	list := report.Mismatch(&o.other)
	if len(list) == 0 {
		return nil
	}
	if o.force {
		for i, m := range list {
			o.runner.Note(fmt.Sprintf("differs from %s, %d", o.like, i+1), m)
		}
		return nil
	}
	return fmt.Errorf("not like %s, so the numbers must not be compared (-force reports them all the same):\n  %s", o.like, strings.Join(list, "\n  "))
}

// write prints the report and writes the files.
func (o *outputs) write(out io.Writer, report *Report) error {
	errs := []error{formats[o.format](report, out)}
	for _, f := range o.files {
		name, path, _ := strings.Cut(f, "=")
		errs = append(errs, WriteFile(path, func(w io.Writer) error { return formats[name](report, w) }))
	}
	return errors.Join(errs...)
}

// formats are the ways to write a report.
var formats = map[string]func(*Report, io.Writer) error{
	"table":     (*Report).WriteTable,
	"markdown":  (*Report).WriteMarkdown,
	"csv":       (*Report).WriteCSV,
	"json":      (*Report).WriteJSON,
	"benchstat": (*Report).WriteBenchstat,
}

func formatNames() []string { return []string{"table", "markdown", "csv", "json", "benchstat"} }
