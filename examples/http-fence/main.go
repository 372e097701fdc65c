// Command http-fence is a web service whose answers wait for device work, each with
// a deadline of its own and none holding a stream, a lock or an OS thread meanwhile.
//
//	go run ./examples/http-fence                    the simulated device
//	go run ./examples/http-fence -backend cuda      an NVIDIA GPU
//	curl 'localhost:8080/work?ms=20'                20 ms of device work
//	curl 'localhost:8080/work?ms=500&within=50ms'   given up after 50 ms
//	curl 'localhost:8080/stats'                     what became of the fences
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/examples/internal/device"
	"example.com/devevents/fence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], func(addr net.Addr) { log.Printf("listening on %v", addr) })
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "http-fence:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, args []string, listening func(net.Addr)) (err error) {
	flags := flag.NewFlagSet("http-fence", flag.ContinueOnError)
	backend := flags.String("backend", "mock", device.Backends)
	addr := flags.String("addr", "localhost:8080", "where to listen")
	streams := flags.Int("streams", 4, "how many streams the device works on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dev, giveBack, err := device.Open(*backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	s, err := newService(dev, max(1, *streams))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	listening(l.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Requests in progress get a moment; their fences need none of it.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// service turns requests into device work.
type service struct {
	dev     events.AnyApi
	scratch events.Scratch[events.AnyStream]
	fences  *fence.AnySource
	free    chan events.AnyStream // streams that nobody is queueing on
}

func newService(dev events.AnyApi, streams int) (*service, error) {
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	if !ok {
		return nil, fmt.Errorf("backend %s has nothing to run here: %w", dev.Backend(), events.ErrUnsupported)
	}
	fences, err := fence.New(dev)
	if err != nil {
		return nil, err
	}
	s := &service{dev: dev, scratch: scratch, fences: fences, free: make(chan events.AnyStream, streams)}
	for range streams {
		stream, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.free <- stream
	}
	return s, nil
}

// close ends the fences at once. Work that requests have given up still runs, and the
// streams go only after it.
func (s *service) close() error {
	err := s.fences.Close()
	close(s.free)
	for stream := range s.free {
		err = errors.Join(err, s.dev.StreamSynchronize(stream), s.dev.StreamDestroy(stream))
	}
	return err
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /work", s.work)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.fences.Stats()) // the client is gone if it fails
	})
	return mux
}

// work queues device work and answers when the device is through with it.
func (s *service) work(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.FormValue("ms"))
	if err != nil || ms < 1 || ms > 10_000 {
		http.Error(w, "ms is how many milliseconds of work, from 1 to 10000", http.StatusBadRequest)
		return
	}
	within := 10 * time.Second
	if text := r.FormValue("within"); text != "" {
		if within, err = time.ParseDuration(text); err != nil {
			http.Error(w, "within is a duration such as 50ms", http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()

	began := time.Now()
	f, err := s.enqueue(ctx, time.Duration(ms)*time.Millisecond)
	if err == nil {
		err = f.Wait(ctx)
	}
	switch {
	case err == nil:
		fmt.Fprintf(w, "done after %v\n", time.Since(began).Round(time.Microsecond))
	case errors.Is(err, context.DeadlineExceeded):
		// The work goes on, and the event goes back once the device has passed it.
		http.Error(w, fmt.Sprintf("not done within %v: %v", within, f), http.StatusGatewayTimeout)
	case r.Context().Err() != nil:
		return // nobody is left to be told
	case errors.Is(err, events.ErrDeviceFault):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// enqueue holds a stream only while it queues on it.
func (s *service) enqueue(ctx context.Context, length time.Duration) (*fence.Fence, error) {
	select {
	case stream := <-s.free:
		defer func() { s.free <- stream }()
		if _, err := s.scratch.ScratchSpin(length, stream); err != nil {
			return nil, err
		}
		return s.fences.Record(stream)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
