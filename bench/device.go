package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/devevents/events"
)

// DeviceEvents measures with events of a device, on the caller's device and streams.
// A sample is one window from a start event to an end event on the first stream; with
// several streams it begins on all of them after the start and ends when the last of
// them is done, so that the window is the makespan.
//
// While the samples of a case are taken, the first stream is held back (events.Gate)
// until everything has been queued, and the start event is asked before the hold ends:
// if it has not been reached, launching cannot lie in the window. Where a hold is not
// possible the row says why, and how often the host was inside.
//
// It implements Backend for one runner at a time. Streams stay the caller's and must
// outlive it.
type DeviceEvents[E any, S comparable] struct {
	api     events.EventApi[E, S]
	streams []S
	own     bool // the stream was made here
	vendor  string
	prefix  string

	querier events.Querier[E]
	gate    events.Gate[S]
	scratch events.Scratch[S]
	wrapper events.StreamWrapper[S]
	stats   events.StatsReader
	cache   events.Cache
	syncer  events.DeviceSynchronizer
	graphs  events.Graphs[E, S]
	now     func() int64

	polls      bool  // waits by asking
	stuck      *lost // nothing may wait for the streams any more
	ready      bool
	start, end E
	begins     []E // where there are several streams: of each, the first one's is start
	ends       []E

	cal        Calibration
	calibrated bool
	buffer     events.Buffer // for the cold cache; no bytes until it is needed

	// Of the case.
	stage    stage
	gateWhy  string        // why there is no gate, "" where there is one
	prefill  bool          // the stream is kept busy instead
	queueing time.Duration // the longest that a function has taken to queue a sample
	plan     cachePlan
	heat     heat
	watchdog time.Duration
	limit    time.Duration // of a wait; 0 is none
	clamped  uint64

	// Of the sample.
	held     events.GateHandle
	began    int64
	complete time.Duration
	leaked   Answer
	metrics  []Metric
}

// NewDeviceEvents measures on api's device and on the given streams, or on one of its
// own where none is given. It asks nothing of the device yet: what fails, fails the
// cases that are measured with it. Close gives back what it has made.
func NewDeviceEvents[E any, S comparable](api events.EventApi[E, S], streams ...S) *DeviceEvents[E, S] {
	d := &DeviceEvents[E, S]{api: api, streams: streams, now: hostClock()}
	if api == nil {
		return d.Named("no device")
	}
	d.querier, _ = events.Ability[events.Querier[E]](api)
	d.gate, _ = events.Ability[events.Gate[S]](api)
	d.scratch, _ = events.Ability[events.Scratch[S]](api)
	d.wrapper, _ = events.Ability[events.StreamWrapper[S]](api)
	d.stats, _ = events.Ability[events.StatsReader](api)
	d.cache, _ = events.Ability[events.Cache](api)
	d.syncer, _ = events.Ability[events.DeviceSynchronizer](api)
	d.graphs, _ = events.Ability[events.Graphs[E, S]](api)
	if id, ok := events.Ability[events.Identifier](api); ok {
		d.polls = d.querier != nil && id.Identity().Kind == events.KindGPU
	}
	if h, simulated := events.Ability[events.HostClocker](api); simulated {
		d.now, d.polls = h.HostClock(), false
	}
	vendor := api.Backend()
	if known, ok := vendors[vendor]; ok {
		vendor = known
	}
	return d.Named(vendor)
}

// vendors are how the vendors of this module spell themselves.
var vendors = map[string]string{"cuda": "CUDA", "hip": "HIP", "opencl": "OpenCL"}

// Named sets the vendor's name in the label and, in small letters, before the names
// of metrics. The default is the backend's own. It is for simulations and wrappers.
func (d *DeviceEvents[E, S]) Named(vendor string) *DeviceEvents[E, S] {
	d.vendor = vendor
	d.prefix = strings.ReplaceAll(strings.ToLower(vendor), " ", "_")
	return d
}

// Vendor is the vendor's name, as in the label.
func (d *DeviceEvents[E, S]) Vendor() string { return d.vendor }

// Label implements Backend.
func (d *DeviceEvents[E, S]) Label() string { return "timing + " + d.vendor + " events" }

// EmitsCPUDiagnostics implements Backend.
func (d *DeviceEvents[E, S]) EmitsCPUDiagnostics() bool { return false }

// Clock implements Backend. The quantum is known after the first case has begun.
func (d *DeviceEvents[E, S]) Clock() Clock {
	return Clock{Name: d.vendor + " events", Quantum: d.cal.Quantum}
}

// Stream is the stream that windows are recorded on: the first one given, or the one
// made here.
func (d *DeviceEvents[E, S]) Stream() (S, error) {
	if err := d.prepare(); err != nil {
		var none S
		return none, err
	}
	return d.streams[0], nil
}

// prepare makes the events, and the stream where none was given. After an error it
// may be tried again.
func (d *DeviceEvents[E, S]) prepare() (err error) {
	if d.ready {
		return nil
	}
	if d.api == nil {
		return fmt.Errorf("device events: %w: no device", events.ErrInvalid)
	}
	if len(d.streams) == 0 {
		s, err := d.api.StreamCreateNonBlocking()
		if err != nil {
			return fmt.Errorf("making a stream to measure on: %w", err)
		}
		d.streams, d.own = []S{s}, true
	}
	var made []E
	defer func() {
		if err != nil {
			for _, e := range made {
				err = errors.Join(err, d.api.EventDestroy(e))
			}
		}
	}()
	count := 2
	if n := len(d.streams); n > 1 {
		count += 2*n - 1
	}
	for range count {
		e, err := d.api.EventCreate()
		if err != nil {
			return fmt.Errorf("making an event to measure with: %w", err)
		}
		made = append(made, e)
	}
	d.start, d.end = made[0], made[1]
	if n := len(d.streams); n > 1 {
		d.begins, d.ends = append([]E{d.start}, made[2:n+1]...), made[n+1:]
	}
	d.metrics = make([]Metric, 0, 5+len(d.streams))
	d.ready = true
	return nil
}

// events are all that prepare has made.
func (d *DeviceEvents[E, S]) events() []E {
	all := []E{d.start, d.end}
	if len(d.begins) > 0 {
		all = append(all, d.begins[1:]...)
	}
	return append(all, d.ends...)
}

// Close gives back events, the buffer, and the stream that was made here. It waits
// for the streams first, except after work that was lost: then what would have to wait
// for it is left behind, and the error says so. A second Close does nothing.
func (d *DeviceEvents[E, S]) Close() error {
	if d.api == nil {
		return nil
	}
	var errs []error
	if d.stuck != nil {
		errs = append(errs, d.stuck)
	}
	if d.ready {
		for _, s := range d.streams {
			if d.stuck == nil {
				errs = append(errs, d.api.StreamSynchronize(s))
			}
		}
		for _, e := range d.events() {
			errs = append(errs, d.api.EventDestroy(e))
		}
	}
	if d.buffer.Bytes > 0 && d.stuck == nil {
		errs = append(errs, d.scratch.ScratchFree(d.buffer))
	}
	if d.own {
		errs = append(errs, d.api.StreamDestroy(d.streams[0]))
		d.streams = nil
	}
	d.ready, d.own, d.buffer, d.stuck = false, false, events.Buffer{}, nil
	return errors.Join(errs...)
}

// lost is work that the device never finished.
type lost struct{ after time.Duration }

func (l *lost) Error() string {
	return fmt.Sprintf("lost: the device had not reached the end after %v; if the work takes so long, give the case a larger WallBudget", l.after)
}

func (l *lost) Unwrap() error { return events.ErrExpired }

// wait waits for an event, within the case's wall budget where a case is measured.
// On a GPU it asks over and over, as drivers do by default, so that it sees the end
// at once. Elsewhere that would take time from the device, or from a simulation,
// and a goroutine waits in the backend.
func (d *DeviceEvents[E, S]) wait(event E) error {
	if d.limit <= 0 {
		return d.api.EventWait(event)
	}
	deadline := time.Now().Add(d.limit)
	if d.polls {
		for {
			reached, err := d.querier.EventQuery(event)
			if reached || err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return d.lose()
			}
		}
	}
	return d.bounded(func() error { return d.api.EventWait(event) })
}

// whole waits for the whole device, within the case's wall budget, and says how long that
// took: the call alone, not the goroutine's start and end.
func (d *DeviceEvents[E, S]) whole() (took time.Duration, err error) {
	var before, after int64 // the other goroutine's, if the limit comes first
	call := func() error {
		before = d.now()
		err := d.syncer.DeviceSynchronize()
		after = d.now()
		return err
	}
	if d.limit <= 0 {
		err = call()
	} else {
		err = d.bounded(call)
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(after - before), nil
}

// bounded makes a call that waits for the device, within the case's wall budget.
func (d *DeviceEvents[E, S]) bounded(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(d.limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return d.lose()
	}
}

// lose notes that the streams cannot be used any more.
func (d *DeviceEvents[E, S]) lose() error {
	d.stuck = &lost{d.limit}
	return d.stuck
}

// Begin implements Backend: it fills the cache where that is asked for, holds the
// stream, and records the start.
func (d *DeviceEvents[E, S]) Begin() error {
	if err := d.prepare(); err != nil {
		return err
	}
	if d.stuck != nil {
		return d.stuck
	}
	anchor := d.streams[0]
	timed := d.stage == stageTimed
	if timed && d.fill() > 0 {
		if err := d.flush(anchor); err != nil {
			return err
		}
	}
	d.held, d.leaked = nil, Unknown
	if timed && d.gateWhy == "" {
		if err := d.hold(anchor); err != nil {
			return err
		}
	}
	if timed && d.held == nil && d.prefill {
		if err := d.spin(min(2*d.queueing+prefillLeast, prefillMost)); err != nil {
			return err
		}
	}
	d.began = d.now()
	err := d.api.EventRecord(d.start, anchor)
	for i, s := range d.streams[1:] {
		if err == nil {
			err = d.api.StreamWaitEvent(s, d.start)
		}
		if err == nil {
			err = d.api.EventRecord(d.begins[i+1], s)
		}
	}
	if err != nil {
		return errors.Join(err, d.release())
	}
	return nil
}

// hold closes the gate. A backend that finds out only now that it has none is
// measured without.
func (d *DeviceEvents[E, S]) hold(stream S) error {
	held, err := d.gate.GateClose(stream, d.watchdog)
	switch {
	case errors.Is(err, events.ErrUnsupported):
		d.gateWhy = oneLine(err)
		return nil
	case err != nil:
		return fmt.Errorf("holding the stream: %w", err)
	}
	d.held = held
	return nil
}

// release ends the hold.
func (d *DeviceEvents[E, S]) release() error {
	if d.held == nil {
		return nil
	}
	held := d.held
	d.held = nil
	err := held.Open()
	if errors.Is(err, events.ErrExpired) {
		return &heldTooLong{err}
	}
	return err
}

// heldTooLong is the watchdog's end of a hold: the function, or something below it,
// has waited for the device that was held for it.
type heldTooLong struct{ err error }

func (h *heldTooLong) Error() string {
	return "the stream was held until the watchdog let it go, so something in the function waits for the device: " + h.err.Error()
}

func (h *heldTooLong) Unwrap() error { return h.err }

// End implements Backend: it records the end, asks whether the start has been reached
// already, lets the stream go and waits for the end.
func (d *DeviceEvents[E, S]) End() error {
	anchor := d.streams[0]
	var err error
	for i, e := range d.ends {
		if err == nil {
			err = d.api.EventRecord(e, d.streams[i])
		}
	}
	for i := 1; i < len(d.ends) && err == nil; i++ {
		err = d.api.StreamWaitEvent(anchor, d.ends[i])
	}
	if err == nil {
		err = d.api.EventRecord(d.end, anchor)
	}
	if err == nil && d.querier != nil {
		var reached bool
		reached, err = d.querier.EventQuery(d.start)
		d.leaked = answer(reached)
	}
	released := d.release()
	if err != nil {
		return errors.Join(err, released)
	}
	if err = d.wait(d.end); err == nil {
		d.complete = time.Duration(d.now() - d.began)
	}
	return errors.Join(released, err)
}

// Collect implements Backend. Duration is the device's. Its metrics are the device's
// and the host's time of the sample, and rates of what the case declares.
func (d *DeviceEvents[E, S]) Collect(iv Interval) (Sample, error) {
	span, err := d.api.EventElapsed(d.start, d.end)
	if err != nil {
		return Sample{}, err
	}
	d.queueing = max(d.queueing, iv.Host)
	s := Sample{
		Duration: span,
		OnDevice: true,
		Complete: d.complete,
		Leaked:   d.leaked,
	}
	if d.stage == stageTimed && iv.Chunk%escapeEvery == 0 {
		if s.Escaped, err = d.look(span); err != nil {
			return Sample{}, err
		}
	}
	d.metrics = d.measures(d.metrics[:0], span, iv)
	// Behind the device's time, before the rates.
	d.metrics = slices.Insert(d.metrics, 1, Metric{Name: "host_overhead_ms", Unit: "ms", Value: Float(float64(max(d.complete-span, 0)) / 1e6)})
	if err = d.lanes(span); err != nil {
		return Sample{}, err
	}
	s.Metrics = d.metrics
	return s, nil
}

// measures adds the device's time of a sample to a list, and rates of what the case
// declares.
func (d *DeviceEvents[E, S]) measures(list []Metric, span time.Duration, iv Interval) []Metric {
	list = append(list, Metric{Name: d.prefix + "_event_ms", Unit: "ms", Value: Float(float64(span) / 1e6)})
	seconds, ops := span.Seconds(), float64(iv.Operations)
	if seconds > 0 && iv.Work.Bytes > 0 {
		list = append(list, Metric{Name: "gpu_gib_s", Unit: "GiB/s", Value: Float(float64(iv.Work.Bytes) * ops / seconds / (1 << 30))})
	}
	if seconds > 0 && iv.Work.Flops > 0 {
		list = append(list, Metric{Name: "gpu_tflops", Unit: "TFLOP/s", Value: Float(iv.Work.Flops * ops / seconds / 1e12)})
	}
	return list
}

// SectionStreams is the section of metrics about the streams of one window.
const SectionStreams = "streams"

// lanes adds the time of each of several streams, and how many of them ran at a time
// on average.
func (d *DeviceEvents[E, S]) lanes(span time.Duration) error {
	var sum time.Duration
	for i := range d.ends {
		own, err := d.api.EventElapsed(d.begins[i], d.ends[i])
		if err != nil {
			return err
		}
		sum += own
		d.metrics = append(d.metrics, Metric{
			Section: SectionStreams, Name: fmt.Sprintf("stream_%d_ms", i), Unit: "ms", Value: Float(float64(own) / 1e6),
		})
	}
	if len(d.ends) > 0 && span > 0 {
		d.metrics = append(d.metrics, Metric{
			Section: SectionStreams, Name: "overlap", Display: "streams at a time", Value: Float(float64(sum) / float64(span)),
		})
	}
	return nil
}
