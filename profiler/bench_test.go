package profiler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// What a window costs its caller, on a simulated device that costs as little as
// it can: two records and a question are in it.
func BenchmarkStartStop(b *testing.B) {
	b.Run("track", func(b *testing.B) {
		r, tr := benchRig(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			tr.Stop(tr.Start())
			r.breathe(b, i)
		}
	})
	b.Run("by stream", func(b *testing.B) {
		r, _ := benchRig(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r.prof.Stop(r.stream, r.prof.Start(r.stream))
			r.breathe(b, i)
		}
	})
	b.Run("lap", func(b *testing.B) {
		r, tr := benchRig(b)
		b.ReportAllocs()
		w := tr.Start()
		for i := 0; b.Loop(); i++ {
			_, w = tr.Lap(w)
			r.breathe(b, i)
		}
		tr.Stop(w)
	})
	b.Run("parallel, a stream each", func(b *testing.B) {
		r, _ := benchRig(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			tr := r.prof.Track(newStream(b, r), "w")
			for i := 0; pb.Next(); i++ {
				tr.Stop(tr.Start())
				r.breatheWith(i)
			}
		})
	})
	b.Run("parallel, one stream", func(b *testing.B) {
		r, tr := benchRig(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				tr.Stop(tr.Start())
				r.breatheWith(i)
			}
		})
	})
	b.Run("switched off", func(b *testing.B) {
		var tr *profiler.Track
		b.ReportAllocs()
		for b.Loop() {
			tr.Stop(tr.Start())
		}
	})
}

// What the doors that handlers use cost beyond that, and the calls of a stack.
func BenchmarkDoors(b *testing.B) {
	ctx := context.Background()
	for _, x := range []struct {
		name   string
		stacks bool
		window func(tr *profiler.Track)
	}{
		{"Start", false, func(tr *profiler.Track) { tr.Stop(tr.Start()) }},
		{"Start with stacks", true, func(tr *profiler.Track) { tr.Stop(tr.Start()) }},
		{"StartContext", false, func(tr *profiler.Track) { tr.Stop(tr.StartContext(ctx)) }},
		{"Begin", false, func(tr *profiler.Track) { _, w := tr.Begin(ctx); tr.Stop(w) }},
		{"Do", false, func(tr *profiler.Track) { _ = profiler.Do(ctx, tr, func(context.Context) error { return nil }) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			r, tr := preparedRig(b, x.stacks)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.window(tr)
				r.breathe(b, i)
			}
		})
	}
}

// What passing spans on costs a sink's goroutine, for a window.
func BenchmarkSinkHelpers(b *testing.B) {
	nothing := profiler.SinkFunc(func([]profiler.Span) error { return nil })
	limit, err := profiler.NewNameLimit(nothing, 8)
	require.NoError(b, err)
	batch := make([]profiler.Span, 100)
	for i := range batch {
		batch[i] = profiler.Span{ID: uint64(i), Root: uint64(i), Name: fmt.Sprint("w", i%16)}
	}
	for _, x := range []struct {
		name string
		sink profiler.Sink
	}{
		{"Filter", profiler.Filter(nothing, func(s profiler.Span) bool { return s.ID%2 == 0 })},
		{"Sample", profiler.Sample(nothing, 10)},
		{"NameLimit", limit},
		{"Tee", profiler.Tee(nothing, nothing)},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = x.sink.Spans(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch)), "ns/window")
		})
	}
}

func benchRig(b *testing.B) (*rig, *profiler.Track) {
	return preparedRig(b, false)
}

// preparedRig has windows for more than breathe lets pass: none is dropped.
func preparedRig(b *testing.B, stacks bool) (*rig, *profiler.Track) {
	r := rigOn(b, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)), profiler.WithWindows(1<<16), profiler.WithPrepared(8192), profiler.WithStacks(stacks))
	tr := r.track(b, "w")
	b.Cleanup(func() { require.LessOrEqual(b, r.prof.Stats().Dropped, r.prof.Stats().Started/100) })
	return r, tr
}

// breathe has the windows read back before they run out, so that they are measured and not
// dropped. They wait half a second for their places otherwise, and the benchmark for them.
func (r *rig) breathe(b *testing.B, i int) {
	if i%4096 == 4095 {
		b.StopTimer()
		defer b.StartTimer()
		_ = r.prof.Flush(context.Background())
	}
}

// breatheWith is breathe for one of several goroutines, whose timer cannot be stopped.
func (r *rig) breatheWith(i int) {
	if i%1024 == 1023 {
		_ = r.prof.Flush(context.Background())
	}
}
