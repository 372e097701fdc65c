package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/opencl"
	"example.com/devevents/internal/gputest"
)

// spinning measures spins of a real device.
func spinning(t *testing.T, dev events.AnyApi, d time.Duration, opts ...Option) *Result {
	t.Helper()
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(t, ok)
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	return runOne(t, NewRunner(), func(g *GroupOf[int]) {
		g.Set(On(timer), In(GPU))
		g.Set(opts...)
		g.Bench("spin", func(_ int, it Iters) error {
			for range it.N {
				if _, err := scratch.ScratchSpin(d, stream); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// On hardware, too, the launch of a short kernel is provably not in its time.
func TestGPULaunchLatencyIsHeldOut(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	r := spinning(t, dev, 10*time.Microsecond)
	require.Equal(t, OK, r.Status)
	require.Equal(t, "held", r.Gate)
	require.Zero(t, r.Leak.Count)
	require.True(t, r.Calibration.Held)
	require.Positive(t, r.Calibration.Quantum)
	require.GreaterOrEqual(t, r.Latency.Median, 10_000.0)

	free := spinning(t, dev, 10*time.Microsecond, WithoutGate(), Cold(ColdNone))
	require.GreaterOrEqual(t, free.Latency.Median, r.Latency.Median-2*float64(r.Calibration.Quantum))
	t.Logf("held %.0f ns, not held %.0f ns and %d of %d leaked", r.Latency.Median, free.Latency.Median, free.Leak.Count, free.Leak.Of)
}

// A function that waits for the held device ends in a result and not in a hang.
func TestGPUFunctionThatSynchronizesInAHold(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	r := runOne(t, NewRunner(Watchdog(100*time.Millisecond)), func(g *GroupOf[int]) {
		g.Set(On(timer), In(GPU))
		g.Bench("waits", func(int, Iters) error { return dev.StreamSynchronize(stream) })
	})
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Gate, "launch-exposed")
}

// A vendor that is not CUDA's twin: its gate, its spins, its clock.
func TestHarnessMeasuresThroughOpenCL(t *testing.T) {
	gputest.OpenCL(t)
	rt, err := opencl.Open()
	require.NoError(t, err)
	cl, err := rt.Device(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, cl.Close()) }()
	r := spinning(t, events.Erase(cl), 100*time.Microsecond, WallBudget(2*time.Second))
	require.Equal(t, OK, r.Status)
	require.Equal(t, "timing + OpenCL events", r.Label)
	require.GreaterOrEqual(t, r.Latency.Median, 100_000.0)
	require.NotNil(t, r.Leak)
}
