package profiler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// Start and Stop may not wait for the device, nor ask it anything beyond whether
// the stream is being captured: windows that drained the queue measured each other.
// tracel-ai/cubecl#1421, intel/llvm#10042
func TestStartAndStopNeverWait(t *testing.T) {
	dev := mock.NewDevice(mock.Manual(), mock.CallLog(100_000), mock.QueueLimit(0))
	dev.Script(mock.Fault{Op: mock.OpEventWait, Hook: func() { dev.System().Advance(time.Millisecond) }}) // New waits once
	r := rigOn(t, dev, profiler.WithCloseTimeout(time.Millisecond))
	tr := r.track(t, "w")
	eventually(t, func() bool { return quiet(dev) })
	waits := dev.WaitCount()
	dev.ResetCalls()
	// Time stands still, so nothing that waits would come back.
	for range 30 {
		w := open(t, tr)
		m, next := tr.Lap(w)
		require.NoError(t, next.Err())
		require.NotZero(t, m.ID())
		require.NotZero(t, tr.Stop(next).ID())
		require.NoError(t, tr.Abandon(open(t, tr)))
	}
	var mine int
	for _, c := range dev.Calls() {
		require.False(t, c.Waits(), "%+v", c)
		require.NoError(t, c.Err)
		if c.Stream == r.stream.ID() {
			require.Contains(t, []mock.Op{mock.OpEventRecord, mock.OpStreamCapturing}, c.Op, "%+v", c)
			mine++
		}
	}
	require.Equal(t, 30*(4+2), mine, "four records and two questions a round")
	require.Zero(t, dev.WaitCount())
	require.NotZero(t, waits, "the mock counts waits")
}

// quiet reports whether no call came for a moment.
func quiet(dev *mock.Device) bool {
	before := dev.CallCount(mock.OpAny)
	time.Sleep(100 * time.Millisecond) // a busy machine may not run the harvester for a while
	return dev.CallCount(mock.OpAny) == before
}

func TestWaitEndsWithItsContextAndLosesNothing(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	w := open(t, tr)
	r.work(t, time.Hour)
	m := tr.Stop(w)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, err := m.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, r.prof.Flush(ctx), context.DeadlineExceeded)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.Wait(gone)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, r.prof.Flush(gone), context.Canceled)
	r.flushed(t)
	require.Equal(t, time.Hour, span(t, m).Duration)
	_, err = m.Wait(gone)
	require.NoError(t, err, "a result that is there needs no waiting")
}

func TestThousandReaders(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	var ms [20]profiler.Measurement
	for i := range ms {
		w := open(t, tr)
		r.work(t, time.Duration(i+1)*time.Millisecond)
		ms[i] = tr.Stop(w)
	}
	ctx := limited(t)
	var wg sync.WaitGroup
	failed := make(chan error, 1000)
	for i := range 1000 {
		wg.Go(func() {
			m := ms[i%len(ms)]
			s, err := m.Wait(ctx)
			if err == nil && (s.ID != m.ID() || s.Duration != time.Duration(i%len(ms)+1)*time.Millisecond) {
				err = errors.New("another window's span")
			}
			if err != nil {
				failed <- err
			}
		})
	}
	for range ms { // they come out one by one
		time.Sleep(time.Millisecond)
		r.dev.System().Advance(20 * time.Millisecond)
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
}

// A reader and Close must not have to wait for the next poll.
func TestPollIntervalIsNoLatencyForReaders(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithPollInterval(time.Hour), profiler.WithCloseTimeout(30*time.Second))
	tr := r.track(t, "w")
	w := open(t, tr)
	r.work(t, time.Millisecond)
	m := tr.Stop(w)
	eventually(t, func() bool { return quiet(r.dev) }) // the harvester has looked, and pauses for an hour
	read := make(chan error, 1)
	go func() {
		_, err := m.Wait(limited(t))
		read <- err
	}()
	time.Sleep(2 * time.Millisecond)
	r.sync(t)
	require.NoError(t, <-read)

	w = open(t, tr)
	r.work(t, time.Millisecond)
	m = tr.Stop(w)
	eventually(t, func() bool { return quiet(r.dev) })
	r.sync(t)
	began := time.Now()
	require.NoError(t, r.prof.Close())
	require.Less(t, time.Since(began), 20*time.Second)
	span(t, m)
}

func TestResultsExpireAsPromised(t *testing.T) {
	const kept = 100
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithResults(kept))
	tr := r.track(t, "w")
	var ms []profiler.Measurement
	for range 3 * kept {
		ms = append(ms, tr.Stop(open(t, tr)))
		r.flushed(t)
	}
	for i, m := range ms {
		if i < len(ms)-kept {
			refused(t, m, events.ErrExpired)
		} else {
			span(t, m)
		}
	}
}

// A window that is still running when many later ones have failed has not
// expired.
func TestLaterOutcomesDoNotExpireAPendingOne(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithResults(1000))
	tr := r.track(t, "w")
	long := open(t, tr)
	r.work(t, time.Second)
	m := tr.Stop(long)
	reason := errors.New("no")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var failed []profiler.Measurement
	for range 500 {
		w := open(t, tr)
		r.prof.Fail(reason)
		failed = append(failed, tr.Stop(w))
		_, err := m.Wait(gone)
		require.ErrorIs(t, err, context.Canceled)
	}
	r.flushed(t)
	require.Equal(t, time.Second, span(t, m).Duration)
	for _, m := range failed {
		refused(t, m, reason)
	}
}

func TestFullDropsCountsAndRecovers(t *testing.T) {
	const most = 50
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(most))
	tr := r.track(t, "w")
	var windows []profiler.Window
	var dropped uint64
	eventually(t, func() bool { // windows are prepared in the background
		for {
			w := tr.Start()
			if w.Err() != nil {
				require.ErrorIs(t, w.Err(), events.ErrFull)
				require.Zero(t, w.ID())
				refused(t, tr.Stop(w), events.ErrFull)
				dropped++
				return len(windows) == most
			}
			windows = append(windows, w)
		}
	})
	late := r.prof.Track(newStream(t, r), "comes while there is no room")
	require.NoError(t, late.Err())
	require.ErrorIs(t, late.Start().Err(), events.ErrFull)
	st := r.prof.Stats()
	require.Equal(t, dropped+1, st.Dropped)
	require.Equal(t, uint64(most), st.Open)
	var ms []profiler.Measurement
	for _, w := range windows {
		ms = append(ms, tr.Stop(w))
	}
	r.flushed(t)
	for _, m := range ms {
		span(t, m)
	}
	for range most {
		m := tr.Stop(open(t, tr))
		r.flushed(t)
		span(t, m)
	}
	tr.Close() // its windows make room for the other stream
	eventually(t, func() bool {
		w := late.Start()
		return w.Err() == nil && late.Abandon(w) == nil
	})
}

// However many streams there are, no more windows are prepared than promised.
func TestPreparedWindowsNeverExceedTheBound(t *testing.T) {
	const most = 1000
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(most))
	base, _ := r.dev.Live()
	var open []profiler.Window
	var tracks []*profiler.Track
	check := func() {
		live, _ := r.dev.Live()
		require.LessOrEqual(t, live-base, 2*most)
	}
	for range 64 {
		tr := r.prof.Track(newStream(t, r), "w")
		require.NoError(t, tr.Err())
		tracks = append(tracks, tr)
		check()
	}
	for i := range 20_000 {
		if w := tracks[i%len(tracks)].Start(); w.Err() == nil {
			open = append(open, w)
		}
		if i%500 == 0 {
			check()
		}
	}
	eventually(t, func() bool { return quiet(r.dev) })
	check()
	require.NotZero(t, r.prof.Stats().Dropped)
	require.LessOrEqual(t, len(open), most)
}

// Backends differ in what they can ask. The windows come out all the same.
func TestEveryKindOfBackend(t *testing.T) {
	for name, off := range map[string]mock.Feature{
		"all abilities":   0,
		"no rounds":       mock.FeatureRoundQuerier,
		"no plain query":  mock.FeatureQuerier,
		"no query at all": mock.FeatureQuerier | mock.FeatureRoundQuerier,
		"nothing": mock.FeatureQuerier | mock.FeatureRoundQuerier | mock.FeatureCaptureAsker |
			mock.FeatureStatsReader | mock.FeatureIdentifier | mock.FeatureUntimedCreator,
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice(mock.Without(off)) // in real time
			r := rigOn(t, dev)
			other := newStream(t, r)
			a, b := r.track(t, "a"), r.prof.Track(other, "b")
			var ms []profiler.Measurement
			for range 30 {
				x, y := open(t, a), open(t, b)
				r.work(t, 100*us)
				require.NoError(t, dev.Work(other, 100*us))
				ms = append(ms, b.Stop(y), a.Stop(x))
			}
			require.NoError(t, r.prof.Flush(limited(t)))
			for _, m := range ms {
				require.GreaterOrEqual(t, span(t, m).Duration, 100*us)
			}
			require.Equal(t, uint64(len(ms)), r.prof.Stats().Finished)
		})
	}
	t.Run("erased", func(t *testing.T) {
		dev := mock.NewDevice()
		api := events.Erase(dev)
		s, err := api.StreamCreateNonBlocking()
		require.NoError(t, err)
		p, err := profiler.New(api)
		require.NoError(t, err)
		tr := p.Track(s, "w")
		m := tr.Stop(open(t, tr))
		span(t, m)
		require.NoError(t, p.Close())
		require.NoError(t, api.StreamDestroy(s))
		nothingLeft(t, dev)
	})
}

// Without a query, what waits in the driver is bounded: each is an OS thread.
func TestWaitersAreBounded(t *testing.T) {
	dev := mock.NewDevice(mock.Without(mock.FeatureQuerier | mock.FeatureRoundQuerier))
	r := rigOn(t, dev)
	var ms []profiler.Measurement
	for range 100 {
		s := newStream(t, r)
		tr := r.prof.Track(s, "w")
		w := open(t, tr)
		require.NoError(t, dev.Work(s, 50*time.Millisecond))
		ms = append(ms, tr.Stop(w))
	}
	for dev.System().Now() < 40*time.Millisecond {
		require.LessOrEqual(t, dev.System().Blocked(), 16)
		time.Sleep(time.Millisecond)
	}
	for _, m := range ms {
		span(t, m)
	}
}

// A backend whose rounds do not open is asked the plain way.
func TestRefusedRoundsFallBackToPlainQueries(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	r.dev.Script(mock.Fault{Op: mock.OpRoundBegin, Code: mock.CodeNotPermitted})
	r.dev.ResetCalls()
	anchors := r.prof.Stats().Anchors
	tr := r.track(t, "w")
	m := tr.Stop(open(t, tr))
	r.flushed(t)
	span(t, m)
	r.dev.System().Advance(time.Second)
	m = tr.Stop(open(t, tr))
	r.flushed(t)
	span(t, m)
	require.Greater(t, r.prof.Stats().Anchors, anchors)
	require.Zero(t, r.prof.Stats().AnchorsMissed)
	require.Zero(t, r.dev.CallCount(mock.OpRoundQuery))
}

// A refusal to query fails the window that it is about and none beside.
func TestRefusedQueryFailsItsWindowAlone(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	r.dev.Script(mock.Fault{Op: mock.OpRoundQuery, Nth: 2, Code: mock.CodeUnknown})
	var ms []profiler.Measurement
	for range 20 {
		m := tr.Stop(open(t, tr))
		r.flushed(t)
		ms = append(ms, m)
	}
	refused := 0
	for _, m := range ms {
		if _, err := m.Wait(limited(t)); err != nil {
			require.Contains(t, err.Error(), "(999)")
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Equal(t, uint64(1), r.prof.Stats().Failed)
}

// Records of goroutines that share a stream pass the driver in any order. A
// window that is found reached settles no other whose record may lie behind it.
func TestHarvestDoesNotTrustTheOrderOfStops(t *testing.T) {
	r := rigOn(t, mock.NewDevice(mock.Ideal())) // in real time
	tr := r.track(t, "w")
	first, second := open(t, tr), open(t, tr)
	held, release := make(chan struct{}), make(chan struct{})
	r.dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Hook: func() {
		close(held)
		<-release
	}})
	early := make(chan profiler.Measurement)
	go func() { early <- tr.Stop(first) }() // takes its place first, and is recorded last
	<-held
	s := span(t, tr.Stop(second))
	require.Equal(t, uint64(1), r.prof.Stats().Pending)
	r.work(t, time.Millisecond)
	close(release)
	require.GreaterOrEqual(t, span(t, <-early).Duration, s.Duration+time.Millisecond)
}

// While one record hangs in the driver, every later window has to be asked about
// on its own.
func TestHarvestGoesOnBehindAHangingRecord(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	first := open(t, tr)
	var windows []profiler.Window
	eventually(t, func() bool { // more than are prepared at first
		for len(windows) < 300 {
			w := tr.Start()
			if w.Err() != nil {
				return false
			}
			windows = append(windows, w)
		}
		return true
	})
	held, release := make(chan struct{}), make(chan struct{})
	r.dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Hook: func() {
		close(held)
		<-release
	}})
	early := make(chan profiler.Measurement)
	go func() { early <- tr.Stop(first) }()
	<-held
	r.work(t, time.Second)
	var ms []profiler.Measurement
	for _, w := range windows {
		ms = append(ms, tr.Stop(w))
	}
	r.sync(t)
	for _, m := range ms {
		span(t, m)
	}
	close(release)
	span(t, <-early)
}
