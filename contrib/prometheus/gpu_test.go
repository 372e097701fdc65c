package gpuprom_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	gpuprom "example.com/devevents/contrib/prometheus"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// On a real device: every window is in the histogram of its device, and is as long as the
// device's own timer says at least.
func TestGPUWindowsAreScraped(t *testing.T) {
	dev := gputest.Device(t)
	s := gputest.Stream(t, dev)
	registry := prometheus.NewPedanticRegistry()
	c, err := gpuprom.New("gpu0")
	require.NoError(t, err)
	p, err := profiler.New(dev, profiler.WithSink(c))
	require.NoError(t, err)
	require.NoError(t, c.Watch(p))
	require.NoError(t, registry.Register(c))
	tr := p.Track(s, "spin")
	const n = 50
	var least time.Duration
	for range n {
		w := tr.Start()
		spin, err := dev.ScratchSpin(200*us, s)
		require.NoError(t, err)
		tr.Stop(w)
		require.NoError(t, dev.StreamSynchronize(s))
		took, err := spin.Measured()
		require.NoError(t, err)
		least += took
	}
	require.NoError(t, p.Close())

	families := scrape(t, registry, protobuf)
	uuid := dev.Identity().UUID
	require.Regexp(t, `^(GPU|MIG)-`, uuid)
	h := one(t, families["gpu_window_duration_seconds"], prometheus.Labels{"device": uuid, "window": "spin"}).GetHistogram()
	require.Equal(t, uint64(n), h.GetSampleCount())
	require.GreaterOrEqual(t, h.GetSampleSum(), least.Seconds())
	require.InDelta(t, n, value(t, families["gpu_windows_total"], prometheus.Labels{"outcome": "finished"}), 0)
	one(t, families["gpu_device_info"], prometheus.Labels{"device": uuid, "backend": "cuda", "name": dev.Identity().Name})
	for _, name := range []string{"gpu_window_bound_seconds", "gpu_clock_best_bracket_seconds", "gpu_clock_last_bracket_seconds", "gpu_clock_tick_seconds", "gpu_clock_anchors_total"} {
		require.Positive(t, value(t, families[name], nil), name)
	}
	t.Logf("bound %v s, drift %v ppm", value(t, families["gpu_window_bound_seconds"], nil), value(t, families["gpu_clock_drift_ppm"], nil))
}
