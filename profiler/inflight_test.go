package profiler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// hold makes the next call of op stop inside the driver. It gives the moment at
// which the call is there, and the way to let it go on.
func hold(dev *mock.Device, op mock.Op) (held <-chan struct{}, release func()) {
	in, out := make(chan struct{}), make(chan struct{})
	dev.Script(mock.Fault{Op: op, Nth: 1, Hook: func() {
		close(in)
		<-out
	}})
	return in, func() { close(out) }
}

// An event that somebody is recording may not be given to another window: the
// late record would land in the middle of it.
// ComputationalRadiationPhysics/picongpu#1189, torch/cutorch#222
func TestEventsInARecordAreNotReused(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal(), mock.CallLog(1 << 14)})
	tr := r.track(t, "w")
	unread := open(t, tr)
	r.work(t, time.Hour)
	m := tr.Stop(unread) // keeps the stream from being freed
	held, release := hold(r.dev, mock.OpEventRecord)
	started := make(chan profiler.Window)
	go func() { started <- tr.Start() }()
	<-held
	tr.Close() // the last track: its open windows are dropped
	again := r.track(t, "again")
	var windows []profiler.Window
	for range 100 {
		windows = append(windows, open(t, again))
	}
	release()
	late := <-started
	records := map[uint64]int{}
	var last uint64
	for _, c := range r.dev.Calls() {
		if c.Op == mock.OpEventRecord && c.Stream == r.stream.ID() {
			last = c.Event // calls are logged as they return
			records[last]++
		}
	}
	require.Equal(t, 1, records[last], "the event of the record in progress was used by another window")
	refused(t, again.Stop(late), events.ErrInvalid)
	for _, w := range windows {
		again.Stop(w)
	}
	r.flushed(t)
	span(t, m)
	st := r.prof.Stats()
	require.Equal(t, uint64(1), st.Abandoned)
	require.Equal(t, uint64(101), st.Finished)
}

func TestCloseDuringAStart(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	held, release := hold(r.dev, mock.OpEventRecord)
	started := make(chan profiler.Window)
	go func() { started <- tr.Start() }()
	<-held
	require.NoError(t, r.prof.Close())
	nothingOpen(t, r)
	release()
	refused(t, tr.Stop(<-started), events.ErrClosed)
	require.Equal(t, uint64(1), r.prof.Stats().Abandoned)
}

func nothingOpen(t *testing.T, r *rig) {
	t.Helper()
	live, _ := r.dev.Live()
	require.Zero(t, live)
	accounted(t, r.prof)
}

func TestCloseDuringAStop(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond))
	tr := r.track(t, "w")
	w := open(t, tr)
	held, release := hold(r.dev, mock.OpEventRecord)
	stopped := make(chan profiler.Measurement)
	go func() { stopped <- tr.Stop(w) }()
	<-held
	require.NoError(t, r.prof.Close())
	nothingOpen(t, r)
	release()
	refused(t, <-stopped, events.ErrClosed)
	require.Equal(t, uint64(1), r.prof.Stats().Failed)
}

func TestCloseDuringALap(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond))
	tr := r.track(t, "w")
	w := open(t, tr)
	held, release := hold(r.dev, mock.OpEventRecord)
	type both struct {
		m    profiler.Measurement
		next profiler.Window
	}
	lapped := make(chan both)
	go func() {
		m, next := tr.Lap(w)
		lapped <- both{m, next}
	}()
	<-held
	require.NoError(t, r.prof.Close())
	nothingOpen(t, r)
	release()
	got := <-lapped
	refused(t, got.m, events.ErrClosed)
	refused(t, tr.Stop(got.next), events.ErrClosed)
}

// A track that is being made when the profiler is closed leaves nothing behind.
func TestCloseDuringTheMakingOfATrack(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond))
	held, release := hold(r.dev, mock.OpEventCreate)
	made := make(chan *profiler.Track)
	go func() { made <- r.prof.Track(r.stream, "w") }()
	<-held
	r.broken = true
	require.ErrorIs(t, r.prof.Close(), events.ErrExpired, "a call of ours is in the driver")
	release()
	tr := <-made
	require.ErrorIs(t, tr.Err(), events.ErrClosed)
	require.ErrorIs(t, tr.Start().Err(), events.ErrClosed)
	nothingOpen(t, r)
}

// Close is as good as over for those who come while it waits for the device.
func TestTokensWhileCloseWaits(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(time.Minute))
	tr := r.track(t, "w")
	left, w := open(t, tr), open(t, tr)
	r.work(t, time.Hour)
	m := tr.Stop(w)
	closed := make(chan error)
	go func() { closed <- r.prof.Close() }()
	eventually(t, func() bool { return r.prof.Stats().Abandoned == 1 })
	refused(t, tr.Stop(left), events.ErrClosed)
	require.ErrorIs(t, tr.Start().Err(), events.ErrClosed)
	require.ErrorIs(t, r.prof.Track(r.stream, "late").Err(), events.ErrClosed)
	r.sync(t)
	require.NoError(t, <-closed)
	require.Equal(t, time.Hour, span(t, m).Duration)
}

// The device is lost while one goroutine is in a Stop: the window resolves once.
func TestLossDuringAStop(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	r.broken = true
	tr := r.track(t, "w")
	w, other := open(t, tr), open(t, tr)
	held, release := hold(r.dev, mock.OpEventRecord)
	stopped := make(chan profiler.Measurement)
	go func() { stopped <- tr.Stop(w) }()
	<-held
	r.dev.Lose()
	refused(t, tr.Stop(other), events.ErrDeviceFault)
	eventually(t, func() bool { return quiet(r.dev) })
	release()
	refused(t, <-stopped, events.ErrDeviceFault)
	require.NoError(t, r.prof.Flush(limited(t)))
	require.Equal(t, uint64(2), r.prof.Stats().Failed)
}

// The same with a record that the device still took.
func TestLossAfterAStop(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	r.broken = true
	tr := r.track(t, "w")
	w, other := open(t, tr), open(t, tr)
	held, release := hold(r.dev, mock.OpStreamCapturing)
	stopped := make(chan profiler.Measurement)
	go func() { stopped <- tr.Stop(w) }()
	<-held
	r.dev.Lose()
	refused(t, tr.Stop(other), events.ErrDeviceFault)
	release()
	refused(t, <-stopped, events.ErrDeviceFault)
	require.NoError(t, r.prof.Flush(limited(t)))
	st := r.prof.Stats()
	require.Equal(t, uint64(2), st.Failed)
	require.Zero(t, st.Captured, "a fault is no capture")
}
