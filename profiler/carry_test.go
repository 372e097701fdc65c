package profiler_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// gathered collects what a sink gets.
type gathered struct {
	mu    sync.Mutex
	spans []profiler.Span
}

func (g *gathered) Spans(batch []profiler.Span) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, batch...)
	return nil
}

func (g *gathered) byName(t *testing.T, n int) map[string]profiler.Span {
	t.Helper()
	eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.spans) == n
	})
	out := map[string]profiler.Span{}
	for _, s := range g.spans {
		out[s.Name] = s
	}
	return out
}

type keyOf struct{}

// A sink finds the trace of a request, and the labels of a profile, in the context that the
// window was opened with. A reader who waits does not get it: a result is kept for long.
func TestSpanCarriesItsContextToSinksAlone(t *testing.T) {
	sink := &gathered{}
	r := newRig(t, nil, profiler.WithSink(sink))
	first, second, plain := r.track(t, "first"), r.track(t, "second"), r.track(t, "plain")
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), keyOf{}, "request 7"))
	w := first.StartContext(ctx)
	cancel() // its end changes nothing
	m, w := second.Lap(w)
	second.Stop(w)
	plain.Stop(plain.Start())
	r.flushed(t)
	spans := sink.byName(t, 3)
	require.Equal(t, "request 7", spans["first"].Context.Value(keyOf{}))
	require.Equal(t, "request 7", spans["second"].Context.Value(keyOf{}), "a lap hands it on")
	require.Nil(t, spans["plain"].Context)
	require.Nil(t, span(t, m).Context)
}

func TestSpanSaysWhenItsCallsWereMade(t *testing.T) {
	sink := &gathered{}
	r := newRig(t, nil, profiler.WithSink(sink))
	tr := r.track(t, "w")
	clock := r.dev.HostClock()
	at := func() time.Time { return r.prof.Origin().Add(time.Duration(clock())) }
	before := at()
	w := tr.Start()
	started := at()
	r.work(t, time.Millisecond)
	r.dev.System().Advance(70 * us)
	stopping := at()
	m := tr.Stop(w)
	stopped := at()
	r.flushed(t)
	s := sink.byName(t, 1)["w"]
	require.False(t, s.Called.Before(before) || s.Called.After(started), "%v is not within %v and %v", s.Called, before, started)
	require.False(t, s.Stopped.Before(stopping) || s.Stopped.After(stopped), "%v is not within %v and %v", s.Stopped, stopping, stopped)
	require.GreaterOrEqual(t, s.Stopped.Sub(s.Called), 70*us)
	require.Equal(t, s.Called, span(t, m).Called)
}

// What watches for some seconds asks the profiler for the time: a simulated device has its own.
func TestNowIsOnTheClockOfSpans(t *testing.T) {
	r := newRig(t, nil)
	tr := r.track(t, "w")
	before := r.prof.Now()
	r.dev.System().Advance(time.Hour)
	w := tr.Start()
	r.work(t, time.Minute)
	m := tr.Stop(w)
	r.flushed(t)
	s, after := span(t, m), r.prof.Now()
	require.GreaterOrEqual(t, s.Called.Sub(before), time.Hour)
	require.False(t, after.Before(s.Stopped) || after.Before(s.End().Add(-s.Bound)))
	var none prof
	require.Zero(t, none.Now())
}

func TestSpanNamesItsDevice(t *testing.T) {
	r := newRig(t, nil)
	tr := r.track(t, "w")
	one, two := tr.Stop(tr.Start()), tr.Stop(tr.Start())
	r.flushed(t)
	device := span(t, one).Device
	require.Equal(t, &profiler.Device{Backend: "mock", Identity: r.dev.Identity()}, device)
	require.Equal(t, events.KindSimulated, device.Kind)
	require.Same(t, device, span(t, two).Device)
}

//go:noinline
func opensHere(tr *profiler.Track) profiler.Window { return tr.Start() }

//go:noinline
func opensThere(tr *profiler.Track) profiler.Window { return tr.StartContext(context.Background()) }

//go:noinline
func opensByStream(r *rig) profiler.Window { return r.prof.Start(r.stream) }

//go:noinline
func lapsHere(tr *profiler.Track, w profiler.Window) (profiler.Measurement, profiler.Window) {
	return tr.Lap(w)
}

// The innermost call of a stack is the one that opened the window, by whichever door.
func TestStackBeginsWhereTheWindowWasOpened(t *testing.T) {
	r := newRig(t, nil, profiler.WithStacks(true))
	tr, other := r.track(t, "w"), r.track(t, "other")
	var got []profiler.Measurement
	for range 2 {
		got = append(got, tr.Stop(opensHere(tr)), tr.Stop(opensThere(tr)), r.prof.Stop(r.stream, opensByStream(r)))
		m, next := lapsHere(other, opensHere(tr))
		got = append(got, m, other.Stop(next))
	}
	r.flushed(t)
	for i, want := range []string{"opensHere", "opensThere", "opensByStream", "opensHere", "lapsHere"} {
		s := span(t, got[i])
		require.NotEmpty(t, s.Stack)
		inner, more := runtime.CallersFrames(s.Stack).Next()
		require.True(t, more)
		require.True(t, strings.HasSuffix(inner.Function, "."+want), "%s, not %s", inner.Function, want)
		require.NotSame(t, &s.Stack[0], &span(t, got[(i+1)%3]).Stack[0])
	}
	require.Equal(t, span(t, got[0]).Stack[0], span(t, got[5]).Stack[0])
}

func TestNoStackWithoutAsking(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	m := tr.Stop(tr.Start())
	r.flushed(t)
	require.Nil(t, span(t, m).Stack)
}
