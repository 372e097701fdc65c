package timeline_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/timeline"
)

// scripted is a source that hands spans over on a goroutine, as a profiler does.
type scripted struct {
	now   time.Time
	spans []profiler.Span
	done  chan error
}

func (s *scripted) AddSink(sink profiler.Sink) (*profiler.Attachment, error) {
	go func() { s.done <- sink.Spans(s.spans) }()
	return nil, nil
}
func (s *scripted) Flush(context.Context) error { return nil }
func (s *scripted) Now() time.Time              { return s.now }
func (s *scripted) Origin() time.Time           { return s.now }

// stuck is an answer that the client does not read.
type stuck struct {
	*httptest.ResponseRecorder
	entered chan struct{}
	release chan struct{}
	writing atomic.Bool
}

func (s *stuck) Write(p []byte) (int, error) {
	s.writing.Store(true)
	defer s.writing.Store(false)
	s.entered <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// A handler's ResponseWriter is no longer its own when it returns: a sink that is in a write
// then would write into another answer.
func TestNothingIsWrittenBehindTheHandler(t *testing.T) {
	now := time.Now()
	source := &scripted{now, []profiler.Span{{ID: 1, Name: "w", Start: now, Duration: 1}}, make(chan error, 1)}
	w := &stuck{ResponseRecorder: httptest.NewRecorder(), entered: make(chan struct{}, 9), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	returned := make(chan bool, 1)
	go func() {
		timeline.Handler(source).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?seconds=600", nil).WithContext(ctx))
		returned <- w.writing.Load()
	}()
	<-w.entered
	cancel()
	select {
	case <-returned:
		require.Fail(t, "the handler returned while a write was in progress")
	case <-time.After(50 * time.Millisecond): // long enough for one that does not wait
	}
	close(w.release)
	require.False(t, <-returned)
	require.NoError(t, <-source.done)
}

// A trace from which windows are missing does not call itself complete.
func TestTraceSaysWhatIsMissing(t *testing.T) {
	s := newService(t, profiler.WithSinkQueue(1))
	tr := s.prof.Track(s.stream, "w")
	var w slowOnce
	w.ResponseRecorder = httptest.NewRecorder()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		timeline.Handler(s.prof).ServeHTTP(&w, httptest.NewRequest(http.MethodGet, "/?seconds=0.2", nil))
	}()
	for open := true; open; {
		tr.Stop(tr.Start())
		require.NoError(t, s.dev.StreamSynchronize(s.stream))
		require.NoError(t, s.prof.Flush(context.Background()))
		select {
		case <-answered:
			open = false
		default:
		}
	}
	require.Contains(t, w.Body.String(), `"complete":false,"lost":`)
	require.NotContains(t, w.Body.String(), `"lost":0`)
	all := parsed(t, w.Body.Bytes())
	require.Equal(t, "trace_end", all[len(all)-1].Name)
}

// slowOnce is slow at first, so that the sink's queue runs over.
type slowOnce struct {
	*httptest.ResponseRecorder
	slept bool
}

func (f *slowOnce) Write(p []byte) (int, error) {
	if !f.slept {
		f.slept = true
		time.Sleep(100 * time.Millisecond)
	}
	return f.ResponseRecorder.Write(p)
}

// The first that is written can still be an error page; behind it the trace just ends.
func TestErrorIsAPageOnlyBeforeTheTrace(t *testing.T) {
	refused := errors.New("no more sinks")
	w := httptest.NewRecorder()
	timeline.Handler(&refusing{scripted{now: time.Now()}, refused}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), refused.Error())
	require.False(t, bytes.HasPrefix(w.Body.Bytes(), []byte("[")))
	require.True(t, strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"))
}

type refusing struct {
	scripted
	err error
}

func (r *refusing) AddSink(profiler.Sink) (*profiler.Attachment, error) { return nil, r.err }

// A profiler that is switched off has no clock, and its origin was the trace's: year 1.
func TestProfilerThatIsSwitchedOffMovesNoOrigin(t *testing.T) {
	began := time.Now()
	source := &scripted{now: began, done: make(chan error, 1), spans: []profiler.Span{{ID: 1 << 40, Name: "w", Start: began.Add(time.Millisecond), Duration: time.Millisecond}}}
	var off *profiler.Profiler[int]
	w := httptest.NewRecorder()
	timeline.Handler(source, off).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?seconds=0.2", nil))
	require.NoError(t, <-source.done)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), `"ts":1000.`)
}
