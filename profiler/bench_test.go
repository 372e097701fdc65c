package profiler_test

import (
	"runtime"
	"testing"

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
			r.breathe(i)
		}
	})
	b.Run("by stream", func(b *testing.B) {
		r, _ := benchRig(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r.prof.Stop(r.stream, r.prof.Start(r.stream))
			r.breathe(i)
		}
	})
	b.Run("lap", func(b *testing.B) {
		r, tr := benchRig(b)
		b.ReportAllocs()
		w := tr.Start()
		for i := 0; b.Loop(); i++ {
			_, w = tr.Lap(w)
			r.breathe(i)
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
				r.breathe(i)
			}
		})
	})
	b.Run("parallel, one stream", func(b *testing.B) {
		r, tr := benchRig(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				tr.Stop(tr.Start())
				r.breathe(i)
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

func benchRig(b *testing.B) (*rig, *profiler.Track) {
	r := rigOn(b, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)))
	return r, r.track(b, "w")
}

// breathe lets the harvester keep up, so that windows are measured and not
// dropped.
func (r *rig) breathe(i int) {
	if i%256 == 255 {
		for r.prof.Stats().Pending > 6000 {
			runtime.Gosched()
		}
	}
}
