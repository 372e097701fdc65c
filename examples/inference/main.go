// Command inference is a web service that acts like a language model's: each request queues a
// long piece of device work and many short ones, and answers when they are done. It shows what
// its device does in the places where Go people look: /metrics, go tool pprof, a trace, and spans.
//
//	go run . -load 20                       the simulated device, 20 requests a second
//	go run . -backend cuda -load 20         an NVIDIA GPU
//	curl -d '' 'localhost:8080/infer?tokens=16&tenant=a'
//
// README.md shows what each view looks like.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/trace"

	gpuotel "example.com/devevents/contrib/otel"
	gpuprom "example.com/devevents/contrib/prometheus"
	"example.com/devevents/examples/internal/device"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
	"example.com/devevents/profiler/timeline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, func(addr net.Addr) { log.Printf("http://%v/ has the links", addr) })
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "inference:", err)
		os.Exit(1)
	}
}

// patience is how long the service may take for its end: for requests, and for spans that are on
// their way.
const patience = 20 * time.Second

// run serves until ctx is done. Spans go to out.
func run(ctx context.Context, args []string, out io.Writer, listening func(net.Addr)) (err error) {
	flags := flag.NewFlagSet("inference", flag.ContinueOnError)
	backend := flags.String("backend", "mock", device.Backends)
	addr := flags.String("addr", "localhost:8080", "where to listen")
	streams := flags.Int("streams", 4, "how many streams the device works on")
	rate := flags.Float64("load", 0, "requests a second that the program sends to itself")
	spans := flags.Bool("spans", false, "print each window as a span of OpenTelemetry")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dev, giveBack, err := device.Open(*backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()

	metrics, err := gpuprom.New(*backend)
	if err != nil {
		return err
	}
	options := []profiler.Option{profiler.WithSink(metrics), profiler.WithSink(timeline.RuntimeTrace()), profiler.WithStacks(true)}
	tracers := trace.NewTracerProvider() // makes spans that nobody exports
	if *spans {
		printer, err := stdouttrace.New(stdouttrace.WithWriter(out))
		if err != nil {
			return err
		}
		tracers = trace.NewTracerProvider(trace.WithBatcher(printer))
	}
	windows, err := gpuotel.New(gpuotel.WithTracerProvider(tracers))
	if err != nil {
		return err
	}
	if *spans {
		options = append(options, profiler.WithSink(windows))
	}
	s, err := newService(dev, max(1, *streams), tracers.Tracer("inference"), options...)
	if err != nil {
		return err
	}
	defer func() { // the profiler first: it hands over what is measured
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, s.close(), windows.Shutdown(ending), tracers.Shutdown(ending))
	}()
	if err := metrics.Watch(s.prof); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /infer", s.infer)
	mux.HandleFunc("GET /{$}", index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /debug/pprof/gpu", gpupprof.Handler(s.prof))
	mux.Handle("GET /debug/gpu/trace", timeline.Handler(s.prof))
	return serve(ctx, *addr, mux, *rate, listening)
}

// serve serves until ctx is done, and sends itself requests at the given rate.
func serve(ctx context.Context, addr string, handler http.Handler, rate float64, listening func(net.Addr)) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	listening(l.Addr())
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		load(ctx, fmt.Sprintf("http://%v/infer", l.Addr()), rate)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	<-loaded
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(err, server.Close()) // a profile in progress
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!doctype html><html lang="en"><title>inference</title><meta name="viewport" content="width=device-width">
<h1>Where the device's time goes</h1><ul>
<li><a href="/metrics">/metrics</a>, for Prometheus
<li>/debug/pprof/gpu: <code>go tool pprof -http=: http://HOST/debug/pprof/gpu?seconds=10</code>
<li><a href="/debug/gpu/trace?seconds=5">/debug/gpu/trace</a>, five seconds for <a href="https://ui.perfetto.dev">Perfetto</a>
<li>spans of OpenTelemetry on stdout, with <code>-spans</code></ul></html>
`)
}
