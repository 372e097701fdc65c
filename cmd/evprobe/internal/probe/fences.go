package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/fence"
)

const (
	fenceRounds  = 20
	fenceWork    = time.Millisecond
	fenceWaiters = 100
	// watchFor is how long a fence that must not be reached is watched.
	watchFor = 5 * time.Millisecond
)

func checkFence[E any, S comparable](e *env[E, S]) error {
	ahead, marks, err := e.streamAndEvents(2)
	if err != nil {
		return err
	}
	behind, err := e.stream()
	if err != nil {
		return err
	}
	before := e.alive()
	var opts []fence.Option
	if e.query != nil || e.rounds != nil {
		// A thread in the driver would find out where a broken query does not.
		opts = append(opts, fence.WithBlockingThreads(0))
	}
	fences, err := fence.New(e.EventApi, opts...)
	if err != nil {
		return fmt.Errorf("preparing fences: %w", err)
	}
	e.giveBack = append(e.giveBack, fences.Close)

	if err := e.wakeUps(fences, ahead); err != nil {
		return err
	}
	unseen := e.heldFences(fences, ahead, behind, marks)
	if unseen != nil && !errors.Is(unseen, errNoHold) {
		return unseen
	}
	if err := e.at("closing the fences"); err != nil {
		return err
	}
	if err := fences.Close(); err != nil {
		return err
	}
	if err := e.noneLeft(before); err != nil {
		return err
	}
	return unseen
}

// wakeUps waits for fences, one after another, each behind work where the
// backend has it.
func (e *env[E, S]) wakeUps(fences *fence.Source[S], stream S) error {
	ctx, stop := e.limited()
	defer stop()
	var over []time.Duration
	for i := range fenceRounds {
		if err := e.at("waiting for fence %d of %d", i+1, fenceRounds); err != nil {
			return err
		}
		began := time.Now()
		spin, err := e.spin(fenceWork, stream)
		if err != nil && !errors.Is(err, errNoSpin) {
			return err
		}
		f, err := fences.Record(stream)
		if err != nil {
			return err
		}
		if err := f.Wait(ctx); err != nil {
			return err
		}
		if spin == nil {
			continue
		}
		late, err := overtime(spin, fenceWork, time.Since(began))
		if err != nil {
			return err
		}
		over = append(over, late)
	}
	e.count("fences", fenceRounds)
	if over == nil {
		e.measured("%d waits returned; the backend cannot queue work to wait for", fenceRounds)
		return nil
	}
	late := newSample(over)
	e.nanoseconds("work", fenceWork)
	e.nanoseconds("queueing_and_wakeup_median", late.median())
	e.nanoseconds("queueing_and_wakeup_p95", late.quantile(0.95))
	e.measured("%d waits, each for %v of work, returned %v after it (median, queueing included; p95 %v)",
		fenceRounds, fenceWork, late.median(), late.quantile(0.95))
	return nil
}

// heldFences records a fence on a stream that is held back, and one on a stream
// that waits for it, and looks at both and at those who wait for them, before and
// after the stream is let go.
func (e *env[E, S]) heldFences(fences *fence.Source[S], ahead, behind S, marks []E) error {
	if err := e.at("recording a fence behind held work"); err != nil {
		return err
	}
	release, err := e.hold(ahead)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	first, second, err := e.chained(fences, ahead, behind, marks)
	if err != nil {
		return err
	}

	ctx, stop := e.limited()
	defer stop()
	all, follower := waitAll(ctx, first, fenceWaiters), waitAll(ctx, second, 1)
	leaving, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := waitAll(leaving, first, 1)
	if err := e.at("watching fences that must not be reached"); err != nil {
		return err
	}
	time.Sleep(watchFor)
	if err := notReached(first, second); err != nil {
		return err
	}
	asked := time.Now()
	cancel()
	if err := e.at("waiting for a cancelled wait"); err != nil {
		return err
	}
	switch err := returned(ctx, gone); {
	case err == nil:
		return errors.New("a wait that was cancelled while the stream was held back says that the fence is reached")
	case !errors.Is(err, context.Canceled):
		return fmt.Errorf("a wait that was cancelled while the stream was held back: %w", err)
	}
	e.nanoseconds("cancel", time.Since(asked))
	if err := notReached(first, second); err != nil {
		return fmt.Errorf("after another wait was cancelled: %w", err)
	}

	opened := time.Now()
	if err := release(); err != nil {
		return fmt.Errorf("the stream was let go while it was watched: %w", err)
	}
	for i := range fenceWaiters {
		if err := e.at("waiting for waiter %d of %d", i+1, fenceWaiters); err != nil {
			return err
		}
		if err := returned(ctx, all); err != nil {
			return fmt.Errorf("waiter %d of %d after the stream was let go: %w", i+1, fenceWaiters, err)
		}
	}
	woken := time.Since(opened)
	if err := returned(ctx, follower); err != nil {
		return fmt.Errorf("a fence on the stream that waited: %w", err)
	}
	lag, err := e.lag(marks[0], marks[1])
	if err != nil {
		return err
	}
	e.count("waiters", fenceWaiters)
	e.nanoseconds("all_waiters", woken)
	e.nanoseconds("stream_lag", lag)
	e.measured("%d waiters of one fence returned within %v; a stream that waited for it went on %v after it", fenceWaiters, woken, lag)
	return nil
}

// chained records a fence on one stream and makes another wait for it, which then
// records one too. A mark goes before either.
func (e *env[E, S]) chained(fences *fence.Source[S], ahead, behind S, marks []E) (first, second *fence.Fence, err error) {
	if err = e.EventRecord(marks[0], ahead); err != nil {
		return nil, nil, fmt.Errorf("recording: %w", err)
	}
	if first, err = fences.Record(ahead); err != nil {
		return nil, nil, err
	}
	if err = fences.WaitOn(first, behind); err != nil {
		return nil, nil, err
	}
	if err = e.EventRecord(marks[1], behind); err != nil {
		return nil, nil, fmt.Errorf("recording: %w", err)
	}
	second, err = fences.Record(behind)
	return first, second, err
}

// waitAll lets n goroutines wait for a fence, until ctx is done at the latest.
func waitAll(ctx context.Context, f *fence.Fence, n int) <-chan error {
	results := make(chan error, n)
	for range n {
		go func() { results <- f.Wait(ctx) }()
	}
	return results
}

// returned is what the next of some waits came back with.
func returned(ctx context.Context, waits <-chan error) error {
	select {
	case err := <-waits:
		return err
	case <-ctx.Done():
		return fmt.Errorf("it did not return: %w", ctx.Err())
	}
}

// notReached fails if one of two fences is taken for reached.
func notReached(first, second *fence.Fence) error {
	pending := func(what string, f *fence.Fence) error {
		err := f.Err()
		switch {
		case err == nil:
			return fmt.Errorf("%s was reached while the stream was held back", what)
		case !errors.Is(err, events.ErrNotReady):
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	return errors.Join(pending("the fence behind held work", first), pending("a fence on the stream that waits for it", second))
}
