package profiler_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// rig is a profiler on a simulated device in manual time.
type rig struct {
	dev    *mock.Device
	prof   *profiler.Profiler[mock.Stream]
	stream mock.Stream
}

func newRig(t *testing.T, opts []mock.Option, popts ...profiler.Option) *rig {
	t.Helper()
	dev := mock.NewDevice(append([]mock.Option{mock.AutoAdvance()}, opts...)...)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev, popts...)
	require.NoError(t, err)
	r := &rig{dev: dev, prof: prof, stream: s}
	t.Cleanup(func() {
		require.NoError(t, prof.Close())
		require.NoError(t, dev.StreamDestroy(s))
		events, streams := dev.Live()
		require.Zero(t, events)
		require.Zero(t, streams)
		st := prof.Stats()
		require.Equal(t, st.Started, st.Finished+st.Failed+st.Abandoned+st.Captured+st.Dropped)
	})
	return r
}

func (r *rig) window(t *testing.T, tr *profiler.Track, work time.Duration) (profiler.Measurement, time.Duration) {
	t.Helper()
	before := r.dev.HostNow()
	w := tr.Start()
	require.NoError(t, w.Err())
	require.NoError(t, r.dev.Work(r.stream, work))
	return tr.Stop(w), before
}

// flush lets the device catch up, which in manual time only a waiting call does.
func (r *rig) flush(t *testing.T) {
	t.Helper()
	require.NoError(t, r.dev.StreamSynchronize(r.stream))
	require.NoError(t, r.prof.Flush(context.Background()))
}

// The truth must lie inside every reported bound, whatever the clocks do.
func TestTruthLiesInsideEveryBound(t *testing.T) {
	n := 3_000
	if testing.Short() {
		n = 500
	}
	for name, opts := range map[string][]mock.Option{
		"quiet":        nil,
		"50 ppm":       {mock.Drift(50)},
		"-50 ppm":      {mock.Drift(-50), mock.Offset(3 * time.Hour)},
		"500 ppm":      {mock.Drift(500)},
		"wander":       {mock.Wander(5, 7)},
		"1us tick":     {mock.Tick(1024)},
		"slow answers": {mock.VisibleAfter(20 * time.Microsecond)},
		"costly calls": {mock.HostCost(time.Microsecond, 300, 40)},
	} {
		for _, immediate := range []bool{false, true} {
			label := name + ", read late"
			if immediate {
				label = name + ", read at once"
			}
			t.Run(label, func(t *testing.T) {
				r := newRig(t, append([]mock.Option{mock.HostCost(800, 250, 20)}, opts...))
				tr := r.prof.Track(r.stream, "w")
				rng := rand.New(rand.NewPCG(1, 2))
				// A mark recorded just before each window says when it began; the window's
				// own stamp follows it by the cost of an event.
				mark, err := r.dev.EventCreate()
				require.NoError(t, err)
				defer func() { require.NoError(t, r.dev.EventDestroy(mark)) }()
				ctx := context.Background()
				var bounds time.Duration
				for range n {
					r.dev.System().Advance(time.Duration(rng.IntN(3_000_000)))
					require.NoError(t, r.dev.EventRecord(mark, r.stream))
					m, before := r.window(t, tr, time.Duration(rng.IntN(50_000)))
					require.NoError(t, r.dev.StreamSynchronize(r.stream))
					truth, ok := r.dev.TrueHostTime(mark)
					require.True(t, ok)
					if !immediate {
						r.dev.System().Advance(time.Duration(rng.IntN(200_000)))
					}
					span, err := m.Wait(ctx)
					require.NoError(t, err)
					at := span.Start.Sub(r.prof.Origin())
					require.GreaterOrEqual(t, at+span.Bound, before, "the window ends its bound before its own record call")
					low, high := at-span.Bound, at+span.Bound
					// Within [mark, mark + cost of both events + launch]: the exact stamp is the
					// one after the mark on a stream that had only the mark before it.
					require.LessOrEqual(t, low, time.Duration(truth)+10*time.Microsecond)
					require.GreaterOrEqual(t, high, time.Duration(truth))
					bounds += span.Bound
				}
				t.Logf("mean bound %v, stats %+v", bounds/time.Duration(n), r.prof.Stats())
			})
		}
	}
}

func TestNestedWindowsAreNotChargedToTheOuter(t *testing.T) {
	r := newRig(t, []mock.Option{mock.LaunchLatency(0)})
	const depth = 100
	var tracks [depth]*profiler.Track
	var open [depth]profiler.Window
	for i := range tracks {
		tracks[i] = r.prof.Track(r.stream, "w")
		open[i] = tracks[i].Start()
		require.NoError(t, open[i].Err())
	}
	require.NoError(t, r.dev.Work(r.stream, 5*time.Millisecond))
	var ms [depth]profiler.Measurement
	for i := depth - 1; i >= 0; i-- {
		ms[i] = tracks[i].Stop(open[i])
	}
	r.flush(t)
	for i := range ms {
		span, err := ms[i].Wait(context.Background())
		require.NoError(t, err)
		require.Equal(t, i, span.Depth)
		if i > 0 {
			require.Equal(t, open[i-1].ID(), span.Parent)
		}
		most := 5*time.Millisecond + time.Duration(2*(depth-i))*1300*time.Nanosecond
		require.GreaterOrEqual(t, span.Duration, 5*time.Millisecond)
		require.LessOrEqual(t, span.Duration, most)
	}
}

func TestLapSharesOneStamp(t *testing.T) {
	r := newRig(t, nil)
	tr := r.prof.Track(r.stream, "lap")
	outer := tr.Start()
	w := tr.Start()
	var ms []profiler.Measurement
	for i := range 200 {
		require.NoError(t, r.dev.Work(r.stream, time.Duration(i)*time.Microsecond))
		var m profiler.Measurement
		m, w = tr.Lap(w)
		require.NoError(t, w.Err())
		ms = append(ms, m)
		if i%50 == 0 {
			r.flush(t)
		}
	}
	ms = append(ms, tr.Stop(w))
	whole := tr.Stop(outer)
	r.flush(t)
	var sum time.Duration
	for _, m := range ms {
		span, err := m.Wait(context.Background())
		require.NoError(t, err)
		require.Equal(t, 1, span.Depth)
		sum += span.Duration
	}
	span, err := whole.Wait(context.Background())
	require.NoError(t, err)
	require.LessOrEqual(t, sum, span.Duration)
	require.GreaterOrEqual(t, sum, span.Duration-10*time.Microsecond)
}

func TestTokensAreGoodForOneUse(t *testing.T) {
	r := newRig(t, nil)
	tr := r.prof.Track(r.stream, "w")
	w := tr.Start()
	m := tr.Stop(w)
	r.flush(t)
	_, err := m.Wait(context.Background())
	require.NoError(t, err)
	_, err = tr.Stop(w).Wait(context.Background())
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorIs(t, tr.Abandon(w), events.ErrInvalid)
	_, err = tr.Stop(profiler.Window{}).Wait(context.Background())
	require.ErrorIs(t, err, events.ErrInvalid)
	var none *profiler.Track
	_, err = none.Stop(none.Start()).Wait(context.Background())
	require.ErrorIs(t, err, events.ErrUnsupported)
}

// pytorch/pytorch#38313, pytorch/pytorch#39962, llnl/camp#71
func TestNoEventLeaksHoweverAWindowEnds(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	for name, step := range map[string]func(r *rig, tr *profiler.Track, i int){
		"results never read": func(_ *rig, tr *profiler.Track, _ int) { tr.Stop(tr.Start()) },
		"stop never called":  func(_ *rig, tr *profiler.Track, _ int) { tr.Start() },
		"abandoned":          func(_ *rig, tr *profiler.Track, _ int) { _ = tr.Abandon(tr.Start()) },
		"second record refused": func(r *rig, tr *profiler.Track, i int) {
			w := tr.Start()
			if i%3 == 0 {
				r.dev.Script(mock.Fault{Op: mock.OpEventRecord, Code: 400, Nth: 1, Count: 1})
			}
			tr.Stop(w)
		},
		"panic between": func(_ *rig, tr *profiler.Track, _ int) {
			defer func() { _ = recover() }()
			w := tr.Start()
			defer tr.Stop(w)
			panic("work failed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, []mock.Option{mock.Ideal(), mock.QueueLimit(0)}, profiler.WithWindows(1024))
			tr := r.prof.Track(r.stream, "w")
			for i := range n {
				step(r, tr, i)
				if i%1000 == 0 {
					live, _ := r.dev.Live()
					require.LessOrEqual(t, live, 2*1024+200)
				}
			}
		})
	}
}
