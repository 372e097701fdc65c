package profiler_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

var aContext = context.WithValue(context.Background(), keyOf{}, 1)

// At most 100 mallocs in 100,000 windows (25,000 with -short), with the harvester at work: what is
// allocated per batch is there, what were allocated per window is not.
func TestStartAndStopDoNotAllocate(t *testing.T) {
	if profiler.RaceDetector {
		t.Skip("the race detector allocates")
	}
	nothing := profiler.SinkFunc(func([]profiler.Span) error { return nil })
	windows := 100_000
	if testing.Short() {
		windows /= 4
	}
	for name, x := range map[string]struct {
		opts []profiler.Option
		most uint64
		run  func(r *rig, tr *profiler.Track)
	}{
		"track":     {nil, 100, func(_ *rig, tr *profiler.Track) { tr.Stop(tr.Start()) }},
		"by stream": {nil, 100, func(r *rig, _ *profiler.Track) { r.prof.Stop(r.stream, r.prof.Start(r.stream)) }},
		"lap": {nil, 100, func(_ *rig, tr *profiler.Track) {
			_, w := tr.Lap(tr.Start())
			tr.Stop(w)
		}},
		"abandon": {nil, 100, func(_ *rig, tr *profiler.Track) { _ = tr.Abandon(tr.Start()) }},
		"dropped": {[]profiler.Option{profiler.WithWindows(1)}, 100, func(_ *rig, tr *profiler.Track) {
			w := tr.Start()
			tr.Stop(tr.Start())
			tr.Stop(w)
		}},
		"with stacks":  {[]profiler.Option{profiler.WithStacks(true)}, 100, func(_ *rig, tr *profiler.Track) { tr.Stop(tr.Start()) }},
		"with context": {nil, 100, func(_ *rig, tr *profiler.Track) { tr.Stop(tr.StartContext(aContext)) }},
		// A batch of spans is the sink's to keep: one allocation or a few for each.
		"with a sink": {[]profiler.Option{profiler.WithSink(nothing)}, uint64(windows / 50), func(_ *rig, tr *profiler.Track) { tr.Stop(tr.Start()) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := rigOn(t, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)), // in real time
				append([]profiler.Option{profiler.WithWindows(2048), profiler.WithAnchorInterval(time.Millisecond)}, x.opts...)...)
			tr := r.track(t, "w")
			prepare(t, tr)
			run := func() {
				for i := range windows {
					x.run(r, tr)
					if i%100 == 0 { // more would only be dropped
						for r.prof.Stats().Pending > 1000 {
							runtime.Gosched()
						}
					}
				}
			}
			run()
			r.flushed(t)
			require.LessOrEqual(t, mallocs(run), x.most)
		})
	}
}

// prepare makes the profiler prepare as many windows as it may.
func prepare(t testing.TB, tr *profiler.Track) {
	t.Helper()
	var all []profiler.Window
	eventually(t, func() bool {
		for {
			w := tr.Start()
			if w.Err() != nil {
				break
			}
			all = append(all, w)
		}
		before := len(all)
		time.Sleep(5 * time.Millisecond)
		w := tr.Start()
		if w.Err() == nil {
			all = append(all, w)
		}
		return len(all) == before
	})
	for _, w := range all {
		require.NoError(t, tr.Abandon(w))
	}
}

// Where nothing is measured nothing may be spent: a service keeps its calls when
// profiling is off, over or broken.
func TestRefusedStartsDoNotAllocate(t *testing.T) {
	if profiler.RaceDetector {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, []mock.Option{mock.Ideal()})
	ended, lost := newRig(t, []mock.Option{mock.Ideal()}), newRig(t, []mock.Option{mock.Ideal()})
	closed, late, broken := r.track(t, "closed"), ended.track(t, "late"), lost.track(t, "broken")
	closed.Close()
	require.NoError(t, ended.prof.Close())
	lost.broken = true
	lost.dev.Lose()
	require.Error(t, broken.Start().Err())
	for name, tr := range map[string]*profiler.Track{"off": nil, "track closed": closed, "profiler closed": late, "device lost": broken} {
		require.LessOrEqual(t, mallocs(func() {
			for range 10_000 {
				w := tr.Start()
				_, w = tr.Lap(w)
				tr.Stop(w)
			}
		}), uint64(100), name)
	}
	require.LessOrEqual(t, mallocs(func() {
		var none prof
		for range 10_000 {
			none.Stop(r.stream, none.Start(r.stream))
		}
	}), uint64(100), "by stream")
}

// On a fresh goroutine the stack grows within the calls, which must cost nothing
// else.
func TestStartAndStopDoNotAllocateOnFreshGoroutines(t *testing.T) {
	if profiler.RaceDetector {
		t.Skip("the race detector allocates")
	}
	r := rigOn(t, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)), profiler.WithWindows(2048))
	tr := r.track(t, "w")
	prepare(t, tr)
	run := func(goroutines, each int, step func()) func() {
		return func() {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range each {
						step()
					}
				}()
				wg.Wait()
			}
		}
	}
	window := func() { tr.Stop(tr.Start()) }
	run(1000, 10, window)()
	r.flushed(t)
	empty := mallocs(run(1000, 10, func() {}))
	require.LessOrEqual(t, mallocs(run(1000, 10, window)), empty+100)
}

func mallocs(f func()) uint64 {
	runtime.GC()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}
