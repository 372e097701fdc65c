package profiler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
)

// Sink receives finished spans in batches, on a goroutine of its own; those of one stream in the
// order in which they were stopped, so that a window comes after those that were closed in it.
// Between streams there is no order. A batch is
// shared with other sinks and must not be changed; it may be kept. A sink that
// blocks loses its own oldest batches once its queue is full; one that returns
// an error or panics loses that batch. Both are counted, in Stats and for each
// sink in its Attachment, and nothing else is affected. Windows without a span (failed,
// abandoned, captured, dropped) reach no sink: Stats counts them.
type Sink interface {
	Spans(batch []Span) error
}

// SinkFunc makes a function a Sink.
type SinkFunc func(batch []Span) error

// Spans implements Sink.
func (f SinkFunc) Spans(batch []Span) error { return f(batch) }

// Source is what sinks are attached to, whatever the vendor: a *Profiler is one, and a nil
// *Profiler has nothing to tell. It is safe for concurrent use.
type Source interface {
	// AddSink attaches a receiver of what finishes from now on.
	AddSink(s Sink) (*Attachment, error)
	// Flush waits for what was stopped before the call.
	Flush(ctx context.Context) error
	// Origin is when the clock of the source's spans began, and Now the present on it.
	Origin() time.Time
	Now() time.Time
}

var _ Source = (*Profiler[int])(nil)

// Attachment is a sink at work, from AddSink. nil is a working no-op. It is safe for
// concurrent use.
type Attachment struct {
	set    *sinkSet
	runner *sinkRunner
}

// Remove ends the delivery: what was finished before the call is still delivered, what
// comes later is not. It blocks until the sink has taken its queue, or ctx is done: then
// the rest is dropped and counted, and the error is ctx's. A call of the sink that
// does not return goes on; a sink that removes itself waits for its own call. It is
// idempotent. A nil ctx is ErrInvalid.
func (a *Attachment) Remove(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("profiler: remove a sink: %w: nil context", events.ErrInvalid)
	}
	if a == nil {
		return nil
	}
	a.set.remove(a.runner)
	a.runner.shut()
	select {
	case <-a.runner.done:
		return nil
	case <-ctx.Done():
		a.runner.discard()
		return fmt.Errorf("profiler: removing a sink that has not taken its queue: %w", ctxerr.Of(ctx))
	}
}

// Stats is a snapshot of the sink's counters.
func (a *Attachment) Stats() SinkStats {
	if a == nil {
		return SinkStats{}
	}
	return a.runner.stats()
}

// SinkStats counts spans of one sink, except for Failed, which counts calls. At rest, what was
// finished while it was attached is Delivered + Dropped.
type SinkStats struct {
	Delivered uint64 // the sink took them
	Dropped   uint64 // lost: the queue was full, a call failed, or the sink was too slow at its end
	Queued    uint64 // waiting, or in a call in progress
	Failed    uint64 // calls that returned an error, panicked or ended the goroutine
}

// sinkSet is the sinks of one profiler.
type sinkSet struct {
	limit int
	count *counters
	log   *zap.Logger

	all atomic.Pointer[[]*sinkRunner] // replaced as a whole, under the lock

	mu     sync.Mutex
	closed bool
}

func (s *sinkSet) list() []*sinkRunner {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// some reports whether there is any sink.
func (s *sinkSet) some() bool { return len(s.list()) > 0 }

func (s *sinkSet) add(sink Sink) (*Attachment, error) {
	if sink == nil {
		return nil, fmt.Errorf("profiler: add a sink: %w: it is nil", events.ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("profiler: add a sink: %w", events.ErrClosed)
	}
	r := runSink(sink, s.limit, s.count, s.log)
	more := append(slices.Clone(s.list()), r)
	s.all.Store(&more)
	return &Attachment{s, r}, nil
}

func (s *sinkSet) remove(r *sinkRunner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fewer := slices.DeleteFunc(slices.Clone(s.list()), func(o *sinkRunner) bool { return o == r })
	s.all.Store(&fewer)
}

// push queues a batch for every sink and never waits.
func (s *sinkSet) push(batch []Span) {
	for _, r := range s.list() {
		r.push(batch)
	}
}

// sinkGrace is what Close gives all sinks together where nothing is left of its timeout.
const sinkGrace = 10 * time.Millisecond

// close lets every sink finish its queue until the deadline, and gives an error for each
// that did not.
func (s *sinkSet) close(deadline time.Time, timeout time.Duration) (late []error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, r := range s.list() {
		r.shut()
	}
	if soon := time.Now().Add(sinkGrace); soon.After(deadline) {
		deadline = soon
	}
	for _, r := range s.list() {
		if !over(r.done, deadline, 0) {
			r.discard()
			late = append(late, fmt.Errorf("profiler: a sink: %w: it did not return within %v of Close", events.ErrExpired, timeout))
		}
	}
	return late
}

// sinkRunner feeds one sink.
type sinkRunner struct {
	sink   Sink
	count  *counters
	log    *zap.Logger
	warned sync.Once

	mu     sync.Mutex
	queue  [][]Span
	limit  int
	closed bool
	own    SinkStats
	ready  chan struct{}
	done   chan struct{}
}

func runSink(sink Sink, limit int, count *counters, log *zap.Logger) *sinkRunner {
	r := &sinkRunner{sink: sink, limit: limit, count: count, log: log, ready: make(chan struct{}, 1), done: make(chan struct{})}
	go r.run()
	return r
}

// push queues a batch and never waits.
func (r *sinkRunner) push(batch []Span) {
	r.mu.Lock()
	if r.closed { // removed a moment ago, or the driver let go after Close
		r.drop(batch)
		r.mu.Unlock()
		return
	}
	if len(r.queue) == r.limit {
		r.own.Queued -= uint64(len(r.queue[0]))
		r.drop(r.queue[0])
		r.queue = append(r.queue[:0], r.queue[1:]...)
	}
	r.queue = append(r.queue, batch)
	r.own.Queued += uint64(len(batch))
	r.mu.Unlock()
	r.signal()
}

// drop counts a batch that is lost. The lock is held.
func (r *sinkRunner) drop(batch []Span) {
	r.own.Dropped += uint64(len(batch))
	r.count.sinkDropped.Add(uint64(len(batch)))
}

func (r *sinkRunner) stats() SinkStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own
}

func (r *sinkRunner) signal() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

func (r *sinkRunner) run() {
	ended := false
	defer func() {
		if ended {
			close(r.done)
		} else {
			go r.run() // the sink has ended the goroutine
		}
	}()
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			ended = r.closed
			r.mu.Unlock()
			if ended {
				return
			}
			<-r.ready
			continue
		}
		batch := r.queue[0]
		r.queue = append(r.queue[:0], r.queue[1:]...)
		r.mu.Unlock()
		r.deliver(batch)
	}
}

// deliver hands one batch over. A sink can return, panic, or end the goroutine.
func (r *sinkRunner) deliver(batch []Span) {
	err := errors.New("the sink ended its goroutine")
	defer func() {
		r.mu.Lock()
		r.own.Queued -= uint64(len(batch))
		if err == nil {
			r.own.Delivered += uint64(len(batch))
			r.mu.Unlock()
			return
		}
		r.own.Failed++
		r.drop(batch)
		r.mu.Unlock()
		r.count.sinkFailed.Add(1)
		r.warned.Do(func() {
			r.log.Warn("a sink failed and lost a batch; further failures are only counted", zap.Error(err))
		})
	}()
	err = offer(r.sink, batch)
}

// shut lets the sink finish its queue; done is closed then.
func (r *sinkRunner) shut() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.signal()
}

// discard drops what the sink has not taken.
func (r *sinkRunner) discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, batch := range r.queue {
		r.own.Queued -= uint64(len(batch))
		r.drop(batch)
	}
	r.queue = nil
}
