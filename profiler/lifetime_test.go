package profiler_test

import (
	"context"
	"errors"
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

// pytorch/pytorch#38313, pytorch/pytorch#39962, llnl/camp#71, torch/cutorch#619
func TestNoEventLeaksHoweverAWindowEnds(t *testing.T) {
	const most = 1024
	n := count(20_000, 1_000_000)
	for name, step := range map[string]func(t *testing.T, r *rig, tr *profiler.Track, i int){
		"results never read": func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) { tr.Stop(room(tr)) },
		"stop never called":  func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) { tr.Start() },
		"abandoned":          func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) { _ = tr.Abandon(room(tr)) },
		"laps without end": func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) {
			_, w := tr.Lap(room(tr))
			_, w = tr.Lap(w)
			tr.Stop(w)
		},
		"failed": func(_ *testing.T, r *rig, tr *profiler.Track, _ int) {
			w := room(tr)
			r.prof.Fail(events.ErrInvalid)
			tr.Stop(w)
		},
		"some records refused": func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) { tr.Stop(room(tr)) },
		"captured": func(t *testing.T, r *rig, tr *profiler.Track, i int) {
			if i%100 == 0 {
				require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
			}
			tr.Stop(room(tr))
			if i%100 == 50 {
				_, err := r.dev.EndCapture(r.stream)
				require.NoError(t, err)
			}
		},
		"panic between": func(_ *testing.T, _ *rig, tr *profiler.Track, _ int) {
			defer func() { _ = recover() }()
			w := room(tr)
			defer tr.Stop(w)
			panic("work failed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rigOn(t, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)), // in real time
				profiler.WithWindows(most), profiler.WithAnchorInterval(time.Millisecond))
			if name == "some records refused" {
				r.dev.Script(mock.Fault{Op: mock.OpEventRecord, Every: 3, Code: mock.CodeInvalidHandle})
			}
			tr := r.track(t, "w")
			base, _ := r.dev.Live()
			var before uint64
			for i := range n {
				step(t, r, tr, i)
				if i == n/2 {
					before = heap()
				}
				if i%997 == 0 {
					live, _ := r.dev.Live()
					require.LessOrEqual(t, live, base+2*most)
				}
			}
			require.Less(t, heap(), before+(4<<20), "memory grew")
			require.GreaterOrEqual(t, r.prof.Stats().Started, uint64(n))
		})
	}
}

// room opens a window, once there is room for one.
func room(tr *profiler.Track) profiler.Window {
	for {
		w := tr.Start()
		if !errors.Is(w.Err(), events.ErrFull) {
			return w
		}
		runtime.Gosched()
	}
}

// csarofeen/pytorch#787, tromp/cuckoo#69
func TestCloseAccountsForEveryWindow(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond))
	tr := r.track(t, "w")
	done := tr.Stop(open(t, tr))
	waiting := open(t, tr)
	running := open(t, tr)
	r.work(t, time.Hour) // nobody moves the clock
	pending := tr.Stop(running)
	reader := make(chan error, 1)
	go func() {
		_, err := pending.Wait(limited(t))
		reader <- err
	}()
	require.NoError(t, r.prof.Close())
	require.ErrorIs(t, <-reader, events.ErrClosed)
	span(t, done)
	refused(t, pending, events.ErrClosed)
	refused(t, tr.Stop(waiting), events.ErrClosed)
	m, next := tr.Lap(waiting)
	refused(t, m, events.ErrClosed)
	require.ErrorIs(t, next.Err(), events.ErrClosed)
	require.ErrorIs(t, tr.Abandon(waiting), events.ErrClosed)
	require.ErrorIs(t, tr.Start().Err(), events.ErrClosed)
	require.ErrorIs(t, r.prof.Start(r.stream).Err(), events.ErrClosed)
	require.ErrorIs(t, r.prof.Track(r.stream, "late").Err(), events.ErrClosed)
	tr.Close()
	r.prof.Fail(events.ErrInvalid)
	require.NoError(t, r.prof.Flush(limited(t)))
	require.NoError(t, r.prof.Close())
	st := r.prof.Stats()
	require.Equal(t, uint64(1), st.Finished)
	require.Equal(t, uint64(1), st.Abandoned)
	require.Equal(t, uint64(1), st.Failed)
}

func TestEveryCallOfCloseWaitsForItsEnd(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithCloseTimeout(20*time.Millisecond))
	tr := r.track(t, "w")
	w := open(t, tr)
	r.work(t, time.Hour)
	tr.Stop(w)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r.prof.Close() != nil {
				t.Error("closing failed")
			}
			if events, _ := r.dev.Live(); events != 0 {
				t.Error("Close returned while", events, "events were left")
			}
		})
	}
	wg.Wait()
}

// A stream's events go when its last track is closed, and its open windows are
// dropped; a new track begins anew.
func TestLastTrackFreesTheStream(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	base, _ := r.dev.Live()
	a, b := r.track(t, "a"), r.track(t, "b")
	left := open(t, a)
	m := b.Stop(open(t, b))
	a.Close()
	require.NoError(t, b.Abandon(open(t, b)), "the stream has a track yet")
	b.Close()
	refused(t, b.Stop(left), events.ErrClosed)
	eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
	span(t, m)
	st := r.prof.Stats()
	require.Equal(t, uint64(2), st.Abandoned)
	require.Equal(t, uint64(1), st.Finished, "counts outlive the stream")

	again := r.track(t, "again")
	m = again.Stop(open(t, again))
	r.flushed(t)
	span(t, m)
	again.Close()
	eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
	w := r.prof.Start(r.stream) // by stream: there is no track at all
	require.NoError(t, w.Err())
	m = r.prof.Stop(r.stream, w)
	r.flushed(t)
	span(t, m)
}

// What is unread when the last track goes is read back all the same.
func TestTrackCloseKeepsUnreadWindows(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	base, _ := r.dev.Live()
	tr := r.track(t, "w")
	w := open(t, tr)
	r.work(t, time.Millisecond)
	m := tr.Stop(w)
	tr.Close()
	time.Sleep(5 * time.Millisecond)
	r.sync(t)
	require.Equal(t, time.Millisecond, span(t, m).Duration)
	eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
}

// A start by stream is not lost when the stream's tracks have just gone.
func TestStartByStreamRevivesTheStream(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(1<<20))
	for range count(50, 1000) {
		tr := r.track(t, "w")
		tr.Close()
		w := r.prof.Start(r.stream)
		require.NoError(t, w.Err())
		m := r.prof.Stop(r.stream, w)
		r.flushed(t)
		span(t, m)
		r.stream = newStream(t, r) // the old one is kept from here on
	}
}

func TestShortLivedStreamsLeaveNothing(t *testing.T) {
	n := count(500, 10_000)
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithResults(16))
	base, _ := r.dev.Live()
	var before uint64
	for i := range n {
		s, err := r.dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		tr := r.prof.Track(s, "short")
		require.NoError(t, tr.Err())
		m := tr.Stop(open(t, tr))
		tr.Start() // never stopped
		tr.Close()
		require.NoError(t, r.dev.StreamDestroy(s))
		if i%2 == 0 {
			span(t, m)
		}
		if i == n/2 {
			eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
			before = heap()
		}
	}
	require.NoError(t, r.prof.Flush(limited(t)))
	eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
	require.Less(t, heap(), before+(2<<20), "memory grew")
	st := r.prof.Stats()
	require.Equal(t, uint64(n), st.Finished)
	require.Equal(t, uint64(n), st.Abandoned)
	require.Zero(t, st.Dropped)
}

// A profiler that nobody uses sleeps: no calls, no clock comparisons.
func TestIdleProfilerDoesNothing(t *testing.T) {
	dev := mock.NewDevice()
	r := rigOn(t, dev, profiler.WithAnchorInterval(time.Millisecond))
	tr := r.track(t, "w")
	span(t, tr.Stop(open(t, tr)))
	open(t, tr) // an open window is no work either
	eventually(t, func() bool { return quiet(dev) })
	before := dev.CallCount(mock.OpAny)
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, dev.CallCount(mock.OpAny))
	// Nor does one whose streams are gone.
	tr.Close()
	eventually(t, func() bool { return quiet(dev) })
}

// A refusal to replace a captured window's events costs that window, and neither
// the stream's end nor the bound of windows.
func TestLostWindowsDoNotPinTheirStream(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(64))
	r.broken = true // Close tells of the refusals
	base, _ := r.dev.Live()
	for range 20 {
		tr := r.track(t, "w")
		w := open(t, tr)
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureRelaxed))
		r.dev.Script(mock.Fault{Op: mock.OpEventCreate, Nth: 1, Code: mock.CodeUnknown})
		made := r.dev.CallCount(mock.OpEventCreate)
		refused(t, tr.Stop(w), events.ErrCapturing)
		eventually(t, func() bool { return r.dev.CallCount(mock.OpEventCreate) > made })
		_, err := r.dev.EndCapture(r.stream)
		require.NoError(t, err)
		tr.Close()
		eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
		r.dev.ClearScript()
	}
	// The bound is what it was.
	tr := r.track(t, "w")
	got := 0
	eventually(t, func() bool {
		for tr.Start().Err() == nil {
			got++
		}
		return got == 64
	})
	require.ErrorContains(t, r.prof.Close(), "(999)")
}

// Close may come while other goroutines are anywhere in a call.
func TestHammerCloseAgainstEverything(t *testing.T) {
	for range count(10, 300) {
		dev := mock.NewDevice(mock.Ideal())
		p, err := profiler.New(dev, profiler.WithCloseTimeout(5*time.Second), profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { return nil })))
		require.NoError(t, err)
		var streams []mock.Stream
		for range 3 {
			s, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			streams = append(streams, s)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		var wg sync.WaitGroup
		var ended atomic.Bool
		for g := range 6 {
			wg.Go(func() {
				for i := 0; !ended.Load(); i++ {
					s := streams[(g+i)%len(streams)]
					tr := p.Track(s, "w")
					w := tr.Start()
					m, w := tr.Lap(w)
					by := p.Start(s)
					if g%2 == 0 {
						_, _ = m.Wait(ctx)
						_ = p.Flush(ctx)
					}
					tr.Stop(w)
					p.Stop(s, by)
					tr.Close()
					p.Fail(events.ErrInvalid)
					runtime.Gosched()
				}
			})
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, p.Close())
		if live, _ := dev.Live(); live != 0 {
			t.Fatal("Close left", live, "events")
		}
		ended.Store(true)
		wg.Wait()
		cancel()
		for _, s := range streams {
			require.NoError(t, dev.StreamDestroy(s))
		}
		nothingLeft(t, dev)
		accounted(t, p)
	}
}

// Tracks come and go on one stream while windows are open on it: a window of a
// live track is never dropped for the end of another.
func TestHammerTracksComeAndGo(t *testing.T) {
	r := rigOn(t, mock.NewDevice(mock.Ideal()), profiler.WithResults(1<<20))
	ctx := limited(t)
	var wg sync.WaitGroup
	failed := make(chan error, 8)
	for range 4 {
		wg.Go(func() {
			for range count(2000, 50_000) {
				tr := r.prof.Track(r.stream, "w")
				if w := tr.Start(); w.Err() == nil { // else its windows are just being made by another
					if _, err := tr.Stop(w).Wait(ctx); err != nil {
						failed <- err
						return
					}
				}
				tr.Close()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	st := r.prof.Stats()
	require.Zero(t, st.Abandoned)
	require.Zero(t, st.Failed)
}

// Start looks a stream up and is no track of it, whichever came first: the stream's end is its
// last track's, and with it go the windows that Start has open and all events.
func TestStartIsNoTrackOfItsStream(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	before, _ := r.dev.Live()
	w := r.prof.Start(r.stream)
	require.NoError(t, w.Err())
	r.track(t, "w").Close()
	require.Eventually(t, func() bool { live, _ := r.dev.Live(); return live <= before }, 10*time.Second, time.Millisecond)
	require.Equal(t, uint64(1), r.prof.Stats().Abandoned)
	refused(t, r.prof.Stop(r.stream, w), events.ErrInvalid)
}
