package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/devevents/profiler"
)

const (
	placedWindows = 50 // of each kind
	// placementWork is long against the bounds. A window behind it can be placed
	// only by comparing the clocks, and the host knows by itself when it began.
	placementWork = time.Millisecond
)

func checkPlacement[E any, S comparable](e *env[E, S]) error {
	stream, evs, err := e.streamAndEvents(1)
	if err != nil {
		return err
	}
	before := e.alive()
	// Anchors come often, so that those windows that wait for one do not wait long.
	prof, err := profiler.New(e.EventApi, profiler.WithAnchorInterval(5*time.Millisecond))
	if err != nil {
		return err
	}
	e.giveBack = append(e.giveBack, prof.Close)
	p := &placing[E, S]{env: e, prof: prof, track: prof.Track(stream, "placed"), stream: stream, reached: evs[0], now: e.clock(prof.Origin())}

	atOnce, _, err := p.bounds("read at once", 0, false)
	if err != nil {
		return err
	}
	followed, _, err := p.bounds("read after an anchor", 0, true)
	if err != nil {
		return err
	}
	behind, unaided, err := p.bounds("behind work", placementWork, false)
	if err != nil && !errors.Is(err, errNoSpin) {
		return err
	}
	all := newSample(slices.Concat(atOnce, followed, behind))
	e.nanoseconds("bound_median", all.median())
	e.nanoseconds("bound_p95", all.quantile(0.95))
	e.nanoseconds("bound_at_once_median", atOnce.median())
	e.nanoseconds("bound_anchor_followed_median", followed.median())
	e.measured("within %v (median; p95 %v) of where the host saw them; read at once %v, after an anchor followed %v (medians)",
		all.median(), all.quantile(0.95), atOnce.median(), followed.median())
	if behind != nil {
		e.nanoseconds("bound_behind_work_median", behind.median())
		e.nanoseconds("bound_behind_work_unaided_median", unaided.median())
		e.measured("behind %v of work %v, and it would be %v without comparing the clocks (medians)", placementWork, behind.median(), unaided.median())
	}
	return e.endProfiler(prof, len(all), before)
}

// placing is windows on one stream whose place the host knows.
type placing[E any, S comparable] struct {
	*env[E, S]
	prof    *profiler.Profiler[S]
	track   *profiler.Track
	stream  S
	reached E
	now     func() time.Time
}

// sighting is a window and what the host saw of it.
type sighting struct {
	measurement profiler.Measurement
	called      time.Time // before the call that opened it
	earliest    time.Time // it cannot have begun before
	over        time.Time // it was over by then
}

// bounds opens windows one after another on an idle stream, each behind work if
// there is any, and gives the bounds that they are placed with, and those that
// the calls alone would give. With followed set they are not asked for before
// they have been placed by themselves, which happens when the clocks were
// compared once more.
func (p *placing[E, S]) bounds(kind string, work time.Duration, followed bool) (aided, unaided sample, err error) {
	ctx, stop := p.limited()
	defer stop()
	var seen []sighting
	for i := range placedWindows {
		if err := p.at("windows %s, %d of %d", kind, i+1, placedWindows); err != nil {
			return nil, nil, err
		}
		s, err := p.window(work)
		if err != nil {
			return nil, nil, err
		}
		seen = append(seen, s)
		if !followed {
			if _, err := s.measurement.Wait(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	for p.prof.Stats().Pending > 0 {
		if err := errors.Join(p.at("waiting for windows to be placed"), ctx.Err()); err != nil {
			return nil, nil, err
		}
		time.Sleep(time.Millisecond)
	}
	for _, s := range seen {
		bound, alone, err := s.check(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("a window %s: %w", kind, err)
		}
		aided, unaided = append(aided, bound), append(unaided, alone)
	}
	return newSample(aided), newSample(unaided), nil
}

// window opens and closes a window and waits until the device has passed it.
func (p *placing[E, S]) window(work time.Duration) (s sighting, err error) {
	s.called = p.now()
	s.earliest = s.called
	busy := func() (time.Duration, error) { return 0, nil }
	if work > 0 {
		spin, err := p.spin(work, p.stream)
		if err != nil {
			return s, err
		}
		busy = spin.Measured
	}
	s.measurement = p.track.Stop(p.track.Start())
	if err = p.EventRecord(p.reached, p.stream); err != nil {
		return s, fmt.Errorf("recording: %w", err)
	}
	if err = p.untilReached(p.reached); err != nil {
		return s, fmt.Errorf("waiting: %w", err)
	}
	s.over = p.now()
	took, err := busy()
	if err != nil {
		return s, fmt.Errorf("asking the device's timer: %w", err)
	}
	// The clocks' rates differ by less than this.
	s.earliest = s.earliest.Add(took - took/1000)
	return s, nil
}

// check compares where a window was placed with what the host saw of it.
func (s sighting) check(ctx context.Context) (bound, alone time.Duration, err error) {
	span, err := s.measurement.Wait(ctx)
	if err != nil {
		return 0, 0, err
	}
	const rounding = time.Microsecond // of stamps
	latest := s.over.Add(-span.Duration)
	within := span.Bound + rounding
	if span.Start.Add(within).Before(s.earliest) || span.Start.Add(-within).After(latest) {
		return 0, 0, fmt.Errorf("it was placed %v, give or take %v, after the call that opened it, and the host saw it begin between %v and %v after that",
			span.Start.Sub(s.called), span.Bound, s.earliest.Sub(s.called), latest.Sub(s.called))
	}
	return span.Bound, latest.Sub(s.called) / 2, nil
}
