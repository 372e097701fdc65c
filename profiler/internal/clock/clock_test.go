package clock_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/profiler/internal/clock"
)

const link = int64(100 * time.Millisecond)

func config() clock.Config {
	return clock.Config{MaxRate: 600e-6, Tick: 32, MinLink: link / 2, MaxLink: 5 * link}
}

// steady is a clock with n anchors at a constant rate, each in the middle of its bracket.
func steady(t *testing.T, n int, ppm float64) *clock.Clock {
	t.Helper()
	c := clock.New(config())
	for i := range int64(n) {
		host := int64(float64(i*link) * (1 + ppm*1e-6))
		require.True(t, c.Add(host-3000, host+3000, min(i, 1)*link))
	}
	return c
}

// Host stamps of which the device's clock knows nothing, as after a suspend, are no
// anchor: nothing is taken, and after Reset all begins anew.
// meta-pytorch/torchcomms#2422, ROCm/rocm-systems#11667
func TestAnchorsThatExcludeEachOtherAreSeen(t *testing.T) {
	for _, jump := range []int64{int64(time.Millisecond), -int64(time.Millisecond), int64(time.Hour), -int64(90 * time.Millisecond)} {
		c := steady(t, 10, 5)
		last := c.At(9)
		require.False(t, c.Add(last.Before+link+jump, last.After+link+jump, link), "%d", jump)
		require.Equal(t, 10, c.Len())
		require.True(t, c.Add(last.Before+link, last.After+link, link), "the others are as they were")
		c.Reset()
		require.Equal(t, uint32(1), c.Epoch())
		require.Zero(t, c.Len())
		require.True(t, c.Add(last.Before+link+jump, last.After+link+jump, 0))
		require.Zero(t, c.At(0).X)
	}
}

// A moment whose own times lie outside of what the anchors allow tells that the clocks
// were set apart, and gets no place.
func TestMomentThatContradictsTheAnchorsHasNoPlace(t *testing.T) {
	c := steady(t, 12, 0)
	at := clock.Stamp{X: 5*link + link/3, Known: true}
	at.Low, at.High = at.X-5000, at.X+5000
	p, ok := c.Place(at)
	require.True(t, ok)
	require.Equal(t, clock.Settled, p.Quality)
	at.Low, at.High = at.X+200_000, at.X+300_000
	_, ok = c.Place(at)
	require.False(t, ok)
	at.Low, at.High = at.X+5000, at.X-5000
	_, ok = c.Place(at)
	require.False(t, ok, "seen before it was recorded")
}

// What nothing is known of but its own times lies in the middle of them.
func TestMomentWithoutAnchorsLiesBetweenItsOwnTimes(t *testing.T) {
	for name, c := range map[string]*clock.Clock{"no anchor": clock.New(config()), "unknown device time": steady(t, 12, 0)} {
		p, ok := c.Place(clock.Stamp{Low: 1000, High: 3000})
		require.True(t, ok, name)
		require.Equal(t, clock.Alone, p.Quality)
		require.Equal(t, int64(2000), p.At)
		require.LessOrEqual(t, p.Bound, int64(1002))
		require.GreaterOrEqual(t, p.Bound, int64(1000))
	}
}

// More anchors never make a bound wider, and four behind a moment settle it.
func TestFourLinksOnEitherSideSettleAMoment(t *testing.T) {
	x := 6*link + link/2
	at := clock.Stamp{X: x, Known: true, Low: x - int64(time.Second), High: x + int64(time.Second)}
	widest := int64(math.MaxInt64)
	for n := 7; n <= 16; n++ {
		c := steady(t, n, 0)
		p, ok := c.Place(at)
		require.True(t, ok)
		require.LessOrEqual(t, p.Bound, widest, "%d anchors", n)
		widest = p.Bound
		settled := n >= 6+2+clock.Links
		require.Equal(t, settled, c.Settles(x), "%d anchors", n)
		require.Equal(t, settled, p.Quality == clock.Settled, "%d anchors", n)
		require.LessOrEqual(t, p.At, x+p.Bound)
		require.GreaterOrEqual(t, p.At, x-p.Bound)
	}
	require.Less(t, widest, int64(4000))
	require.True(t, steady(t, 16, 0).Settles(-5), "before the first anchor no more will come")
}

// The unevenness of brackets moves the estimate by as much, and what the truth can be by
// nothing.
func TestSkewMovesTheEstimateAlone(t *testing.T) {
	place := func(skew float64) clock.Placement {
		cfg := config()
		cfg.Skew = skew
		c := clock.New(cfg)
		for i := range int64(14) {
			require.True(t, c.Add(i*link-3000, i*link+3000, min(i, 1)*link))
		}
		x := 6*link + link/4
		p, ok := c.Place(clock.Stamp{X: x, Known: true, Low: x - 100_000, High: x + 100_000})
		require.True(t, ok)
		return p
	}
	middle, late := place(0), place(0.12)
	require.InDelta(t, 0.12*6000, late.At-middle.At, 2)
	require.InDelta(t, middle.At+middle.Bound, late.At+late.Bound-2*(late.At-middle.At), 4, "the farther end is as far as before")
	require.Greater(t, late.Bound, middle.Bound)
}

// Hours of anchors take no more room than a minute's, and leave some from all along.
func TestAnchorsOfHoursAreFew(t *testing.T) {
	const n = 100_000
	c := steady(t, n, 2)
	require.Equal(t, clock.Kept, c.Len())
	require.Zero(t, c.At(0).X, "the first")
	for i := clock.Kept / 2; i < clock.Kept; i++ {
		require.Equal(t, int64(n-clock.Kept+i)*link, c.At(i).X, "the last are all there")
	}
	for i := range clock.Kept - 1 {
		age := float64((n-1)*link - c.At(i).X)
		gap := float64(c.At(i+1).X - c.At(i).X)
		require.LessOrEqual(t, gap, max(float64(2*link), 0.2*age), "a gap of %v, %v ago", time.Duration(gap), time.Duration(age))
	}
}

// A reading is set right only where no doubt is left: rounded by less than half a tick, of
// a tick that many others were multiples of.
func TestReadingsAreSnappedOnlyWithoutDoubt(t *testing.T) {
	c := clock.New(config())
	for range 100 { // not yet
		got, slack := c.Snap(3200)
		if slack == 0 {
			require.Equal(t, int64(3200), got)
		}
	}
	got, slack := c.Snap(100_000_003) // a float32 of 100 ms is off by up to 4 ns
	require.Equal(t, int64(100_000_000), got)
	require.Zero(t, slack)
	got, slack = c.Snap(3_000_000_100)
	require.Equal(t, int64(3_000_000_100), got, "one of 3 s by more than half a tick")
	require.Greater(t, slack, 100.0)
	got, slack = c.Snap(3216)
	require.Equal(t, int64(3216), got, "no multiple, so it is no tick")
	require.NotZero(t, slack)
	got, slack = c.Snap(100_000_003)
	require.Equal(t, int64(100_000_003), got, "and nothing is snapped any more")
	require.NotZero(t, slack)
	c.SetTick(1)
	got, slack = c.Snap(12345)
	require.Equal(t, int64(12345), got)
	require.NotZero(t, slack)
}

// The drift that is reported is the true one, as far as it says that it is known.
func TestDriftIsWithinItsUncertainty(t *testing.T) {
	for _, ppm := range []float64{-500, -6, 0, 0.1, 14, 500} {
		for _, n := range []int{2, 5, 64, 300} {
			got, off := steady(t, n, ppm).Drift()
			require.InDelta(t, ppm, got, off, "%d anchors", n)
			require.LessOrEqual(t, off, 6e9/float64(link)*1e3/float64(n-1)+0.5, "%d anchors", n)
		}
	}
	ppm, off := clock.New(config()).Drift()
	require.Zero(t, ppm)
	require.InDelta(t, 600, off, 1e-9)
}

func TestPlacingDoesNotAllocate(t *testing.T) {
	c := steady(t, 300, 3)
	last := c.At(c.Len() - 1)
	at := clock.Stamp{X: last.X - 10*link + 77, Known: true, Low: last.Before - 11*link, High: last.After}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, ok := c.Place(at); !ok {
			t.Fatal("a contradiction")
		}
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		last = c.At(c.Len() - 1)
		c.Add(last.Before+link, last.After+link, link)
	}))
}

func BenchmarkPlace(b *testing.B) {
	c := clock.New(config())
	for i := range int64(200) {
		c.Add(i*link-3000, i*link+3000, min(i, 1)*link)
	}
	x := 190*link + link/3
	at := clock.Stamp{X: x, Known: true, Low: x - 5000, High: x + 2_000_000}
	for b.Loop() {
		if _, ok := c.Place(at); !ok {
			b.Fatal("a contradiction")
		}
	}
}
