package profiler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// Of a sampled trace a request is there as a whole or not at all.
func TestSamplingKeepsNestsWhole(t *testing.T) {
	all, some := &collector{}, &collector{}
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithSink(all), profiler.WithSink(profiler.Sample(some, 4)),
		profiler.WithSinkQueue(10_000), profiler.WithPrepared(1000))
	tr := r.track(t, "w")
	n := count(2000, 20_000)
	for i := range n {
		ctx, w := tr.Begin(context.Background())
		tr.Stop(tr.StartContext(ctx))
		tr.Stop(w)
		if i%100 == 0 {
			r.flushed(t)
		}
	}
	r.flushed(t)
	require.NoError(t, r.prof.Close())
	require.Equal(t, 2*n, len(all.got())) //nolint:testifylint // Len would print them all
	roots := map[uint64]int{}
	for _, s := range some.got() {
		roots[s.Root]++
	}
	for root, windows := range roots {
		require.Equal(t, 2, windows, root)
	}
	// Binomial: 4 standard deviations.
	require.InDelta(t, float64(n)/4, float64(len(roots)), 4*0.433*math.Sqrt(float64(n)))
}

func TestFilterPassesOnlyWhatIsKept(t *testing.T) {
	c := &collector{}
	sink := profiler.Filter(c, func(s profiler.Span) bool { return s.Name == "a" })
	require.NoError(t, sink.Spans([]profiler.Span{{Name: "a", ID: 1}, {Name: "b"}, {Name: "a", ID: 2}}))
	require.NoError(t, sink.Spans([]profiler.Span{{Name: "b"}}))
	require.Equal(t, []profiler.Span{{Name: "a", ID: 1}, {Name: "a", ID: 2}}, c.got())
	require.Equal(t, 1, c.batches, "a sink is not called for nothing")
}

// A tee is one sink, in which a bad one does not keep the others from their spans.
func TestTeeGivesEachSinkEverything(t *testing.T) {
	a, b := &collector{}, &collector{}
	fails := profiler.SinkFunc(func([]profiler.Span) error { return errFailed })
	panics := profiler.SinkFunc(func([]profiler.Span) error { panic("a sink's own mistake") })
	err := profiler.Tee(a, fails, panics, b).Spans([]profiler.Span{{ID: 1}, {ID: 2}})
	require.ErrorIs(t, err, errFailed)
	require.ErrorContains(t, err, "a sink's own mistake")
	require.Equal(t, []profiler.Span{{ID: 1}, {ID: 2}}, a.got())
	require.Equal(t, a.got(), b.got())
	require.NoError(t, profiler.Tee(a, b).Spans(nil))
	require.NoError(t, profiler.Tee().Spans([]profiler.Span{{ID: 1}}))
	require.Panics(t, func() { profiler.Tee(a, nil) })
}

// A name for each request must not make a time series for each.
// open-telemetry/opentelemetry-ebpf-instrumentation#1230
func TestNamesBeyondTheLimitAreOther(t *testing.T) {
	c := &collector{}
	limit, err := profiler.NewNameLimit(c, 2)
	require.NoError(t, err)
	shared := []string{"a", "x"}
	batch := []profiler.Span{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "a", Within: shared}}
	require.NoError(t, limit.Spans(batch))
	require.Equal(t, []profiler.Span{{Name: "a"}, {Name: "b"}, {Name: "other"}, {Name: "a", Within: []string{"a", "other"}}}, c.got())
	require.Equal(t, uint64(1), limit.Renamed())
	require.Equal(t, "c", batch[2].Name, "the batch is shared")
	require.Equal(t, []string{"a", "x"}, shared)
	_, err = profiler.NewNameLimit(nil, 2)
	require.ErrorIs(t, err, events.ErrInvalid)
	_, err = profiler.NewNameLimit(c, 0)
	require.ErrorIs(t, err, events.ErrInvalid)
}

func TestSinkIsAttachedForAWhile(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	window := func() { tr.Stop(tr.Start()); r.flushed(t) }
	window()
	c := &collector{}
	a, err := r.prof.AddSink(c)
	require.NoError(t, err)
	window()
	window()
	require.ErrorIs(t, a.Remove(nil), events.ErrInvalid) //nolint:staticcheck // nil is what is tested
	window()
	require.NoError(t, a.Remove(limited(t)))
	require.NoError(t, a.Remove(limited(t)))
	window()
	require.Len(t, c.got(), 3)
	require.Equal(t, profiler.SinkStats{Delivered: 3}, a.Stats())
	_, err = r.prof.AddSink(nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.NoError(t, r.prof.Close())
	_, err = r.prof.AddSink(c)
	require.ErrorIs(t, err, events.ErrClosed)

	var none prof
	nothing, err := none.AddSink(c)
	require.NoError(t, err)
	require.NoError(t, nothing.Remove(limited(t)))
	require.Zero(t, nothing.Stats())
}

func TestRemovingAStuckSinkEndsWithItsContext(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	stuck, entered := make(chan struct{}), make(chan struct{}, 1)
	a, err := r.prof.AddSink(profiler.SinkFunc(func([]profiler.Span) error { entered <- struct{}{}; <-stuck; return nil }))
	require.NoError(t, err)
	tr.Stop(tr.Start())
	r.flushed(t)
	<-entered
	tr.Stop(tr.Start())
	r.flushed(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, a.Remove(ctx), context.Canceled)
	require.Equal(t, profiler.SinkStats{Queued: 1, Dropped: 1}, a.Stats(), "one is in the call that does not return")
	close(stuck)
	eventually(t, func() bool { return a.Stats() == profiler.SinkStats{Delivered: 1, Dropped: 1} })
}

// Sinks come and go, block, fail, panic and end their goroutines, while windows are
// opened and the profiler is closed: it ends, nothing is counted twice, and a sink that was there
// all the time has everything.
func TestHammerSinksComeAndGo(t *testing.T) {
	dev := mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)) // in real time
	steady := &collector{}
	r := rigOn(t, dev, profiler.WithSink(steady), profiler.WithSinkQueue(1<<20), profiler.WithCloseTimeout(10*time.Second), profiler.WithAnchorInterval(time.Millisecond))
	r.broken = true // a sink that is stuck is told by Close
	stop := make(chan struct{})
	release := make(chan struct{})
	var windows, sinks sync.WaitGroup
	var attached, delivered, calls atomic.Uint64
	var all attachments
	for i := range 4 {
		windows.Go(func() {
			tr := r.track(t, fmt.Sprint("w", i))
			for i := 0; i < count(3000, 30_000) || calls.Load() == 0; i++ {
				tr.Stop(tr.Start())
				runtime.Gosched()
			}
		})
	}
	for i := range 4 {
		sinks.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				kind, pause := random.IntN(5), time.Duration(random.IntN(3))*time.Millisecond
				a, err := r.prof.AddSink(profiler.SinkFunc(func(batch []profiler.Span) error {
					calls.Add(1)
					switch kind {
					case 0:
						select {
						case <-release:
						case <-time.After(pause):
						}
					case 1:
						return errors.New("fails")
					case 2:
						panic("panics")
					case 3:
						runtime.Goexit()
					}
					delivered.Add(uint64(len(batch)))
					return nil
				}))
				if err != nil {
					return
				}
				attached.Add(1)
				all.add(a)
				time.Sleep(time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(2000))*us)
				_ = a.Remove(ctx)
				cancel()
			}
		})
	}
	windows.Wait()
	close(stop)
	sinks.Wait()
	r.flushed(t)
	require.NoError(t, r.prof.Close())
	close(release)
	st := r.prof.Stats()
	require.Equal(t, st.Finished, uint64(len(steady.got())))
	require.Positive(t, attached.Load())
	require.Positive(t, calls.Load())
	accounted(t, r.prof)
	// Each sink's own counts, once the last call has returned, are what they and the profiler saw.
	var sum profiler.SinkStats
	eventually(t, func() bool { sum = all.sum(); return sum.Queued == 0 })
	st = r.prof.Stats()
	require.Equal(t, delivered.Load(), sum.Delivered)
	require.Equal(t, st.SinkDropped, sum.Dropped)
	require.Equal(t, st.SinkFailed, sum.Failed)
}

// Close comes in the middle of it all, twice: it ends, with an error for those sinks alone that
// are stuck, and every window and every span is accounted for.
func TestHammerCloseWhileSinksComeAndGo(t *testing.T) {
	for range count(5, 50) {
		dev := mock.NewDevice(mock.Ideal(), mock.QueueLimit(0))
		r := rigOn(t, dev, profiler.WithSinkQueue(1<<20), profiler.WithCloseTimeout(20*time.Millisecond), profiler.WithAnchorInterval(time.Millisecond))
		r.broken = true // of stuck sinks
		release := make(chan struct{})
		var all attachments
		var busy, closing sync.WaitGroup
		for i := range 3 {
			busy.Go(func() {
				tr := r.prof.Track(r.stream, fmt.Sprint("w", i))
				for w := tr.Start(); !errors.Is(w.Err(), events.ErrClosed); w = tr.Start() {
					tr.Stop(w)
					runtime.Gosched()
				}
			})
			busy.Go(func() {
				for {
					a, err := r.prof.AddSink(profiler.SinkFunc(func([]profiler.Span) error {
						if i == 0 {
							<-release
						}
						return nil
					}))
					if err != nil {
						if !errors.Is(err, events.ErrClosed) {
							t.Error(err)
						}
						return
					}
					all.add(a)
					if i == 1 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
						_ = a.Remove(ctx)
						cancel()
					} else {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		eventually(t, func() bool { return r.prof.Stats().Finished > 100 })
		for range 2 {
			closing.Go(func() { _ = r.prof.Close() })
		}
		closing.Wait()
		busy.Wait()
		eventually(t, func() bool { st := r.prof.Stats(); return st.Open == 0 && st.Pending == 0 }) // on a machine too busy for the timeout
		accounted(t, r.prof)
		close(release)
		eventually(t, func() bool { return all.sum().Queued == 0 })
		require.Equal(t, r.prof.Stats().SinkDropped, all.sum().Dropped)
		require.LessOrEqual(t, all.most().Delivered+all.most().Dropped, r.prof.Stats().Finished)
	}
}

// attachments are those of a test.
type attachments struct {
	mu  sync.Mutex
	all []*profiler.Attachment
}

func (l *attachments) add(a *profiler.Attachment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

func (l *attachments) sum() (sum profiler.SinkStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		s := a.Stats()
		sum.Delivered += s.Delivered
		sum.Dropped += s.Dropped
		sum.Queued += s.Queued
		sum.Failed += s.Failed
	}
	return sum
}

// most is of the one that was given most.
func (l *attachments) most() (most profiler.SinkStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if s := a.Stats(); s.Delivered+s.Dropped > most.Delivered+most.Dropped {
			most = s
		}
	}
	return most
}
