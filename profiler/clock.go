package profiler

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/events"
	"example.com/devevents/profiler/internal/clock"
)

// placer puts device times on the host's clock: it takes the anchors that its clock
// reckons with, and keeps their events as long as stamps may be read from them. See
// package clock for what is known and what follows from it.
//
// The harvest's lock guards it.
type placer[E any, S comparable] struct {
	engine *engine[E, S]
	stream S
	probes []*probe[E]
	clock  *clock.Clock
	held   []E // the events of the clock's anchors, in the same order
	spare  []E
	since  int64 // host clock at the first anchor of this epoch; nothing began before the first epoch's
	gaps   []gap // the last times in which the clocks were set apart
	tried  int64 // host clock at the last try, successful or not
	news   bool  // an anchor has come since the last placements
}

const (
	anchorProbes = 4
	anchorsKept  = clock.Kept
	// The best of four brackets is mostly as narrow as any. Where it is wider than the
	// narrowest of the last ones by more than an eighth, up to eight more are tried.
	anchorTries     = 12
	anchorCloseness = 8
	// An idle device answers a probe in about 6 us; a busy one may take a while,
	// which only widens the bracket. Beyond this it is given up.
	probeLimit = int64(time.Millisecond)
	probePolls = 20000
	// maxLink is how far apart anchors may lie for the rate to change once between them at
	// most: a time daemon sets the host's rate each second or less often.
	maxLink = int64(500 * time.Millisecond)
	// The step that is assumed where none shows.
	tickUnknown = 1024
	tickLimit   = 20 * time.Millisecond
	tickTries   = 4096
	tickSingly  = 16
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
	p.clock = clock.New(clock.Config{
		MaxRate: e.cfg.maxRate, Tick: tickUnknown, MinLink: int64(e.cfg.anchorEvery) / 2, MaxLink: maxLink, Skew: e.cfg.skew,
	})
	stream, err := e.api.StreamCreateNonBlocking()
	if err != nil {
		return fmt.Errorf("a stream for comparing the clocks: %w", err)
	}
	p.stream = stream
	for i := range anchorProbes + anchorsKept + 1 {
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
	for _, event := range p.held {
		destroy(event)
	}
	for _, event := range p.spare {
		destroy(event)
	}
	p.probes, p.held, p.spare = nil, nil, nil
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
	// The step may be longer than all of them took: go on until it shows. And events
	// right behind each other may lie apart by the same multiple of it each time: go on
	// a little with some that do not.
	limit := time.Now().Add(tickLimit)
	for tries := 0; (least == 0 && tries < tickTries || tries < tickSingly) && time.Now().Before(limit); tries++ {
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
		p.clock.SetTick(tickUnknown)
	case divisor < 16:
		// Steps that are no whole number of nanoseconds have no common divisor
		// in them: the least span seen is then the safe side.
		p.clock.SetTick(least)
	default:
		p.clock.SetTick(divisor)
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
	narrowest, _ := p.clock.Brackets()
	for try := range anchorTries {
		if try >= anchorProbes && best >= 0 && after-before <= narrowest+narrowest/anchorCloseness {
			break
		}
		i := try % anchorProbes
		if i == best {
			continue // its event is the anchor's, so far
		}
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
	event := p.probes[best].event
	var span int64
	if n := len(p.held); n > 0 {
		read, err := e.api.EventElapsed(p.held[n-1], event)
		if err != nil {
			e.noteFault(err)
			e.count.anchorsMissed.Add(1)
			return
		}
		span, _ = p.clock.Snap(int64(read))
	}
	victim := p.clock.Victim()
	if !p.clock.Add(before, after, span) {
		p.newEpoch("two comparisons of the clocks exclude each other", gap{p.clock.At(p.clock.Len() - 1).Before, after})
		p.clock.Add(before, after, 0)
	} else if victim >= 0 {
		p.spare = append(p.spare, p.held[victim])
		p.held = append(p.held[:victim], p.held[victim+1:]...)
	}
	if len(p.held) == 0 {
		p.since = before
	}
	last := len(p.spare) - 1
	p.probes[best].event = p.spare[last]
	p.spare = p.spare[:last]
	p.held = append(p.held, event)
	p.news = true
	e.count.anchors.Add(1)
	p.publish()
}

// probe is one bracket. The thread is kept, so that nothing but the scheduler
// comes between the reads; a preemption widens the bracket and is seen. Where the
// backend has rounds the thread is prepared for queries once, while the device is on
// its way to the stamp, and not for each of them.
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
	ask := func() (bool, error) { return e.reached(&pr.stamp) }
	if e.rounds != nil {
		if round, err := e.rounds.RoundBegin(); err == nil {
			defer func() { e.noteFault(e.rounds.RoundEnd(round)) }()
			ask = func() (bool, error) { return e.rounds.RoundQuery(round, pr.event) }
		} else if e.noteFault(err) {
			return 0, 0, false
		}
	}
	for range probePolls {
		done, err := ask()
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

// newEpoch forgets every anchor: the clocks were set apart by a suspend, a reset
// or a jump, and what was known before says nothing about now.
func (p *placer[E, S]) newEpoch(why string, when gap) {
	if len(p.gaps) == gapsKept {
		p.gaps = append(p.gaps[:0], p.gaps[1:]...)
	}
	p.gaps = append(p.gaps, when)
	p.spare = append(p.spare, p.held...)
	p.held = p.held[:0]
	p.clock.Reset()
	p.engine.count.contradictions.Add(1)
	if epoch := p.clock.Epoch(); epoch&(epoch-1) == 0 { // the first, the second, the fourth: not one a window
		p.engine.cfg.log.Warn("the host's and the device's clock contradict each other; a new epoch begins",
			zap.String("reason", why), zap.Uint32("epoch", epoch))
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
	w := placement{epoch: p.clock.Epoch(), took: int64(took), began: began, seen: seen}
	if most := float64(seen-began)*(1+p.engine.cfg.maxRate) + float64(2*p.clock.Tick()); float64(took)*(1-clock.FloatError) > most {
		return w, fmt.Errorf("%w: %v on the device between a record and its completion that lie %v apart on the host", events.ErrBadReading, took, time.Duration(seen-began))
	}
	if err := p.torn(began, seen); err != nil {
		return w, err
	}
	if w.epoch > 0 && began < p.since {
		return w, nil
	}
	earlier, later := -1, -1
	for i := p.clock.Len() - 1; i >= 0; i-- {
		if p.clock.At(i).After <= began {
			earlier = i
			break
		}
		if p.clock.At(i).Before >= seen {
			later = i
		}
	}
	if earlier >= 0 && later >= 0 && p.clock.At(later).Before-seen+int64(took) < began-p.clock.At(earlier).After {
		earlier = -1
	}
	var err error
	switch {
	case earlier >= 0:
		err = p.readFrom(&w, earlier, start, true)
	case later >= 0:
		err = p.readFrom(&w, later, start, false)
	}
	if err != nil || !w.located || w.slack == 0 {
		return w, err
	}
	// What has waited long on the device lies far from the anchor that is certain, and
	// nearer to another of which it is known by now on which side it lies.
	near := p.nearest(w.x)
	if apart := w.x - p.clock.At(near).X; near != earlier && near != later && math.Abs(float64(apart)) > 2*w.slack+float64(2*p.clock.Tick()) {
		err = p.readFrom(&w, near, start, apart > 0)
	}
	return w, err
}

// readFrom reads a start's distance from an anchor, which lies before it or behind it.
func (p *placer[E, S]) readFrom(w *placement, anchor int, start E, before bool) error {
	from, to := p.held[anchor], start
	if !before {
		from, to = start, p.held[anchor]
	}
	read, err := p.engine.api.EventElapsed(from, to)
	if err != nil {
		return err
	}
	span, slack := p.clock.Snap(int64(read))
	if slack > 0 {
		// That of the chain from there to the anchors near the start is as much again,
		// and half a nanosecond for each link between.
		slack = 2*slack + anchorsKept/8
	}
	if !before {
		span = -span
	}
	w.x, w.slack, w.located = p.clock.At(anchor).X+span, slack, true
	return nil
}

// nearest is the anchor that lies nearest to a device time.
func (p *placer[E, S]) nearest(x int64) int {
	best, apart := 0, int64(math.MaxInt64)
	for i := p.clock.Len() - 1; i >= 0; i-- {
		d := x - p.clock.At(i).X
		if d < 0 {
			d = -d
		}
		if d > apart {
			break // they only get farther
		}
		best, apart = i, d
	}
	return best
}

// settles reports whether waiting for more anchors would not place a window better.
func (p *placer[E, S]) settles(w placement) bool {
	return w.epoch != p.clock.Epoch() || !w.located || p.clock.Settles(w.x)
}

// place gives a window's start on the host's clock and the bound that the truth
// lies in.
func (p *placer[E, S]) place(w placement) (clock.Placement, error) {
	if err := p.torn(w.began, w.seen); err != nil {
		return clock.Placement{}, err
	}
	took := float64(w.took)
	// It ended when it was seen or before, so it began so long before that.
	latest := w.seen - w.began - w.took + p.clock.Tick() + int64(math.Ceil((p.engine.cfg.maxRate+clock.FloatError)*took))
	at, ok := p.clock.Place(clock.Stamp{
		X: w.x, Slack: w.slack, Known: w.located && w.epoch == p.clock.Epoch(),
		Low: w.began, High: w.began + max(latest, 0),
	})
	if !ok {
		p.newEpoch("a window lies outside of what the comparisons of the clocks allow", gap{w.began, w.seen})
		p.take()
		return clock.Placement{}, errTorn
	}
	if at.Clamped {
		p.engine.count.clamped.Add(1)
	}
	return at, nil
}

// publish makes the clock's state known to whoever asks for it.
func (p *placer[E, S]) publish() {
	best, last := p.clock.Brackets()
	ppm, uncertainty := p.clock.Drift()
	state := &p.engine.clockState
	state.Lock()
	defer state.Unlock()
	state.known = ClockStats{
		Tick: time.Duration(p.clock.Tick()), BestBracket: time.Duration(best), LastBracket: time.Duration(last),
		DriftPPM: ppm, DriftUncertaintyPPM: uncertainty, Epoch: p.clock.Epoch(),
	}
}
