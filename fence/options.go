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
	closeTimeout time.Duration
}

func defaults() config {
	return config{limit: 1 << 16, threads: 16, closeTimeout: 2 * time.Second}
}

func (c config) check() error {
	var wrong []error
	if c.limit < 1 {
		wrong = append(wrong, fmt.Errorf("fence: %w: at most %d unfinished fences; at least 1", events.ErrInvalid, c.limit))
	}
	if c.threads < 1 {
		wrong = append(wrong, fmt.Errorf("fence: %w: %d blocking threads; at least 1", events.ErrInvalid, c.threads))
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

// WithBlockingThreads bounds the OS threads that wait inside the driver, which
// happens only where the backend cannot query. A thread serves one stream at a
// time; with more streams than threads, some wait their turn. A stream that hangs
// keeps its thread until the driver lets go: once as many hang as there are threads,
// no other fence gets a result, and only a ctx or Close ends a wait. The default is
// 16.
//
// While more than 1024 fences are unfinished, or more than half of WithLimit if that
// is less, up to half of the threads (rounded up) also wait for fences that nobody
// waits for, so that the events of dropped ones come back; threads that somebody
// needs go first. What such a thread waits for is a call in progress like any other:
// on a stream that hangs it keeps Source.Close until WithCloseTimeout.
func WithBlockingThreads(n int) Option { return optionFunc(func(c *config) { c.threads = n }) }

// WithCloseTimeout bounds how long Source.Close waits for calls that the driver
// does not let go. The default is 2 s.
func WithCloseTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.closeTimeout = d })
}
