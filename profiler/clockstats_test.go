package profiler

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// What is said of the clock is true of the simulated one.
func TestClockStatsSayWhatTheClockIsLike(t *testing.T) {
	for _, ppm := range []float64{-300, -6, 0, 14} {
		x := newTruth(t, 0, []mock.Option{mock.Drift(ppm), mock.Tick(32)})
		for range 30 {
			x.window(time.Millisecond)
			x.advance(100 * time.Millisecond)
			x.harvest(false)
		}
		x.finish()
		c := x.prof.ClockStats()
		require.Equal(t, 32*time.Nanosecond, c.Tick)
		// The device's clock is fast by ppm, so the host's is slow by it.
		require.InDelta(t, -ppm, c.DriftPPM, c.DriftUncertaintyPPM+ppm*ppm*1e-6)
		require.Less(t, c.DriftUncertaintyPPM, 5.0)
		require.Positive(t, c.BestBracket)
		require.LessOrEqual(t, c.BestBracket, c.LastBracket)
		require.Less(t, c.LastBracket, 20*us)
		require.Greater(t, c.Anchors, uint64(20))
		require.Equal(t, c.Anchors, x.prof.Stats().Anchors)
		require.Zero(t, c.Epoch)
		x.dev.JumpClock(0, time.Hour)
		x.advance(time.Second)
		x.window(time.Millisecond)
		x.advance(time.Second)
		x.harvest(false)
		x.harvest(true)
		require.Equal(t, uint32(1), x.prof.ClockStats().Epoch)
		x.torn()
	}
	require.Zero(t, (*Profiler[mock.Stream])(nil).ClockStats())
}

// A reader at once and one who waits get what their placement rests on.
func TestQualitySaysWhatAPlaceRestsOn(t *testing.T) {
	x := newTruth(t, 0, nil)
	var got []Quality
	for range 10 {
		x.advance(100 * time.Millisecond)
		x.window(time.Millisecond)
		x.sync()
		x.harvest(true)
		for _, s := range x.check() {
			got = append(got, s.Quality)
		}
	}
	require.Len(t, got, 10)
	require.NotContains(t, got, QualitySettled, "nothing follows them yet")
	require.NotContains(t, got, QualityAlone)
	got = got[:0]
	for range 20 {
		x.window(time.Millisecond)
		x.advance(100 * time.Millisecond)
		x.harvest(false)
		for _, s := range x.check() {
			got = append(got, s.Quality)
		}
	}
	require.NotEmpty(t, got)
	for _, q := range got {
		require.Equal(t, QualitySettled, q)
	}
	x.finish()
	for q, text := range map[Quality]string{QualityAlone: "alone", QualityCausal: "causal", QualitySettled: "settled", 9: "Quality(9)"} {
		require.Equal(t, text, q.String())
	}
}

func TestBracketSkewIsAPartOfABracket(t *testing.T) {
	dev := mock.NewDevice()
	defer dev.System().Close()
	for _, wrong := range []float64{0.51, -0.51, math.NaN(), math.Inf(1)} {
		_, err := New(dev, WithBracketSkew(wrong))
		require.ErrorIs(t, err, events.ErrInvalid)
	}
	// The stamps of this device lie at the end of their brackets, but for what a query
	// takes: knowing that moves the estimates to the truth, and keeps the bounds.
	var worst [2]time.Duration
	for i, skew := range []float64{0, 0.45} {
		x := newTruth(t, 0, []mock.Option{mock.LaunchLatency(8 * us)}, WithBracketSkew(skew))
		for range 30 {
			x.window(time.Millisecond)
			x.advance(100 * time.Millisecond)
			x.harvest(false)
		}
		x.finish()
		worst[i] = x.worst
	}
	require.Greater(t, worst[0], 2*worst[1], "%v", worst)
}

func TestSpansSayWhichStreamTheyAreOf(t *testing.T) {
	dev := mock.NewDevice()
	defer dev.System().Close()
	p, err := New(dev)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	numbers := map[uint64]bool{}
	for range 3 {
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		var of []uint64
		for _, name := range []string{"a", "b"} {
			tr := p.Track(s, name)
			span, err := tr.Stop(tr.Start()).Wait(t.Context())
			require.NoError(t, err)
			of = append(of, span.Stream())
		}
		require.Equal(t, of[0], of[1], "two tracks of one stream")
		require.NotZero(t, of[0])
		require.False(t, numbers[of[0]], "another stream's number")
		numbers[of[0]] = true
	}
}
