package gpuotel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"

	"example.com/devevents/events"
	"example.com/devevents/profiler"
)

// What a sink keeps for windows to come is bounded, whatever it is fed.
func TestWhatASinkRemembersIsBounded(t *testing.T) {
	sink, err := New(WithTracerProvider(noop.NewTracerProvider()), WithMeterProvider(metricnoop.NewMeterProvider()), WithHold(time.Hour))
	require.NoError(t, err)
	for i := range uint64(10_000) {
		device := &profiler.Device{Backend: "mock", Identity: events.Identity{Ordinal: int(i)}}
		require.NoError(t, sink.Spans([]profiler.Span{
			{ID: 3 * i, Device: device, Start: time.Now()},
			{ID: 3*i + 2, Parent: 3*i + 1, Device: device, Start: time.Now()},
		}))
	}
	require.LessOrEqual(t, len(sink.nest.recent), mostRecent)
	require.LessOrEqual(t, len(sink.nest.held), mostHeld)
	require.LessOrEqual(t, len(sink.nest.waiting), mostHeld)
	require.LessOrEqual(t, sink.nest.queue.Len(), mostHeld)
	require.LessOrEqual(t, len(sink.emit.devices), mostDevices)
	require.NoError(t, sink.Shutdown(t.Context()))
	require.Empty(t, sink.nest.held)
	require.Empty(t, sink.nest.waiting)
	require.Zero(t, sink.nest.queue.Len())
}
