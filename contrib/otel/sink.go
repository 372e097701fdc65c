package gpuotel

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
	"example.com/devevents/internal/labels"
	"example.com/devevents/profiler"
)

const scope = "example.com/devevents/contrib/otel"

// Sink makes OpenTelemetry spans and a histogram of the windows of one profiler. Make it
// with New and give it to profiler.WithSink. It is safe for concurrent use.
type Sink struct {
	// turn is held by whoever makes spans. It is a channel because Shutdown gives up
	// waiting for it when its context ends.
	turn   chan struct{}
	emit   *emitter
	nest   *nest
	timer  *time.Timer
	closed atomic.Bool
}

// New makes a sink. It neither blocks nor looks at a device. Options out of range are
// events.ErrInvalid; a meter that refuses the histogram is an error, too.
func New(opts ...Option) (*Sink, error) {
	cfg, err := configOf(opts)
	if err != nil {
		return nil, err
	}
	durations, err := cfg.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)).Float64Histogram(histogram,
		metric.WithUnit("s"),
		metric.WithDescription("Time between the two ends of a window of device work, on the device's clock."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, fmt.Errorf("gpuotel: make the histogram %s: %w", histogram, err)
	}
	s := &Sink{turn: make(chan struct{}, 1)}
	s.emit = &emitter{
		tracer:    cfg.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		durations: durations, names: labels.NewSet(cfg.names), attributes: cfg.attributes,
		devices: map[*profiler.Device]*device{},
	}
	s.nest = newNest(cfg.hold, s.emit.emit)
	return s, nil
}

// Spans implements profiler.Sink. It blocks as long as the processors of spans do, which
// for a batching one is no time at all. After Shutdown it is events.ErrClosed, and the
// profiler counts the windows as dropped by a sink.
func (s *Sink) Spans(batch []profiler.Span) error {
	s.turn <- struct{}{}
	defer s.pass()
	if s.closed.Load() {
		return fmt.Errorf("gpuotel: %d windows: %w: the sink was shut down", len(batch), events.ErrClosed)
	}
	now := time.Now()
	for _, span := range batch {
		s.nest.add(span, now)
	}
	s.nest.expire(now)
	return nil
}

// pass lets others have their turn, and sees to it that what is held is not forgotten.
func (s *Sink) pass() {
	if at, some := s.nest.due(); some {
		if wait := time.Until(at); s.timer == nil {
			s.timer = time.AfterFunc(wait, s.expire)
		} else {
			s.timer.Reset(wait)
		}
	}
	<-s.turn
}

// expire runs on a goroutine of its own, where a panic would end the program.
func (s *Sink) expire() {
	defer func() {
		if p := recover(); p != nil {
			otel.Handle(fmt.Errorf("gpuotel: a span that was held is lost: the tracer or meter panicked: %v", p))
		}
	}()
	s.turn <- struct{}{}
	defer s.pass()
	s.nest.expire(time.Now())
}

// Shutdown makes spans of the windows that are still held, and refuses later ones. Call
// it after the profiler's Close and before the providers' Shutdown. It blocks as long as
// the processors of spans do; when ctx ends first, what is left is lost and the error
// wraps the context's. It is idempotent.
func (s *Sink) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("gpuotel: shut down: %w: nil context", events.ErrInvalid)
	}
	s.closed.Store(true) // whatever comes of the rest
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("gpuotel: shut down, while spans are being made: %w", ctxerr.Of(ctx))
		}
	}
	defer s.pass()
	if s.timer != nil {
		s.timer.Stop()
	}
	for s.nest.queue.Len() > 0 {
		if ctx.Err() != nil {
			lost := len(s.nest.held)
			s.nest = newNest(0, s.emit.emit)
			return fmt.Errorf("gpuotel: shut down: %d windows that were held are lost: %w", lost, ctxerr.Of(ctx))
		}
		s.nest.release()
	}
	return nil
}
