package collectortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	gpuotel "example.com/devevents/contrib/otel"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// A service as it would be: the batching exporters, a request with two windows of which one
// lies in the other, a later one that is linked, and a track with a name of no UTF-8, for
// which an exporter would refuse its whole batch.
func TestCollectorReceivesWindows(t *testing.T) {
	ctx := t.Context()
	c := newCollector(t)
	toTraces, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(c.address), otlptracehttp.WithInsecure())
	require.NoError(t, err)
	toMetrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(c.address), otlpmetrichttp.WithInsecure())
	require.NoError(t, err)
	tracers := sdk.NewTracerProvider(sdk.WithBatcher(toTraces))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(toMetrics)))
	sink, err := gpuotel.New(gpuotel.WithTracerProvider(tracers), gpuotel.WithMeterProvider(meters))
	require.NoError(t, err)

	seen := map[string]profiler.Span{}
	keep := profiler.SinkFunc(func(batch []profiler.Span) error {
		for _, s := range batch {
			seen[s.Name] = s
		}
		return nil
	})
	dev := mock.NewDevice() // its time is the machine's, as the service's is
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev, profiler.WithSink(sink), profiler.WithSink(keep))
	require.NoError(t, err)
	request, span := tracers.Tracer("service").Start(ctx, "request")
	measure := func(ctx context.Context, name string, inside func()) {
		w := prof.Track(stream, name).StartContext(ctx)
		require.NoError(t, dev.Work(stream, 1500*time.Microsecond))
		inside()
		prof.Stop(stream, w)
	}
	measure(request, "decode", func() { measure(request, "attention", func() {}) })
	span.End()
	measure(request, "after", func() {})
	measure(ctx, "\xff", func() {})
	require.NoError(t, dev.StreamSynchronize(stream))
	require.NoError(t, prof.Close())
	require.NoError(t, sink.Shutdown(ctx))
	require.NoError(t, tracers.Shutdown(ctx))
	require.NoError(t, meters.Shutdown(ctx))
	require.NoError(t, dev.StreamDestroy(stream))
	dev.System().Close()
	require.ErrorIs(t, sink.Spans(nil), events.ErrClosed)

	got := c.spans()
	require.Len(t, got, 5)
	for name, atLeast := range map[string]time.Duration{"decode": 3 * time.Millisecond, "attention": 1500 * time.Microsecond, "after": 1500 * time.Microsecond} {
		s := got[name]
		require.GreaterOrEqual(t, seen[name].Duration, atLeast, name)
		require.Equal(t, seen[name].Duration, s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()), name)
		require.Equal(t, seen[name].Start.UnixNano(), int64(s.StartTimestamp()), name)
		require.Equal(t, ptrace.SpanKindInternal, s.Kind())
		require.Equal(t, map[string]any{
			"hw.id": dev.Identity().UUID, "hw.name": dev.Identity().Name, "hw.vendor": dev.Identity().Vendor,
			"gpu.window.name": name, "gpu.window.quality": seen[name].Quality.String(),
			"gpu.window.bound": seen[name].Bound.Seconds(), "gpu.window.epoch": int64(seen[name].Epoch),
			"gpu.window.id": int64(seen[name].ID), "gpu.window.stream": int64(1),
		}, without(s.Attributes().AsRaw(), "gpu.window.parent"), name)
	}
	require.Equal(t, trace.SpanID(got["request"].SpanID()), span.SpanContext().SpanID())
	require.Equal(t, got["request"].SpanID(), got["decode"].ParentSpanID())
	require.Equal(t, got["decode"].SpanID(), got["attention"].ParentSpanID())
	require.Equal(t, got["request"].TraceID(), got["attention"].TraceID())
	require.True(t, got["after"].ParentSpanID().IsEmpty())
	require.Equal(t, 1, got["after"].Links().Len())
	require.Equal(t, got["request"].SpanID(), got["after"].Links().At(0).SpanID())
	require.Contains(t, got, "\uFFFD")

	points := c.points(t)
	require.Len(t, points, 4)
	p := points["decode"]
	require.Equal(t, uint64(1), p.Count())
	require.InDelta(t, seen["decode"].Duration.Seconds(), p.Sum(), 1e-12)
	bounds := p.ExplicitBounds().AsRaw()
	require.InDelta(t, 1e-6, bounds[0], 0)
	require.InDelta(t, 10, bounds[len(bounds)-1], 0)
	require.Equal(t, 1, p.Exemplars().Len())
	require.Equal(t, got["decode"].SpanID(), p.Exemplars().At(0).SpanID())
}

func without(m map[string]any, key string) map[string]any {
	delete(m, key)
	return m
}

// spans are those that arrived, by name.
func (c *collector) spans() map[string]ptrace.Span {
	found := map[string]ptrace.Span{}
	for _, batch := range c.traces.AllTraces() {
		for _, resource := range batch.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					found[s.Name()] = s
				}
			}
		}
	}
	return found
}

// points are those of the histogram that arrived last, by the window's name.
func (c *collector) points(t *testing.T) map[string]pmetric.HistogramDataPoint {
	t.Helper()
	found := map[string]pmetric.HistogramDataPoint{}
	for _, batch := range c.metrics.AllMetrics() {
		for _, resource := range batch.ResourceMetrics().All() {
			for _, scope := range resource.ScopeMetrics().All() {
				for _, m := range scope.Metrics().All() {
					require.Equal(t, "gpu.window.duration", m.Name())
					require.Equal(t, "s", m.Unit())
					for _, p := range m.Histogram().DataPoints().All() {
						name, _ := p.Attributes().Get("gpu.window.name")
						found[name.Str()] = p
					}
				}
			}
		}
	}
	return found
}
