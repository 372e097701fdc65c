package profiler_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/cuda"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// eventRate is how many records with a timestamp the device takes in a second from one
// goroutine that does nothing else.
func eventRate(b *testing.B, dev cuda.Device, s cuda.Stream) float64 {
	b.Helper()
	var all []cuda.Event
	for range 64 {
		all = append(all, gputest.Event(b, dev))
	}
	n := 0
	began := time.Now()
	for ; time.Since(began) < 2*time.Second; n++ {
		if err := dev.EventRecord(all[n%len(all)], s); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, dev.StreamSynchronize(s))
	return float64(n) / time.Since(began).Seconds()
}

// Windows as fast as one goroutine can open and close them, for ten seconds, against the
// rate at which the device takes events at all; and how many of eight goroutines on
// streams of their own are lost.
func BenchmarkGPUSustained(b *testing.B) {
	dev := gputest.Device(b)
	s := gputest.Stream(b, dev)
	b.Run("one", func(b *testing.B) {
		p, err := profiler.New(dev, profiler.WithWindows(1<<16), profiler.WithPrepared(1<<14))
		require.NoError(b, err)
		defer func() { require.NoError(b, p.Close()) }()
		tr := p.Track(s, "w")
		require.NoError(b, tr.Err())
		for range b.N {
			before := eventRate(b, dev, s)
			started := p.Stats()
			var memory uint64
			began := time.Now()
			for i := 0; time.Since(began) < 10*time.Second; i++ {
				for range 100 {
					tr.Stop(tr.Start())
				}
				if memory == 0 && time.Since(began) > 2*time.Second {
					memory = heap()
				}
			}
			require.NoError(b, dev.StreamSynchronize(s))
			length := time.Since(began).Seconds()
			grown := int64(heap()) - int64(memory)
			after := eventRate(b, dev, s)
			st := p.Stats()
			windows := float64(st.Started - st.Dropped - started.Started + started.Dropped)
			b.ReportMetric(windows/length, "windows/s")
			b.ReportMetric(2*windows/length/((before+after)/2), "x-event-rate")
			b.ReportMetric(float64(st.Dropped-started.Dropped), "dropped")
			b.ReportMetric(float64(grown)/1e6, "MB-grown")
			b.ReportMetric(0, "ns/op")
		}
	})
	b.Run("eight", func(b *testing.B) {
		p, err := profiler.New(dev, profiler.WithWindows(1<<16), profiler.WithPrepared(1<<12))
		require.NoError(b, err)
		defer func() { require.NoError(b, p.Close()) }()
		for range b.N {
			var all sync.WaitGroup
			for range 8 {
				tr := p.Track(gputest.Stream(b, dev), "w")
				require.NoError(b, tr.Err())
				all.Go(func() {
					for range 50_000 {
						tr.Stop(tr.Start())
					}
				})
			}
			all.Wait()
			require.NoError(b, p.Flush(limited(b)))
			st := p.Stats()
			require.Equal(b, st.Started, st.Finished+st.Failed+st.Abandoned+st.Captured+st.Dropped)
			b.ReportMetric(float64(st.Finished), "finished")
			b.ReportMetric(float64(st.Dropped), "dropped")
			b.ReportMetric(0, "ns/op")
		}
	})
}
