package probe

import (
	"errors"
	"fmt"
	"time"
)

func checkClamp[E any, S comparable](e *env[E, S]) error {
	stream, evs, err := e.streamAndEvents(2)
	if err != nil {
		return err
	}
	earlier, later := evs[0], evs[1]
	if err := e.recordAndWait(earlier, stream); err != nil {
		return err
	}
	if _, err := e.spin(100*time.Microsecond, stream); err != nil && !errors.Is(err, errNoSpin) {
		return err
	}
	if err := e.recordAndWait(later, stream); err != nil {
		return err
	}
	if err := e.at("reading swapped events"); err != nil {
		return err
	}
	forward, err := e.EventElapsed(earlier, later)
	if err != nil {
		return fmt.Errorf("reading the span: %w", err)
	}
	if forward <= 0 {
		return fmt.Errorf("two events with a host wait between them read %v apart", forward)
	}
	var before uint64
	if e.stats != nil {
		before = e.clamped()
	}
	backward, err := e.EventElapsed(later, earlier)
	if err != nil {
		return fmt.Errorf("reading swapped events: %w", err)
	}
	e.nanoseconds("forward", forward)
	e.nanoseconds("swapped", backward)
	if e.stats == nil {
		e.measured("forward %v, swapped %v; the backend does not count clamps", forward, backward)
	} else {
		counted := e.clamped() - before
		e.provoked.Add(counted)
		e.number("counted", float64(counted))
		e.measured("forward %v, swapped %v, counted %d", forward, backward, counted)
		if counted != 1 {
			return fmt.Errorf("one swapped reading was counted %d times", counted)
		}
	}
	if backward != 0 {
		return fmt.Errorf("swapped events read %v, not 0", backward)
	}
	return nil
}

func checkStreamOrder[E any, S comparable](e *env[E, S]) error {
	const (
		rounds = 20
		// Where only work can hold a stream back there is time for few rounds.
		budget = time.Second
	)
	ahead, evs, err := e.streamAndEvents(2)
	if err != nil {
		return err
	}
	behind, err := e.stream()
	if err != nil {
		return err
	}
	var lags []time.Duration
	enough := time.Now().Add(budget)
	for i := range rounds {
		if err := e.at("round %d of %d", i+1, rounds); err != nil {
			return err
		}
		lag, err := e.followed(ahead, behind, evs[0], evs[1])
		if errors.Is(err, errNoHold) {
			return err
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		lags = append(lags, lag)
		if time.Now().After(enough) {
			break
		}
	}
	lag := newSample(lags)
	e.count("rounds", len(lags))
	e.nanoseconds("lag_median", lag.median())
	e.nanoseconds("lag_min", lag.quantile(0))
	e.nanoseconds("lag_p95", lag.quantile(0.95))
	e.measured("%d times after the event, by %v (median; min %v, p95 %v)", len(lags), lag.median(), lag.quantile(0), lag.quantile(0.95))
	return nil
}

// followed holds one stream back, lets the other wait for its event, and says
// how much later the other went on.
func (e *env[E, S]) followed(ahead, behind S, first, second E) (time.Duration, error) {
	release, err := e.hold(ahead)
	if err != nil {
		return 0, err
	}
	defer func() { _ = release() }()
	if err := e.EventRecord(first, ahead); err != nil {
		return 0, fmt.Errorf("recording: %w", err)
	}
	if err := e.StreamWaitEvent(behind, first); err != nil {
		return 0, fmt.Errorf("making a stream wait: %w", err)
	}
	if err := e.EventRecord(second, behind); err != nil {
		return 0, fmt.Errorf("recording: %w", err)
	}
	// A stream that does not wait needs a moment to show it.
	pause(50 * time.Microsecond)
	if e.query != nil {
		reached, err := e.query.EventQuery(second)
		if err != nil {
			return 0, fmt.Errorf("querying: %w", err)
		}
		if reached {
			return 0, errors.New("the waiting stream went on while the other one was held back")
		}
	}
	if err := release(); err != nil {
		return 0, fmt.Errorf("the stream was let go while the other was made to wait: %w", err)
	}
	return e.lag(first, second)
}

// lag waits for an event and for one that a stream recorded which waited for it,
// and says by how much the second came later.
func (e *env[E, S]) lag(first, second E) (time.Duration, error) {
	for _, v := range []E{second, first} { // if the order is broken, the second says nothing of the first
		if err := e.EventWait(v); err != nil {
			return 0, fmt.Errorf("waiting: %w", err)
		}
	}
	lag, err := e.EventElapsed(first, second)
	if err != nil {
		return 0, fmt.Errorf("reading the lag: %w", err)
	}
	if lag > 0 {
		return lag, nil
	}
	// A lag of 0 may be a clamped one.
	early, err := e.EventElapsed(second, first)
	if err != nil {
		return 0, fmt.Errorf("reading the lag: %w", err)
	}
	if early > 0 {
		return 0, fmt.Errorf("the waiting stream went on %v before the event that it waited for", early)
	}
	return 0, nil
}
