package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"example.com/devevents/events"
	"example.com/devevents/fence"
	"example.com/devevents/profiler"
)

// What a request's pieces take on the device.
const (
	prefillTime = 2 * time.Millisecond
	decodeTime  = 300 * time.Microsecond
	maxTokens   = 256
)

// service turns requests into device work.
type service struct {
	dev     events.AnyApi
	scratch events.Scratch[events.AnyStream]
	prof    *profiler.Profiler[events.AnyStream]
	fences  *fence.AnySource
	tracer  trace.Tracer
	free    chan *lane
}

// lane is a stream with the names of what happens on it. A request holds one while it queues.
type lane struct {
	stream                   events.AnyStream
	request, prefill, decode *profiler.Track
}

func newService(dev events.AnyApi, streams int, tracer trace.Tracer, options ...profiler.Option) (_ *service, err error) {
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	if !ok {
		return nil, fmt.Errorf("backend %s has nothing to run here: %w", dev.Backend(), events.ErrUnsupported)
	}
	s := &service{dev: dev, scratch: scratch, tracer: tracer, free: make(chan *lane, streams)}
	if s.fences, err = fence.New(dev); err != nil {
		return nil, err
	}
	if s.prof, err = profiler.New(dev, options...); err != nil {
		return nil, errors.Join(err, s.fences.Close())
	}
	for range streams {
		stream, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.free <- &lane{
			stream:  stream,
			request: s.prof.Track(stream, "request"), prefill: s.prof.Track(stream, "prefill"), decode: s.prof.Track(stream, "decode"),
		}
	}
	return s, nil
}

// close ends the fences at once and lets the windows finish.
func (s *service) close() error {
	err := errors.Join(s.fences.Close(), s.prof.Close())
	close(s.free)
	for l := range s.free {
		err = errors.Join(err, s.dev.StreamSynchronize(l.stream), s.dev.StreamDestroy(l.stream))
	}
	return err
}

// infer queues a request's work and answers when the device is through with it.
func (s *service) infer(w http.ResponseWriter, r *http.Request) {
	tokens := 16
	if text := r.FormValue("tokens"); text != "" {
		var err error
		if tokens, err = strconv.Atoi(text); err != nil || tokens < 1 || tokens > maxTokens {
			http.Error(w, fmt.Sprintf("tokens is how many to make, from 1 to %d", maxTokens), http.StatusBadRequest)
			return
		}
	}
	ctx, span := s.tracer.Start(r.Context(), "POST /infer")
	defer span.End()
	ctx = pprof.WithLabels(ctx, pprof.Labels("tenant", r.FormValue("tenant")))
	began := time.Now()
	if err := s.run(ctx, tokens); err != nil {
		if r.Context().Err() != nil {
			return // nobody is left to be told
		}
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": tokens, "ms": float64(time.Since(began).Microseconds()) / 1000})
}

// run holds a stream while it queues, and then waits without one.
func (s *service) run(ctx context.Context, tokens int) error {
	var l *lane
	select {
	case l = <-s.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	f, err := s.enqueue(ctx, l, tokens)
	s.free <- l
	if err != nil {
		return err
	}
	return f.Wait(ctx)
}

func (s *service) enqueue(ctx context.Context, l *lane, tokens int) (f *fence.Fence, err error) {
	err = profiler.Do(ctx, l.request, func(ctx context.Context) error {
		if err := s.prefill(ctx, l); err != nil {
			return err
		}
		for range tokens {
			if err := s.decode(ctx, l); err != nil {
				return err
			}
		}
		f, err = s.fences.Record(l.stream)
		return err
	})
	return f, err
}

func (s *service) prefill(ctx context.Context, l *lane) error {
	return profiler.Do(ctx, l.prefill, func(context.Context) error {
		_, err := s.scratch.ScratchSpin(prefillTime, l.stream)
		return err
	})
}

func (s *service) decode(ctx context.Context, l *lane) error {
	return profiler.Do(ctx, l.decode, func(context.Context) error {
		_, err := s.scratch.ScratchSpin(decodeTime, l.stream)
		return err
	})
}
