package timeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/timeline"
)

// A trace of a service: nests, windows that overlap by accident of threads, starts that are
// off within their bounds, requests that outlast thousands of others, in the order of
// their ends, as the profiler delivers them. Viewers take slices of one thread for nested, and
// drop them or show nonsense where they overlap in part (google/perfetto#4280).
func TestTraceHasNoPartialOverlaps(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n /= 5
	}
	random := rand.New(rand.NewPCG(7, 11))
	origin := time.Now()
	devices := []*profiler.Device{{Backend: "mock"}, {Backend: "mock", Identity: events.Identity{Ordinal: 1, Name: "two"}}}
	var all []profiler.Span
	ids := map[uint64]uint64{}
	at := map[uint64]time.Duration{}
	for len(all) < n {
		stream := uint64(1 + random.IntN(5))
		add := func(from, took time.Duration) {
			ids[stream]++
			jitter := time.Duration(random.IntN(3000))
			all = append(all, profiler.Span{
				ID: stream<<40 | ids[stream], Name: fmt.Sprint("w", random.IntN(20)), Device: devices[stream%2],
				Start: origin.Add(from + jitter), Duration: took, Bound: 3 * time.Microsecond, Epoch: uint32(at[1] / time.Second),
				Called: origin.Add(from - 20*time.Microsecond), Stopped: origin.Add(from - time.Duration(random.IntN(15_000))),
			})
		}
		from := at[stream]
		took := time.Duration(1000 + random.IntN(200_000))
		add(from, took)
		switch random.IntN(10) {
		case 0: // nested
			add(from+took/4, took/2)
		case 1: // overlaps in part
			add(from+took/2, took)
		case 4: // nothing was queued
			add(from, 0)
		case 2: // a request round many others
			if random.IntN(100) == 0 {
				add(from, 5*time.Second)
			}
		case 3:
			add(from, took)
		}
		at[stream] = from + took + time.Duration(random.IntN(10_000))
	}
	slices.SortStableFunc(all, func(a, b profiler.Span) int { return a.End().Compare(b.End()) })
	var out bytes.Buffer
	w := timeline.NewWriter(&out, origin)
	for batch := range slices.Chunk(all, 100) {
		require.NoError(t, w.Spans(batch))
	}
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	events := parsed(t, out.Bytes())
	require.Equal(t, len(all), count(events, "X", "gpu"))
	require.Equal(t, len(all), count(events, "X", "calls"))
	require.Equal(t, len(all), count(events, "s", ""))
	epochs := map[*profiler.Device]map[uint32]bool{devices[0]: {}, devices[1]: {}}
	for _, s := range all {
		epochs[s.Device][s.Epoch] = true
	}
	require.Equal(t, len(epochs[devices[0]])+len(epochs[devices[1]])-2, count(events, "i", ""), "each new epoch is marked once")
}

// Times since the origin are short enough for a float64: 19 digits of Unix time are not, and
// slices of microseconds then lie on top of each other (pytorch/kineto#853).
func TestTraceTimesSurviveAFloat64(t *testing.T) {
	origin := time.Now()
	var out bytes.Buffer
	w := timeline.NewWriter(&out, origin)
	month := 30 * 24 * time.Hour
	for i := range 1000 {
		start := origin.Add(month + time.Duration(i)*3*time.Nanosecond)
		require.NoError(t, w.Spans([]profiler.Span{{ID: uint64(i + 1), Name: "w", Start: start, Duration: 3}}))
	}
	require.NoError(t, w.Close())
	next := month
	for _, e := range parsed(t, out.Bytes()) {
		if e.Ph != "X" {
			continue
		}
		us, err := e.Ts.Float64()
		require.NoError(t, err)
		require.Equal(t, next, time.Duration(math.Round(us*1000)))
		next += 3
	}
	require.Equal(t, month+3000, next)
}

// The calls of many streams are one process. A stream that is written in one go must not push
// the calls of the others onto threads of their own.
func TestCallsOfStreamsThatTakeTurnsShareAThread(t *testing.T) {
	origin := time.Now()
	var out bytes.Buffer
	w := timeline.NewWriter(&out, origin)
	const n = 40_000
	for i := range n {
		called := origin.Add(time.Duration(i) * 100 * time.Microsecond)
		require.NoError(t, w.Spans([]profiler.Span{{
			ID: uint64(1+i%4)<<40 | uint64(1+i/4), Name: "w", Start: called.Add(time.Microsecond), Duration: 50 * time.Microsecond,
			Called: called, Stopped: called.Add(time.Microsecond),
		}}))
	}
	require.NoError(t, w.Close())
	threads := map[int]bool{}
	for _, e := range parsed(t, out.Bytes()) {
		if e.Cat == "calls" {
			threads[e.Tid] = true
		}
	}
	require.Len(t, threads, 1)
}

// What waits to be put in order is bounded, however many windows a stream has: a trace that is
// kept in memory is as large as a day is long (google/perfetto#99).
func TestTraceIsStreamed(t *testing.T) {
	origin := time.Now()
	var out counting
	w := timeline.NewWriter(&out, origin)
	const n = 50_000
	for i := range n {
		require.NoError(t, w.Spans([]profiler.Span{{ID: 1<<40 | uint64(i+1), Name: "w", Start: origin.Add(time.Duration(i) * time.Microsecond), Duration: time.Microsecond}}))
	}
	before := out.lines
	require.NoError(t, w.Close())
	require.Less(t, out.lines-before, 2*4096+10)
	require.GreaterOrEqual(t, out.lines, n)
}

// A stream that has only now and then a window must not wait for thousands of them.
func TestQuietStreamIsWrittenWithTheOthers(t *testing.T) {
	origin := time.Now()
	var out bytes.Buffer
	w := timeline.NewWriter(&out, origin)
	at := func(second int, stream uint64) []profiler.Span {
		return []profiler.Span{{ID: stream<<40 | uint64(second+1), Name: fmt.Sprintf("second %d of %d", second, stream), Start: origin.Add(time.Duration(second) * time.Second)}}
	}
	require.NoError(t, w.Spans(at(0, 1)))
	for second := range 10 {
		require.NoError(t, w.Spans(at(second, 2)))
	}
	require.Contains(t, out.String(), "second 0 of 1")
	require.Contains(t, out.String(), "second 7 of 2")
	require.NotContains(t, out.String(), "second 9 of 2", "what may still be preceded waits")
}

// Nor is memory a matter of how many streams there are.
func TestManyStreamsTogetherAreBounded(t *testing.T) {
	origin := time.Now()
	var out counting
	w := timeline.NewWriter(&out, origin)
	const streams, each = 1000, 200
	for i := range each {
		batch := make([]profiler.Span, streams)
		for j := range batch {
			batch[j] = profiler.Span{ID: uint64(j+1)<<40 | uint64(i+1), Name: "w", Start: origin.Add(time.Duration(i) * time.Millisecond)}
		}
		require.NoError(t, w.Spans(batch))
	}
	before := out.lines
	require.NoError(t, w.Close())
	require.Less(t, out.lines-before, 1<<16+10)
}

type counting struct{ lines int }

func (c *counting) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

func TestTraceOfAProfilerSaysWhatItKnows(t *testing.T) {
	dev := mock.NewDevice(mock.AutoAdvance())
	defer dev.System().Close()
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev)
	require.NoError(t, err)
	var out bytes.Buffer
	w := timeline.NewWriter(&out, prof.Origin())
	_, err = prof.AddSink(w)
	require.NoError(t, err)
	outer, inner := prof.Track(stream, `outer "quoted" \ `), prof.Track(stream, "inner")
	require.NoError(t, profiler.Do(context.Background(), outer, func(ctx context.Context) error {
		return profiler.Do(ctx, inner, func(context.Context) error { return dev.Work(stream, time.Millisecond) })
	}))
	require.NoError(t, dev.StreamSynchronize(stream))
	require.NoError(t, prof.Flush(context.Background()))
	require.NoError(t, prof.Close())
	require.NoError(t, w.Close())
	all := parsed(t, out.Bytes())
	found := map[string]event{}
	for _, e := range all {
		if e.Cat == "gpu" {
			found[e.Name] = e
		}
	}
	require.Len(t, found, 2)
	in, out2 := found["inner"], found[`outer "quoted" \ `]
	require.Equal(t, out2.Args.Window, in.Args.Parent)
	require.Equal(t, out2.Tid, in.Tid)
	require.Positive(t, ns(t, in.Args.Bound))
	require.Contains(t, []string{"causal", "settled", "alone"}, in.Args.Placed)
	require.GreaterOrEqual(t, ns(t, in.Dur), int64(time.Millisecond))
	require.Equal(t, 2, count(all, "X", "calls"))
}

func TestTraceThatBreaksOffIsStillRead(t *testing.T) {
	full := errors.New("disk full")
	w := timeline.NewWriter(failing{full}, time.Now())
	require.ErrorIs(t, w.Spans([]profiler.Span{{ID: 1, Name: "w"}}), full)
	require.ErrorIs(t, w.Close(), full)
	require.ErrorIs(t, w.Spans(nil), events.ErrClosed)

	var out bytes.Buffer
	w = timeline.NewWriter(&out, time.Now())
	for i := range 10_000 {
		require.NoError(t, w.Spans([]profiler.Span{{ID: uint64(i + 1), Name: "w", Start: time.Now()}}))
	}
	text := bytes.TrimRight(out.Bytes(), ",\n") // viewers add the bracket
	all := parsed(t, append(slices.Clone(text), ']'))
	require.Positive(t, count(all, "X", "gpu"))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// service is a profiler on a simulated device in real time.
type service struct {
	dev    *mock.Device
	prof   *profiler.Profiler[mock.Stream]
	stream mock.Stream
}

func newService(t *testing.T, opts ...profiler.Option) *service {
	t.Helper()
	dev := mock.NewDevice()
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, prof.Close())
		require.NoError(t, dev.StreamDestroy(stream))
		dev.System().Close()
	})
	return &service{dev, prof, stream}
}

func TestTraceIsServed(t *testing.T) {
	s := newService(t)
	prof, stream := s.prof, s.stream
	server := httptest.NewServer(timeline.Handler(prof))
	defer server.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	tr := prof.Track(stream, "w")
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				tr.Stop(tr.Start())
				time.Sleep(time.Millisecond)
			}
		}
	}()
	answer, err := http.Get(server.URL + "?seconds=0.2")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	close(stop)
	<-stopped
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	require.Positive(t, count(parsed(t, text), "X", "gpu"))

	require.NoError(t, prof.Close())
	refused, err := http.Get(server.URL + "?seconds=0.2")
	require.NoError(t, err)
	defer refused.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
}

// While Go's own tracer runs, a window is a line of the task that it was opened in.
func TestRuntimeTraceHasTheWindows(t *testing.T) {
	sink := timeline.RuntimeTrace()
	batch := []profiler.Span{{ID: 1<<40 | 5, Name: "decode-of-the-test", Duration: time.Millisecond}}
	require.NoError(t, sink.Spans(batch)) // nobody traces
	var out bytes.Buffer
	if err := trace.Start(&out); err != nil {
		t.Skip("somebody else is tracing: ", err)
	}
	require.NoError(t, sink.Spans(batch))
	trace.Stop()
	require.Contains(t, out.String(), "decode-of-the-test window=1099511627781 stream=1")
}

func BenchmarkSpans(b *testing.B) {
	origin := time.Now()
	w := timeline.NewWriter(io.Discard, origin)
	batch := make([]profiler.Span, 100)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		for j := range batch {
			i++
			batch[j] = profiler.Span{
				ID: 1<<40 | uint64(i), Name: "w", Start: origin.Add(time.Duration(i) * time.Microsecond), Duration: time.Microsecond,
				Called: origin.Add(time.Duration(i) * time.Microsecond), Stopped: origin.Add(time.Duration(i)*time.Microsecond + 500),
			}
		}
		_ = w.Spans(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/window")
}

func BenchmarkRuntimeTrace(b *testing.B) {
	sink := timeline.RuntimeTrace()
	batch := make([]profiler.Span, 100)
	for i := range batch {
		batch[i] = profiler.Span{ID: 1<<40 | uint64(i), Name: "w", Start: time.Now()}
	}
	spans := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = sink.Spans(batch)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/window")
	}
	b.Run("nobody traces", spans)
	b.Run("tracing", func(b *testing.B) {
		if err := trace.Start(io.Discard); err != nil {
			b.Skip("somebody else is tracing: ", err)
		}
		defer trace.Stop()
		spans(b)
	})
}
