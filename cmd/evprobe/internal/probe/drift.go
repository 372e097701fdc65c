package probe

import (
	"fmt"
	"math"
	"time"
)

// maxDrift is what no two clocks of one machine differ by: crystals are within
// 100 ppm, and time services slew the host's clock by at most 500.
const maxDrift = 500.0

// anchor is an event and the host times between which it was reached.
type anchor[E any] struct {
	event  E
	middle time.Time
	width  time.Duration
}

func checkDrift[E any, S comparable](e *env[E, S]) error {
	const tries = 16
	stream, evs, err := e.streamAndEvents(2*tries + 2*trackTries)
	if err != nil {
		return err
	}
	if err := e.at("first anchor"); err != nil {
		return err
	}
	now := e.clock(time.Now())
	first, err := e.bestAnchor(evs[:tries], stream, now)
	if err != nil {
		return err
	}
	places, last, err := e.track(first, evs[2*tries:], stream, now)
	if err != nil {
		return err
	}
	if err := e.at("second anchor"); err != nil {
		return err
	}
	second, err := e.bestAnchor(evs[tries:2*tries], stream, now)
	if err != nil {
		return err
	}
	span, err := e.EventElapsed(first.event, second.event)
	if err != nil {
		return fmt.Errorf("reading the span between the anchors: %w", err)
	}
	rest, err := e.EventElapsed(last.event, second.event)
	if err != nil {
		return fmt.Errorf("reading the span between the anchors: %w", err)
	}
	host := second.middle.Sub(first.middle)
	ppm := float64(span-host) / float64(host) * 1e6
	bound := float64((first.width+second.width)/2+floatStep(span)) / float64(host) * 1e6
	at, off := residuals(append(places, place{host, places[len(places)-1].device + rest}))
	e.readings("clock_residual", at, off)
	e.number("drift_ppm", ppm)
	e.number("drift_bound_ppm", bound)
	e.nanoseconds("host_span", host)
	e.nanoseconds("device_span", span)
	e.nanoseconds("first_bracket", first.width)
	e.nanoseconds("second_bracket", second.width)
	e.measured("%+.1f ppm, give or take %.1f, over %v (brackets of %v and %v)",
		ppm, bound, host.Round(10*time.Millisecond), first.width, second.width)
	switch {
	case math.Abs(ppm)-bound > maxDrift:
		return fmt.Errorf("the device counted %v while the host counted %v", span, host)
	case bound > maxDrift:
		return skipf("the host was too busy to tell: its brackets are %v and %v wide", first.width, second.width)
	}
	return nil
}

// bestAnchor records each event on an idle stream between two readings of the
// host's clock, and keeps the one with the least time in between.
func (e *env[E, S]) bestAnchor(evs []E, stream S, now func() time.Time) (best anchor[E], err error) {
	for i, v := range evs {
		before := now()
		if err := e.EventRecord(v, stream); err != nil {
			return best, fmt.Errorf("recording an anchor: %w", err)
		}
		if err := e.untilReached(v); err != nil {
			return best, fmt.Errorf("waiting for an anchor: %w", err)
		}
		width := now().Sub(before)
		if i == 0 || width < best.width {
			best = anchor[E]{event: v, middle: before.Add(width / 2), width: width}
		}
	}
	return best, nil
}

const (
	tracked    = 30 // anchors between the first and the last
	trackTries = 4  // records for each of them
)

// place is how long after the first anchor another one was, by both clocks.
type place struct{ host, device time.Duration }

// track lets the span of the check pass and takes anchors meanwhile. They do not
// decide anything: they show how the clocks went between the first and the last.
//
// Spans are added up from anchor to anchor, because a long one is rounded to some
// hundred nanoseconds.
func (e *env[E, S]) track(first anchor[E], evs []E, stream S, now func() time.Time) (places []place, last anchor[E], err error) {
	last = first
	var device time.Duration
	for i := range tracked {
		slice := e.settings.DriftSpan / tracked
		if err := e.sleep(slice, time.Duration(tracked-1-i)*slice); err != nil {
			return nil, last, err
		}
		// In turn, so that the last anchor's event keeps its stamp.
		half := evs[i%2*trackTries:][:trackTries]
		next, err := e.bestAnchor(half, stream, now)
		if err != nil {
			return nil, last, err
		}
		step, err := e.EventElapsed(last.event, next.event)
		if err != nil {
			return nil, last, fmt.Errorf("reading the span between two anchors: %w", err)
		}
		device += step
		places = append(places, place{next.middle.Sub(first.middle), device})
		last = next
	}
	return places, last, nil
}

// residuals is how far the device's clock was from the straight line that fits all
// anchors best, at seconds of the host's. The first anchor is at 0 on both.
func residuals(places []place) (at []float64, off []time.Duration) {
	places = append([]place{{}}, places...)
	n := float64(len(places))
	// Of the difference of the clocks, which is small beside them.
	var sumX, sumY, sumXX, sumXY float64
	for _, p := range places {
		x, y := p.host.Seconds(), float64(p.device-p.host)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	slope := 0.0
	if d := n*sumXX - sumX*sumX; d > 0 {
		slope = (n*sumXY - sumX*sumY) / d
	}
	start := (sumY - slope*sumX) / n
	for _, p := range places {
		x := p.host.Seconds()
		at = append(at, x)
		off = append(off, p.device-p.host-time.Duration(math.Round(start+slope*x)))
	}
	return at, off
}

// untilReached polls, where it can, because a wait may sleep and return late.
func (e *env[E, S]) untilReached(event E) error {
	if e.query == nil {
		return e.EventWait(event)
	}
	for e.ctx.Err() == nil {
		if reached, err := e.query.EventQuery(event); reached || err != nil {
			return err
		}
	}
	return e.ctx.Err()
}

// sleep lets d pass, and shows how much is left of it and of what comes after.
func (e *env[E, S]) sleep(d, after time.Duration) error {
	end := time.Now().Add(d)
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := e.at("letting time pass, %v left", (left + after).Round(100*time.Millisecond)); err != nil {
			return err
		}
		select {
		case <-e.ctx.Done():
		case <-time.After(min(left, 100*time.Millisecond)):
		}
	}
}
