package profiler

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/events"
)

// placer puts device times on the host's clock.
//
// Known for certain is only this: an event's stamp lies between the host times
// read before the call that recorded it and after the first query that found it
// reached. An anchor is such a bracket made as narrow as possible, on a stream of
// our own. A device time x is dx away from an anchor's on the device's clock,
// so its host time lies dx away from the bracket, give or take what the clocks'
// rates can differ over dx. The anchors before and after a window and the
// window's own record and first-seen times each give such an interval; the
// truth lies in all of them, so the answer is the middle of what they share and
// the bound half of it.
//
// The harvest's lock guards it.
type placer[E any, S comparable] struct {
	engine  *engine[E, S]
	stream  S
	probes  []*probe[E]
	anchors []anchor[E] // of this epoch, oldest first
	spare   []E
	epoch   uint32
	since   int64 // host clock at the first anchor of this epoch; nothing began before the first epoch's
	gaps    []gap // the last times in which the clocks were set apart
	tick    int64 // the step of the device's stamps
	tried   int64 // host clock at the last try, successful or not
}

const (
	anchorProbes = 4
	anchorsKept  = 64
	// An idle device answers a probe in about 6 us; a busy one may take a while,
	// which only widens the bracket. Beyond this it is given up.
	probeLimit = int64(time.Millisecond)
	probePolls = 20000
	// floatError is half a step of the vendor's float32 milliseconds, relative to
	// the reading.
	floatError = 6e-8
	// The step that is assumed where none shows.
	tickUnknown = 1024
	tickLimit   = 20 * time.Millisecond
	tickTries   = 4096
)

// gap is a span of the host's clock in which the clocks were set apart at some
// moment. A window that overlaps it may have been read across that moment.
type gap struct{ from, to int64 }

const gapsKept = 16

// probe is an event on the private stream.
type probe[E any] struct {
	stamp[E]
	late bool // given up; not to be recorded again before it is reached
}

// anchor is one comparison of the clocks.
type anchor[E any] struct {
	event         E
	before, after int64 // host clock
	x             int64 // device clock, nanoseconds in this epoch
}

// placement is what is known of a window's start.
type placement struct {
	epoch   uint32
	located bool // x is known
	x       int64
	slack   float64 // how far x may be off by the readings' rounding
	took    int64
	began   int64 // host clock before the record call
	seen    int64 // host clock when the end was first seen
}

// open makes the private stream and its events and takes the first anchor.
func (p *placer[E, S]) open(e *engine[E, S]) error {
	p.engine = e
	stream, err := e.api.StreamCreateNonBlocking()
	if err != nil {
		return fmt.Errorf("a stream for comparing the clocks: %w", err)
	}
	p.stream = stream
	for i := range anchorProbes + anchorsKept {
		event, err := e.api.EventCreate()
		if err != nil {
			p.close()
			return fmt.Errorf("events for comparing the clocks: %w", err)
		}
		if i < anchorProbes {
			p.probes = append(p.probes, &probe[E]{stamp: stamp[E]{event: event}})
		} else {
			p.spare = append(p.spare, event)
		}
	}
	if err := p.measureTick(); err != nil {
		p.close()
		return fmt.Errorf("first use of the device: %w", err)
	}
	p.take()
	return nil
}

func (p *placer[E, S]) close() {
	e := p.engine
	destroy := func(event E) {
		if err := e.api.EventDestroy(event); err != nil {
			e.count.destroyFailed.Add(1)
			e.noteFailure(err)
		}
	}
	for _, pr := range p.probes {
		destroy(pr.event)
	}
	for _, a := range p.anchors {
		destroy(a.event)
	}
	for _, event := range p.spare {
		destroy(event)
	}
	p.probes, p.anchors, p.spare = nil, nil, nil
	if err := e.api.StreamDestroy(p.stream); err != nil {
		e.count.destroyFailed.Add(1)
		e.noteFailure(err)
	}
}

// measureTick finds the step of the device's stamps, which every bound includes:
// the greatest common divisor of the spans between some events in a row. It also
// warms the paths up that anchors take.
func (p *placer[E, S]) measureTick() error {
	api := p.engine.api
	n := min(16, len(p.spare))
	for _, event := range p.spare[:n] {
		if err := api.EventRecord(event, p.stream); err != nil {
			return err
		}
	}
	if err := api.EventWait(p.spare[n-1]); err != nil {
		return err
	}
	var divisor, least int64
	note := func(event E) error {
		span, err := api.EventElapsed(p.spare[0], event)
		if step := int64(span); step > 0 {
			if least == 0 || step < least {
				least = step
			}
			for a, b := divisor, step; ; a, b = b, a%b {
				if b == 0 {
					divisor = a
					break
				}
			}
		}
		return err
	}
	for _, event := range p.spare[1:n] {
		if err := note(event); err != nil {
			return err
		}
	}
	// The step may be longer than all of them took: go on until it shows.
	limit := time.Now().Add(tickLimit)
	for tries := 0; least == 0 && tries < tickTries && time.Now().Before(limit); tries++ {
		last := p.spare[n-1]
		if err := api.EventRecord(last, p.stream); err != nil {
			return err
		}
		if err := api.EventWait(last); err != nil {
			return err
		}
		if err := note(last); err != nil {
			return err
		}
	}
	switch {
	case least == 0: // they all read the same
		p.tick = tickUnknown
	case divisor < 16:
		// Steps that are no whole number of nanoseconds have no common divisor
		// in them: the least span seen is then the safe side.
		p.tick = least
	default:
		p.tick = divisor
	}
	return nil
}

// refresh takes an anchor if the last one is old; with now set, one that follows
// every window seen so far.
func (p *placer[E, S]) refresh(now bool) {
	age := p.engine.now() - p.tried
	if age >= int64(p.engine.cfg.anchorEvery) || now && age >= int64(time.Millisecond) {
		p.take()
	}
}

// take compares the clocks: the narrowest of a few brackets. The device being
// too busy to answer costs only that no anchor is made.
func (p *placer[E, S]) take() {
	e := p.engine
	p.tried = e.now()
	if e.fault.Load() != nil {
		return
	}
	best := -1
	var before, after int64
	for i := range p.probes {
		t0, t1, ok := p.probe(p.probes[i])
		if ok && (best < 0 || t1-t0 < after-before) {
			best, before, after = i, t0, t1
		}
		if p.probes[i].late {
			break // the device is busy; more of the same would only burn the host
		}
	}
	if best < 0 {
		e.count.anchorsMissed.Add(1)
		return
	}
	if len(p.spare) == 0 {
		p.spare = append(p.spare, p.anchors[0].event)
		p.anchors = append(p.anchors[:0], p.anchors[1:]...)
	}
	a := anchor[E]{event: p.probes[best].event, before: before, after: after}
	if n := len(p.anchors); n > 0 {
		last := p.anchors[n-1]
		dx, err := e.api.EventElapsed(last.event, a.event)
		if err != nil {
			e.noteFault(err)
			e.count.anchorsMissed.Add(1)
			return
		}
		a.x = last.x + int64(dx)

		if p.contradicts(last, a, int64(dx)) {
			p.newEpoch("two comparisons of the clocks exclude each other", gap{last.before, a.after})
			a.x = 0
		}
	}
	if len(p.anchors) == 0 {
		p.since = before
	}
	last := len(p.spare) - 1
	p.probes[best].event = p.spare[last]
	p.spare = p.spare[:last]
	p.anchors = append(p.anchors, a)
	e.count.anchors.Add(1)
}

// probe is one bracket. The thread is kept, so that nothing but the scheduler
// comes between the reads; a preemption widens the bracket and is seen.
func (p *placer[E, S]) probe(pr *probe[E]) (before, after int64, ok bool) {
	e := p.engine
	if pr.late {
		if done, err := e.reached(&pr.stamp); !done || err != nil {
			e.noteFault(err)
			return 0, 0, false
		}
		pr.late = false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before = e.now()
	if err := e.api.EventRecord(pr.event, p.stream); err != nil {
		e.noteFault(err)
		return 0, 0, false
	}
	pr.late = true
	for range probePolls {
		done, err := e.reached(&pr.stamp)
		after = e.now()
		if err != nil {
			e.noteFault(err)
			return 0, 0, false
		}
		if done {
			pr.late = false
			return before, after, true
		}
		if after-before > probeLimit {
			break
		}
	}
	return 0, 0, false
}

// contradicts reports whether two anchors cannot both be true.
func (p *placer[E, S]) contradicts(a, b anchor[E], dx int64) bool {
	slack := p.engine.cfg.maxRate*float64(dx) + floatError*float64(dx) + float64(2*p.tick)
	return float64(b.before-a.after)-slack > float64(dx) || float64(b.after-a.before)+slack < float64(dx)
}

// newEpoch forgets every anchor: the clocks were set apart by a suspend, a reset
// or a jump, and what was known before says nothing about now.
func (p *placer[E, S]) newEpoch(why string, when gap) {
	if len(p.gaps) == gapsKept {
		p.gaps = append(p.gaps[:0], p.gaps[1:]...)
	}
	p.gaps = append(p.gaps, when)
	for _, a := range p.anchors {
		p.spare = append(p.spare, a.event)
	}
	p.anchors = p.anchors[:0]
	p.epoch++
	p.engine.count.contradictions.Add(1)
	if p.epoch&(p.epoch-1) == 0 { // the first, the second, the fourth: not one a window
		p.engine.cfg.log.Warn("the host's and the device's clock contradict each other; a new epoch begins",
			zap.String("reason", why), zap.Uint32("epoch", p.epoch))
	}
}

// errTorn is one value for all: on a device whose clock is no clock it is the answer
// for every window.
var errTorn = fmt.Errorf("profiler: %w: the device's clock and the host's were set apart while the window was open or unread", events.ErrBadReading)

// torn reports whether a window lies, by the host's clock, where the clocks were set
// apart. What its events say of its length is then worth nothing.
func (p *placer[E, S]) torn(began, seen int64) error {
	for _, g := range p.gaps {
		if began < g.to && seen > g.from {
			return errTorn
		}
	}
	return nil
}

// locate finds a window's start on the device's clock while its events can still
// be read. Only differences to an anchor that is certainly earlier or certainly
// later are asked for: the sign of a reading is not to be relied on. A window that
// began before a later epoch's first anchor may lie on the other side of what set
// the clocks apart, so nothing is known of it but its own times.
func (p *placer[E, S]) locate(start E, began, seen int64, took time.Duration) (placement, error) {
	w := placement{epoch: p.epoch, took: int64(took), began: began, seen: seen}
	if most := float64(seen-began)*(1+p.engine.cfg.maxRate) + float64(2*p.tick); float64(took)*(1-floatError) > most {
		return w, fmt.Errorf("%w: %v on the device between a record and its completion that lie %v apart on the host", events.ErrBadReading, took, time.Duration(seen-began))
	}
	if err := p.torn(began, seen); err != nil {
		return w, err
	}
	if p.epoch > 0 && began < p.since {
		return w, nil
	}
	earlier, later := -1, -1
	for i := len(p.anchors) - 1; i >= 0; i-- {
		if p.anchors[i].after <= began {
			earlier = i
			break
		}
		if p.anchors[i].before >= seen {
			later = i
		}
	}
	if earlier >= 0 && later >= 0 && p.anchors[later].before-seen+int64(took) < began-p.anchors[earlier].after {
		earlier = -1
	}
	switch {
	case earlier >= 0:
		dx, err := p.engine.api.EventElapsed(p.anchors[earlier].event, start)
		if err != nil {
			return w, err
		}
		w.x, w.located = p.anchors[earlier].x+int64(dx), true
		w.slack = 2*floatError*float64(dx) + anchorsKept/2
	case later >= 0:
		dx, err := p.engine.api.EventElapsed(start, p.anchors[later].event)
		if err != nil {
			return w, err
		}
		w.x, w.located = p.anchors[later].x-int64(dx), true
		w.slack = 2*floatError*float64(dx) + anchorsKept/2
	}
	return w, nil
}

// followed reports whether an anchor follows the window, so that waiting for
// another would not place it better.
func (p *placer[E, S]) followed(w placement) bool {
	n := len(p.anchors)
	return w.epoch != p.epoch || !w.located || n > 0 && p.anchors[n-1].x > w.x
}

// place gives a window's start on the host's clock and the bound that the truth
// lies in.
func (p *placer[E, S]) place(w placement) (at int64, bound time.Duration, epoch uint32, err error) {
	if err := p.torn(w.began, w.seen); err != nil {
		return 0, 0, 0, err
	}
	rate, tick := p.engine.cfg.maxRate, float64(p.tick)
	// What the window itself shows. Host times count from the record call here: a
	// float64 does not hold every nanosecond of a clock with a distant origin.
	took := float64(w.took)
	low := 0.0
	high := math.Max(low, float64(w.seen-w.began)-took+tick+(rate+floatError)*took)
	if w.located && w.epoch == p.epoch {
		for _, a := range p.neighbours(w.x) {
			dx := float64(w.x - a.x)
			slack := rate*math.Abs(dx) + w.slack + floatError*math.Abs(dx) + tick
			low = math.Max(low, float64(a.before-w.began)+dx-slack)
			high = math.Min(high, float64(a.after-w.began)+dx+slack)
		}
		if low > high {
			p.newEpoch("a window lies outside of what the comparisons of the clocks allow", gap{w.began, w.seen})
			p.take()
			return 0, 0, 0, errTorn
		}
	}
	half := (high - low) / 2
	return w.began + int64(math.Round(low+half)), time.Duration(math.Ceil(half)) + 1, w.epoch, nil
}

// neighbours are the anchors on both sides of a device time.
func (p *placer[E, S]) neighbours(x int64) []anchor[E] {
	i := len(p.anchors)
	for i > 0 && p.anchors[i-1].x > x {
		i--
	}
	return p.anchors[max(i-1, 0):min(i+1, len(p.anchors))]
}
