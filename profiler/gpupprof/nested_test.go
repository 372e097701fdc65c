package gpupprof_test

import (
	"context"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
)

// shown is a profile as the tool shows it.
func shown(t *testing.T, p *gpupprof.Profile) map[string]row {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	return top(t, file)
}

// A long window is placed on the clock sooner than a short one at its end. The short one's time
// still counts once.
func TestNestedTimeCountsOnceInLongWindows(t *testing.T) {
	s := newService(t)
	p := gpupprof.New()
	_, err := s.prof.AddSink(p)
	require.NoError(t, err)
	var seen atomic.Uint64
	_, err = s.prof.AddSink(profiler.SinkFunc(func(batch []profiler.Span) error { seen.Add(uint64(len(batch))); return nil }))
	require.NoError(t, err)
	outer, inner := s.track("outer"), s.track("inner")
	const all = 11
	compared := func() { // or there is nothing left that the clocks are compared for
		before := s.prof.Stats().Anchors
		s.dev.System().Advance(100 * time.Millisecond)
		require.Eventually(t, func() bool { return s.prof.Stats().Anchors > before || seen.Load() == all }, time.Minute, 100*time.Microsecond)
	}
	ctx, w := outer.Begin(context.Background())
	for range 10 {
		s.window(ctx, inner, 100*time.Millisecond, nil)
		require.NoError(t, s.dev.StreamSynchronize(s.stream))
		compared()
	}
	m := outer.Stop(w)
	require.NoError(t, s.dev.StreamSynchronize(s.stream))
	for seen.Load() < all { // without Flush, which would hand over all at once
		compared()
	}
	span, err := m.Wait(context.Background())
	require.NoError(t, err)
	require.NoError(t, s.prof.Close())
	rows := shown(t, p)
	require.InEpsilon(t, time.Second, rows["gpu:inner"].flat, 0.001)
	require.InEpsilon(t, span.Duration, rows["gpu:outer"].cum, 0.001)
	require.InEpsilon(t, span.Duration-time.Second, rows["gpu:outer"].flat, 0.001)
}

// Windows whose parent never finishes must not fill the memory, nor push those out that do.
func TestWindowsInAbandonedOnesAreForgottenByAndBy(t *testing.T) {
	p := gpupprof.New()
	const stream = 1 << 40
	orphans := func(from, n int) {
		for i := range n {
			require.NoError(t, p.Spans([]profiler.Span{{ID: stream | uint64(from+2*i+1), Parent: stream | uint64(from+2*i), Name: "orphan", Duration: time.Microsecond}}))
		}
	}
	orphans(1_000_000, 50_000)
	require.NoError(t, p.Spans([]profiler.Span{{ID: stream | 2, Parent: stream | 1, Name: "inner", Duration: time.Second}}))
	orphans(2_000_000, 8000)
	require.NoError(t, p.Spans([]profiler.Span{{ID: stream | 1, Name: "outer", Duration: 3 * time.Second}}))
	rows := shown(t, p)
	require.Equal(t, 2*time.Second, rows["gpu:outer"].flat)
	require.Equal(t, time.Second, rows["gpu:inner"].flat)
	require.Equal(t, 58*time.Millisecond, rows["gpu:orphan"].flat)
}

// scripted is a source that hands spans over as soon as it is watched.
type scripted struct {
	now   time.Time
	spans []profiler.Span
}

func (s *scripted) AddSink(sink profiler.Sink) (*profiler.Attachment, error) {
	return nil, sink.Spans(s.spans)
}
func (s *scripted) Flush(context.Context) error { return nil }
func (s *scripted) Now() time.Time              { return s.now }
func (s *scripted) Origin() time.Time           { return time.Time{} }

// A profile of a second holds a second of each stream: windows are handed over up to half a second
// late, so that those from before would otherwise be in it.
func TestProfileHoldsWhatEndedInItsTime(t *testing.T) {
	now := time.Now()
	at := func(id, parent uint64, name string, from, to time.Duration) profiler.Span {
		return profiler.Span{ID: 1<<40 | id, Parent: parent, Name: name, Start: now.Add(from), Duration: to - from}
	}
	const ms = time.Millisecond
	source := &scripted{now, []profiler.Span{
		at(1, 0, "before", -400*ms, -10*ms),
		at(3, 1<<40|2, "nested before", -8*ms, -5*ms),
		at(2, 0, "across", -9*ms, 1*ms),
		at(4, 0, "in", 2*ms, 9*ms),
		at(5, 0, "after", 9*ms, 11*ms),
	}}
	p, err := gpupprof.Collect(context.Background(), 10*ms, source)
	require.NoError(t, err)
	rows := shown(t, p)
	require.Len(t, rows, 2)
	require.Equal(t, 7*ms, rows["gpu:across"].flat, "its own time, as always")
	require.Equal(t, 7*ms, rows["gpu:in"].flat)
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	out, err := tool(t, "-raw", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Duration: 10ms", "the time that was asked for, not that of waiting for the last windows")
}

// broken is a context that fails when it is looked into.
type broken struct {
	context.Context
	now *atomic.Bool
}

func (b broken) Value(key any) any {
	if b.now.Load() {
		panic("a context's own mistake")
	}
	return b.Context.Value(key)
}

// A profile from which windows are missing says so.
func TestProfileSaysWhatIsMissing(t *testing.T) {
	s := newService(t)
	tr := s.track("w")
	var now atomic.Bool
	collected := make(chan *gpupprof.Profile, 1)
	go func() {
		p, err := gpupprof.Collect(context.Background(), 300*time.Millisecond, s.prof)
		if err != nil {
			t.Error(err)
		}
		collected <- p
	}()
	var p *gpupprof.Profile
	for p == nil {
		w := tr.StartContext(broken{context.Background(), &now})
		tr.Stop(w)
		now.Store(true)
		s.flush(t)
		now.Store(false)
		select {
		case p = <-collected:
		default:
		}
	}
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	out, err := tool(t, "-comments", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `\d+ windows are missing`, string(out))
}

// What a window lies in is not confused with what it is labelled with.
func TestNamesAndLabelsAreToldApart(t *testing.T) {
	p := gpupprof.New()
	labelled := pprof.WithLabels(context.Background(), pprof.Labels("tenant", "a"))
	require.NoError(t, p.Spans([]profiler.Span{
		{ID: 1<<40 | 1, Name: "w", Within: []string{"tenant", "a"}, Duration: time.Second},
		{ID: 1<<40 | 2, Name: "w", Context: labelled, Duration: time.Minute},
	}))
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	require.Equal(t, row{time.Minute, time.Minute}, top(t, file, "-tagfocus=tenant=^a$")["gpu:w"])
	require.Equal(t, row{time.Second, time.Second}, top(t, file, "-focus=gpu:tenant")["gpu:w"])
}
