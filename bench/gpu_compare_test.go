package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/internal/gputest"
)

// spinsInTurn compares a spin kernel with one of so many times its work.
func spinsInTurn(t *testing.T, dev events.AnyApi, d time.Duration, times float64) *Report {
	t.Helper()
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(t, ok)
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	spin := func(d time.Duration) func(int, Iters) error {
		return func(_ int, it Iters) error {
			for range it.N {
				if _, err := scratch.ScratchSpin(d, stream); err != nil {
					return err
				}
			}
			return nil
		}
	}
	r := NewRunner(BlockSeed(1))
	runOne(t, r, func(g *GroupOf[int]) {
		g.Set(On(timer), In(GPU), Cold(ColdNone))
		g.Bench("once", spin(d))
		g.Bench("again", spin(time.Duration(float64(d)*times)))
		g.Compare("once", "again")
	})
	return r.Report()
}

// On hardware a kernel of 500 us is the same as itself, and 2 % more of it is slower.
func TestGPUKernelIsTheSameAsItselfAndTwoPercentMoreIsSlower(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	for _, c := range []struct {
		times float64
		want  Change
	}{{1, Same}, {1.02, Slower}, {0.98, Faster}} {
		report := spinsInTurn(t, dev, 500*time.Microsecond, c.times)
		found := report.Comparisons[0]
		require.Equal(t, c.want, found.Change, "%+v", found)
		require.InDelta(t, c.times, found.Ratio, 0.005, "%+v", found)
		require.Less(t, *found.Smallest, 0.02, "2 %% can be seen")
		for i := range report.Results {
			require.Equal(t, "held", report.Results[i].Gate)
			require.Zero(t, report.Results[i].Leak.Count)
		}
		gputest.Raw(t, "bench-compare-"+string(c.want), report)
	}
}

// Twenty times the same kernel against itself: with a threshold of 0, where any difference
// counts, one false alarm is to be expected, and five have a chance of 1 in 400.
func TestGPUIdenticalKernelsRaiseFewAlarmsEvenWithoutAThreshold(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(t, ok)
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	alarms := 0
	for seed := range int64(20) {
		r := NewRunner(BlockSeed(seed), Threshold(0), WarmUp(10*time.Millisecond, time.Second))
		Group(r, "group", func(g *GroupOf[int]) {
			g.Set(On(timer), In(GPU), Cold(ColdNone))
			for _, name := range []string{"a", "b"} {
				g.Bench(name, func(int, Iters) error {
					_, err := scratch.ScratchSpin(100*time.Microsecond, stream)
					return err
				})
			}
			g.Compare("a", "b")
		})
		c := r.Report().Comparisons[0]
		t.Logf("%s, %.6f from %.6f to %.6f", c.Change, c.Ratio, c.CI.Lo, c.CI.Hi)
		if c.Change == Slower || c.Change == Faster {
			alarms++
		}
	}
	require.LessOrEqual(t, alarms, 4)
}
