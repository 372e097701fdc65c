package profiler

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"example.com/devevents/events"
)

// Option changes how New sets a profiler up.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	windows      int
	prepared     int // per stream, 0 for firstChunk as far as there is room for others
	results      int
	sinks        []Sink
	sinkQueue    int
	log          *zap.Logger
	disabled     bool
	clock        func() int64
	anchorEvery  time.Duration
	poll         time.Duration
	maxRate      float64
	skew         float64
	stacks       bool
	closeTimeout time.Duration
	openLimit    time.Duration
	threads      int
}

func defaults() config {
	return config{
		windows:      8192,
		results:      1024,
		sinkQueue:    64,
		log:          zap.NewNop(),
		anchorEvery:  100 * time.Millisecond,
		poll:         time.Millisecond,
		maxRate:      600e-6,
		closeTimeout: 2 * time.Second,
		openLimit:    30 * time.Second,
		threads:      16,
	}
}

func (c *config) check() error {
	var wrong []error
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("profiler: %w: "+format, append([]any{events.ErrInvalid}, args...)...))
	}
	if c.windows < 1 {
		bad("at most %d windows at a time; at least 1", c.windows)
	}
	if c.prepared < 0 || c.prepared > c.windows {
		bad("%d windows prepared for each stream, of at most %d", c.prepared, c.windows)
	}
	if c.results < 1 {
		bad("%d results kept; at least 1", c.results)
	}
	if c.threads < 1 {
		bad("%d blocking threads; at least 1", c.threads)
	}
	if c.sinkQueue < 1 {
		bad("a sink queue of %d batches; at least 1", c.sinkQueue)
	}
	if c.anchorEvery <= 0 || c.poll <= 0 || c.closeTimeout <= 0 {
		bad("intervals must be positive: anchors every %v, polls every %v, close within %v", c.anchorEvery, c.poll, c.closeTimeout)
	}
	if !(c.maxRate > 0 && c.maxRate <= 0.1) { // NaN included
		bad("a clock rate difference of %v; more than 0 and at most 0.1", c.maxRate)
	}
	if !(math.Abs(c.skew) <= 0.5) { // NaN included
		bad("a bracket skew of %v; from -0.5 to 0.5", c.skew)
	}
	for i, sink := range c.sinks {
		if sink == nil {
			bad("sink %d is nil", i)
		}
	}
	return errors.Join(wrong...)
}

// WithWindows bounds the windows that are open or not read back yet, over all
// streams. Each holds two events of the device. A start beyond the bound is
// dropped and counted. Windows that idle streams do not use go to streams that need
// them, all but one of each; a stream that gives windows up drops what comes in a burst
// until it has some again. Events for up to 128 windows are made by the call that gives a
// stream its first track, and for more in the background before they run out; of a burst
// that is faster than that the rest is dropped, too: see WithPrepared. Default 8192.
func WithWindows(n int) Option { return optionFunc(func(c *config) { c.windows = n }) }

// WithPrepared has events made for n windows when a stream gets its first track,
// within the bound of WithWindows, so that a burst of n windows at its start loses
// none. Making them takes about 1.7 us an event on CUDA (measured on an H200).
// Default: 128, and fewer where the bound is low or near.
func WithPrepared(n int) Option { return optionFunc(func(c *config) { c.prepared = n }) }

// WithResults sets for how many windows of each stream a result is kept for
// Measurement.Wait: the n stopped last. Older ones are ErrExpired. The memory for
// them, about 250 bytes each, grows as a stream's windows are stopped. Default
// 1024.
func WithResults(n int) Option { return optionFunc(func(c *config) { c.results = n }) }

// WithSink adds a receiver of finished spans. May be given several times.
func WithSink(s Sink) Option { return optionFunc(func(c *config) { c.sinks = append(c.sinks, s) }) }

// WithSinkQueue bounds how many batches wait for each sink; beyond that the
// sink's oldest batch is dropped and counted. Default 64.
func WithSinkQueue(n int) Option { return optionFunc(func(c *config) { c.sinkQueue = n }) }

// WithLogger sets the logger. Nothing is logged per window. Default: silent.
func WithLogger(log *zap.Logger) Option {
	return optionFunc(func(c *config) {
		if log != nil {
			c.log = log
		}
	})
}

// WithDisabled makes a profiler that does nothing: no events are made, and every
// token is inert. For a switch in a service's configuration.
func WithDisabled(disabled bool) Option { return optionFunc(func(c *config) { c.disabled = disabled }) }

// WithHostClock replaces the host's monotonic clock (nanoseconds from any
// origin), for simulated devices whose time is not the machine's.
func WithHostClock(now func() int64) Option { return optionFunc(func(c *config) { c.clock = now }) }

// WithAnchorInterval sets how often the two clocks are compared while windows
// are unread: more often narrows the bound, and costs four to twelve events on the
// device and some 6 us of host time for each of those. Default 100 ms.
func WithAnchorInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.anchorEvery = d })
}

// WithPollInterval sets how often finished windows are looked for while there
// are unread ones and nobody waits. Default 1 ms.
func WithPollInterval(d time.Duration) Option { return optionFunc(func(c *config) { c.poll = d }) }

// WithMaxClockRate sets the largest difference between the rates of the host's
// and the device's clock that placement allows for. Crystals differ by tens of
// ppm, and time daemons may slew the host by 500 ppm. Default 600e-6.
func WithMaxClockRate(r float64) Option { return optionFunc(func(c *config) { c.maxRate = r }) }

// WithBracketSkew tells where in the bracket of a comparison of the clocks the device's
// stamp lies, as measured by other means: 0 is the middle, 0.5 its end. On an H200 the
// stamp comes 3.65 us into a bracket of 5.85 us, which is 0.12. It moves estimates, and
// no bound gets narrower by it: it says nothing certain of any one comparison. Default 0.
func WithBracketSkew(part float64) Option { return optionFunc(func(c *config) { c.skew = part }) }

// WithStacks has Start note the calls that led to it, for sinks: Span.Stack. It costs
// Start some 2 us (measured beside an H200, in a benchmark's shallow stack), more for deeper
// ones, of which the innermost 64 calls are kept, and 512 bytes for each window at a time.
// Default off.
func WithStacks(on bool) Option { return optionFunc(func(c *config) { c.stacks = on }) }

// WithCloseTimeout bounds Close: how long it waits for windows that are stopped
// and not read back, and for sinks. Default 2 s.
func WithCloseTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.closeTimeout = d })
}

// WithBlockingThreads bounds the OS threads that wait inside the driver, which
// happens only where the backend cannot query. Each waits for one window's end;
// while that many windows hang, others are not read back. Default 16.
func WithBlockingThreads(n int) Option { return optionFunc(func(c *config) { c.threads = n }) }
