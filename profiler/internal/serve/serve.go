// Package serve is what endpoints that watch a profiler for some seconds have in common.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
	"example.com/devevents/profiler"
)

const (
	defaultSeconds = 30
	maxSeconds     = 600
	// maxAtOnce bounds the requests in progress: each has a sink's work done once more.
	maxAtOnce = 4
	// patience is how long is waited, behind the seconds, for windows that the device has not
	// finished.
	patience = 2 * time.Second
	// slack is how long, behind all that, a client may take to read, where the server
	// has no WriteTimeout.
	slack = time.Minute
)

// Handler bounds what answer does: ?seconds= is parsed and checked, a few requests at most are
// in progress, and a client that does not read is cut off. An error of answer that the
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
		restore, err := extend(w, r, length)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer restore()
		if err := answer(r.Context(), w, length); err != nil && r.Context().Err() == nil { // else nobody reads it
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

func secondsOf(r *http.Request) (time.Duration, error) {
	seconds := float64(defaultSeconds)
	if text := r.URL.Query().Get("seconds"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil || !(seconds >= 0.001 && seconds <= maxSeconds) { // NaN included
			return 0, fmt.Errorf("seconds=%q: a number from 0.001 to %d", text, maxSeconds)
		}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// extend moves the time by which an answer must have been written behind its seconds, as
// net/http/pprof does. Where a middleware keeps it from that, and the server's WriteTimeout
// is shorter, it is an error. The connection is used again, for which there is restore.
func extend(w http.ResponseWriter, r *http.Request, length time.Duration) (restore func(), err error) {
	var timeout time.Duration
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		timeout = server.WriteTimeout
	}
	control := http.NewResponseController(w)
	more := timeout
	if timeout <= 0 {
		more = slack
	}
	err = control.SetWriteDeadline(time.Now().Add(length + patience + more))
	switch {
	case err == nil && timeout <= 0:
		return func() { _ = control.SetWriteDeadline(time.Time{}) }, nil // else the server sets the next one
	case errors.Is(err, errors.ErrUnsupported) && timeout > 0 && length+patience >= timeout:
		return nil, fmt.Errorf("%v do not fit into the server's WriteTimeout of %v; ask for fewer seconds, or give what wraps the ResponseWriter an Unwrap method", length, timeout)
	}
	return func() {}, nil
}

// Interval is the time that is watched, on the clock of a source.
type Interval struct{ from, to time.Time }

// Has reports whether a window ended in it. A sink is also given what ended up to half a
// second before it was attached.
func (i Interval) Has(s *profiler.Span) bool {
	end := s.End()
	return end.After(i.from) && !end.After(i.to)
}

// Collect watches sources for the given time, each with the sink that watch makes, and then
// waits a little for the windows that were stopped in it and not finished. It blocks until
// then; ctx ends it early, with its error. An error of a source (a closed profiler:
// events.ErrClosed) ends it as well. A call of a sink can still be in progress after it. It gives
// how many spans a sink has lost, which are those of a time in which it was too slow.
func Collect(ctx context.Context, length time.Duration, sources []profiler.Source, watch func(Interval) profiler.Sink) (lost uint64, err error) {
	if ctx == nil {
		return 0, fmt.Errorf("watching for %v: %w: nil context", length, events.ErrInvalid)
	}
	var attached []*profiler.Attachment
	defer func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for _, a := range attached { // those that were not removed in order
			_ = a.Remove(gone)
		}
	}()
	for _, source := range sources {
		from := source.Now()
		a, err := source.AddSink(watch(Interval{from, from.Add(length)}))
		if err != nil {
			return 0, err
		}
		attached = append(attached, a)
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, fmt.Errorf("watching for %v: %w", length, ctxerr.Of(ctx))
	}
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, source := range sources {
		_ = source.Flush(late) // what the device is late with is left out
		_ = attached[i].Remove(late)
		st := attached[i].Stats()
		lost += st.Dropped + st.Queued
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("watching for %v: %w", length, ctxerr.Of(ctx))
	}
	return lost, nil
}
