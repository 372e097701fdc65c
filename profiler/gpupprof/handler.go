package gpupprof

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/internal/serve"
)

// Handler serves profiles of the seconds that follow a request, of all sources together:
// ?seconds=N, from 0.001 to 600, 30 if not given. What ended on the device in that time is in it. A
// request that is cancelled ends at once, and a client has the server's WriteTimeout, or a minute,
// to read the answer. It answers 400 to other seconds, and where a middleware that hides the
// connection leaves too short a WriteTimeout; 503 while 4 profiles are in progress, or when a
// profiler is closed. Mount it where only those who may read profiles come: names, stacks and
// labels are in them.
func Handler(sources ...profiler.Source) http.Handler {
	return serve.Handler(func(ctx context.Context, w http.ResponseWriter, length time.Duration) error {
		p, err := Collect(ctx, length, sources...)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="gpu.pb.gz"`)
		_, _ = p.WriteTo(w)
		return nil
	})
}

// Collect gathers what ends on the devices of the sources in the given time, and then waits up to
// 2 s for the windows that were stopped in it and not finished. It blocks until then; ctx ends it
// early, with ctx's error. An error of a source (a closed profiler: events.ErrClosed) ends it as
// well. Windows that came faster than they could be counted are missing, and a comment in the
// profile (go tool pprof -comments) says how many.
func Collect(ctx context.Context, length time.Duration, sources ...profiler.Source) (*Profile, error) {
	p := New()
	p.took = length
	lost, err := serve.Collect(ctx, length, sources, func(in serve.Interval) profiler.Sink {
		return profiler.SinkFunc(func(batch []profiler.Span) error {
			p.count(batch, in.Has)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("gpupprof: %w", err)
	}
	p.mu.Lock()
	p.lost = lost
	p.mu.Unlock()
	return p, nil
}
