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

const us = time.Microsecond

type prof = *profiler.Profiler[mock.Stream]

// rig is a profiler on a simulated device whose time is manual: calls that block
// move it, and so does the test.
type rig struct {
	dev    *mock.Device
	prof   prof
	stream mock.Stream
	broken bool // the device is lost, or the test provokes errors for Close to tell
}

func newRig(t testing.TB, opts []mock.Option, popts ...profiler.Option) *rig {
	t.Helper()
	dev := mock.NewDevice(append([]mock.Option{mock.AutoAdvance()}, opts...)...)
	return rigOn(t, dev, popts...)
}

func rigOn(t testing.TB, dev *mock.Device, popts ...profiler.Option) *rig {
	t.Helper()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	p, err := profiler.New(dev, popts...)
	require.NoError(t, err)
	r := &rig{dev: dev, prof: p, stream: s}
	t.Cleanup(func() {
		if err := p.Close(); !r.broken {
			require.NoError(t, err)
		}
		_ = dev.StreamDestroy(s)
		dev.System().Close()
		nothingLeft(t, dev)
		accounted(t, p)
	})
	return r
}

// accounted requires that every window that was opened is somewhere.
func accounted(t testing.TB, p prof) {
	t.Helper()
	st := p.Stats()
	require.Equal(t, st.Started, st.Finished+st.Failed+st.Abandoned+st.Captured+st.Dropped, "%+v", st)
	require.Zero(t, st.Open, "%+v", st)
	require.Zero(t, st.Pending, "%+v", st)
}

func nothingLeft(t testing.TB, dev *mock.Device) {
	t.Helper()
	events, streams := dev.Live()
	require.Zero(t, events, "live events")
	require.Zero(t, streams, "live streams")
	require.Zero(t, dev.OpenRounds())
}

func (r *rig) track(t testing.TB, name string) *profiler.Track {
	t.Helper()
	tr := r.prof.Track(r.stream, name)
	require.NoError(t, tr.Err())
	return tr
}

func open(t testing.TB, tr *profiler.Track) profiler.Window {
	t.Helper()
	w := tr.Start()
	require.NoError(t, w.Err())
	return w
}

// work is what the service does between Start and Stop.
func (r *rig) work(t testing.TB, d time.Duration) {
	t.Helper()
	require.NoError(t, r.dev.Work(r.stream, d))
}

// sync lets the device finish what is queued on the stream.
func (r *rig) sync(t testing.TB) {
	t.Helper()
	require.NoError(t, r.dev.StreamSynchronize(r.stream))
}

// flushed waits until everything is read back that is stopped.
func (r *rig) flushed(t testing.TB) {
	t.Helper()
	r.sync(t)
	require.NoError(t, r.prof.Flush(limited(t)))
}

func span(t testing.TB, m profiler.Measurement) profiler.Span {
	t.Helper()
	s, err := m.Wait(limited(t))
	require.NoError(t, err)
	require.Equal(t, m.ID(), s.ID)
	require.GreaterOrEqual(t, s.Duration, time.Duration(0))
	return s
}

// refused requires that a window resolves to an error, and always to the same.
func refused(t testing.TB, m profiler.Measurement, target error) {
	t.Helper()
	for range 2 {
		s, err := m.Wait(limited(t))
		require.ErrorIs(t, err, target)
		require.Zero(t, s)
	}
}

// limited is a context that tells a hang. There is one for each test.
func limited(t testing.TB) context.Context {
	if ctx, ok := contexts.Load(t); ok {
		return ctx.(context.Context)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	contexts.Store(t, ctx)
	t.Cleanup(func() {
		contexts.Delete(t)
		cancel()
	})
	return ctx
}

var contexts sync.Map

// eventually waits for what another goroutine brings about.
func eventually(t testing.TB, what func() bool) {
	t.Helper()
	require.Eventually(t, what, time.Minute, 200*us)
}

func count(few, many int) int { return profiler.Count(few, many) }

// heap is the memory in use once garbage is collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
