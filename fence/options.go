package fence

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
)

// Option changes how New sets a Source up.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	limit        int
	threads      int
	blockAfter   time.Duration
	closeTimeout time.Duration
	coarse       bool // sleeps keep the time of Go's timers, for tests
}

func defaults() config {
	return config{limit: 1 << 16, threads: 16, blockAfter: 5 * time.Millisecond, closeTimeout: 2 * time.Second}
}

func (c config) check() error {
	var wrong []error
	if c.limit < 1 {
		wrong = append(wrong, fmt.Errorf("fence: %w: at most %d unfinished fences; at least 1", events.ErrInvalid, c.limit))
	}
	if c.threads < 0 {
		wrong = append(wrong, fmt.Errorf("fence: %w: %d blocking threads; at least 0", events.ErrInvalid, c.threads))
	}
	if c.blockAfter < 0 {
		wrong = append(wrong, fmt.Errorf("fence: %w: blocking after %v; at least 0", events.ErrInvalid, c.blockAfter))
	}
	if c.closeTimeout <= 0 {
		wrong = append(wrong, fmt.Errorf("fence: %w: a close timeout of %v; above 0", events.ErrInvalid, c.closeTimeout))
	}
	return errors.Join(wrong...)
}

// WithLimit bounds how many fences may be unfinished at a time, each of which
// holds an event of the device. At the bound Record looks for fences that the device
// has reached, waited for or not, and waits for one no longer than 1 ms; then it is
// ErrFull. The default is 65,536.
func WithLimit(n int) Option { return optionFunc(func(c *config) { c.limit = n }) }

// WithBlockingThreads bounds the OS threads that wait inside the driver. The default is
// 16. A thread waits for one stream at a time, and keeps doing so until the driver lets
// go: a stream that hangs keeps its thread.
//
// Where the backend can query, threads are for waits that take longer than
// WithBlockingAfter, and only if the backend's blocked waits sleep
// (events.UntimedCreator); others, and what there are no threads left for, are polled.
// With 0 everything is polled.
//
// Where it cannot, threads are all there is, and 0 is ErrInvalid. With more streams than
// threads, some wait their turn, and once as many hang as there are threads, no other
// fence gets a result, and only a ctx or Close ends a wait. While more than 1024 fences
// are unfinished, or more than half of WithLimit if that is less, up to half of the
// threads (rounded up) also wait for fences that nobody waits for, so that the events of
// dropped ones come back; threads that somebody needs go first.
//
// What a thread waits for is a call in progress like any other: Source.Close waits for
// it no longer than WithCloseTimeout, and needs none of them to end.
func WithBlockingThreads(n int) Option { return optionFunc(func(c *config) { c.threads = n }) }

// WithBlockingAfter sets how long a wait is polled before a thread takes it over, on
// backends that can query; see WithBlockingThreads. The default is 5 ms.
func WithBlockingAfter(d time.Duration) Option {
	return optionFunc(func(c *config) { c.blockAfter = d })
}

// WithCloseTimeout bounds how long Source.Close waits for calls that the driver
// does not let go. The default is 2 s.
func WithCloseTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.closeTimeout = d })
}
