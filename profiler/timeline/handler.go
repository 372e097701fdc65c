package timeline

import (
	"context"
	"net/http"
	"time"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/internal/serve"
)

// Source is what traces are taken from: a *profiler.Profiler of any vendor. A nil one has
// nothing to tell.
type Source interface {
	// AddSink attaches a receiver of what finishes from now on.
	AddSink(s profiler.Sink) (*profiler.Attachment, error)
	// Flush waits for what was stopped before the call.
	Flush(ctx context.Context) error
	// Origin is when the source's clock began.
	Origin() time.Time
}

// Handler serves a trace of the seconds that follow a request, of all sources together:
// ?seconds=N, from 0.001 to 600, 30 if not given. It is streamed as the windows finish,
// half a second late, and is as long as they are many: some 400 bytes for each. A request that
// is cancelled ends at once. It answers 400 to anything else, also where the server's WriteTimeout
// is shorter; 503 while 4 traces are in progress, or when a profiler is closed. Mount it where
// only those who may read names come.
func Handler(sources ...Source) http.Handler {
	return serve.Handler(func(ctx context.Context, w http.ResponseWriter, length time.Duration) error {
		var origin time.Time
		for _, s := range sources {
			if o := s.Origin(); origin.IsZero() || o.Before(origin) {
				origin = o
			}
		}
		t := NewWriter(&body{w}, origin)
		if err := serve.Collect(ctx, length, t, sources); err != nil {
			return err
		}
		return t.Close()
	})
}

// body sets the headers with the first write, until which an error can still be told.
type body struct{ w http.ResponseWriter }

func (b *body) Write(p []byte) (int, error) {
	h := b.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
		h.Set("Content-Disposition", `attachment; filename="gpu-trace.json"`)
	}
	return b.w.Write(p)
}
