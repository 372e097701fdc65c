package profiler_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// Eight goroutines on four streams do everything at once, beside readers and
// flushes. Every window ends in exactly one way.
func TestHammer(t *testing.T) {
	for name, x := range map[string]struct {
		opts   []mock.Option
		script func(dev *mock.Device, s mock.Stream)
		broken bool
	}{
		"healthy":    {},
		"no queries": {opts: []mock.Option{mock.Without(mock.FeatureQuerier | mock.FeatureRoundQuerier)}},
		"refusals": {broken: true, script: func(dev *mock.Device, _ mock.Stream) {
			for i, op := range []mock.Op{mock.OpEventRecord, mock.OpEventCreate, mock.OpRoundQuery, mock.OpEventElapsed, mock.OpStreamCapturing, mock.OpRoundBegin} {
				dev.Script(mock.Fault{Op: op, Chance: 0.02, Seed: uint64(i), Code: mock.CodeUnknown})
			}
		}},
		"captures": {script: func(dev *mock.Device, s mock.Stream) {
			for range 20 {
				_ = dev.BeginCapture(s, events.CaptureGlobal)
				time.Sleep(time.Millisecond)
				_, _ = dev.EndCapture(s)
			}
		}},
		"device lost": {broken: true, script: func(dev *mock.Device, _ mock.Stream) {
			time.Sleep(5 * time.Millisecond)
			dev.Lose()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice(append([]mock.Option{mock.Ideal(), mock.QueueLimit(0)}, x.opts...)...)
			var sink collector
			r := rigOn(t, dev, profiler.WithWindows(512), profiler.WithAnchorInterval(2*time.Millisecond), profiler.WithSink(&sink), profiler.WithSinkQueue(1<<20))
			r.broken = x.broken
			ctx := limited(t)
			streams := []mock.Stream{r.stream, newStream(t, r), newStream(t, r), newStream(t, r)}
			var tracks []*profiler.Track
			for _, s := range streams {
				tracks = append(tracks, r.prof.Track(s, "w"))
			}
			tokens := make(chan profiler.Window, 64) // handed from one goroutine to another
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 1))
					tr := tracks[g%len(tracks)]
					for i := range count(1000, 50_000) {
						w := tr.Start()
						switch rng.IntN(8) {
						case 0:
							_ = tr.Abandon(w)
							continue
						case 1:
							_, w = tr.Lap(w)
						case 2:
							select {
							case tokens <- w:
							default:
								tr.Stop(w)
							}
							continue
						case 3:
							select {
							case other := <-tokens: // of any stream: often refused
								if tr.Stop(other).ID() != other.ID() {
									t.Error("the measurement is another window's")
								}
							default:
							}
						case 4:
							if i%50 == 0 {
								r.prof.Fail(errors.New("failed"))
							}
						}
						m := tr.Stop(w)
						if rng.IntN(16) == 0 {
							if s, err := m.Wait(ctx); err == nil && (s.ID != m.ID() || s.Duration < 0 || s.Bound <= 0) {
								t.Errorf("measurement %d became %+v", m.ID(), s)
							}
						}
						if rng.IntN(64) == 0 {
							_ = r.prof.Flush(ctx)
							_ = r.prof.Stats()
						}
						if rng.IntN(128) == 0 {
							extra := r.prof.Track(streams[rng.IntN(len(streams))], "extra")
							extra.Stop(extra.Start())
							extra.Close()
						}
					}
				})
			}
			if x.script != nil {
				x.script(dev, streams[0])
			}
			wg.Wait()
			require.NoError(t, r.prof.Flush(ctx))
			_ = r.prof.Close()
			st := r.prof.Stats()
			seen := map[uint64]bool{}
			for _, s := range sink.got() {
				require.False(t, seen[s.ID], "a window was delivered twice")
				seen[s.ID] = true
			}
			require.NotZero(t, st.Finished)
			require.Equal(t, st.Finished, uint64(len(seen))+st.SinkDropped)
		})
	}
}
