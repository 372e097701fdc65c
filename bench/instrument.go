package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/devevents/events"
)

// stage is what the samples of a backend are for.
type stage uint8

const (
	stageFirst stage = iota // the first call: libraries are loaded, code is compiled; nothing may be held
	stageWarm
	stageTimed
	stageProfile
)

// perCase is a backend that prepares for each case, on the thread that the case is
// measured on.
type perCase interface {
	beginCase(set *settings, chunk int64) error
	endCase()
}

// measured is a backend that knows what measuring costs by itself.
type measured interface {
	calibration(now func() int64) Calibration
}

// staged is a backend that behaves in its own way in each stage of a case:
// DeviceEvents, or one that embeds it.
type staged interface {
	setStage(stage)
	expose(why string) // measures the case without a gate from here on
	look(span time.Duration) (Answer, error)
	facts() caseFacts
	cacheState() cachePlan
	setHeat(h heat) error
	fillRate() (float64, error)
	capture(n int, call func(i int) error) (replay, error)
	measures(list []Metric, span time.Duration, iv Interval) []Metric
}

// caseFacts is what a staged backend knows of a case.
type caseFacts struct {
	gate    string
	cold    string
	clamped uint64
	streams int
}

// Calibration is what measuring costs by itself.
type Calibration struct {
	Quantum  time.Duration `json:"quantum_ns"`   // the longest step of which nearly all readings are whole multiples
	Empty    time.Duration `json:"empty_ns"`     // the median reading with nothing in it
	EmptyP95 time.Duration `json:"empty_p95_ns"` // and its 95th percentile
	Record   time.Duration `json:"record_ns"`    // host time of a record, 0 where it is not known
	Query    time.Duration `json:"query_ns"`     // of a query
	Sync     time.Duration `json:"sync_ns"`      // of waiting for a stream that is done
	Pairs    int           `json:"pairs"`        // how many empty readings there were
	Held     bool          `json:"held"`         // they were taken behind a gate
}

// Floor is what no measurement can get below: the clock's quantum, or what a sample
// with nothing in it reads.
func (c Calibration) Floor() time.Duration { return max(c.Quantum, c.Empty) }

const (
	calibrationPairs = 100
	escapeEvery      = 16
	prefillLeast     = 50 * time.Microsecond // a stream is kept busy for so long, and twice as long as queueing takes
	prefillMost      = 10 * time.Millisecond
)

// hostClock is the machine's monotonic clock, in nanoseconds from now on.
func hostClock() func() int64 {
	origin := time.Now()
	return func() int64 { return int64(time.Since(origin)) }
}

func (d *DeviceEvents[E, S]) hostNow() func() int64 { return d.now }

func (d *DeviceEvents[E, S]) setStage(s stage) { d.stage = s }

func (d *DeviceEvents[E, S]) expose(why string) { d.gateWhy, d.prefill = why, false }

func (d *DeviceEvents[E, S]) beginCase(set *settings, chunk int64) error {
	d.stage = stageFirst
	if err := d.prepare(); err != nil {
		return err
	}
	if d.stuck != nil {
		return d.stuck
	}
	d.watchdog, d.limit = set.watchdog, set.wall
	d.gateWhy, d.prefill, d.queueing = d.noGate(set, chunk), false, 0
	if !d.calibrated {
		err := d.calibrate()
		var held *heldTooLong
		if errors.As(err, &held) {
			d.gateWhy = "it was not let go in time for a calibration"
			err = d.calibrate()
		}
		if err != nil {
			return fmt.Errorf("calibrating the events: %w", err)
		}
		d.calibrated = true
	}
	// Where nothing can be held, work of its own keeps the stream busy while the host
	// queues; on a default stream it would keep others busy, too.
	d.prefill = d.gateWhy != "" && !set.ungated && d.scratch != nil && !d.isDefault(d.streams[0])
	d.heat, d.plan = heatAsked, d.cacheOf(set, chunk)
	if d.stats != nil {
		d.clamped = d.stats.EventStats().Clamped
	}
	return nil
}

// gateChunk is how many operations a sample may have with the stream held: a driver's
// queue behind a hold is finite, about a thousand entries on CUDA.
const gateChunk = 512

// noGate says why the stream cannot be held, or is "".
func (d *DeviceEvents[E, S]) noGate(set *settings, chunk int64) string {
	switch {
	case set.ungated:
		return "switched off"
	case d.gate == nil:
		return "the backend has none"
	case chunk > gateChunk:
		return fmt.Sprintf("samples of %d operations do not fit behind it", chunk)
	case d.isDefault(d.streams[0]):
		return "never on a default stream"
	}
	return ""
}

// isDefault reports whether s is the vendor's default stream, on which a hold would
// stop streams that nobody here knows: its numbers are 0 to 2 with CUDA and HIP.
func (d *DeviceEvents[E, S]) isDefault(s S) bool {
	if d.wrapper == nil || d.own {
		return false
	}
	for handle := range uintptr(3) {
		if d.wrapper.WrapStream(handle) == s {
			return true
		}
	}
	return false
}

func (d *DeviceEvents[E, S]) endCase() { d.stage, d.limit = stageFirst, 0 }

func (d *DeviceEvents[E, S]) calibration(func() int64) Calibration { return d.cal }

func (d *DeviceEvents[E, S]) facts() caseFacts {
	f := caseFacts{gate: "held", cold: d.plan.text, streams: len(d.streams)}
	switch {
	case d.gateWhy == "":
	case d.prefill:
		f.gate = "kept busy instead: " + d.gateWhy
	default:
		f.gate = "none: " + d.gateWhy
	}
	if d.stats != nil {
		f.clamped = d.stats.EventStats().Clamped - d.clamped
	}
	return f
}

// look reports whether the device goes on after a window's end: work on a stream that
// nobody declared.
func (d *DeviceEvents[E, S]) look(span time.Duration) (Answer, error) {
	if d.syncer == nil {
		return Unknown, nil
	}
	busy, err := d.busy()
	if err != nil {
		return Unknown, err
	}
	return answer(busy > d.idleWait(span/50)), nil
}

// idleWait is how long a wait for a device with nothing to do may take, and least at any rate.
func (d *DeviceEvents[E, S]) idleWait(least time.Duration) time.Duration {
	return max(5*d.cal.Sync, least)
}

// busy is how long the device goes on.
func (d *DeviceEvents[E, S]) busy() (time.Duration, error) {
	took, err := d.whole()
	if err != nil {
		err = fmt.Errorf("waiting for the device to see whether work has escaped: %w", err)
	}
	return took, err
}

// calibrate measures what a window with nothing in it reads, the clock's quantum and
// what calls cost the host. The stream is kept busy, or held, so that the device
// never waits for the host between the two events of a pair.
func (d *DeviceEvents[E, S]) calibrate() error {
	stream := d.streams[0]
	pairs := make([]E, 0, 2*calibrationPairs)
	defer func() {
		for _, e := range pairs {
			_ = d.api.EventDestroy(e) // the backend counts what fails
		}
	}()
	for range cap(pairs) {
		e, err := d.api.EventCreate()
		if err != nil {
			return err
		}
		pairs = append(pairs, e)
	}
	cal := Calibration{Pairs: calibrationPairs, Held: d.gateWhy == ""}
	if cal.Held {
		if err := d.hold(stream); err != nil {
			return err
		}
		cal.Held = d.held != nil
	}
	if !cal.Held {
		if err := d.spin(time.Millisecond); err != nil {
			return err
		}
	}
	before := d.now()
	for _, e := range pairs {
		if err := d.api.EventRecord(e, stream); err != nil {
			return errors.Join(err, d.release())
		}
	}
	cal.Record = time.Duration(d.now()-before) / time.Duration(len(pairs))
	if err := d.release(); err != nil {
		return err
	}
	if err := d.wait(pairs[len(pairs)-1]); err != nil {
		return err
	}
	empty := make([]time.Duration, 0, 2*calibrationPairs)
	for i := 0; i < len(pairs); i += 2 {
		span, err := d.api.EventElapsed(pairs[i], pairs[i+1])
		if err != nil {
			return err
		}
		empty = append(empty, span)
	}
	readings := slices.Clone(empty)
	slices.Sort(empty)
	cal.Empty, cal.EmptyP95 = empty[len(empty)/2], empty[len(empty)*95/100]
	for i := 1; i < len(pairs); i++ { // longer spans show steps that equal pairs hide
		span, err := d.api.EventElapsed(pairs[0], pairs[i])
		if err != nil {
			return err
		}
		readings = append(readings, span)
	}
	spread, err := d.spread(pairs[0], pairs[1])
	if err != nil {
		return err
	}
	cal.Quantum = quantum(readings, spread)
	if err := d.callCosts(&cal, pairs[0]); err != nil {
		return err
	}
	d.cal = cal
	return nil
}

// spin keeps the stream busy for a while, where the backend can.
func (d *DeviceEvents[E, S]) spin(span time.Duration) error {
	if d.scratch == nil {
		return nil
	}
	_, err := d.scratch.ScratchSpin(span, d.streams[0])
	if errors.Is(err, events.ErrUnsupported) {
		d.prefill = false
		return nil
	}
	return err
}

// spread reads pairs of many lengths.
func (d *DeviceEvents[E, S]) spread(start, end E) ([]time.Duration, error) {
	var spans []time.Duration
	for i := range 20 {
		if err := d.api.EventRecord(start, d.streams[0]); err != nil {
			return nil, err
		}
		if err := d.spin(time.Microsecond + time.Duration(i)*37*time.Nanosecond); err != nil {
			return nil, err
		}
		if err := d.api.EventRecord(end, d.streams[0]); err != nil {
			return nil, err
		}
		if err := d.wait(end); err != nil {
			return nil, err
		}
		span, err := d.api.EventElapsed(start, end)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// callCosts times the calls of a sample on the host.
func (d *DeviceEvents[E, S]) callCosts(cal *Calibration, done E) error {
	const times = 20
	costs := make([]time.Duration, times)
	median := func(cost func() (time.Duration, error)) (_ time.Duration, err error) {
		for i := range costs {
			if costs[i], err = cost(); err != nil {
				return 0, err
			}
		}
		slices.Sort(costs)
		return costs[times/2], nil
	}
	timed := func(call func() error) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			before := d.now()
			err := call()
			return time.Duration(d.now() - before), err
		}
	}
	var err error
	if d.querier != nil {
		if cal.Query, err = median(timed(func() error { _, err := d.querier.EventQuery(done); return err })); err != nil {
			return err
		}
	}
	wait := timed(func() error { return d.api.StreamSynchronize(d.streams[0]) })
	if d.syncer != nil {
		wait = d.whole
	}
	cal.Sync, err = median(wait)
	return err
}
