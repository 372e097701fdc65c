package profiler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// On some runtimes an event on the default stream waits for every other stream, so
// that "now" is when everything has ended; and the stream of the work says when its
// work has ended. The clocks are compared on a stream that has nothing else to do,
// while the others are busy for long.
// intel/llvm#12904, oneapi-src/unified-runtime#1634, Genesis-Embodied-AI/quadrants#407
func TestClocksAreComparedOnAStreamOfTheirOwn(t *testing.T) {
	x := newTruth(t, 0, []mock.Option{mock.CallLog(1 << 16)})
	private := x.engine.harvest.placer.stream
	unused := x.dev.WrapStream(0)
	require.NotEqual(t, unused, private)
	require.NotEqual(t, x.stream, private)
	x.dev.ResetCalls()
	before := x.prof.Stats().Anchors
	const rounds = 20
	x.work(2 * time.Second)
	require.NoError(t, x.dev.Work(unused, time.Hour))
	for range rounds {
		x.window(time.Millisecond)
		x.advance(150 * time.Millisecond)
		x.harvest(false)
	}
	st := x.prof.Stats()
	require.GreaterOrEqual(t, st.Anchors, before+rounds, "a busy stream has held a comparison up")
	require.Zero(t, st.AnchorsMissed)
	compared := 0
	for _, c := range x.dev.Calls() {
		require.False(t, c.Waits(), "%+v", c)
		if c.Op == mock.OpEventRecord && c.Stream != x.stream.ID() {
			require.Equal(t, private.ID(), c.Stream)
			compared++
		}
	}
	require.GreaterOrEqual(t, compared, rounds)
	x.finish()
	for _, b := range x.bounds {
		require.LessOrEqual(t, b, 50*us)
	}
}

// The host's time of an anchor is known as well as the device answers, and no better.
// Taking it at the first look after the device was done, or before slow preparations,
// moved everything by what lay between.
// unslothai/llama.cpp#191, wolfpld/tracy#171, openvinotoolkit/openvino#37561
func TestSlowAnswerWidensTheBoundAndMovesNothing(t *testing.T) {
	for _, late := range []time.Duration{0, 100 * us, 900 * us, 50 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			x := newTruth(t, 0, []mock.Option{mock.VisibleAfter(late), mock.EventCost(0), mock.LaunchLatency(0)})
			for range 10 {
				x.advance(200 * time.Millisecond)
				x.window(20 * us)
				x.advance(2*late + time.Millisecond)
				x.harvest(true)
				x.check() // of the truth, which lies in the bound
			}
			x.finish()
			require.Len(t, x.bounds, 10)
			for _, b := range x.bounds {
				require.GreaterOrEqual(t, b, late/2, "narrower than anybody can know")
			}
			if late > time.Duration(probeLimit) {
				require.NotZero(t, x.prof.Stats().AnchorsMissed)
				return
			}
			require.Zero(t, x.prof.Stats().AnchorsMissed)
			require.LessOrEqual(t, x.worst, late/2+20*us)
		})
	}
}

// Work does not begin before it is asked for, however wide the bracket of the clocks
// is and however they drift; a trace in which it does is not believed.
// wolfpld/tracy#1085, kpet/clvk#818
func TestWindowNeverStartsBeforeTheCallThatOpenedIt(t *testing.T) {
	for name, opts := range map[string][]mock.Option{
		"wide bracket, quick start": {mock.HostCost(400*us, 100*us, 0), mock.LaunchLatency(0), mock.EventCost(0)},
		"device clock is fast":      {mock.Drift(600), mock.LaunchLatency(0), mock.EventCost(0)},
		"device clock is slow":      {mock.Drift(-600), mock.LaunchLatency(0), mock.EventCost(0)},
		"coarse clock":              {mock.Tick(us), mock.LaunchLatency(0), mock.EventCost(0)},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTruth(t, 0, opts)
			for i := range Count(50, 1000) {
				x.advance(time.Duration(i%7) * 13 * time.Millisecond)
				x.window(time.Duration(i%5) * us)
				if i%3 == 0 {
					x.sync()
					x.harvest(i%2 == 0)
				}
				for _, s := range x.check() { // that no start precedes its call
					require.False(t, s.End().Before(s.Start))
				}
			}
			x.finish()
		})
	}
}

// A reading from an anchor of an hour ago has steps of 250 us, and the clocks have
// drifted by more. It is taken from the one that is nearest.
// pocl/pocl#1094, AdaptiveCpp/AdaptiveCpp#2193
func TestWindowsAreReadFromTheNearestAnchor(t *testing.T) {
	x := newTruth(t, 0, []mock.Option{mock.Drift(20)})
	for range 5 {
		x.advance(time.Hour)
		x.window(10 * us)
		x.sync()
		x.harvest(true) // an anchor, the first for an hour
		x.advance(20 * time.Millisecond)
		x.window(10 * us)
		x.sync()
		x.advance(20 * time.Millisecond) // it is seen late, so that its own bracket says little
		x.harvest(false)                 // and no anchor follows
		x.finish()
	}
	require.Len(t, x.bounds, 10)
	for _, b := range x.bounds {
		require.LessOrEqual(t, b, 30*us)
	}
}
