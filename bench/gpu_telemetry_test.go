package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/internal/gputest"
)

// opened is the machine's first device in an opening of the test's own.
func opened(t *testing.T) events.AnyApi {
	t.Helper()
	gputest.Device(t) // skips or fails where there is none
	rt, err := cuda.Open()
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	return events.Erase[cuda.Event, cuda.Stream](dev)
}

// The telemetry of a case names clocks, reasons and joules on hardware.
func TestGPUTelemetryOfACase(t *testing.T) {
	dev := opened(t)
	if _, ok := events.Ability[events.Telemetry](dev); !ok {
		_, err := dev.(events.Telemetry).TelemetryRead()
		require.False(t, gputest.Required(), "no telemetry: %v", err)
		t.Skip("no telemetry here: ", err)
	}
	r := spinning(t, dev, time.Millisecond, Samples(300, 300), Precision(1e-12), Cold(ColdNone))
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 300)
	tel := r.Telemetry
	require.NotNil(t, tel)
	require.Empty(t, tel.Absent)
	require.Zero(t, tel.Failed, tel.Error)
	require.GreaterOrEqual(t, tel.Readings, 3)
	require.Positive(t, tel.SMClock.Min)
	require.Positive(t, tel.MemoryClock.Min)
	require.Positive(t, tel.Temperature.Last)
	require.NotNil(t, tel.Energy, "300 ms are longer than a step of the counter")
	require.Positive(t, *tel.Energy)
	require.Positive(t, *tel.Power)
	require.NotNil(t, tel.Throttled, "the reasons can be read")
	for _, name := range []string{"sm_clock_median", "memory_clock_median", "energy", "power_mean", "reading_cost"} {
		require.NotNil(t, row(r, name), name)
	}
	require.Zero(t, r.Leak.Count, "a reading between samples leaves the holds alone")
	t.Logf("%d readings, %v each; SM %d to %d MHz, %v C, %.1f W, %.2f J, reasons %v, throttled %d of %d",
		tel.Readings, tel.Cost/time.Duration(tel.Readings), tel.SMClock.Min, tel.SMClock.Max, *tel.Temperature, *tel.Power, *tel.Energy,
		tel.Reasons, tel.Throttled.Count, tel.Throttled.Of)
}

// Without the management library a run is what it was.
func TestGPUBenchmarkRunsWithoutNVML(t *testing.T) {
	t.Setenv("DEVEVENTS_NVML", filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	r := spinning(t, opened(t), 10*time.Microsecond)
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Telemetry.Absent, "libnvidia-ml.so.1")
	require.Equal(t, "held", r.Gate)
}

func TestGPUProfilerIsStartedAndStopped(t *testing.T) {
	dev := opened(t)
	_, ok := events.Ability[events.ProfilerControl](dev)
	require.True(t, ok)
	r := spinning(t, dev, 10*time.Microsecond, Profile(5))
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 5)
	require.Contains(t, r.Stop, "profiler control")
}
