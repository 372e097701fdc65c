package gpuotel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	gpuotel "example.com/devevents/contrib/otel"
	"example.com/devevents/events"
	"example.com/devevents/profiler"
)

var rackAttribute = attribute.String("rack", "r7")

// counter is a processor that counts the spans that ended.
type counter struct {
	ended atomic.Int64
	onEnd func()
}

func (c *counter) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (c *counter) OnEnd(sdk.ReadOnlySpan) {
	c.ended.Add(1)
	if c.onEnd != nil {
		c.onEnd()
	}
}
func (c *counter) Shutdown(context.Context) error   { return nil }
func (c *counter) ForceFlush(context.Context) error { return nil }
func (c *counter) count() int                       { return int(c.ended.Load()) }

// starter is a processor that looks at the contexts that spans start in.
type starter func(context.Context)

func (s starter) OnStart(ctx context.Context, _ sdk.ReadWriteSpan) { s(ctx) }
func (s starter) OnEnd(sdk.ReadOnlySpan)                           {}
func (s starter) Shutdown(context.Context) error                   { return nil }
func (s starter) ForceFlush(context.Context) error                 { return nil }

// Windows nest as they did on their stream, in whatever order they get here.
func TestWindowsNest(t *testing.T) {
	for name, order := range map[string][]int{
		"inner first":     {2, 1, 0},
		"outer first":     {0, 1, 2},
		"middle last":     {2, 0, 1},
		"batches of each": {2, -1, 1, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx, request := r.request(background)
			all := []profiler.Span{window(ctx, 1, 0, "outer"), window(nil, 2, 1, "middle"), window(ctx, 3, 2, "inner")} //nolint:staticcheck // nil is what the profiler gives
			var batch []profiler.Span
			for _, i := range order {
				if i >= 0 {
					batch = append(batch, all[i])
					continue
				}
				require.NoError(t, r.Spans(batch))
				batch = nil
			}
			require.NoError(t, r.Spans(batch))
			request.End()

			got := r.got()
			require.Len(t, got, 3)
			require.Equal(t, request.SpanContext().SpanID(), got["outer"].Parent.SpanID())
			require.Equal(t, got["outer"].SpanContext.SpanID(), got["middle"].Parent.SpanID())
			require.Equal(t, got["middle"].SpanContext.SpanID(), got["inner"].Parent.SpanID())
			require.Equal(t, int64(2+1<<40), attributes(got["inner"].Attributes)["gpu.window.parent"])
		})
	}
}

// The profiler's own order and numbers.
func TestWindowsOfAProfilerNest(t *testing.T) {
	r := newRig(t)
	d := newDevice(t, r)
	outer, inner := d.prof.Track(d.stream, "outer"), d.prof.Track(d.stream, "inner")
	ctx, request := r.request(background)
	w := outer.StartContext(ctx)
	in := inner.Start()
	d.work(t, time.Millisecond)
	inner.Stop(in)
	d.work(t, time.Millisecond)
	outer.Stop(w)
	request.End()
	d.finish(t)
	got := r.got()
	require.Equal(t, got["outer"].SpanContext.SpanID(), got["inner"].Parent.SpanID())
	require.Equal(t, request.SpanContext().TraceID(), got["inner"].SpanContext.TraceID())
	require.False(t, got["inner"].StartTime.Before(got["outer"].StartTime))
	require.False(t, got["inner"].EndTime.After(got["outer"].EndTime))
	require.Equal(t, 2*time.Millisecond, got["outer"].EndTime.Sub(got["outer"].StartTime))
}

// Windows that nest by context, over streams: the outer one ends while the inner one's work
// is still queued, on a stream whose numbers are lower.
func TestWindowsOfTwoStreamsNest(t *testing.T) {
	r := newRig(t)
	d := newDevice(t, r)
	other, err := d.StreamCreateNonBlocking()
	require.NoError(t, err)
	inner, outer := d.prof.Track(d.stream, "inner"), d.prof.Track(other, "outer")
	ctx, request := r.request(background)
	require.NoError(t, profiler.Do(ctx, outer, func(ctx context.Context) error {
		return profiler.Do(ctx, inner, func(context.Context) error { return d.Work(d.stream, time.Millisecond) })
	}))
	request.End()
	require.NoError(t, d.StreamSynchronize(other))
	d.finish(t)
	require.NoError(t, d.StreamDestroy(other))
	require.NoError(t, r.Shutdown(background))
	got := r.got()
	require.Equal(t, request.SpanContext().SpanID(), got["outer"].Parent.SpanID())
	require.Equal(t, got["outer"].SpanContext.SpanID(), got["inner"].Parent.SpanID())
}

// What the program says is better than what lies around it on the stream: several
// requests may share one.
func TestSpanGivenToStartWinsOverTheWindowAround(t *testing.T) {
	r := newRig(t)
	ctx, request := r.request(background)
	other, otherRequest := r.request(background)
	require.NoError(t, r.Spans([]profiler.Span{window(other, 2, 1, "inner"), window(ctx, 1, 0, "outer")}))
	got := r.got()
	require.Equal(t, request.SpanContext().SpanID(), got["outer"].Parent.SpanID())
	require.Equal(t, otherRequest.SpanContext().SpanID(), got["inner"].Parent.SpanID())
}

// An outer window that fails, or lasts for hours, keeps nobody waiting. What lies in a
// window that waits goes with it, however long it waited itself.
func TestHeldWindowsGoWhenTheirTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, gpuotel.WithHold(time.Second))
		ctx, request := r.request(background)
		require.NoError(t, r.Spans([]profiler.Span{window(ctx, 3, 2, "inner")}))
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, r.Spans([]profiler.Span{window(ctx, 2, 1, "middle")}))
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, r.got(), "the inner one goes with the middle one")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		got := r.got()
		require.Len(t, got, 2)
		require.Equal(t, request.SpanContext().SpanID(), got["middle"].Parent.SpanID())
		require.Equal(t, got["middle"].SpanContext.SpanID(), got["inner"].Parent.SpanID())

		require.NoError(t, r.Spans([]profiler.Span{window(ctx, 1, 0, "outer")}))
		require.Equal(t, request.SpanContext().SpanID(), r.got()["outer"].Parent.SpanID())
	})
}

// Most windows that wait are let go when too many do, the oldest first.
func TestHeldWindowsAreBounded(t *testing.T) {
	ended := &counter{}
	sink, err := gpuotel.New(gpuotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(ended))),
		gpuotel.WithMeterProvider(sdkmetric.NewMeterProvider()), gpuotel.WithHold(time.Hour))
	require.NoError(t, err)
	const n = 20_000
	for i := range uint64(n) {
		require.NoError(t, sink.Spans([]profiler.Span{window(background, i+2, 1, "w")}))
	}
	require.Equal(t, n-4096, ended.count())
	require.NoError(t, sink.Spans([]profiler.Span{window(background, 1, 0, "outer")}))
	require.Equal(t, n+1, ended.count())
	require.NoError(t, sink.Shutdown(background))
	require.Equal(t, n+1, ended.count())
}

// A window that is its own parent, or its parent's, would wait for itself.
func TestNumbersThatMakeNoSenseKeepNobodyWaiting(t *testing.T) {
	r := newRig(t, gpuotel.WithHold(time.Hour))
	require.NoError(t, r.Spans([]profiler.Span{window(background, 1, 1, "a"), window(background, 2, 4, "b"), window(background, 3, 2, "c"), window(background, 4, 3, "d")}))
	got := r.got()
	require.Len(t, got, 4)
	require.False(t, got["d"].Parent.IsValid())
	require.Equal(t, got["d"].SpanContext.SpanID(), got["b"].Parent.SpanID())
	require.Equal(t, got["b"].SpanContext.SpanID(), got["c"].Parent.SpanID())
}

func TestWithoutHoldNothingWaits(t *testing.T) {
	r := newRig(t, gpuotel.WithHold(0))
	ctx, request := r.request(background)
	require.NoError(t, r.Spans([]profiler.Span{window(ctx, 2, 1, "inner")}))
	require.Equal(t, request.SpanContext().SpanID(), r.got()["inner"].Parent.SpanID())
}

func TestShutdownMakesSpansOfWhatIsHeld(t *testing.T) {
	r := newRig(t, gpuotel.WithHold(time.Hour))
	require.NoError(t, r.Spans([]profiler.Span{window(background, 3, 2, "inner"), window(background, 2, 1, "middle")}))
	require.Empty(t, r.got())
	require.ErrorIs(t, r.Shutdown(nil), events.ErrInvalid) //nolint:staticcheck // nil is what is tested
	for range 2 {
		require.NoError(t, r.Shutdown(background))
		require.Len(t, r.got(), 2)
	}
	require.ErrorIs(t, r.Spans([]profiler.Span{window(background, 4, 0, "late")}), events.ErrClosed)
	require.Len(t, r.got(), 2)
}

// A processor that blocks holds up the sink, and Shutdown for no longer than its context.
func TestShutdownEndsWithItsContext(t *testing.T) {
	inside, let := make(chan bool), make(chan bool)
	ended := &counter{onEnd: func() { inside <- true; <-let }}
	sink, err := gpuotel.New(gpuotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(ended))),
		gpuotel.WithMeterProvider(sdkmetric.NewMeterProvider()))
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		done <- sink.Spans([]profiler.Span{window(background, 8, 7, "held"), window(background, 9, 7, "held"), window(background, 1, 0, "stuck")})
	}()
	<-inside
	why := errors.New("the deadline of the service's end")
	over, cancel := context.WithCancelCause(background)
	cancel(why)
	err = sink.Shutdown(over)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	let <- true
	require.NoError(t, <-done)

	// Now it has its turn, and its time ends after the first of two.
	over, cancel = context.WithCancelCause(background)
	go func() { done <- sink.Shutdown(over) }()
	<-inside
	cancel(why)
	let <- true
	err = <-done
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, "1 windows")
	require.NoError(t, sink.Shutdown(background), "nothing is left")
	require.Equal(t, 2, ended.count())
}

// A Shutdown without any time is one all the same.
func TestShutdownWithoutTimeRefusesLaterSpans(t *testing.T) {
	for range 50 { // a select between what is ready both ways would do it half of the times
		r := newRig(t, gpuotel.WithHold(time.Hour))
		require.NoError(t, r.Spans([]profiler.Span{window(background, 3, 2, "held")}))
		over, cancel := context.WithCancel(background)
		cancel()
		require.ErrorIs(t, r.Shutdown(over), context.Canceled)
		require.ErrorIs(t, r.Spans([]profiler.Span{window(background, 4, 0, "late")}), events.ErrClosed)
	}
}

// A span that is late is made on a goroutine of the sink's, where a panic of somebody's
// processor would end the program.
func TestPanicOfAProcessorStaysInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan error, 10)
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { said <- err }))
		ended := &counter{onEnd: func() { panic("a processor's own mistake") }}
		sink, err := gpuotel.New(gpuotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(ended))),
			gpuotel.WithMeterProvider(sdkmetric.NewMeterProvider()), gpuotel.WithHold(time.Second))
		require.NoError(t, err)
		require.NoError(t, sink.Spans([]profiler.Span{window(background, 3, 2, "inner"), window(background, 2, 1, "outer")}))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, said, 2, "the one behind it had its turn, too")
		require.ErrorContains(t, <-said, "a processor's own mistake")
		require.Equal(t, 2, ended.count())
		require.Panics(t, func() { _ = sink.Spans([]profiler.Span{window(background, 4, 0, "w")}) }, "the profiler counts those")
		require.NoError(t, sink.Shutdown(background))
	})
}
