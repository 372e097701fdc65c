package probe

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
)

func checkHandles[E any, S comparable](e *env[E, S]) error {
	const n = 1000
	stream, err := e.stream()
	if err != nil {
		return err
	}
	before := e.alive()
	if err := e.at("making and destroying %d events", n); err != nil {
		return err
	}
	began := time.Now()
	if err := e.makeAndDestroy(n, func(E) error { return nil }); err != nil {
		return err
	}
	each := time.Since(began) / n
	e.count("events", n)
	e.nanoseconds("make_and_destroy_mean", each)

	pending := 0
	release, err := e.hold(stream)
	switch {
	case err == nil:
		defer func() { _ = release() }()
		if err := e.at("destroying pending events"); err != nil {
			return err
		}
		pending = 100
		err := e.makeAndDestroy(pending, func(v E) error { return e.EventRecord(v, stream) })
		if ended := e.at("letting the held stream go"); ended != nil {
			return ended
		}
		if err := errors.Join(err, release()); err != nil {
			return fmt.Errorf("events that the device has not reached: %w", err)
		}
	case !errors.Is(err, errNoHold):
		return err
	}
	e.count("pending_events", pending)
	if err := e.at("synchronizing the stream"); err != nil {
		return err
	}
	if err := e.StreamSynchronize(stream); err != nil {
		return fmt.Errorf("synchronizing the stream: %w", err)
	}

	e.measured("%d events, %v each; %d destroyed while pending", n, each, pending)
	return e.noneLeft(before)
}

// makeAndDestroy makes n events, uses each, and destroys each twice.
func (e *env[E, S]) makeAndDestroy(n int, use func(E) error) (err error) {
	made := make([]E, 0, n)
	defer func() {
		for round := range 2 {
			for i, v := range made {
				if bad := e.EventDestroy(v); bad != nil {
					err = errors.Join(err, fmt.Errorf("destroying event %d, time %d: %w", i+1, round+1, bad))
					return
				}
			}
		}
	}()
	for i := range n {
		v, err := e.EventCreate()
		if err != nil {
			return fmt.Errorf("making event %d of %d: %w", i+1, n, err)
		}
		made = append(made, v)
		if err := use(v); err != nil {
			return fmt.Errorf("using event %d: %w", i+1, err)
		}
	}
	return nil
}

// settled waits a moment for no more to be alive than before: an event that is
// destroyed while something still uses it goes a little later.
func (e *env[E, S]) settled(before events.Stats) (events.Stats, error) {
	deadline := time.Now().Add(time.Second)
	for {
		now := e.stats.EventStats()
		if now.LiveEvents <= before.LiveEvents && now.LiveStreams <= before.LiveStreams || time.Now().After(deadline) {
			return now, nil
		}
		if err := e.at("waiting for destroyed handles to go"); err != nil {
			return now, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// checkLeftovers is the last check: it looks back at all of them.
func checkLeftovers[E any, S comparable](e *env[E, S]) error {
	if e.stats == nil {
		return skipf("the backend does not count what is alive (no StatsReader)")
	}
	after, err := e.settled(e.before)
	if err != nil {
		return err
	}
	liveEvents, liveStreams := after.LiveEvents-e.before.LiveEvents, after.LiveStreams-e.before.LiveStreams
	failed := after.DestroyFailed - e.before.DestroyFailed
	clamped, provoked := after.Clamped-e.before.Clamped, e.provoked.Load()
	e.number("live_events_delta", float64(liveEvents))
	e.number("live_streams_delta", float64(liveStreams))
	e.number("destroys_failed", float64(failed))
	e.number("clamped_readings", float64(clamped))
	e.number("clamps_provoked", float64(provoked))
	e.measured("%d events and %d streams left, %d destroys failed; %d readings clamped, %d of them on purpose",
		liveEvents, liveStreams, failed, clamped, provoked)
	if liveEvents != 0 || liveStreams != 0 || failed != 0 {
		return errors.New("something was left behind or could not be destroyed")
	}
	return nil
}
