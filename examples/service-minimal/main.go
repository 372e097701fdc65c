// Command service-minimal is a service in small: a goroutine for each request,
// device work on a few streams, and two windows round what each request does
// there. It prints where every request's work lay in time, and how long it took.
//
//	go run ./examples/service-minimal                    the simulated device
//	go run ./examples/service-minimal -backend cuda      an NVIDIA GPU
//	go run ./examples/service-minimal -backend opencl    whatever has a driver for it
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/examples/internal/device"
	"example.com/devevents/fence"
	"example.com/devevents/profiler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "service-minimal:", err)
		os.Exit(1)
	}
}

// worker is what the service keeps for each stream. No vendor is named in it.
type worker struct {
	stream  events.AnyStream
	prefill *profiler.Track
	decode  *profiler.Track
}

// service answers requests with device work.
type service struct {
	dev     events.AnyApi
	scratch events.Scratch[events.AnyStream]
	buffer  events.Buffer
	fences  *fence.AnySource
	free    chan *worker
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("service-minimal", flag.ContinueOnError)
	backend := flags.String("backend", "mock", device.Backends)
	requests := flags.Int("requests", 12, "how many requests arrive")
	streams := flags.Int("streams", 3, "how many of them are on the device at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *requests < 1 || *streams < 1 {
		return errors.New("at least one request and one stream are needed")
	}
	dev, giveBack, err := device.Open(*backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	var mu sync.Mutex
	spans := map[uint64]profiler.Span{}
	prof, err := profiler.New(dev, profiler.WithSink(profiler.SinkFunc(func(batch []profiler.Span) error {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range batch {
			spans[s.ID] = s
		}
		return nil
	})))
	if err != nil {
		return err
	}
	defer prof.Close() // where an error comes first
	s, err := newService(dev, prof, *streams)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	began := time.Now()
	var wg sync.WaitGroup
	failures := make(chan error, *requests)
	answers := make([][2]profiler.Measurement, *requests)
	for i := range *requests {
		wg.Go(func() {
			var err error
			if answers[i], err = s.answer(ctx, i); err != nil {
				failures <- fmt.Errorf("request %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	if err != nil {
		return err
	}

	if _, err := fmt.Fprintln(out, "request  window   start on the host   bound      on the device"); err != nil {
		return err
	}
	for i, pair := range answers {
		for _, m := range pair {
			span, err := m.Wait(ctx)
			if ctx.Err() != nil {
				return err
			}
			if err != nil { // a lost measurement is no reason to fail a request
				if _, err := fmt.Fprintf(out, "%7d  not measured: %v\n", i, err); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(out, "%7d  %-7s  %16v  ±%-9v %v\n", i, span.Name,
				span.Start.Sub(began).Round(time.Microsecond), span.Bound.Round(100*time.Nanosecond), span.Duration); err != nil {
				return err
			}
		}
	}
	if err := prof.Close(); err != nil { // the sinks have everything after it
		return err
	}
	st := prof.Stats()
	_, err = fmt.Fprintf(out, "%d windows: %d measured, %d failed, %d dropped; the sink got %d\n",
		st.Started, st.Finished, st.Failed, st.Dropped, len(spans))
	return err
}

func newService(dev events.AnyApi, prof *profiler.Profiler[events.AnyStream], streams int) (*service, error) {
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	if !ok {
		return nil, fmt.Errorf("backend %s has nothing to run here: %w", dev.Backend(), events.ErrUnsupported)
	}
	buffer, err := scratch.ScratchAlloc(64 << 20)
	if err != nil {
		return nil, err
	}
	fences, err := fence.New(dev)
	if err != nil {
		return nil, errors.Join(err, scratch.ScratchFree(buffer))
	}
	s := &service{dev: dev, scratch: scratch, buffer: buffer, fences: fences, free: make(chan *worker, streams)}
	for range streams {
		stream, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.free <- &worker{stream: stream, prefill: prof.Track(stream, "prefill"), decode: prof.Track(stream, "decode")}
	}
	return s, nil
}

// answer is one request: some work, more work, and a wait that holds nothing.
func (s *service) answer(ctx context.Context, request int) (ms [2]profiler.Measurement, err error) {
	var w *worker
	select {
	case w = <-s.free:
	case <-ctx.Done():
		return ms, ctx.Err()
	}
	f, err := func() (*fence.Fence, error) {
		defer func() { s.free <- w }()
		outer := w.prefill.Start()
		if err := s.scratch.ScratchMemset(s.buffer, byte(request), s.buffer.Bytes, w.stream); err != nil {
			return nil, errors.Join(err, w.prefill.Abandon(outer))
		}
		ms[0] = w.prefill.Stop(outer)
		inner := w.decode.Start()
		for range 4 {
			if err := s.scratch.ScratchMemset(s.buffer, byte(request), s.buffer.Bytes/8, w.stream); err != nil {
				return nil, errors.Join(err, w.decode.Abandon(inner))
			}
		}
		ms[1] = w.decode.Stop(inner)
		return s.fences.Record(w.stream)
	}()
	if err != nil {
		return ms, err
	}
	// The stream is free for the next request; the fence waits for ours.
	return ms, errors.Join(f.Wait(ctx), f.Close())
}

func (s *service) close() error {
	var failed []error
	for range len(s.free) {
		w := <-s.free
		w.prefill.Close()
		w.decode.Close()
		failed = append(failed, s.dev.StreamDestroy(w.stream))
	}
	return errors.Join(append(failed, s.fences.Close(), s.scratch.ScratchFree(s.buffer))...)
}
