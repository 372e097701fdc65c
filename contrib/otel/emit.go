package gpuotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/devevents/internal/labels"
	"example.com/devevents/profiler"
)

// What a window says beyond the names of the semantic conventions, which have none for
// the time of device work.
const (
	keyName    = attribute.Key("gpu.window.name")    // of its track
	keyID      = attribute.Key("gpu.window.id")      // its number in the profiler
	keyParent  = attribute.Key("gpu.window.parent")  // the number of the window it lies in
	keyBound   = attribute.Key("gpu.window.bound")   // seconds: the start is right, give or take this
	keyEpoch   = attribute.Key("gpu.window.epoch")   // starts of different epochs must not be compared
	keyQuality = attribute.Key("gpu.window.quality") // what the start rests on
	keyStream  = attribute.Key("gpu.window.stream")  // its stream's number in the profiler
)

const (
	histogram   = "gpu.window.duration"
	mostDevices = 64 // whose attributes are kept
)

// buckets go from 1 us to 10 s.
var buckets = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
	1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10,
}

// emitter makes spans and points of windows. It is not safe for concurrent use.
type emitter struct {
	tracer     trace.Tracer
	durations  metric.Float64Histogram
	names      *labels.Set
	attributes []attribute.KeyValue
	clock      wallclock
	devices    map[*profiler.Device]*device
}

// device is what spans and points say of a device.
type device struct {
	attributes []attribute.KeyValue
	points     map[string]metric.MeasurementOption // by label
}

func (e *emitter) emit(s profiler.Span, in *made) made {
	ctx := context.Background()
	if s.Context != nil {
		ctx = context.WithoutCancel(s.Context) // most requests are over by now, and some SDKs take no more from them
	}
	label, dev := e.names.Bound(labels.Clean(s.Name)), e.device(s.Device)
	e.clock.look(s.Start, time.Now())
	start := e.clock.wall(s.Start)

	own := trace.SpanFromContext(ctx)
	became := made{under: own.SpanContext()}
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(start),
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(dev.attributes...),
		trace.WithAttributes(about(s)...),
	}
	switch {
	case in != nil && (!became.under.IsValid() || same(became.under, in.under)):
		ctx, became.under = trace.ContextWithSpanContext(ctx, in.span), in.under
	case endedBefore(own, s.Called):
		opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: became.under}))
	}
	ctx, span := e.tracer.Start(ctx, label, opts...)
	e.durations.Record(ctx, s.Duration.Seconds(), dev.point(label))
	span.End(trace.WithTimestamp(start.Add(s.Duration)))
	became.span = span.SpanContext()
	return became
}

// endedBefore tells whether a span had ended when the window was opened, which the SDK's
// spans say. That it has ended by now means nothing: windows get here half a second after
// their end, and most requests are over then.
func endedBefore(span trace.Span, called time.Time) bool {
	if s, tells := span.(interface{ EndTime() time.Time }); tells {
		end := s.EndTime()
		return !end.IsZero() && end.Before(called)
	}
	return false
}

func same(a, b trace.SpanContext) bool {
	return a.TraceID() == b.TraceID() && a.SpanID() == b.SpanID()
}

func about(s profiler.Span) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, 7)
	list = append(list,
		keyName.String(labels.Clean(s.Name)),
		keyID.Int64(int64(s.ID)),
		keyBound.Float64(s.Bound.Seconds()),
		keyEpoch.Int64(int64(s.Epoch)),
		keyQuality.String(s.Quality.String()),
		keyStream.Int64(int64(s.Stream())))
	if s.Parent != 0 {
		list = append(list, keyParent.Int64(int64(s.Parent)))
	}
	return list
}

func (e *emitter) device(d *profiler.Device) *device {
	if known := e.devices[d]; known != nil {
		return known
	}
	if len(e.devices) == mostDevices {
		clear(e.devices)
	}
	made := &device{attributes: append(hardware(d), e.attributes...), points: map[string]metric.MeasurementOption{}}
	e.devices[d] = made
	return made
}

// hardware names a device as the semantic conventions do.
func hardware(d *profiler.Device) []attribute.KeyValue {
	if d == nil {
		return nil
	}
	list := []attribute.KeyValue{semconv.HwID(labels.Device(d.Backend, d.Identity))}
	if d.Name != "" {
		list = append(list, semconv.HwName(labels.Clean(d.Name)))
	}
	if d.Vendor != "" {
		list = append(list, semconv.HwVendor(labels.Clean(d.Vendor)))
	}
	return list
}

// point is what the histogram says of a window: its name and its device.
func (d *device) point(label string) metric.MeasurementOption {
	known, ok := d.points[label]
	if !ok {
		list := append([]attribute.KeyValue{keyName.String(label)}, d.attributes...)
		known = metric.WithAttributeSet(attribute.NewSet(list...))
		d.points[label] = known
	}
	return known
}
