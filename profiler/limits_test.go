package profiler_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// soon fails the test if a call that has a limit of its own takes a hundred times as
// long as any limit in these tests.
func soon[T any](t *testing.T, what string, call func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- call() }()
	select {
	case got := <-done:
		return got
	case <-time.After(20 * time.Second):
		t.Fatalf("%s has not returned", what)
		panic("not reached")
	}
}

// hook scripts a call that does not return before the end of the test.
func hook(t *testing.T, dev *mock.Device, op mock.Op) {
	t.Helper()
	let := make(chan struct{})
	t.Cleanup(func() { close(let) })
	dev.Script(mock.Fault{Op: op, Hook: func() { <-let }})
}

// A destroy can hang like any other call, and Close makes many.
func TestCloseDoesNotWaitForADestroyThatHangs(t *testing.T) {
	for _, op := range []mock.Op{mock.OpEventDestroy, mock.OpStreamDestroy} {
		t.Run(op.String(), func(t *testing.T) {
			dev := mock.NewDevice(mock.Ideal())
			s, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			p, err := profiler.New(dev, profiler.WithCloseTimeout(30*time.Millisecond))
			require.NoError(t, err)
			tr := p.Track(s, "w")
			m := tr.Stop(tr.Start())
			hook(t, dev, op)
			err = soon(t, "Close", p.Close)
			require.ErrorIs(t, err, events.ErrExpired)
			require.ErrorContains(t, err, "within 30ms of Close")
			_, err = m.Wait(limited(t))
			require.NoError(t, err, "what was read back before stays")
			st := p.Stats()
			require.Equal(t, st.Started, st.Finished+st.Failed+st.Abandoned+st.Dropped, "%+v", st)
		})
	}
}

// A reader waits for a result, not for a driver that does not answer.
func TestReadersAreNotHeldUpByTheDriver(t *testing.T) {
	for _, op := range []mock.Op{mock.OpRoundBegin, mock.OpRoundQuery, mock.OpEventElapsed} {
		t.Run(op.String(), func(t *testing.T) {
			dev := mock.NewDevice(mock.Ideal())
			s, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			p, err := profiler.New(dev, profiler.WithPollInterval(time.Hour), profiler.WithCloseTimeout(30*time.Millisecond))
			require.NoError(t, err)
			tr := p.Track(s, "w")
			require.NoError(t, dev.Hang(s))
			m := tr.Stop(tr.Start())
			hook(t, dev, op)
			dev.ReleaseHangs()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err = soon(t, "Wait", func() error { _, err := m.Wait(ctx); return err })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, soon(t, "Flush", func() error { return p.Flush(ctx) }), context.DeadlineExceeded)
			require.ErrorIs(t, soon(t, "Close", p.Close), events.ErrExpired)
		})
	}
}

func TestNoContextIsAnError(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	m := tr.Stop(open(t, tr))
	_, err := m.Wait(nil) //nolint:staticcheck // that is the mistake
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorIs(t, r.prof.Flush(nil), events.ErrInvalid) //nolint:staticcheck // likewise
}

// Windows that idle streams had been given were lost to all others, for ever.
func TestEveryOneOfManyStreamsMeasures(t *testing.T) {
	const streams = 300
	for _, most := range []int{8192, 400} {
		dev := mock.NewDevice(mock.Ideal())
		r := rigOn(t, dev, profiler.WithWindows(most))
		var tracks []*profiler.Track
		for range streams {
			tr := r.prof.Track(newStream(t, r), "w")
			require.NoError(t, tr.Err())
			tracks = append(tracks, tr)
		}
		for range 2 {
			for _, tr := range tracks {
				eventually(t, func() bool {
					w := tr.Start()
					if w.Err() != nil {
						require.ErrorIs(t, w.Err(), events.ErrFull)
						return false
					}
					span(t, tr.Stop(w))
					return true
				})
			}
		}
		live, _ := dev.Live()
		const clocks = 256 + 5 // what comparing the clocks keeps
		require.LessOrEqual(t, live, 2*most+clocks, "the bound holds")
	}
}

// One stream for each request, none of them closed.
func TestStreamsByTheThousandMeasureWithoutTracks(t *testing.T) {
	r := rigOn(t, mock.NewDevice(mock.Ideal()), profiler.WithWindows(1024))
	n := count(500, 900)
	for range n {
		s := newStream(t, r)
		w := r.prof.Start(s)
		require.NoError(t, w.Err())
		span(t, r.prof.Stop(s, w))
	}
}

func TestNewGivesAHangingDeviceUp(t *testing.T) {
	for name, fault := range map[string]mock.Fault{
		"device": {Op: mock.OpEventRecord, Nth: 1, Hang: true},
		"driver": {Op: mock.OpEventCreate, Nth: 3, Hook: func() { time.Sleep(100 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice()
			dev.Script(fault)
			err := soon(t, "New", func() error {
				p, err := profiler.New(dev, profiler.WithOpenLimit(20*time.Millisecond))
				require.Nil(t, p)
				return err
			})
			require.ErrorIs(t, err, events.ErrExpired)
			require.ErrorContains(t, err, "first use of the device (mock) has not returned within 20ms")
			dev.ReleaseHangs()
			eventually(t, func() bool { e, s := dev.Live(); return e == 0 && s == 0 })
		})
	}
}

// That events cannot be made any more is told in the log, once, and by the windows
// that are missing for it.
func TestFailureToMakeEventsIsToldOnceAndByEachStart(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	dev := mock.NewDevice(mock.Ideal(), mock.QueueLimit(0))
	r := rigOn(t, dev, profiler.WithLogger(zap.New(core)), profiler.WithPrepared(8))
	r.broken = true
	tr := r.track(t, "w")
	dev.Script(mock.Fault{Op: mock.OpEventCreate, Code: mock.CodeOutOfMemory})
	require.NoError(t, dev.Hang(r.stream))
	var why error
	eventually(t, func() bool {
		tr.Stop(tr.Start())
		why = tr.Start().Err()
		return why != nil && errors.Is(why, events.ErrFull) && logs.Len() > 0
	})
	eventually(t, func() bool {
		w := tr.Start()
		why = w.Err()
		return why != nil && len(why.Error()) > 0 && errorHas(why, "mockErrorMemoryAllocation")
	})
	time.Sleep(20 * time.Millisecond)
	require.Len(t, logs.FilterMessageSnippet("cannot be made").All(), 1)
	dev.ClearScript()
	dev.ReleaseHangs()
	require.NoError(t, r.prof.Flush(limited(t)))
	eventually(t, func() bool { w := tr.Start(); tr.Stop(w); return w.Err() == nil })
}

func errorHas(err error, text string) bool {
	var refused *events.DriverError
	return errors.As(err, &refused) && refused.Name == text
}

// A sink can end its goroutine, as a failing test's assertion does.
func TestSinkThatEndsItsGoroutineLosesItsBatchAlone(t *testing.T) {
	var got atomic.Int64
	first := true
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithSink(profiler.SinkFunc(func(batch []profiler.Span) error {
		if first {
			first = false
			runtime.Goexit()
		}
		got.Add(int64(len(batch)))
		return nil
	})))
	tr := r.track(t, "w")
	for range 3 {
		tr.Stop(open(t, tr))
		r.flushed(t)
	}
	eventually(t, func() bool { return got.Load() > 0 && uint64(got.Load())+r.prof.Stats().SinkDropped == 3 })
	require.EqualValues(t, 1, r.prof.Stats().SinkFailed)
}

// One time for all sinks.
func TestManyBlockedSinksDoNotAddUp(t *testing.T) {
	let := make(chan struct{})
	defer close(let)
	var options []profiler.Option
	for range 50 {
		options = append(options, profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { <-let; return nil })))
	}
	r := newRig(t, []mock.Option{mock.Ideal()}, append(options, profiler.WithCloseTimeout(50*time.Millisecond))...)
	r.broken = true
	tr := r.track(t, "w")
	tr.Stop(open(t, tr))
	r.flushed(t)
	require.ErrorIs(t, soon(t, "Close", r.prof.Close), events.ErrExpired)
}

// One reader who waits for a window that does not come must not have the clocks
// compared all the time for everybody else.
func TestStuckReaderDoesNotHurryTheAnchors(t *testing.T) {
	dev := mock.NewDevice(mock.Ideal())
	r := rigOn(t, dev, profiler.WithAnchorInterval(20*time.Millisecond))
	stuck := newStream(t, r)
	require.NoError(t, dev.Hang(stuck))
	never := r.prof.Track(stuck, "never")
	m := never.Stop(never.Start())
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { _, err := m.Wait(ctx); waited <- err }()
	tr := r.track(t, "w")
	before, began := r.prof.Stats().Anchors, time.Now()
	for time.Since(began) < 200*time.Millisecond {
		tr.Stop(tr.Start())
		time.Sleep(200 * us)
	}
	took := time.Since(began)
	require.LessOrEqual(t, r.prof.Stats().Anchors-before, uint64(took/(20*time.Millisecond))+2)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	dev.ReleaseHangs()
}

// What no call would take is refused when the track is made.
func TestTrackOnAStreamThatIsNoneSaysSo(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	require.ErrorIs(t, r.prof.Track(mock.Stream{}, "zero").Err(), events.ErrInvalid)
	other := mock.NewDevice()
	s, err := other.StreamCreateNonBlocking()
	require.NoError(t, err)
	require.ErrorIs(t, r.prof.Track(s, "elsewhere").Err(), events.ErrDeviceMismatch)
	gone := newStream(t, r)
	require.NoError(t, r.dev.StreamDestroy(gone))
	tr := r.prof.Track(gone, "gone")
	require.ErrorIs(t, tr.Err(), events.ErrDestroyed)
	require.ErrorIs(t, tr.Start().Err(), events.ErrDestroyed)
}
