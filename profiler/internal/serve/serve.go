// Package serve is what endpoints that watch a profiler for some seconds have in common.
package serve

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/devevents/profiler"
)

// Source is what is watched: a *profiler.Profiler of any vendor.
type Source interface {
	AddSink(s profiler.Sink) (*profiler.Attachment, error)
	Flush(ctx context.Context) error
	Origin() time.Time
}

const (
	defaultSeconds = 30
	maxSeconds     = 600
	// maxAtOnce bounds the requests in progress: each has a sink's work done once more.
	maxAtOnce = 4
	// patience is how long is waited, behind the seconds, for windows that the device has not
	// finished.
	patience = 2 * time.Second
)

// Handler bounds what answer does: ?seconds= is parsed and checked, also against the server's
// WriteTimeout, and a few requests at most are in progress. An error of answer that the
// client has not caused is a 503, if nothing was written before.
func Handler(answer func(ctx context.Context, w http.ResponseWriter, length time.Duration) error) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		length, err := secondsOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "10")
			http.Error(w, fmt.Sprintf("%d requests are in progress; try again when one has ended", maxAtOnce), http.StatusServiceUnavailable)
			return
		}
		if err := answer(r.Context(), w, length); err != nil && r.Context().Err() == nil { // else nobody reads it
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

func secondsOf(r *http.Request) (time.Duration, error) {
	seconds := float64(defaultSeconds)
	if text := r.FormValue("seconds"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil || !(seconds >= 0.001 && seconds <= maxSeconds) { // NaN included
			return 0, fmt.Errorf("seconds=%q: a number from 0.001 to %d", text, maxSeconds)
		}
	}
	length := time.Duration(seconds * float64(time.Second))
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 && length+patience >= server.WriteTimeout {
		return 0, fmt.Errorf("%v do not fit into the server's WriteTimeout of %v; ask for fewer seconds", length, server.WriteTimeout)
	}
	return length, nil
}

// Collect has sink get what the sources finish in the given time, and then waits a little for
// the windows that were stopped in it and not finished. It blocks until then; ctx ends it
// early, with its error. An error of a source (a closed profiler: events.ErrClosed) ends it as well.
func Collect[T Source](ctx context.Context, length time.Duration, sink profiler.Sink, sources []T) error {
	var attached []*profiler.Attachment
	defer func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for _, a := range attached { // those that were not removed in order
			_ = a.Remove(gone)
		}
	}()
	for _, source := range sources {
		a, err := source.AddSink(sink)
		if err != nil {
			return err
		}
		attached = append(attached, a)
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("watching for %v: %w", length, ctx.Err())
	}
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, source := range sources {
		_ = source.Flush(late) // what the device is late with is left out
		_ = attached[i].Remove(late)
	}
	return nil
}
