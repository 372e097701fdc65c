package gpuotel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A machine's clock is set while the program runs: the program's own spans move, so
// windows move with them. A pause between two readings of the clocks is no such thing.
func TestWindowsFollowAClockThatIsSet(t *testing.T) {
	at := time.Now()
	var c wallclock
	for _, step := range []struct{ apart, want time.Duration }{
		{0, 0}, {300 * time.Microsecond, 0}, {-300 * time.Microsecond, 0},
		{time.Hour, time.Hour}, {time.Hour + 300*time.Microsecond, time.Hour},
		{-time.Minute, -time.Minute}, {0, 0},
	} {
		c.found(step.apart)
		require.Equal(t, at.Round(0).Add(step.want), c.wall(at), "set by %v", step.apart)
	}
}

// Where nobody sets the clock, and where a time has no monotonic reading to compare, a
// window is where the profiler puts it.
func TestWindowsStayWhereTheyAreOnAClockThatIsNotSet(t *testing.T) {
	now := time.Now()
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(time.Hour), now.Add(-time.Hour).Round(0)} {
		var c wallclock
		c.look(at, now)
		require.Equal(t, at.Round(0), c.wall(at))
	}
}
