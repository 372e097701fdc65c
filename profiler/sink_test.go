package profiler_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// collector keeps what it gets.
type collector struct {
	mu      sync.Mutex
	batches int
	spans   []profiler.Span
}

func (c *collector) Spans(batch []profiler.Span) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches++
	c.spans = append(c.spans, batch...)
	return nil
}

func (c *collector) got() []profiler.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

func TestSinksGetEverySpanOnceAndInOrder(t *testing.T) {
	var a, b collector
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithSink(&a), profiler.WithSink(&b), profiler.WithSinkQueue(1000))
	tr := r.track(t, "w")
	var ms []profiler.Measurement
	n := count(500, 20_000)
	for i := range n {
		w := open(t, tr)
		r.work(t, time.Microsecond)
		ms = append(ms, tr.Stop(w))
		if i%50 == 0 {
			r.flushed(t)
		}
	}
	w := open(t, tr)
	r.prof.Fail(errFailed)
	refused(t, tr.Stop(w), errFailed)
	r.flushed(t)
	require.NoError(t, r.prof.Close())
	for _, c := range []*collector{&a, &b} {
		got := c.got()
		require.Equal(t, n, len(got), "failed windows are nobody's span") //nolint:testifylint // Len would print them all
		for i, s := range got {
			require.Equal(t, ms[i].ID(), s.ID)
			require.Equal(t, "w", s.Name)
		}
		require.Less(t, c.batches, n)
	}
	want := span(t, ms[n-1])
	require.Equal(t, want, a.got()[n-1], "readers and sinks see the same")
}

var errFailed = errors.New("failed")

// Nobody has to wait for sinks to be served: they get a window once an anchor
// follows it, or once it is clear that none will.
func TestSinksAreServedWithoutReaders(t *testing.T) {
	for name, script := range map[string]mock.Fault{
		"anchors answered": {Op: mock.OpGateClose},
		"anchors missed":   {Op: mock.OpEventRecord, Code: mock.CodeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			var c collector
			dev := mock.NewDevice()
			r := rigOn(t, dev, profiler.WithSink(&c), profiler.WithAnchorInterval(2*time.Millisecond))
			tr := r.track(t, "w")
			for range 10 {
				tr.Stop(open(t, tr))
			}
			dev.Script(script)
			eventually(t, func() bool { return len(c.got()) == 10 })
			require.Equal(t, script.Code != 0, r.prof.Stats().AnchorsMissed > 0)
		})
	}
}

func TestBadSinksLoseOnlyTheirOwn(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	var good collector
	stuck := make(chan struct{})
	r := newRig(t, []mock.Option{mock.Ideal()},
		profiler.WithLogger(zap.New(core)),
		profiler.WithSinkQueue(4),
		profiler.WithCloseTimeout(200*time.Millisecond),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { <-stuck; return nil })),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { return errFailed })),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { panic("a sink's own mistake") })),
		profiler.WithSink(profiler.SinkFunc(nil)),
		profiler.WithSink(&good))
	r.broken = true
	tr := r.track(t, "w")
	const n = 100
	for i := range n {
		m := tr.Stop(open(t, tr))
		r.flushed(t)
		span(t, m)
		// Slow ones would lose batches of their queue, not fail.
		eventually(t, func() bool { return len(good.got()) == i+1 && r.prof.Stats().SinkFailed == uint64(3*(i+1)) })
	}
	st := r.prof.Stats()
	require.Equal(t, uint64(n), st.Finished)
	require.Equal(t, uint64(3*n+n-1-4), st.SinkDropped, "the stuck one holds a batch, and four wait")

	began := time.Now()
	err := r.prof.Close()
	require.ErrorIs(t, err, events.ErrExpired)
	require.ErrorContains(t, err, "sink")
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, uint64(3*n+n-1), r.prof.Stats().SinkDropped, "what waited is lost, and counted")
	require.Equal(t, 3, logs.Len(), "one line for each sink that fails: %v", logs.All())
	close(stuck)
}

// A sink that ends its goroutine each time (a test's FailNow does) loses every batch,
// and each is counted.
func TestSinkThatExitsItsGoroutine(t *testing.T) {
	var good collector
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithSinkQueue(2),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { runtime.Goexit(); return nil })), profiler.WithSink(&good))
	tr := r.track(t, "w")
	for i := range 10 {
		m := tr.Stop(open(t, tr))
		r.flushed(t)
		span(t, m)
		eventually(t, func() bool { return len(good.got()) == i+1 })
	}
	require.NoError(t, r.prof.Close())
	require.EqualValues(t, 10, r.prof.Stats().SinkDropped)
}

// A sink may use the profiler, and even close it.
func TestSinkThatClosesTheProfiler(t *testing.T) {
	var p prof
	var once sync.Once
	closed := make(chan error, 1)
	ready := make(chan struct{})
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error {
			<-ready
			once.Do(func() { closed <- p.Close() })
			return nil
		})))
	r.broken = true
	p = r.prof
	tr := r.track(t, "w")
	m := tr.Stop(open(t, tr))
	r.flushed(t)
	close(ready)
	require.ErrorIs(t, <-closed, events.ErrExpired, "it waited for itself")
	span(t, m)
}

// A slow sink still gets what was handed over before Close.
func TestCloseLetsSinksFinish(t *testing.T) {
	var c collector
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(time.Minute),
		profiler.WithSink(profiler.SinkFunc(func(batch []profiler.Span) error {
			time.Sleep(time.Millisecond)
			return c.Spans(batch)
		})))
	tr := r.track(t, "w")
	for range 30 {
		tr.Stop(open(t, tr))
		r.flushed(t)
	}
	require.NoError(t, r.prof.Close())
	require.Len(t, c.got(), 30)
	require.Zero(t, r.prof.Stats().SinkDropped)
}
