package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/devevents/bench/internal/stats"
	"example.com/devevents/events"
)

// SectionTelemetry is the section of metrics about the device's state while the samples
// of a case were taken.
const SectionTelemetry = "telemetry"

// How often a device's state is read between samples, and how long a reading may last.
const (
	telemetryEvery  = 50 * time.Millisecond
	telemetryShare  = 20 // a reading that took d is not followed by another one before 20 d have passed
	telemetryLimit  = 2 * time.Second
	telemetryGiveUp = 3 // failures in a row
	retryShortest   = 50 * time.Millisecond
	retryLongest    = 500 * time.Millisecond
)

// watchSettings are what options say of telemetry.
type watchSettings struct {
	off     bool
	retries int
}

// WithoutTelemetry does not read the device's state.
func WithoutTelemetry() Option { return func(s *settings) { s.watch.off = true } }

// RetryThrottled takes samples again that were taken while something held the device's
// clocks back: those between two readings of its state of which one says so. It does so at
// most times times a case, each after a pause of 50 ms to 500 ms, and within the case's
// wall budget; after that such samples count. Those taken again are in Result.Retried and
// in no number. The default is 0: they are tagged, and count.
func RetryThrottled(times int) Option {
	return func(s *settings) { s.watch.retries = max(times, 0) }
}

// TelemetryReport is the device's state over the window in which the samples of a case
// were taken: from a reading before the first to one after the last. What the device cannot
// tell is absent.
type TelemetryReport struct {
	Absent   string        `json:"absent,omitempty"`          // why there is no telemetry; then all else is zero
	Readings int           `json:"readings"`                  // that succeeded
	Failed   int           `json:"failed_readings,omitempty"` // those that did not
	Error    string        `json:"error,omitempty"`           // of the last one that failed
	Window   time.Duration `json:"window_ns"`                 // between the first and the last reading
	Cost     time.Duration `json:"cost_ns"`                   // host time of all readings together, outside the samples

	SMClock     *ClockRange       `json:"sm_clock_mhz,omitempty"`     // of the processors
	MemoryClock *ClockRange       `json:"memory_clock_mhz,omitempty"` // of the device's memory
	Temperature *TemperatureRange `json:"temperature_c,omitempty"`    // of the chip
	Power       *float64          `json:"mean_power_w,omitempty"`     // the counter of energy over the window, or the mean of readings of power
	Energy      *float64          `json:"energy_j,omitempty"`         // of the whole window, what lies between the samples included
	EnergyFrom  string            `json:"energy_from,omitempty"`      // "counter", or "power" where the window is too short for the counter
	EnergyPerOp *float64          `json:"energy_per_op_j,omitempty"`  // the same over all operations in the window

	PowerLimited *time.Duration `json:"power_limited_ns,omitempty"` // how long power has held the clocks back
	HeatLimited  *time.Duration `json:"heat_limited_ns,omitempty"`  // how long temperature has
	Reasons      []ReasonCount  `json:"reasons,omitempty"`          // that a reading gave, idle among them
	Throttled    *Share         `json:"throttled,omitempty"`        // samples beside a reading with a reason that slows work
	Retries      int            `json:"retries,omitempty"`          // how often samples were taken again
}

// ClockRange describes a clock's readings.
type ClockRange struct {
	Min    int     `json:"min"`    // the lowest
	Median float64 `json:"median"` // the middle one
	Max    int     `json:"max"`    // the highest
}

// TemperatureRange is the temperature at the edges of the window.
type TemperatureRange struct {
	First int `json:"first"` // before the first sample
	Last  int `json:"last"`  // after the last one
}

// ReasonCount is how many readings gave a reason, by the name of package events.
type ReasonCount struct {
	Name     string `json:"name"`     // "power cap"
	Readings int    `json:"readings"` // with that reason
}

// telemetered is a backend that knows what reads its device's state, or why nothing does.
type telemetered interface {
	telemetry() (events.Telemetry, error)
}

func (d *DeviceEvents[E, S]) telemetry() (events.Telemetry, error) {
	if d.api == nil {
		return nil, fmt.Errorf("%w: no device", events.ErrInvalid)
	}
	if t, ok := events.Ability[events.Telemetry](d.api); ok {
		return t, nil
	}
	// Who has the method and does not offer it refuses, and says why.
	if t, ok := any(d.api).(events.Telemetry); ok {
		if _, err := t.TelemetryRead(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w: the backend has none", d.api.Backend(), events.ErrUnsupported)
}

// stateOf is what reads the state of a backend's device. Without it the reason is noted in
// the provenance, once.
func (r *Runner) stateOf(b Backend) (events.Telemetry, error) {
	t, ok := b.(telemetered)
	if !ok {
		return nil, nil // no device, no state
	}
	reader, err := t.telemetry()
	if r.hung != nil {
		err = r.hung
	}
	if err != nil {
		r.report.Provenance.lacksTelemetry(oneLine(err))
		return nil, err
	}
	return reader, nil
}

// readState takes a reading that is given up after a while: the call may be lost in the
// driver, and there are no more then.
func (r *Runner) readState(t events.Telemetry) (events.TelemetryReading, error) {
	if r.hung != nil {
		return events.TelemetryReading{}, r.hung
	}
	type answer struct {
		reading events.TelemetryReading
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.err = guard(func() (err error) {
			a.reading, err = t.TelemetryRead()
			return err
		})
		done <- a
	}()
	timer := time.NewTimer(r.stateLimit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.reading, a.err
	case <-timer.C:
		r.hung = fmt.Errorf("a reading of telemetry had not come back after %v, so there are no more of them: %w", r.stateLimit, events.ErrExpired)
		return events.TelemetryReading{}, r.hung
	}
}

// watch reads the state of a device while the samples of a case are taken, and never in
// a sample.
type watch struct {
	reader   events.Telemetry
	readings []events.TelemetryReading
	at       []int64 // when each began
	costs    []time.Duration
	next     int64 // no reading before
	from     int   // the first sample since the last reading
	failed   int
	inARow   int
	failure  error
	retries  int
	pause    time.Duration
}

// startWatch takes the first reading of the window.
func (c *caseRun) startWatch() {
	c.watch = nil
	if c.set.watch.off {
		return
	}
	reader, err := c.runner.stateOf(c.b)
	if err != nil {
		c.res.Telemetry = &TelemetryReport{Absent: oneLine(err)}
	}
	if reader == nil {
		return
	}
	c.watch = &watch{reader: reader, pause: retryShortest}
	c.look()
}

// look takes a reading, and says whether there is one.
func (c *caseRun) look() bool {
	w := c.watch
	if w.inARow >= telemetryGiveUp || c.runner.hung != nil {
		return false
	}
	began := c.now()
	reading, err := c.runner.readState(w.reader)
	cost := time.Duration(c.now() - began)
	w.next = c.now() + int64(max(telemetryEvery, telemetryShare*cost))
	if err != nil {
		w.failed++
		w.inARow++
		w.failure = err
		return false
	}
	w.inARow = 0
	w.readings, w.at, w.costs = append(w.readings, reading), append(w.at, began), append(w.costs, cost)
	return true
}

// tag reads the device's state where that is due, or after the last sample, and tags the
// samples since the reading before. It reports whether something has held them back.
func (c *caseRun) tag(last bool) (slow bool) {
	w := c.watch
	if w == nil || w.from == len(c.samples) || !last && c.now() < w.next || !c.look() {
		return false
	}
	reasons := w.slowing()
	if reasons == 0 {
		w.from = len(c.samples)
		return false
	}
	for i := w.from; i < len(c.samples); i++ {
		c.samples[i].Throttled = reasons.String()
	}
	return true
}

// between is what happens between two samples, or after the last one. It reports whether
// samples are to be taken again.
func (c *caseRun) between(last bool) (again bool) {
	if !c.tag(last) {
		return false
	}
	w := c.watch
	if w.retries < c.set.watch.retries && c.spent()+w.pause < c.set.wall && !c.runner.overtime() {
		c.setAside()
		return true
	}
	w.from = len(c.samples)
	return false
}

// slowing are the reasons of the last two readings that make work slower, and those whose
// time has grown between them.
func (w *watch) slowing() events.ThrottleReasons {
	n := len(w.readings)
	now := w.readings[n-1]
	slow := now.Throttle
	if n > 1 {
		before := w.readings[n-2]
		slow |= before.Throttle
		both := before.Has & now.Has
		if both&events.TelemetryPowerLimited != 0 && now.PowerLimited > before.PowerLimited {
			slow |= events.ThrottlePowerCap
		}
		if both&events.TelemetryHeatLimited != 0 && now.HeatLimited > before.HeatLimited {
			slow |= events.ThrottleSoftwareThermal
		}
	}
	return slow.Slowing()
}

// setAside takes the samples since the reading before the last out of what counts, pauses,
// and opens the window anew for those that take their place.
func (c *caseRun) setAside() {
	w := c.watch
	w.retries++
	for i := w.from; i < len(c.samples); i++ {
		c.sum -= c.samples[i].Duration
	}
	c.res.Retried = append(c.res.Retried, c.samples[w.from:]...)
	c.samples, c.perOp = c.samples[:w.from], c.perOp[:w.from]
	c.metrics.cut(w.from)
	c.runner.pause(w.pause)
	w.pause = min(2*w.pause, retryLongest)
	c.look()
}

// cut forgets the values of the samples from a number on.
func (t *table) cut(from int) {
	for i := range t.columns {
		col := &t.columns[i]
		n, _ := slices.BinarySearch(col.samples, from)
		col.values, col.samples = col.values[:n], col.samples[:n]
	}
}

// restart makes a stop rule that knows the samples that still count.
func (c *caseRun) restart(chunk int64) *stats.Stopper {
	stop := c.stopper(chunk)
	for _, v := range c.perOp {
		stop.Add(v, c.cost())
	}
	return stop
}

// endWatch takes the last reading, where the loop has not, and reports. A case never ends
// with nothing because of what was set aside: then that counts after all.
func (c *caseRun) endWatch() {
	if c.tag(true) {
		c.watch.from = len(c.samples)
	}
	if len(c.samples) == 0 && len(c.res.Retried) > 0 {
		c.samples, c.res.Retried = c.res.Retried, nil
		for _, s := range c.samples {
			c.perOp = append(c.perOp, float64(s.Duration)/float64(s.Iterations))
			c.sum += s.Duration
		}
		c.watch.from = len(c.samples)
		c.notes.add("no other samples could be taken, so those count that were to be taken again")
	}
	if c.watch != nil {
		c.res.Telemetry = c.watch.report(c.samples, c.res.Retried)
	}
}

// report is what the readings say of the window.
func (w *watch) report(samples, retried []RawSample) *TelemetryReport {
	t := &TelemetryReport{Readings: len(w.readings), Failed: w.failed, Retries: w.retries}
	if w.failure != nil {
		t.Error = oneLine(w.failure)
	}
	if len(w.readings) == 0 {
		return t
	}
	for _, d := range w.costs {
		t.Cost += d
	}
	n := len(w.readings) - 1
	t.Window = time.Duration(w.at[n] - w.at[0])
	t.SMClock = w.clock(events.TelemetrySMClock, func(r events.TelemetryReading) int { return r.SMClock })
	t.MemoryClock = w.clock(events.TelemetryMemoryClock, func(r events.TelemetryReading) int { return r.MemoryClock })
	first, last := w.readings[0], w.readings[n]
	both := first.Has & last.Has
	if both&events.TelemetryTemperature != 0 {
		t.Temperature = &TemperatureRange{first.Temperature, last.Temperature}
	}
	w.energy(t, append(samples[:len(samples):len(samples)], retried...))
	grown := func(field events.TelemetryFields, from, to time.Duration) *time.Duration {
		if d := to - from; both&field != 0 && d >= 0 {
			return &d
		}
		return nil
	}
	t.PowerLimited = grown(events.TelemetryPowerLimited, first.PowerLimited, last.PowerLimited)
	t.HeatLimited = grown(events.TelemetryHeatLimited, first.HeatLimited, last.HeatLimited)
	w.reasons(t)
	if w.knows(events.TelemetryThrottle|events.TelemetryPowerLimited|events.TelemetryHeatLimited) && len(samples) > 0 {
		t.Throttled = &Share{Of: w.from}
		for _, s := range samples {
			if s.Throttled != "" {
				t.Throttled.Count++
			}
		}
	}
	return t
}

// knows reports whether some reading has one of the fields.
func (w *watch) knows(fields events.TelemetryFields) bool {
	return slices.ContainsFunc(w.readings, func(r events.TelemetryReading) bool { return r.Has&fields != 0 })
}

func (w *watch) clock(field events.TelemetryFields, of func(events.TelemetryReading) int) *ClockRange {
	var all []float64
	for _, r := range w.readings {
		if r.Knows(field) {
			all = append(all, float64(of(r)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	s := summarize(all, 0)
	return &ClockRange{int(s.Min), s.Median, int(s.Max)}
}

// energyWindow is how long a window has to be for the counter of energy to say something of
// it. On an H200 it steps by what a tenth of a second takes: over 13 ms it said 2.1 kW of a
// card that has 0.7.
const energyWindow = time.Second

// energy is what the counter has grown by, or, over a short window or where the counter was
// reset, the mean power that was read times the window.
func (w *watch) energy(t *TelemetryReport, samples []RawSample) {
	n := len(w.readings) - 1
	first, last := w.readings[0], w.readings[n]
	if first.Has&last.Has&events.TelemetryEnergy != 0 && last.Energy > first.Energy && t.Window >= energyWindow {
		joules := float64(last.Energy-first.Energy) / 1e3
		watts := joules / t.Window.Seconds()
		t.Energy, t.Power, t.EnergyFrom = &joules, &watts, "counter"
	} else if watts, known := w.power(); known {
		t.Power = &watts
		if t.Window > 0 {
			joules := watts * t.Window.Seconds()
			t.Energy, t.EnergyFrom = &joules, "power"
		}
	}
	var operations int64
	for _, s := range samples {
		operations += s.Iterations
	}
	if t.Energy != nil && operations > 0 {
		each := *t.Energy / float64(operations)
		t.EnergyPerOp = &each
	}
}

// power is the mean of the readings of power, in watts.
func (w *watch) power() (watts float64, known bool) {
	var sum float64
	var count int
	for _, r := range w.readings {
		if r.Knows(events.TelemetryPower) {
			sum += float64(r.Power) / 1e3
			count++
		}
	}
	return sum / float64(max(count, 1)), count > 0
}

// reasons counts the readings of each, the most frequent first.
func (w *watch) reasons(t *TelemetryReport) {
	counts := map[string]int{}
	for _, r := range w.readings {
		for _, name := range r.Throttle.Names() {
			counts[name]++
		}
	}
	for name, n := range counts {
		t.Reasons = append(t.Reasons, ReasonCount{name, n})
	}
	slices.SortFunc(t.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Readings-a.Readings, cmp.Compare(a.Name, b.Name))
	})
}
