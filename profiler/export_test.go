package profiler

import "time"

// WithOpenLimit sets after how long New gives a device up.
func WithOpenLimit(d time.Duration) Option { return optionFunc(func(c *config) { c.openLimit = d }) }
