package timeline

import (
	"context"
	"net/http"
	"time"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/internal/serve"
)

// Handler serves a trace of the seconds that follow a request, of all sources together:
// ?seconds=N, from 0.001 to 600, 30 if not given. What ended on the device in that time is in it. It
// is streamed, two to three seconds behind, and is as long as the windows are many: some 600 bytes
// for each. A client that reads too slowly for that has windows missing, and the last event says how
// many. A request that is cancelled ends at once, and a client has the server's WriteTimeout, or a
// minute, longer than the seconds to read. It answers 400 to other seconds, and where a middleware
// that hides the connection leaves too short a WriteTimeout; 503 while 4 traces are in
// progress, or when a profiler is closed. Mount it where only those who may read names come.
func Handler(sources ...profiler.Source) http.Handler {
	return serve.Handler(func(ctx context.Context, w http.ResponseWriter, length time.Duration) error {
		var origin time.Time
		for _, s := range sources {
			if o := s.Origin(); !o.IsZero() && (origin.IsZero() || o.Before(origin)) { // a nil profiler has none
				origin = o
			}
		}
		t := NewWriter(&body{w}, origin)
		defer t.end() // a sink's call that is late must not write to w behind us
		lost, err := serve.Collect(ctx, length, sources, func(in serve.Interval) profiler.Sink {
			return profiler.Filter(t, func(s profiler.Span) bool { return in.Has(&s) })
		})
		if err != nil {
			return err
		}
		t.addLost(lost)
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
