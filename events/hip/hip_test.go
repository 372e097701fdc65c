package hip_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
)

func open(t *testing.T, opts ...fakert.Option) (hip.Device, *fakert.Runtime) {
	t.Helper()
	path := fakert.Build(t, append([]fakert.Option{fakert.Name("fake-hip.so"), fakert.Vendor("hip")}, opts...)...)
	rt, err := hip.Open(hip.WithLibrary(path))
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	return dev, fakert.Control(t, path)
}

func TestRecordWaitAndElapsed(t *testing.T) {
	dev, ctl := open(t)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	start, err := dev.EventCreate()
	require.NoError(t, err)
	end, err := dev.EventCreate()
	require.NoError(t, err)
	require.NoError(t, dev.EventRecord(start, s))
	ctl.Work(s.Handle(), int64(2*time.Millisecond))
	require.NoError(t, dev.EventRecord(end, s))
	require.NoError(t, dev.EventWait(end))
	span, err := dev.EventElapsed(start, end)
	require.NoError(t, err)
	require.GreaterOrEqual(t, span, 2*time.Millisecond)
	require.NoError(t, dev.EventDestroy(start))
	require.NoError(t, dev.EventDestroy(end))
	require.NoError(t, dev.StreamDestroy(s))
	require.Zero(t, ctl.Get("live_events"))
	require.Equal(t, "hip", dev.Backend())
}

func TestWhatHIPLacksIsAnAbsentAbility(t *testing.T) {
	dev, _ := open(t, fakert.Omit("hipEventRecordWithFlags"))
	var api events.EventApi[hip.Event, hip.Stream] = dev
	_, gate := events.Ability[events.Gate[hip.Stream]](api)
	require.False(t, gate)
	_, graphs := events.Ability[events.Graphs[hip.Event, hip.Stream]](api)
	require.False(t, graphs)
	stale, ok := events.Ability[events.StaleReader](api)
	require.True(t, ok)
	require.True(t, stale.ElapsedAfterCapture())
	_, telemetry := events.Ability[events.Telemetry](api)
	require.False(t, telemetry)
	_, err := dev.TelemetryRead()
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorContains(t, err, "of HIP devices")
	_, profiler := events.Ability[events.ProfilerControl](api)
	require.False(t, profiler)
	require.ErrorIs(t, dev.ProfilerStart(), events.ErrUnsupported)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	_, err = dev.ScratchSpin(time.Millisecond, s)
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.NoError(t, dev.StreamDestroy(s))
}

func TestVersionIsSpelledAsROCmSpellsIt(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
	fakert.Control(t, path).Set("runtime_version", 60241134)
	rt, err := hip.Open(hip.WithLibrary(path))
	require.NoError(t, err)
	require.Equal(t, "6.2.41134", rt.Info().RuntimeVersionText)
	require.Equal(t, "runtime", rt.Info().API)
}
