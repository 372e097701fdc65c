package profiler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// An hour after the last comparison of the clocks a float32 reading from there has
// steps of 250 us. Spans are measured between their own events, and windows are
// placed by what is near.
// pocl/pocl#1094, pocl/pocl#1015, AdaptiveCpp/AdaptiveCpp#2193,
// AdaptiveCpp/AdaptiveCpp#417
func TestShortWindowsAfterIdleHours(t *testing.T) {
	x := newTruth(t, 0, []mock.Option{mock.EventCost(0), mock.LaunchLatency(0), mock.Drift(20), mock.HostCost(0, 100, 0)})
	for range Count(20, 500) {
		x.advance(time.Hour)
		x.window(10 * us)
		x.sync()
		x.advance(5 * us)
		x.window(10 * us)
		x.sync()
		x.harvest(true)
		all, spans := x.spans()
		require.Len(t, spans, 2)
		for i, s := range spans {
			require.InDelta(t, 10*us, s.Duration, 64)
			require.LessOrEqual(t, s.Bound, 20*us)
			require.InDelta(t, all[i].began, s.Start.Sub(x.prof.Origin()), float64(s.Bound))
		}
		require.InDelta(t, 15*us, spans[1].Start.Sub(spans[0].Start), float64(10*us))
		require.True(t, spans[0].Start.Before(spans[1].Start), "order is lost")
	}
}

// While windows are unread the clocks are compared at the promised interval, so
// that every window has an anchor nearby; also one that is stamped long after it
// was recorded.
func TestBoundsStayNarrow(t *testing.T) {
	for _, wait := range []time.Duration{0, 3 * time.Second} {
		x := newTruth(t, 0, []mock.Option{mock.Drift(30)})
		for range 20 {
			if wait > 0 {
				x.work(wait)
				x.window(wait)
			}
			for range 20 {
				x.window(time.Millisecond)
			}
			for range 100 + int(2*wait/(10*time.Millisecond)) {
				x.advance(10 * time.Millisecond)
				x.harvest(false)
			}
			x.check()
		}
		x.finish()
		for _, b := range x.bounds {
			require.LessOrEqual(t, b, 50*us, "%v in the queue", wait) // 600 ppm of half an interval, and the bracket
		}
	}
}

// A reader who does not wait for an anchor to follow gets one made.
func TestImmediateReadersGetNarrowBounds(t *testing.T) {
	x := newTruth(t, 0, nil)
	for range 200 {
		x.advance(3 * time.Millisecond)
		x.window(100 * us)
		x.sync()
		x.harvest(true)
		x.check()
	}
	x.finish()
	for _, b := range x.bounds {
		require.LessOrEqual(t, b, 10*us)
	}
}

// A busy device costs anchors and never moves a window.
// wolfpld/tracy#171, intel/llvm#12904
func TestBusyDeviceDoesNotMoveWindows(t *testing.T) {
	x := newTruth(t, 0, []mock.Option{mock.Drift(-40)})
	private := x.engine.harvest.placer.stream
	rng := rand.New(rand.NewPCG(1, 9))
	for range Count(50, 2000) {
		require.NoError(t, x.dev.Work(private, time.Duration(rng.Int64N(int64(500*time.Millisecond)))))
		for range 5 {
			x.advance(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
			x.window(time.Duration(rng.Int64N(int64(time.Millisecond))))
			x.harvest(false)
			x.check()
		}
		if rng.IntN(3) == 0 {
			x.sync()
			x.harvest(true)
			x.check()
		}
	}
	x.finish()
	st := x.prof.Stats()
	require.NotZero(t, st.AnchorsMissed)
	require.NotZero(t, st.Anchors)
	require.Zero(t, st.Contradictions)
}

// What waits for an anchor that does not come is placed all the same.
func TestWindowsDoNotWaitForAnchorsForEver(t *testing.T) {
	x := newTruth(t, 0, nil)
	require.NoError(t, x.dev.Work(x.engine.harvest.placer.stream, time.Hour))
	x.window(us)
	x.sync()
	x.harvest(false)
	_, spans := x.spans()
	require.Empty(t, spans)
	for range 100 {
		x.advance(10 * time.Millisecond)
		x.harvest(false)
	}
	x.check()
	require.Empty(t, x.unread)
}

// When the device's clock jumps (suspend, reset) a new epoch begins. What came
// before is not placed by what comes after, nor the other way round.
// meta-pytorch/torchcomms#2422, wolfpld/tracy#1396, ROCm/rocm-systems#11667
func TestJumpBeginsANewEpoch(t *testing.T) {
	for _, by := range []time.Duration{time.Millisecond, -time.Millisecond, time.Second, -time.Second, 5 * time.Hour, -5 * time.Hour} {
		for _, late := range []bool{false, true} {
			torn := 0
			x := newTruth(t, 0, []mock.Option{mock.Offset(100 * time.Hour), mock.Drift(10)})
			rng := rand.New(rand.NewPCG(uint64(by), 2))
			windows := func() {
				for range 20 {
					x.window(time.Duration(rng.IntN(100_000)))
					x.sync()
					if !late {
						x.harvest(true)
					}
					x.advance(time.Duration(rng.IntN(20_000_000)))
					x.harvest(false)
				}
			}
			for epoch := range uint32(5) {
				windows()
				x.sync()
				x.advance(200 * time.Millisecond)
				x.harvest(true)
				for _, s := range x.check() {
					require.Equal(t, epoch, s.Epoch)
				}
				// A window that is read across the jump may have been open across it.
				for range 5 {
					x.window(100 * us)
				}
				x.sync()
				x.advance(10 * time.Millisecond)
				x.dev.JumpClock(0, by)
				x.advance(10 * time.Millisecond)
				x.harvest(true)
				torn += x.torn()
				require.Equal(t, uint64(epoch)+1, x.prof.Stats().Contradictions, "by %v", by)
			}
			x.finish()
			require.Equal(t, 25, torn)
			require.EqualValues(t, 25, x.prof.Stats().Failed)
		}
	}
}

// The clocks are set apart in the middle of a window: its two stamps are no measure of
// it, whichever way they read.
func TestWindowOpenAcrossAJumpHasNoLength(t *testing.T) {
	for _, by := range []time.Duration{30 * time.Millisecond, -30 * time.Millisecond, -time.Hour, time.Hour, 5 * time.Millisecond} {
		x := newTruth(t, 0, []mock.Option{mock.Offset(100 * time.Hour)})
		x.window(us)
		x.sync()
		x.harvest(true)
		x.check()
		x.advance(200 * time.Millisecond)
		x.harvest(true)
		x.window(10 * time.Millisecond)
		x.advance(5 * time.Millisecond)
		x.dev.JumpClock(0, by)
		x.sync()
		x.harvest(true)
		require.Equal(t, 1, x.torn(), "by %v", by)
		x.advance(200 * time.Millisecond)
		x.window(us)
		x.sync()
		x.harvest(true)
		x.check()
		x.finish()
	}
}

// The same truth on backends that cannot be asked: a goroutine waits in the
// driver, and what it sees comes later.
func TestTruthOnBackendsWithoutQueries(t *testing.T) {
	for name, off := range map[string]mock.Feature{
		"no query at all": mock.FeatureQuerier | mock.FeatureRoundQuerier,
		"rounds only":     mock.FeatureQuerier,
		"queries only":    mock.FeatureRoundQuerier,
	} {
		t.Run(name, func(t *testing.T) {
			x := newTruth(t, 0, []mock.Option{mock.Without(off), mock.Drift(100)})
			rng := rand.New(rand.NewPCG(4, 4))
			for range Count(20, 300) {
				x.advance(time.Duration(rng.IntN(300_000_000)))
				for range 4 {
					x.window(time.Duration(rng.IntN(1_000_000)))
				}
				x.sync()
				for i := 0; len(x.unread) > 0; i++ {
					x.harvest(i > 20)
					x.check()
					time.Sleep(20 * us) // for those who wait in the driver
				}
			}
			x.finish()
			require.Zero(t, x.prof.Stats().Contradictions)
		})
	}
}

// The step of the stamps is part of every bound, and may be coarse.
func TestTruthWithCoarseStamps(t *testing.T) {
	for _, tick := range []time.Duration{32, 1000, 25 * us, 100 * us, time.Millisecond} {
		for _, cost := range []time.Duration{0, 1280} {
			x := newTruth(t, 0, []mock.Option{mock.EventCost(cost), mock.Tick(tick), mock.Drift(30)})
			require.Zero(t, x.engine.harvest.placer.clock.Tick()%int64(tick), "found %d", x.engine.harvest.placer.clock.Tick())
			rng := rand.New(rand.NewPCG(uint64(tick), 7))
			for range Count(20, 300) {
				x.advance(time.Duration(rng.IntN(50_000_000)))
				for range 4 {
					x.window(time.Duration(rng.IntN(2_000_000)))
				}
				x.sync()
				x.harvest(rng.IntN(2) == 0)
				x.check()
			}
			x.finish()
			require.Zero(t, x.prof.Stats().Contradictions, "a step of %v", tick)
			require.Zero(t, x.prof.Stats().Failed, "a step of %v", tick)
		}
	}
}

// A window that is open for long is placed by what was known when it began: the clocks
// are compared while it is open, though nothing is unread.
func TestWindowThatIsOpenForLongIsPlacedAsWell(t *testing.T) {
	x := newTruth(t, 0, []mock.Option{mock.Drift(30)})
	for range 3 {
		x.advance(time.Hour)
		x.start()
		x.work(100 * us)
		for range 200 {
			x.advance(50 * time.Millisecond)
			x.harvest(false)
		}
		x.stop(0)
		for range 20 {
			x.advance(50 * time.Millisecond)
			x.harvest(false)
		}
		x.check()
	}
	x.finish()
	require.Len(t, x.bounds, 3)
	for _, b := range x.bounds {
		require.LessOrEqual(t, b, 100*us) // 600 ppm of 50 ms, and the bracket; without it 6 ms
	}
}

// The harvester itself keeps at it, and gives up in the end.
func TestClocksAreComparedWhileWindowsAreOpen(t *testing.T) {
	dev := mock.NewDevice()
	defer dev.System().Close()
	p, err := New(dev, WithAnchorInterval(time.Millisecond))
	require.NoError(t, err)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	tr := p.Track(s, "w")
	idle := p.Stats().Anchors
	time.Sleep(20 * time.Millisecond)
	require.LessOrEqual(t, p.Stats().Anchors, idle+1, "nobody measures anything")
	w := tr.Start()
	require.NoError(t, w.Err())
	require.Eventually(t, func() bool { return p.Stats().Anchors > idle+20 }, 30*time.Second, time.Millisecond)
	require.NoError(t, tr.Abandon(w))
	before := p.Stats().Anchors
	time.Sleep(20 * time.Millisecond)
	require.LessOrEqual(t, p.Stats().Anchors, before+2)
	require.NoError(t, p.Close())
}
