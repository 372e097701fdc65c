package gpupprof

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/internal/serve"
)

// Source is what profiles are taken from: a *profiler.Profiler of any vendor. A nil one has
// nothing to tell.
type Source interface {
	// AddSink attaches a receiver of what finishes from now on.
	AddSink(s profiler.Sink) (*profiler.Attachment, error)
	// Flush waits for what was stopped before the call.
	Flush(ctx context.Context) error
	// Origin is when the source's clock began.
	Origin() time.Time
}

// Handler serves profiles of the seconds that follow a request, of all sources together:
// ?seconds=N, from 0.001 to 600, 30 if not given. A request that is cancelled ends at once.
// It answers 400 to anything else, also where the server's WriteTimeout is shorter; 503
// while 4 profiles are in progress, or when a profiler is closed. Mount it where only those
// who may read profiles come: names, stacks and labels are in them.
func Handler(sources ...Source) http.Handler {
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

// Collect gathers what the sources finish in the given time, and then waits up to 2 s for the
// windows that were stopped in it and not finished. It blocks until then; ctx ends it early,
// with ctx's error. An error of a source (a closed profiler: events.ErrClosed) ends it as well.
func Collect(ctx context.Context, length time.Duration, sources ...Source) (*Profile, error) {
	p := New()
	if err := serve.Collect(ctx, length, p, sources); err != nil {
		return nil, fmt.Errorf("gpupprof: %w", err)
	}
	return p, nil
}
