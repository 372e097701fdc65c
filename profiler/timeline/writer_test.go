package timeline_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/timeline"
)

// event is one event of the format.
type event struct {
	Ph   string         `json:"ph"`
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Bp   string         `json:"bp"`
	ID   string         `json:"id"`
	S    string         `json:"s"`
	Pid  int            `json:"pid"`
	Tid  int            `json:"tid"`
	Ts   json.Number    `json:"ts"`
	Dur  json.Number    `json:"dur"`
	Args map[string]any `json:"args"`
}

// ns reads microseconds with three decimals without rounding.
func ns(t testing.TB, n json.Number) int64 {
	t.Helper()
	whole, part, ok := strings.Cut(n.String(), ".")
	require.True(t, ok && len(part) == 3, n)
	var v int64
	_, err := fmt.Sscan(whole+part, &v)
	require.NoError(t, err)
	return v
}

type key struct{ pid, tid int }

// parsed checks a trace by the rules of the format and of its viewers, and gives its events.
func parsed(t testing.TB, text []byte) []event {
	t.Helper()
	var all []event
	require.NoError(t, json.Unmarshal(text, &all))
	slicesOf := map[key][]event{}
	named := map[key]bool{}
	processes := map[int]bool{}
	flows := map[string][2]*event{}
	begins := map[string]bool{}
	for i := range all {
		e := &all[i]
		k := key{e.Pid, e.Tid}
		switch e.Ph {
		case "X":
			require.GreaterOrEqual(t, ns(t, e.Dur), int64(0))
			slicesOf[k] = append(slicesOf[k], *e)
			begins[fmt.Sprint(k, e.Args["window"], e.Ts)] = true
		case "M":
			switch e.Name {
			case "thread_name":
				require.False(t, named[k], "a thread is named once")
				named[k] = true
			case "process_name":
				processes[e.Pid] = true
			}
		case "s", "f":
			pair := flows[e.ID]
			at := map[string]int{"s": 0, "f": 1}[e.Ph]
			require.Nil(t, pair[at], "an arrow has one end of each kind: %v", e.ID)
			pair[at] = e
			flows[e.ID] = pair
		case "i":
			require.Equal(t, "p", e.S)
		default:
			require.Fail(t, "an event of a kind that is not written", e.Ph)
		}
	}
	for k, list := range slicesOf {
		require.True(t, named[k], "%v has no name", k)
		require.True(t, processes[k.pid], "%v has no process", k)
		slices.SortStableFunc(list, func(a, b event) int {
			return cmp.Or(cmp.Compare(ns(t, a.Ts), ns(t, b.Ts)), cmp.Compare(ns(t, b.Dur), ns(t, a.Dur)))
		})
		var open []int64
		for _, e := range list {
			from, to := ns(t, e.Ts), ns(t, e.Ts)+ns(t, e.Dur)
			for len(open) > 0 && open[len(open)-1] <= from {
				open = open[:len(open)-1]
			}
			if len(open) > 0 && to > open[len(open)-1] {
				require.Fail(t, "slices overlap in part", "%v: %v ends at %d, behind what it lies in, %d", k, e, to, open[len(open)-1])
			}
			open = append(open, to)
		}
	}
	for id, pair := range flows {
		for _, e := range pair {
			require.NotNil(t, e, "the arrow %s has one end", id)
			_, window, _ := strings.Cut(id, ".")
			require.True(t, begins[fmt.Sprint(key{e.Pid, e.Tid}, window, e.Ts)], "an end of the arrow %s is at no slice", id)
		}
	}
	return all
}

func count(all []event, ph, cat string) (n int) {
	for _, e := range all {
		if e.Ph == ph && (cat == "" || e.Cat == cat) {
			n++
		}
	}
	return n
}

// A trace of a service: nests, windows that overlap by accident of threads, starts that are
// off within their bounds, requests that outlast thousands of others, in the order of
// their ends, as the profiler delivers them. Viewers take slices of one thread for nested, and
// show nonsense where they overlap in part.
func TestTraceHasNoPartialOverlaps(t *testing.T) {
	const n = 100_000
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
	require.Positive(t, count(events, "i", ""))
}

// What waits to be put in order is bounded, however many windows a stream has.
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
	require.Equal(t, out2.Args["window"], in.Args["parent"])
	require.Equal(t, out2.Tid, in.Tid)
	require.NotEmpty(t, in.Args["bound_us"])
	require.Contains(t, []any{"causal", "settled", "alone"}, in.Args["placed"])
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
	require.NotEmpty(t, parsed(t, append(slices.Clone(text), ']')))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestTraceIsServed(t *testing.T) {
	dev := mock.NewDevice()
	defer dev.System().Close()
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev)
	require.NoError(t, err)
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
