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
// holds an event of the device. At the bound Record is ErrFull. The default is
// 65,536.
func WithLimit(n int) Option { return optionFunc(func(c *config) { c.limit = n }) }

// WithBlockingThreads bounds the OS threads that wait inside the driver, which
// happens only where the backend cannot query. A thread serves one stream at a
// time; with more streams than threads, some wait their turn. The default is 16.
func WithBlockingThreads(n int) Option { return optionFunc(func(c *config) { c.threads = n }) }

// WithCloseTimeout bounds how long Source.Close waits for calls that the driver
// does not let go. The default is 2 s.
func WithCloseTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.closeTimeout = d })
}
