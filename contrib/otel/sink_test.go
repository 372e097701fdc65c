package gpuotel_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	gpuotel "example.com/devevents/contrib/otel"
	"example.com/devevents/events"
	"example.com/devevents/profiler"
)

// A span says of a window what its span of the profiler says, to the nanosecond.
func TestSpanSaysWhatTheWindowSays(t *testing.T) {
	r := newRig(t)
	var seen []profiler.Span
	d := newDevice(t, r, profiler.SinkFunc(func(batch []profiler.Span) error { seen = append(seen, batch...); return nil }))
	tr := d.prof.Track(d.stream, "decode")

	ctx, request := r.request(background)
	w := tr.StartContext(ctx)
	d.work(t, 3*time.Millisecond)
	tr.Stop(w)
	request.End()
	d.finish(t)

	require.Len(t, seen, 1)
	got := r.got()["decode"]
	require.Equal(t, request.SpanContext().SpanID(), got.Parent.SpanID())
	require.Equal(t, request.SpanContext().TraceID(), got.SpanContext.TraceID())
	require.Empty(t, got.Links)
	require.Equal(t, trace.SpanKindInternal, got.SpanKind)
	require.Equal(t, "example.com/devevents/contrib/otel", got.InstrumentationScope.Name)
	require.Equal(t, "https://opentelemetry.io/schemas/1.43.0", got.InstrumentationScope.SchemaURL)
	require.Equal(t, seen[0].Start.UnixNano(), got.StartTime.UnixNano())
	require.Equal(t, 3*time.Millisecond, got.EndTime.Sub(got.StartTime))
	id := d.Identity()
	require.Equal(t, map[string]any{
		"hw.id": id.UUID, "hw.name": id.Name, "hw.vendor": id.Vendor,
		"gpu.window.name": "decode", "gpu.window.id": int64(w.ID()), "gpu.window.stream": int64(1),
		"gpu.window.epoch": int64(0), "gpu.window.bound": seen[0].Bound.Seconds(), "gpu.window.quality": seen[0].Quality.String(),
	}, attributes(got.Attributes))
}

// A series joins with those of other exporters by the UUID as the vendor writes it.
// open-telemetry/opentelemetry-ebpf-instrumentation#3479
func TestDeviceIsNamedByWhatIsKnownOfIt(t *testing.T) {
	for want, known := range map[string]events.Identity{
		"GPU-6f9c7b1e-0a2d-4c55-93f5-0123456789ab": gpu().Identity,
		"0000:4e:00.0": {Ordinal: 1, PCIBusID: "0000:4e:00.0"},
		"opencl:1":     {Ordinal: 1},
	} {
		r := newRig(t)
		s := window(background, 1, 0, "w")
		s.Device = &profiler.Device{Backend: "opencl", Identity: known}
		require.NoError(t, r.Spans([]profiler.Span{s}))
		got := attributes(r.got()["w"].Attributes)
		require.Equal(t, want, got["hw.id"])
		require.Equal(t, known.Name != "", got["hw.name"] != nil, "nothing is made up")
		require.Equal(t, known.Vendor != "", got["hw.vendor"] != nil)
	}
	r := newRig(t)
	s := window(background, 1, 0, "w")
	s.Device = nil
	require.NoError(t, r.Spans([]profiler.Span{s}))
	require.NotContains(t, attributes(r.got()["w"].Attributes), "hw.id")
}

// The request is over when its windows get here. It is their parent all the same, unless
// it was over before they were opened.
func TestParentThatEndedBeforeTheWindowIsLinked(t *testing.T) {
	r := newRig(t)
	ctx, request := r.request(background)
	during := window(ctx, 1, 0, "during")
	request.End()
	after := window(ctx, 2, 0, "after")
	after.Called = after.Called.Add(us) // clocks may be coarse
	require.NoError(t, r.Spans([]profiler.Span{during, after}))

	got := r.got()
	require.Equal(t, request.SpanContext().SpanID(), got["during"].Parent.SpanID())
	require.Empty(t, got["during"].Links)
	require.False(t, got["after"].Parent.IsValid())
	require.NotEqual(t, request.SpanContext().TraceID(), got["after"].SpanContext.TraceID())
	require.Len(t, got["after"].Links, 1)
	require.True(t, request.SpanContext().Equal(got["after"].Links[0].SpanContext))
}

// A span of another process, or of one that does not tell its end, is a parent.
func TestParentThatCannotBeAskedIsAParent(t *testing.T) {
	r := newRig(t)
	_, request := r.request(background)
	request.End()
	for name, ctx := range map[string]context.Context{
		"remote": trace.ContextWithRemoteSpanContext(background, request.SpanContext()),
		"local":  trace.ContextWithSpanContext(background, request.SpanContext()),
	} {
		require.NoError(t, r.Spans([]profiler.Span{window(ctx, 1, 0, name)}))
		require.Equal(t, request.SpanContext().SpanID(), r.got()[name].Parent.SpanID(), name)
		require.Equal(t, name == "remote", r.got()[name].Parent.IsRemote())
	}
}

func TestWindowWithoutAContextStartsATrace(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Spans([]profiler.Span{window(nil, 1, 0, "alone"), window(background, 2, 0, "empty")})) //nolint:staticcheck // nil is what the profiler gives
	for _, name := range []string{"alone", "empty"} {
		require.True(t, r.got()[name].SpanContext.IsValid())
		require.False(t, r.got()[name].Parent.IsValid())
		require.Empty(t, r.got()[name].Links)
	}
}

// A web server cancels a request's context when it is over, which is before its windows
// get here.
func TestCancelledRequestIsMeasuredAllTheSame(t *testing.T) {
	r := newRig(t)
	type key struct{}
	var during error
	r.tracers.RegisterSpanProcessor(starter(func(ctx context.Context) {
		if ctx.Value(key{}) != nil {
			during = ctx.Err()
		}
	}))
	ctx, request := r.request(context.WithValue(background, key{}, 1))
	ctx, cancel := context.WithCancel(ctx)
	s := window(ctx, 1, 0, "w")
	cancel()
	request.End()
	during = context.Canceled
	require.NoError(t, r.Spans([]profiler.Span{s}))
	require.NoError(t, during, "processors see what the context carries, and no end of it")
	require.Equal(t, request.SpanContext().SpanID(), r.got()["w"].Parent.SpanID())
	require.Len(t, r.points(t), 1)
}

// What the program did not sample stays out, and is counted by the histogram.
func TestUnsampledRequestHasNoSpans(t *testing.T) {
	r := newRig(t)
	off := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	ctx := trace.ContextWithSpanContext(background, off)
	require.NoError(t, r.Spans([]profiler.Span{window(ctx, 2, 1, "inner"), window(ctx, 1, 0, "outer")}))
	require.Empty(t, r.got())
	require.Len(t, r.points(t), 2)
}

func TestHistogramHasTheScaleOfAGPU(t *testing.T) {
	r := newRig(t)
	ctx, request := r.request(background)
	for i, d := range []time.Duration{0, us, 1500 * time.Nanosecond, 3 * time.Millisecond, time.Minute} {
		s := window(ctx, uint64(i+1), 0, "w")
		s.Duration = d
		require.NoError(t, r.Spans([]profiler.Span{s}))
	}
	request.End()
	points := r.points(t)
	require.Len(t, points, 1)
	p := points[0]
	require.Equal(t, 1e-6, p.Bounds[0])               //nolint:testifylint // a literal
	require.Equal(t, 10.0, p.Bounds[len(p.Bounds)-1]) //nolint:testifylint // a literal
	require.IsIncreasing(t, p.Bounds)
	require.Equal(t, uint64(5), p.Count)
	require.Equal(t, uint64(2), p.BucketCounts[0], "0 and 1 us")
	require.Equal(t, uint64(1), p.BucketCounts[1], "up to 2 us")
	require.Equal(t, uint64(1), p.BucketCounts[len(p.BucketCounts)-1], "beyond 10 s")
	require.InDelta(t, 60.0030025, p.Sum, 1e-9)
	require.Equal(t, map[string]any{
		"gpu.window.name": "w", "hw.id": someDevice.UUID, "hw.name": "H200", "hw.vendor": "NVIDIA",
	}, attributes(p.Attributes.ToSlice()))
	require.NotEmpty(t, p.Exemplars)
	for _, e := range p.Exemplars {
		trace := request.SpanContext().TraceID()
		require.Equal(t, trace[:], e.TraceID)
	}
}

// open-telemetry/opentelemetry-ebpf-instrumentation#1230
func TestNamesStayFewAndValid(t *testing.T) {
	r := newRig(t, gpuotel.WithMaxNames(2))
	for i, name := range []string{"a", "request 1\xff", "request 2", "", "a"} {
		require.NoError(t, r.Spans([]profiler.Span{window(background, uint64(i+1), 0, name)}))
	}
	var spans, own, series []string
	for _, s := range r.spans.GetSpans() {
		spans, own = append(spans, s.Name), append(own, attributes(s.Attributes)["gpu.window.name"].(string))
	}
	for _, p := range r.points(t) {
		series = append(series, attributes(p.Attributes.ToSlice())["gpu.window.name"].(string))
	}
	require.Equal(t, []string{"a", "request 1\uFFFD", "other", "other", "a"}, spans)
	require.Equal(t, []string{"a", "request 1\uFFFD", "request 2", "unnamed", "a"}, own)
	require.ElementsMatch(t, []string{"a", "request 1\uFFFD", "other"}, series)
}

func TestAttributesOfTheCallerAreEverywhere(t *testing.T) {
	r := newRig(t, gpuotel.WithAttributes(rackAttribute))
	require.NoError(t, r.Spans([]profiler.Span{window(background, 1, 0, "w")}))
	require.Equal(t, "r7", attributes(r.got()["w"].Attributes)["rack"])
	require.Equal(t, "r7", attributes(r.points(t)[0].Attributes.ToSlice())["rack"])
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []gpuotel.Option{nil, gpuotel.WithMaxNames(0), gpuotel.WithHold(-1)} {
		_, err := gpuotel.New(o)
		require.ErrorIs(t, err, events.ErrInvalid)
	}
	sink, err := gpuotel.New(gpuotel.WithTracerProvider(nil), gpuotel.WithMeterProvider(nil))
	require.NoError(t, err, "the global providers")
	require.NoError(t, sink.Spans([]profiler.Span{window(background, 1, 0, "w")}))
}

// A provider that was shut down makes nothing, and breaks nothing.
func TestProviderThatWasShutDown(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.tracers.Shutdown(background))
	require.NoError(t, r.Spans([]profiler.Span{window(background, 2, 1, "inner"), window(background, 1, 0, "outer")}))
	require.Empty(t, r.got())
}

func TestHistogramAlone(t *testing.T) {
	r := newRig(t, gpuotel.WithTracerProvider(noop.NewTracerProvider()))
	require.NoError(t, r.Spans([]profiler.Span{window(background, 2, 1, "inner"), window(background, 1, 0, "outer")}))
	require.Empty(t, r.got())
	require.Len(t, r.points(t), 2)
}

// Several profilers by mistake share a sink, while it is shut down.
func TestSinkHammer(t *testing.T) {
	var mu sync.Mutex
	taken, refused := 0, 0
	ended := &counter{}
	sink, err := gpuotel.New(gpuotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(ended))),
		gpuotel.WithMeterProvider(sdkmetric.NewMeterProvider()), gpuotel.WithHold(100*us))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				id := uint64(g*1000 + 2*i + 1)
				err := sink.Spans([]profiler.Span{window(background, id+1, id, "inner"), window(background, id, 0, strconv.Itoa(i))})
				mu.Lock()
				if err == nil {
					taken += 2
				} else {
					refused += 2
				}
				mu.Unlock()
				if g == 0 && i == 150 {
					if err := sink.Shutdown(background); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, taken, ended.count(), "each window is one span")
	require.Positive(t, refused)
	require.Equal(t, 8*200*2, taken+refused)
}
