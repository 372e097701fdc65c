package mock_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// The default costs add up as on the device that they were measured on: a
// stamp 3.68 us after an idle record, 1.28 us from event to event.
func TestDefaultCosts(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Offset(0))
	first := recorded(t, dev, s)
	second := recorded(t, dev, s)
	dev.System().Advance(3679)
	require.False(t, done(t, dev, first))
	dev.System().Advance(1)
	require.True(t, done(t, dev, first))
	at, ok := dev.TrueHostTime(first)
	require.True(t, ok)
	require.EqualValues(t, 3680, at)
	_, ok = dev.TrueHostTime(second)
	require.False(t, ok)
	dev.System().Advance(time.Millisecond)
	span, err := dev.EventElapsed(first, second)
	require.NoError(t, err)
	require.Equal(t, 1280*time.Nanosecond, span)
}

// On an idle stream the launch leaks into the interval.
func TestLaunchLatencyShowsOnlyOnAnIdleStream(t *testing.T) {
	span := func(pause time.Duration) time.Duration {
		dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.LaunchLatency(2*us))
		start := recorded(t, dev, s)
		dev.System().Advance(pause)
		require.NoError(t, dev.Work(s, 10*us))
		end := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(end))
		d, err := dev.EventElapsed(start, end)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, 10*us, span(0))
	require.Equal(t, 15*us, span(5*us))
}

func TestUntimedEventsCostTheStreamNothing(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.EventCost(us))
	start := recorded(t, dev, s)
	e, err := dev.EventCreateUntimed(false)
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, dev.EventRecord(e, s))
	}
	end := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(end))
	d, err := dev.EventElapsed(start, end)
	require.NoError(t, err)
	require.Equal(t, us, d)
}

func TestStampsAreMultiplesOfTheTick(t *testing.T) {
	for _, offset := range []time.Duration{0, 17, -17, time.Hour + 5} {
		dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.Tick(32), mock.Offset(offset))
		previous := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(previous))
		for i := range 200 {
			require.NoError(t, dev.Work(s, time.Duration(1+i%77)))
			e := recorded(t, dev, s)
			require.NoError(t, dev.EventWait(e))
			d, err := dev.EventElapsed(previous, e)
			require.NoError(t, err)
			require.Zero(t, d%32)
			at, ok := dev.TrueHostTime(e)
			require.True(t, ok)
			prev, ok := dev.TrueHostTime(previous)
			require.True(t, ok)
			require.InDelta(t, at-prev, int64(d), 31)
			previous = e
		}
	}
}

// Elapsed is float32 milliseconds, so its step grows with the span:
// pocl/pocl#1094, AdaptiveCpp/AdaptiveCpp#2193.
func TestReadingsGetCoarserWithTheSpan(t *testing.T) {
	read := func(work time.Duration, opts ...mock.Option) time.Duration {
		dev, s := device(t, append([]mock.Option{mock.AutoAdvance(), mock.EventCost(0), mock.Tick(1)}, opts...)...)
		start := recorded(t, dev, s)
		require.NoError(t, dev.Work(s, work))
		end := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(end))
		d, err := dev.EventElapsed(start, end)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, 500*time.Nanosecond, read(500))
	require.Equal(t, 10*us, read(10*us))
	hour := time.Hour + 123_456
	require.Equal(t, hour, read(hour, mock.ExactReadings()))
	coarse := read(hour)
	require.NotEqual(t, hour, coarse)
	require.InDelta(t, int64(hour), int64(coarse), 125_000)
	require.Equal(t, coarse, read(hour+1))
}

// One anchor drifts 10 to 100 ppm: meta-pytorch/torchcomms#2424, wolfpld/tracy#1394.
func TestDriftOverAnHour(t *testing.T) {
	dev, _ := device(t, mock.Manual(), mock.Drift(50), mock.Offset(7*time.Second))
	require.Equal(t, 7*time.Second, dev.DeviceNow())
	dev.System().Advance(time.Hour)
	require.Equal(t, 7*time.Second+time.Hour+180*time.Millisecond, dev.DeviceNow())
}

func TestDriftStepsAndJumps(t *testing.T) {
	dev, _ := device(t, mock.Manual(), mock.Offset(0))
	dev.SetDrift(2*time.Second, 100)
	dev.SetDrift(time.Second, -500)
	dev.JumpClock(3*time.Second, -time.Minute)
	want := map[time.Duration]time.Duration{
		time.Second:            time.Second,
		2 * time.Second:        2*time.Second - 500*us,
		3*time.Second - 1:      3*time.Second - 1 - 400*us - 1,
		3 * time.Second:        3*time.Second - 400*us - time.Minute,
		4 * time.Second:        4*time.Second - 300*us - time.Minute,
		500 * time.Millisecond: 500 * time.Millisecond,
	}
	for host, device := range want {
		require.InDelta(t, int64(device), int64(dev.DeviceTime(host)), 2, "at %v", host)
	}
	dev.System().Advance(5 * time.Second)
	before := dev.DeviceNow()
	dev.SetDrift(0, 1000) // the past: from now on
	require.Equal(t, before, dev.DeviceNow())
	dev.System().Advance(time.Second)
	require.InDelta(t, int64(before+time.Second+time.Millisecond), int64(dev.DeviceNow()), 2)
	require.InDelta(t, int64(4*time.Second-300*us-time.Minute), int64(dev.DeviceTime(4*time.Second)), 2)
}

// A forecast made before a step is scripted must not survive it, and the walk
// must be the same whoever asks for what first.
func TestWanderIsReproducible(t *testing.T) {
	walker := func() *mock.Device {
		dev, _ := device(t, mock.Manual(), mock.Wander(5, 42), mock.Drift(6), mock.Offset(0))
		return dev
	}
	a, b := walker(), walker()
	a.DeviceTime(time.Hour)
	a.SetDrift(time.Second+1, 300)
	b.SetDrift(time.Second+1, 300)
	for _, at := range []time.Duration{30 * time.Second, time.Second, 90 * time.Second, 31 * time.Second} {
		require.Equal(t, b.DeviceTime(at), a.DeviceTime(at))
	}
	far := a.DeviceTime(100 * time.Second)
	require.NotEqual(t, far, walker().DeviceTime(100*time.Second))
	last := time.Duration(math.MinInt64)
	for at := time.Duration(0); at < 10*time.Second; at += 7 * time.Millisecond {
		require.Greater(t, a.DeviceTime(at), last)
		last = a.DeviceTime(at)
	}
}

// Work lasts by the device's own timer, whatever that does.
func TestWorkLastsByTheDevicesClock(t *testing.T) {
	for _, drift := range []float64{0, 50, -50, 500} {
		dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.Drift(drift), mock.Wander(3, 1))
		start := recorded(t, dev, s)
		dev.SetDrift(300*time.Millisecond, -drift)
		dev.DeviceTime(450 * time.Millisecond) // half of it has been worked out already
		require.NoError(t, dev.Work(s, time.Second))
		end := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(end))
		d, err := dev.EventElapsed(start, end)
		require.NoError(t, err)
		require.InDelta(t, int64(time.Second), int64(d), 20)
	}
}

// Truth for whoever places windows: a stamp lies between the host's readings
// around it, whatever the clocks, the costs and the preemptions do.
func TestStampsLieInsideTheHostsBracket(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.HostCost(900, 300, 40), mock.Wander(5, 3), mock.VisibleAfter(700))
	dev.Script(
		mock.PreemptRandomly(0.2, 300*us, 9),
		mock.PreemptEvery(7, 40*us),
		mock.Fault{Op: mock.OpEventRecord, Chance: 0.1, Before: 20 * us, After: 30 * us, Vary: true},
		mock.Fault{Op: mock.OpEventQuery, Chance: 0.1, Before: 20 * us, After: 30 * us, Vary: true},
	)
	e := event(t, dev)
	clock := dev.System().HostClock()
	wide := 0
	for range 2000 {
		before := clock()
		require.NoError(t, dev.EventRecord(e, s))
		for !done(t, dev, e) {
		}
		after := dev.HostNow()
		at, ok := dev.TrueHostTime(e)
		require.True(t, ok)
		require.GreaterOrEqual(t, at, before)
		require.LessOrEqual(t, at, int64(after))
		if int64(after)-before > int64(30*us) {
			wide++
		}
	}
	require.Greater(t, wide, 200, "the preemptions show")
	require.Less(t, wide, 1500, "not everything is preempted")
}

func TestDelayedVisibilityDoesNotMoveTheStamp(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Ideal(), mock.VisibleAfter(50*us))
	e := recorded(t, dev, s)
	dev.System().Advance(50*us - 1)
	require.False(t, done(t, dev, e))
	_, err := dev.EventElapsed(e, e)
	require.Error(t, err)
	dev.System().Advance(1)
	require.True(t, done(t, dev, e))
	at, ok := dev.TrueHostTime(e)
	require.True(t, ok)
	require.Zero(t, at)
}
