package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/internal/serve"
)

func answering(length *time.Duration) http.Handler {
	return serve.Handler(func(_ context.Context, w http.ResponseWriter, l time.Duration) error {
		*length = l
		_, err := w.Write([]byte("answer"))
		return err
	})
}

// recorder notes the deadlines it is given.
type recorder struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (r *recorder) SetWriteDeadline(d time.Time) error {
	r.deadlines = append(r.deadlines, d)
	return nil
}

func request(timeout time.Duration, query string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/"+query, nil)
	return r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: timeout}))
}

// A service has a WriteTimeout of some seconds for its requests. A profile of thirty is served
// anyway, as net/http/pprof does, and the connection is left as it was.
func TestWriteTimeoutDoesNotCutLongAnswersOff(t *testing.T) {
	for _, timeout := range []time.Duration{0, 5 * time.Second} {
		t.Run(fmt.Sprint(timeout), func(t *testing.T) {
			w := &recorder{ResponseRecorder: httptest.NewRecorder()}
			var length time.Duration
			from := time.Now()
			answering(&length).ServeHTTP(w, request(timeout, ""))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, 30*time.Second, length)
			require.NotEmpty(t, w.deadlines)
			require.Greater(t, w.deadlines[0].Sub(from), length+timeout)
			if timeout == 0 {
				require.Len(t, w.deadlines, 2)
				require.Zero(t, w.deadlines[1], "the server would not set another one for the next request")
			}
		})
	}
}

// A middleware that hides the connection keeps the deadline where it is: what cannot be
// answered in time is refused at once, with what to do.
func TestAnswerThatWouldBeCutOffIsRefused(t *testing.T) {
	var length time.Duration
	w := httptest.NewRecorder()
	answering(&length).ServeHTTP(w, request(20*time.Second, "?seconds=19"))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "WriteTimeout of 20s")
	require.Contains(t, w.Body.String(), "Unwrap")
	require.Zero(t, length)
	for _, served := range []*http.Request{request(20*time.Second, "?seconds=5"), request(0, "?seconds=19")} {
		w = httptest.NewRecorder()
		answering(&length).ServeHTTP(w, served)
		require.Equal(t, http.StatusOK, w.Code)
	}
}

// A client that does not read must not hold a place for ever.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(serve.Handler(func(_ context.Context, w http.ResponseWriter, _ time.Duration) error {
		block := make([]byte, 1<<20)
		for {
			if _, err := w.Write(block); err != nil {
				ended <- err
				return nil
			}
		}
	}))
	server.Config.WriteTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /?seconds=0.001 HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	status, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, status, "200")
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
}

// stub is a source whose sink gets what the test hands over.
type stub struct {
	now     time.Time
	sink    profiler.Sink
	refuses error
	flushed bool
}

func (s *stub) AddSink(sink profiler.Sink) (*profiler.Attachment, error) {
	s.sink = sink
	return nil, s.refuses
}
func (s *stub) Flush(context.Context) error { s.flushed = true; return nil }
func (s *stub) Now() time.Time              { return s.now }
func (s *stub) Origin() time.Time           { return time.Time{} }

// Each source has a clock of its own: a simulated device may be in another year.
func TestEachSourceIsWatchedOnItsOwnClock(t *testing.T) {
	a, b := &stub{now: time.Unix(1_000_000, 0)}, &stub{now: time.Unix(2_000_000, 0)}
	var intervals []serve.Interval
	lost, err := serve.Collect(context.Background(), time.Millisecond, []profiler.Source{a, b}, func(in serve.Interval) profiler.Sink {
		intervals = append(intervals, in)
		return profiler.SinkFunc(func([]profiler.Span) error { return nil })
	})
	require.NoError(t, err)
	require.Zero(t, lost)
	require.True(t, a.flushed && b.flushed)
	ends := func(at time.Time) *profiler.Span {
		return &profiler.Span{Start: at.Add(-time.Hour), Duration: time.Hour}
	}
	for i, s := range []*stub{a, b} {
		require.False(t, intervals[i].Has(ends(s.now)), "it ended before")
		require.True(t, intervals[i].Has(ends(s.now.Add(1))))
		require.True(t, intervals[i].Has(ends(s.now.Add(time.Millisecond))))
		require.False(t, intervals[i].Has(ends(s.now.Add(time.Millisecond+1))))
	}
}

func TestWatchingEndsWithItsContextOrAnError(t *testing.T) {
	none := func(serve.Interval) profiler.Sink {
		return profiler.SinkFunc(func([]profiler.Span) error { return nil })
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := serve.Collect(ctx, time.Hour, []profiler.Source{&stub{}}, none)
	require.ErrorIs(t, err, context.Canceled)
	refuses := errors.New("refuses")
	_, err = serve.Collect(context.Background(), time.Hour, []profiler.Source{&stub{}, &stub{refuses: refuses}}, none)
	require.ErrorIs(t, err, refuses)
}

func TestNilContextIsRefused(t *testing.T) {
	_, err := serve.Collect(nil, time.Second, nil, nil) //nolint:staticcheck // nil is what is tested
	require.ErrorIs(t, err, events.ErrInvalid)
}
