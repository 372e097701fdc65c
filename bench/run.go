package bench

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/devevents/bench/internal/stats"
	"example.com/devevents/events"
)

const (
	failuresInARow = 10
	maxWarmRuns    = 10_000
	maxChunk       = 1_000_000_000
	hostTarget     = 100 * time.Microsecond // a sample by the host's clock, against its interruptions
)

// caseRun is one case being measured.
type caseRun struct {
	*job
	runner  *Runner
	b       Backend
	st      staged // nil where the backend is not
	now     func() int64
	res     *Result
	metrics table
	samples []RawSample
	perOp   []float64 // nanoseconds

	began   int64 // by now
	clock   func() int64
	sum     time.Duration
	inARow  int
	errs    errorRows
	dead    error // ends the case
	exposed bool
	notes   notes
	ops     int64  // done so far, for Iters.First
	pinned  bool   // the same buffers each time
	graph   int    // iterations of the graph that samples come from, 0 without one
	watch   *watch // nil where the device's state is not read

	attached bool // to the backend
}

// panicked is a panic of the user's code.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guard calls what the user wrote and turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return fn()
}

// run measures one case. The result is never without a reason.
func (c *caseRun) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.opened(c.measure)
	c.finish()
}

// opened calls body with the context of the case, if that can be made, and closes it.
func (c *caseRun) opened(body func()) {
	c.clock = hostClock()
	c.began = c.now()
	if err := guard(c.open); err != nil {
		c.end(fmt.Errorf("making the context: %w", err))
		return
	}
	defer func() { // also when the function leaves through runtime.Goexit
		if cerr := guard(c.close); cerr != nil {
			c.fail(fmt.Errorf("closing the context: %w", cerr))
			c.notes.add("the context could not be closed cleanly: " + cerr.Error())
		}
	}()
	body()
}

// end ends the case with an error, or skips it.
func (c *caseRun) end(err error) {
	var skip *skipped
	if errors.As(err, &skip) {
		c.res.Status, c.res.Skip = Skipped, strings.Join(strings.Fields(skip.reason), " ")
		c.res.Stop = "skipped"
	} else {
		c.fail(err)
		c.res.Stop = "failed: " + oneLine(err)
	}
	c.dead = err
}

// measure is a case from its first call to its last pass.
func (c *caseRun) measure() {
	defer c.leave()
	chunk := c.enter()
	if c.dead != nil {
		return
	}
	c.res.Chunk = chunk
	if c.set.profile > 0 {
		c.profile(chunk)
	} else {
		c.stage(stageTimed)
		c.rehearse(chunk)
		if c.dead == nil {
			runtime.GC()
			c.startWatch()
			if !c.graphs(chunk) {
				c.loop(chunk)
			}
			c.endWatch()
			c.lastLook()
			c.judge(chunk)
		}
	}
	c.conclude()
}

// enter prepares the backend for the case, calls the function for the first time, finds
// the number of operations of a sample and warms up.
func (c *caseRun) enter() int64 {
	c.b = c.set.backend
	chunk := c.firstChunk()
	if !c.attach(chunk) {
		return chunk
	}
	c.st, _ = c.b.(staged)
	if m, ok := c.b.(measured); ok {
		c.res.Calibration = m.calibration(c.now)
	}
	c.res.Label, c.res.Clock = c.b.Label(), c.b.Clock().Name
	c.runner.report.Provenance.saw(c.b)
	if x, ok := c.b.(interface{ refusal() error }); ok && x.refusal() != nil {
		c.runner.Note("CPU counters", oneLine(x.refusal()))
	}
	if c.res.Calibration.Quantum == 0 {
		c.res.Calibration.Quantum = c.b.Clock().Quantum
	}
	return c.prepare(chunk)
}

// attach begins a case on the backend, and ends it where that fails.
func (c *caseRun) attach(chunk int64) bool {
	p, ok := c.b.(perCase)
	if !ok {
		return true
	}
	if err := guard(func() error { return p.beginCase(c.set, chunk) }); err != nil {
		c.end(err)
		return false
	}
	c.attached = true
	return true
}

// leave takes over what the backend knows, and ends the case on it.
func (c *caseRun) leave() {
	if c.st != nil {
		c.facts()
	}
	c.detach()
}

func (c *caseRun) detach() {
	if c.attached {
		c.b.(perCase).endCase()
		c.attached = false
	}
}

// conclude is what comes after the last sample.
func (c *caseRun) conclude() {
	c.stage(stageFirst)
	if c.dead == nil && c.verify != nil {
		if err := guard(c.verify); err != nil {
			c.end(fmt.Errorf("verifying after the last sample: %w", err))
		}
	}
	if c.dead == nil {
		c.diagnose()
	}
}

// firstChunk is the number of operations to begin with.
func (c *caseRun) firstChunk() int64 {
	c.res.Fixed = true
	switch {
	case c.set.chunk > 0:
		return c.set.chunk
	case c.set.domain == GPU && !c.set.calibrated, c.set.profile > 0:
		return 1
	}
	c.res.Fixed = false
	return 1
}

func (c *caseRun) stage(s stage) {
	if c.st != nil {
		c.st.setStage(s)
	}
}

// prepare calls the function for the first time, finds the chunk and warms up.
func (c *caseRun) prepare(chunk int64) int64 {
	c.stage(stageFirst)
	for { // until one call has gone through: the rest presumes that it does
		_, err := c.one(Iters{N: chunk})
		if err == nil {
			break
		}
		if c.failed(err); c.dead != nil {
			return chunk
		}
	}
	if c.verify != nil {
		if err := guard(c.verify); err != nil {
			c.end(fmt.Errorf("verifying after the first call: %w", err))
			return chunk
		}
	}
	c.stage(stageWarm)
	if !c.res.Fixed {
		chunk = c.calibrateChunk(chunk)
	}
	if c.dead == nil {
		c.warmUp(chunk)
	}
	if !c.res.Fixed && c.dead == nil {
		chunk = c.calibrateChunk(chunk)
	}
	return chunk
}

// calibrateChunk finds the smallest number of operations whose sample is long enough
// by the backend's clock. A number counts once two readings in a row say so.
func (c *caseRun) calibrateChunk(n int64) int64 {
	confirmed := 0
	for i := 0; confirmed < 2 && c.dead == nil && c.spent() < c.set.wall/4; i++ {
		before := c.spent()
		s, err := c.one(Iters{N: n, Index: i})
		if err != nil {
			c.failed(err)
			continue
		}
		c.inARow = 0
		target := c.target(s.OnDevice)
		if s.Duration >= target {
			confirmed++
			continue
		}
		confirmed = 0
		factor := 10.0
		if s.Duration > 0 {
			factor = min(10, 1.2*float64(target)/float64(s.Duration))
		}
		next := int64(math.Ceil(float64(n) * factor))
		next = min(max(next, n+1), c.largestChunk(s.OnDevice))
		took := c.spent() - before
		if next <= n || time.Duration(float64(took)*float64(next)/float64(n)) > c.set.wall/20 {
			break // as far as it goes: a longer one would take too much of the budget
		}
		n = next
	}
	return n
}

func (c *caseRun) target(onDevice bool) time.Duration {
	cal := c.res.Calibration
	t := max(100*cal.Quantum, 20*cal.Empty)
	if !onDevice {
		t = max(t, hostTarget)
	}
	return t
}

func (c *caseRun) largestChunk(onDevice bool) int64 {
	if onDevice && !c.set.ungated {
		return gateChunk
	}
	return maxChunk
}

// spent is the time since the case began: by the clock of the backend's host, or by
// the machine's where that has gone further. A simulated clock may stand still.
func (c *caseRun) spent() time.Duration {
	return time.Duration(max(c.now()-c.began, c.clock()))
}

// warmUp runs the function until its times stand still.
func (c *caseRun) warmUp(chunk int64) {
	const k = 10
	began := c.spent()
	limit := min(c.set.warmMax, c.set.wall/2)
	var times []float64
	var sum time.Duration
	for attempt := 0; c.dead == nil; attempt++ {
		took := c.spent() - began
		c.res.WarmUp = WarmUpReport{Runs: len(times), Took: took}
		switch {
		case sum >= c.set.warmMin && len(times) >= 2*k && c.still(times[len(times)-2*k:], k):
			c.res.WarmUp.Why = "stable"
			return
		case took >= limit:
			c.res.WarmUp.Why = "time"
			if limit == 0 {
				return // none was asked for
			}
			c.notes.add(fmt.Sprintf("not stable after %v of warm-up", round(took)))
			return
		case len(times) >= maxWarmRuns:
			c.res.WarmUp.Why = "runs"
			return
		}
		s, err := c.one(Iters{N: chunk, Index: attempt})
		if err != nil {
			c.failed(err)
			continue
		}
		c.inARow = 0
		sum += s.Duration
		times = append(times, float64(s.Duration))
	}
}

// still compares the last k times with those before.
func (c *caseRun) still(times []float64, k int) bool {
	older, newer := slices.Clone(times[:k]), slices.Clone(times[k:])
	slices.Sort(older)
	slices.Sort(newer)
	a, b := older[k/2], newer[k/2]
	return math.Abs(a-b) <= max(0.01*a, float64(c.res.Calibration.Quantum))
}

// rehearse takes one sample in the way of the timed ones and forgets it: what a hold
// or a fill loads for the first time shall not be in a sample.
func (c *caseRun) rehearse(chunk int64) {
	if c.st == nil {
		return
	}
	for range 2 {
		_, err := c.one(Iters{N: chunk})
		if err == nil || !c.degrade(err) {
			if err != nil {
				c.failed(err)
			}
			return
		}
	}
}

// degrade measures without a hold after one that lasted until the watchdog.
func (c *caseRun) degrade(err error) bool {
	var held *heldTooLong
	if c.exposed || !errors.As(err, &held) {
		return false
	}
	c.exposed = true
	c.st.expose("launch-exposed: something in the function waits for the device while it is held")
	c.notes.add("launch-exposed: the stream could not be held, since something in the function waits for the device; measured again without a hold")
	c.forget()
	return true
}

// forget throws away the samples so far.
func (c *caseRun) forget() {
	c.samples, c.perOp, c.metrics, c.sum = nil, nil, table{}, 0
}

// loop takes the samples.
func (c *caseRun) loop(chunk int64) {
	stop := c.stopper(chunk)
	c.inARow = 0
	for index := 0; c.dead == nil; index++ {
		switch {
		case c.runner.overtime():
			c.res.Stop = "the time for all cases together is over"
			return
		}
		s, err := c.one(Iters{N: chunk, Index: index})
		var decision stats.Decision
		switch {
		case err == nil:
			c.inARow = 0
			c.keep(s)
			decision = stop.Add(c.perOp[len(c.perOp)-1], c.cost())
			c.runner.progress.sample(c.res, len(c.samples))
		case c.degrade(err):
			stop = c.stopper(chunk)
			c.startWatch()
			continue
		default:
			c.failed(err)
			decision = stop.Fail(c.cost())
		}
		if c.dead == nil && c.between(decision.Stop()) {
			stop = c.restart(chunk)
			continue
		}
		if c.dead == nil && decision.Stop() {
			c.res.Stop, c.res.Verdict = decision.Reason, string(decision.Verdict)
			return
		}
	}
}

// lastLook looks for escaped work after the last sample. What escapes from a graph was seen
// when it was captured.
func (c *caseRun) lastLook() {
	if c.st == nil || c.dead != nil || len(c.samples) == 0 || c.graph > 0 {
		return
	}
	last := &c.samples[len(c.samples)-1]
	if last.Escaped == "" {
		found, err := c.st.look(last.Duration)
		if last.Escaped = found.String(); err != nil {
			c.failed(err)
		}
	}
}

// keep stores a sample.
func (c *caseRun) keep(s Sample) {
	c.res.OnDevice = c.res.OnDevice || s.OnDevice
	c.metrics.add(len(c.samples), s.Metrics)
	c.samples = append(c.samples, rawOf(s))
	c.perOp = append(c.perOp, float64(s.Duration)/float64(s.Iterations))
	c.sum += s.Duration
}

// rawOf is a sample as reports keep it.
func rawOf(s Sample) RawSample {
	return RawSample{
		Duration: s.Duration, Iterations: s.Iterations, Chunks: s.Chunks,
		Enqueue: s.Enqueue, Complete: s.Complete, Leaked: s.Leaked.String(), Escaped: s.Escaped.String(),
	}
}

// one takes one sample with all that is round it.
func (c *caseRun) one(it Iters) (s Sample, err error) {
	if !c.pinned {
		it.First = c.ops
		c.ops += it.N
	}
	if err := guard(c.openSample); err != nil {
		return s, fmt.Errorf("making the context of the sample: %w", err)
	}
	defer func() { // also when the function leaves through runtime.Goexit
		if cerr := guard(c.closeSample); cerr != nil {
			err = errors.Join(err, fmt.Errorf("closing the context of the sample: %w", cerr))
		}
	}()
	if c.before != nil {
		if err := guard(c.before); err != nil {
			return s, fmt.Errorf("before the sample: %w", err)
		}
	}
	err = guard(func() (err error) {
		s, err = c.timed(it)
		return err
	})
	if err == nil && c.after != nil {
		if err = guard(c.after); err != nil {
			err = fmt.Errorf("after the sample: %w", err)
		}
	}
	return s, err
}

// timed is the part of a sample that the backend brackets. Nothing between the
// readings of the clock allocates, and nothing is done there but the calls.
func (c *caseRun) timed(it Iters) (s Sample, err error) {
	if err := c.b.Begin(); err != nil {
		return s, err
	}
	begun := true
	defer func() {
		if begun { // a panic, or runtime.Goexit: let go of what Begin holds
			_ = c.b.End()
		}
	}()
	t0 := c.now()
	done, err := c.call(it)
	t1 := c.now()
	begun = false
	ended := c.b.End()
	t2 := c.now()
	if err = errors.Join(err, ended); err != nil {
		return s, err
	}
	if done.Operations < 0 {
		return s, fmt.Errorf("the function says that it did %d operations: %w", done.Operations, events.ErrInvalid)
	}
	iv := Interval{
		Host: time.Duration(t1 - t0), Complete: time.Duration(t2 - t0),
		Operations: done.Operations, Chunk: it.Index, Work: c.set.work,
	}
	if iv.Operations == 0 {
		iv.Operations = it.N
	}
	if s, err = c.b.Collect(iv); err != nil {
		return s, err
	}
	return c.complete(s, iv, done.Metrics)
}

// complete fills in what a backend left out, and refuses what cannot be.
func (c *caseRun) complete(s Sample, iv Interval, metrics []Metric) (Sample, error) {
	if s.Duration < 0 {
		return s, fmt.Errorf("the backend says that the sample took %v: a negative duration: %w", s.Duration, events.ErrBadReading)
	}
	if s.Iterations < 0 || s.Chunks < 0 {
		return s, fmt.Errorf("the backend says %d iterations in %d chunks: %w", s.Iterations, s.Chunks, events.ErrBadReading)
	}
	if s.Iterations == 0 {
		s.Iterations = iv.Operations
	}
	if s.Chunks == 0 {
		s.Chunks = 1
	}
	if s.Enqueue <= 0 {
		s.Enqueue = iv.Host
	}
	if s.Complete <= 0 {
		s.Complete = iv.Complete
	}
	all := make([]Metric, 0, len(metrics)+len(s.Metrics))
	for _, m := range s.Metrics {
		if m.Section == SectionCPU && c.set.domain == GPU {
			c.notes.once("the processor's counters are muted: the work is a device's")
			continue
		}
		all = append(all, m)
	}
	s.Metrics = append(all, metrics...)
	return s, nil
}

// fail counts an error without ending the case.
func (c *caseRun) fail(err error) { c.errs.add(c.b, err) }

// failed counts a failed sample, and ends the case where the next one would fail too.
func (c *caseRun) failed(err error) {
	var skip *skipped
	if errors.As(err, &skip) {
		c.end(err)
		return
	}
	c.res.FailedCount++
	c.inARow++
	c.fail(err)
	var (
		p     *panicked
		stuck *lost
	)
	switch {
	case errors.As(err, &stuck):
		c.dead, c.res.Stop = err, "lost: the device does not finish its work"
	case errors.As(err, &p):
		c.dead, c.res.Stop = err, "panic"
	case errors.Is(err, events.ErrDeviceFault), errors.Is(err, events.ErrContextLost), errors.Is(err, events.ErrClosed):
		c.dead, c.res.Stop = err, "fault: the device does not work any more"
	case c.inARow >= failuresInARow:
		c.dead, c.res.Stop = err, fmt.Sprintf("failures: %d in a row", c.inARow)
	case c.spent() >= c.set.wall:
		c.dead, c.res.Stop = err, fmt.Sprintf("wall: %v on the host", round(c.spent()))
	}
}

// diagnose runs the passes after the samples.
func (c *caseRun) diagnose() {
	for _, p := range c.passes {
		report := PassReport{Name: p.name}
		var found []Metric
		err := guard(func() (err error) {
			found, err = p.run()
			return err
		})
		if err != nil {
			report.Error = err.Error()
		}
		var t table
		t.add(0, found)
		report.Metrics = summaries(&t)
		c.res.Diagnostics = append(c.res.Diagnostics, report)
	}
}

// facts takes over what a staged backend knows.
func (c *caseRun) facts() {
	f := c.st.facts()
	c.res.Gate, c.res.Cold, c.res.Streams = f.gate, f.cold, f.streams
	if c.graph > 0 {
		c.res.Gate = fmt.Sprintf("not needed: launched as graphs of %d", c.graph)
	}
	if f.clamped > 0 {
		c.notes.add(fmt.Sprintf("%d readings of the device were negative and count as 0", f.clamped))
	}
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
