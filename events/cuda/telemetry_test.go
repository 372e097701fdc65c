package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/gputest"
)

// manager makes an imitation of the management library the one that is found.
func manager(t *testing.T, opts ...fakert.Option) *fakert.Runtime {
	t.Helper()
	path := fakert.Build(t, append(opts, fakert.NVML())...)
	t.Setenv("DEVEVENTS_NVML", path)
	ctl := fakert.Control(t, path)
	ctl.Set("sm_clock", 1500)
	return ctl
}

func TestTelemetryIsReadDirectlyAndThroughErase(t *testing.T) {
	ctl := manager(t)
	r := open(t, 2, false)
	dev := r.device(t, 1)
	for _, api := range []any{dev, events.Erase[cuda.Event, cuda.Stream](dev)} {
		telemetry, ok := events.Ability[events.Telemetry](api)
		require.True(t, ok)
		reading, err := telemetry.TelemetryRead()
		require.NoError(t, err)
		require.Equal(t, 1500, reading.SMClock)
		require.Equal(t, dev.Identity().UUID, ctl.CallText("fake_asked"))
	}
}

// Nothing is loaded for those who do not ask, and nothing but telemetry changes where
// there is nothing to load.
func TestTelemetryThatIsAbsentSaysWhyAndNothingElseChanges(t *testing.T) {
	ctl := manager(t)
	r := open(t, 1, false)
	erased := events.Erase[cuda.Event, cuda.Stream](r.dev)
	_, ok := events.Ability[events.Scratch[events.AnyStream]](erased)
	require.True(t, ok)
	require.Zero(t, ctl.Get("calls_nvmlInit_v2"))

	t.Setenv("DEVEVENTS_NVML", t.TempDir()+"/libnvidia-ml.so.1")
	_, ok = events.Ability[events.Telemetry](erased)
	require.False(t, ok)
	_, err := erased.(events.Telemetry).TelemetryRead()
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, "libnvidia-ml.so.1")
	s := r.stream(t)
	r.complete(t, s)

	_, ok = events.Ability[events.Telemetry](cuda.Device{})
	require.False(t, ok)
	_, err = cuda.Device{}.TelemetryRead()
	require.ErrorIs(t, err, events.ErrUnavailable)
}

func TestTelemetryOfAPartOfADeviceIsUnsupported(t *testing.T) {
	manager(t).Set("mig", 1)
	r := open(t, 1, false)
	_, ok := events.Ability[events.Telemetry](r.dev)
	require.False(t, ok)
	_, err := r.dev.TelemetryRead()
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorContains(t, err, "MIG")
}

func TestProfilerIsStartedAndStoppedOnItsDevice(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		control, ok := events.Ability[events.ProfilerControl](r.device(t, 1))
		require.True(t, ok)
		require.NoError(t, control.ProfilerStart())
		require.NoError(t, control.ProfilerStop())
		require.Equal(t, int64(1), r.ctl.Get("calls_"+r.fn("ProfilerStart")))
		require.Equal(t, int64(1), r.ctl.Get("calls_"+r.fn("ProfilerStop")))
		restore := r.fail("ProfilerStart", 999)
		defer restore()
		require.ErrorContains(t, control.ProfilerStart(), "(999)")
	})
	r := open(t, 1, false, fakert.Omit("cudaProfilerStop"))
	_, ok := events.Ability[events.ProfilerControl](r.dev)
	require.False(t, ok)
	require.ErrorIs(t, r.dev.ProfilerStart(), events.ErrUnsupported)
}

// On hardware: what a reading of an H200 must have, for the device that is meant.
func TestGPUTelemetryHasClocksReasonsAndEnergy(t *testing.T) {
	dev := gputest.Device(t)
	telemetry, ok := events.Ability[events.Telemetry](dev)
	if !ok {
		_, err := dev.TelemetryRead()
		require.False(t, gputest.Required(), "no telemetry: %v", err)
		t.Skip("the device has no telemetry here: ", err)
	}
	first, err := telemetry.TelemetryRead()
	require.NoError(t, err)
	require.True(t, first.Knows(events.TelemetrySMClock|events.TelemetryMemoryClock|events.TelemetryThrottle|events.TelemetryTemperature|events.TelemetryPower), "%+v", first)
	require.Positive(t, first.SMClock)
	require.Positive(t, first.Temperature)
	require.Positive(t, first.Power)
	t.Logf("%+v: %v", first, first.Throttle)
}
