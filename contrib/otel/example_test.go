package gpuotel_test

import (
	"context"
	"fmt"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	gpuotel "example.com/devevents/contrib/otel"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

func Example() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter() // in a service: otlptracehttp.New(ctx)
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))

	sink, err := gpuotel.New(gpuotel.WithTracerProvider(provider))
	if err != nil {
		fmt.Println(err)
		return
	}
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal()) // in a service: cuda.Open
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	prof, err := profiler.New(dev, profiler.WithSink(sink))
	if err != nil {
		fmt.Println(err)
		return
	}
	decode := prof.Track(stream, "decode")

	request, span := provider.Tracer("service").Start(ctx, "request")
	w := decode.StartContext(request)
	if err := dev.Work(stream, 3*time.Millisecond); err != nil { // what the service does
		fmt.Println(err)
	}
	decode.Stop(w)
	span.End()

	if err := dev.StreamSynchronize(stream); err != nil {
		fmt.Println(err)
	}
	if err := prof.Close(); err != nil {
		fmt.Println(err)
	}
	if err := sink.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	for _, s := range exporter.GetSpans() {
		if s.Parent.SpanID() == span.SpanContext().SpanID() {
			fmt.Println(s.Name, "took", s.EndTime.Sub(s.StartTime), "within the request")
		}
	}
	// Output:
	// decode took 3ms within the request
}
