package gpuotel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	gpuotel "example.com/devevents/contrib/otel"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

const us = time.Microsecond

var background = context.Background()

// rig is a sink on the SDK, with what it exports in memory.
type rig struct {
	*gpuotel.Sink
	spans   *tracetest.InMemoryExporter
	reader  *sdkmetric.ManualReader
	tracers *sdk.TracerProvider
	service trace.Tracer
}

func newRig(t testing.TB, opts ...gpuotel.Option) *rig {
	t.Helper()
	r := &rig{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	r.tracers = sdk.NewTracerProvider(sdk.WithSyncer(r.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	sink, err := gpuotel.New(append([]gpuotel.Option{gpuotel.WithTracerProvider(r.tracers), gpuotel.WithMeterProvider(meters)}, opts...)...)
	require.NoError(t, err)
	r.Sink, r.service = sink, r.tracers.Tracer("service")
	t.Cleanup(func() {
		require.NoError(t, r.Shutdown(background))
		require.NoError(t, r.tracers.Shutdown(background))
		require.NoError(t, meters.Shutdown(background))
	})
	return r
}

// request is a span of the program's own.
func (r *rig) request(ctx context.Context) (context.Context, trace.Span) {
	return r.service.Start(ctx, "request")
}

// got are the spans that were made of windows, by name.
func (r *rig) got() map[string]tracetest.SpanStub {
	found := map[string]tracetest.SpanStub{}
	for _, s := range r.spans.GetSpans() {
		if s.InstrumentationScope.Name != "service" {
			found[s.Name] = s
		}
	}
	return found
}

func (r *rig) points(t testing.TB) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(background, &all))
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	require.Len(t, all.ScopeMetrics, 1)
	require.Len(t, all.ScopeMetrics[0].Metrics, 1)
	m := all.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "gpu.window.duration", m.Name)
	require.Equal(t, "s", m.Unit)
	return m.Data.(metricdata.Histogram[float64]).DataPoints
}

func attributes(list []attribute.KeyValue) map[string]any {
	found := map[string]any{}
	for _, kv := range list {
		found[string(kv.Key)] = kv.Value.AsInterface()
	}
	return found
}

// gpu is a device as a profiler would name it.
func gpu() *profiler.Device {
	return &profiler.Device{Backend: "cuda", Identity: events.Identity{
		Ordinal: 1, Vendor: "NVIDIA", Name: "H200", UUID: "GPU-6f9c7b1e-0a2d-4c55-93f5-0123456789ab", PCIBusID: "0000:4e:00.0",
	}}
}

var someDevice = gpu()

// window is a finished one on the first stream.
func window(ctx context.Context, id, parent uint64, name string) profiler.Span {
	called := time.Now()
	return profiler.Span{
		ID: id + 1<<40, Parent: parent + min(parent, 1)<<40, Name: name, Context: ctx, Device: someDevice,
		Called: called, Start: called.Add(20 * us), Bound: 4 * us, Duration: 3 * time.Millisecond,
		Quality: profiler.QualitySettled,
	}
}

// device is a simulated one with a stream and a profiler that feeds the sink.
type device struct {
	*mock.Device
	stream mock.Stream
	prof   *profiler.Profiler[mock.Stream]
}

func newDevice(t testing.TB, sinks ...profiler.Sink) *device {
	t.Helper()
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	var opts []profiler.Option
	for _, sink := range sinks {
		opts = append(opts, profiler.WithSink(sink))
	}
	p, err := profiler.New(dev, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, dev.StreamDestroy(s))
		dev.System().Close()
	})
	return &device{dev, s, p}
}

func (d *device) work(t testing.TB, length time.Duration) {
	t.Helper()
	require.NoError(t, d.Work(d.stream, length))
}

// finish has every window delivered.
func (d *device) finish(t testing.TB) {
	t.Helper()
	require.NoError(t, d.StreamSynchronize(d.stream))
	require.NoError(t, d.prof.Close())
}
