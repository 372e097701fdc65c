package probe

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"example.com/devevents/events"
)

const (
	pollers = 4
	polls   = 250 // queries, and as many waits, of each
)

func checkCapture[E any, S comparable](e *env[E, S]) error {
	if e.graphs == nil {
		return skipf("the backend cannot capture graphs (no Graphs)")
	}
	captured, marks, err := e.streamAndEvents(2)
	if err != nil {
		return err
	}
	others, err := e.events(pollers)
	if err != nil {
		return err
	}
	streams := make([]S, pollers)
	for i := range streams {
		if streams[i], err = e.stream(); err != nil {
			return err
		}
	}

	// A capture belongs to the thread that began it. The pollers are other
	// goroutines, so they run on other threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := e.at("beginning a capture"); err != nil {
		return err
	}
	if err := e.graphs.CaptureBegin(captured, events.CaptureGlobal); err != nil {
		return fmt.Errorf("beginning a capture: %w", err)
	}
	marked, inside := e.fill(captured, marks)
	_ = e.at("querying and waiting beside a capture") // even if the run has ended, the capture must be
	failed := make([]error, pollers)
	var all sync.WaitGroup
	for i := range pollers {
		all.Go(func() { failed[i] = guard(func() error { return e.poll(others[i], streams[i]) }) })
	}
	all.Wait()
	beside := errors.Join(failed...)
	_ = e.at("ending the capture")
	graph, err := e.graphs.CaptureEnd(captured)
	if err != nil {
		return fmt.Errorf("the capture did not survive: %w", errors.Join(err, inside, beside))
	}
	defer func() { _ = graph.Close() }()

	e.count("queries_and_waits", pollers*polls)
	switch {
	case inside != nil:
		return inside
	case beside != nil:
		return fmt.Errorf("beside the capture: %w", beside)
	case !marked:
		e.measured("the capture survived %d queries and waits; the backend records no events into graphs", pollers*polls)
		return graph.Close()
	}
	span, err := e.launch(graph, captured, marks)
	if err != nil {
		return err
	}
	e.nanoseconds("graph_span", span)
	e.measured("the capture survived %d queries and waits; events in the graph read %v apart", pollers*polls, span)
	return graph.Close()
}

// fill puts events into the capture, where the backend can.
func (e *env[E, S]) fill(captured S, marks []E) (marked bool, err error) {
	if e.asker != nil {
		on, err := e.asker.StreamCapturing(captured)
		if err != nil {
			return false, fmt.Errorf("asking whether the stream is captured: %w", err)
		}
		if !on {
			return false, errors.New("the stream is being captured and says that it is not")
		}
	}
	for _, mark := range marks {
		err := e.graphs.EventRecordExternal(mark, captured)
		if errors.Is(err, events.ErrUnsupported) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("recording into the graph: %w", err)
		}
	}
	return true, nil
}

// poll queries and waits for an event that has nothing to do with the
// capture, in every way that the backend offers.
func (e *env[E, S]) poll(event E, stream S) error {
	for range polls {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if err := e.recordAndWait(event, stream); err != nil {
			return err
		}
		if e.query != nil {
			if _, err := e.query.EventQuery(event); err != nil {
				return fmt.Errorf("querying: %w", err)
			}
		}
		if e.rounds != nil {
			round, err := e.rounds.RoundBegin()
			if err != nil {
				return fmt.Errorf("beginning a polling round: %w", err)
			}
			_, err = e.rounds.RoundQuery(round, event)
			if err := errors.Join(err, e.rounds.RoundEnd(round)); err != nil {
				return fmt.Errorf("a polling round: %w", err)
			}
		}
		if err := e.StreamSynchronize(stream); err != nil {
			return fmt.Errorf("synchronizing: %w", err)
		}
	}
	return nil
}

// launch runs the graph twice and reads the events in it.
func (e *env[E, S]) launch(graph events.Graph[S], stream S, marks []E) (span time.Duration, err error) {
	for range 2 {
		if err := e.at("launching the graph"); err != nil {
			return 0, err
		}
		if err := graph.Launch(stream); err != nil {
			return 0, fmt.Errorf("launching the graph: %w", err)
		}
		if err := e.StreamSynchronize(stream); err != nil {
			return 0, fmt.Errorf("waiting for the graph: %w", err)
		}
		if span, err = e.EventElapsed(marks[0], marks[1]); err != nil {
			return 0, fmt.Errorf("reading events in a graph: %w", err)
		}
	}
	return span, nil
}
