package profiler

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// Sink receives finished spans in batches, on a goroutine of its own. A batch is
// shared with other sinks and must not be changed; it may be kept. A sink that
// blocks loses its own oldest batches once its queue is full; one that returns
// an error or panics loses that batch. Both are counted in Stats, and nothing
// else is affected.
type Sink interface {
	Spans(batch []Span) error
}

// SinkFunc makes a function a Sink.
type SinkFunc func(batch []Span) error

// Spans implements Sink.
func (f SinkFunc) Spans(batch []Span) error { return f(batch) }

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
	if r.closed { // the driver let go after Close
		r.mu.Unlock()
		r.count.sinkDropped.Add(uint64(len(batch)))
		return
	}
	if len(r.queue) == r.limit {
		r.count.sinkDropped.Add(uint64(len(r.queue[0])))
		r.queue = append(r.queue[:0], r.queue[1:]...)
	}
	r.queue = append(r.queue, batch)
	r.mu.Unlock()
	r.signal()
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
		if p := recover(); p != nil {
			err = fmt.Errorf("the sink panicked: %v", p)
		}
		if err == nil {
			return
		}
		r.count.sinkFailed.Add(1)
		r.count.sinkDropped.Add(uint64(len(batch)))
		r.warned.Do(func() {
			r.log.Warn("a sink failed and lost a batch; further failures are only counted", zap.Error(err))
		})
	}()
	err = r.sink.Spans(batch)
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
		r.count.sinkDropped.Add(uint64(len(batch)))
	}
	r.queue = nil
}
