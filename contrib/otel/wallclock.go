package gpuotel

import "time"

// wallclock carries instants of the monotonic clock over to the wall clock of now. A
// time.Time has both, but its wall reading is that of the profiler's first moment carried
// on: when the machine's clock is set later, the program's own spans move and it would
// not.
type wallclock struct{ offset time.Duration }

// setApart is what counts as a clock that was set. Below it lie the pauses between the two
// readings that make one time.Time.
const setApart = time.Millisecond

// look compares a window's time with the clocks of now: how far apart the two are on the
// wall clock, and how far on the monotonic one.
func (c *wallclock) look(at, now time.Time) { c.found(now.Round(0).Sub(at.Round(0)) - now.Sub(at)) }

func (c *wallclock) found(apart time.Duration) {
	if d := apart - c.offset; d > setApart || d < -setApart {
		c.offset = apart
	}
}

// wall is the instant on the wall clock.
func (c *wallclock) wall(at time.Time) time.Time { return at.Round(0).Add(c.offset) }
