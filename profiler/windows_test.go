package profiler_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

const recordCost = 1280 * time.Nanosecond // of the simulated device

// busy is a device on which only records and work take time, to the nanosecond.
func busy() []mock.Option {
	return []mock.Option{mock.LaunchLatency(0), mock.Tick(1), mock.ExactReadings(), mock.QueueLimit(0)}
}

// tracel-ai/cubecl#1580, pytorch/pytorch#3754
func TestNestedWindowsAreNotChargedToTheOuter(t *testing.T) {
	r := newRig(t, busy())
	const depth = 100
	tr := r.track(t, "nest")
	var windows [depth]profiler.Window
	for i := range windows {
		windows[i] = open(t, tr)
	}
	r.work(t, 5*time.Millisecond)
	var ms [depth]profiler.Measurement
	for i := depth - 1; i >= 0; i-- {
		ms[i] = tr.Stop(windows[i])
	}
	r.flushed(t)
	for i := range ms {
		s := span(t, ms[i])
		require.Equal(t, i, s.Depth)
		if i == 0 {
			require.Zero(t, s.Parent)
		} else {
			require.Equal(t, windows[i-1].ID(), s.Parent)
		}
		inside := time.Duration(depth - 1 - i)
		require.Equal(t, 5*time.Millisecond+(2*inside+1)*recordCost, s.Duration)
	}
}

// tracel-ai/cubecl#1421, intel/llvm#10042
func TestOuterGrowsOnlyByTheRecordsOfItsInner(t *testing.T) {
	for _, inner := range []int{0, 1, 10, 1000} {
		r := newRig(t, busy())
		outer, in := r.track(t, "outer"), r.track(t, "inner")
		const total = 20 * time.Millisecond
		w := open(t, outer)
		var ms []profiler.Measurement
		for range inner {
			x := open(t, in)
			r.work(t, total/time.Duration(inner))
			ms = append(ms, in.Stop(x))
			if len(ms)%100 == 0 {
				r.flushed(t)
			}
		}
		if inner == 0 {
			r.work(t, total)
		}
		m := outer.Stop(w)
		r.flushed(t)
		s := span(t, m)
		require.Equal(t, total+time.Duration(2*inner+1)*recordCost, s.Duration, "%d inner windows", inner)
		var sum time.Duration
		for _, m := range ms {
			x := span(t, m)
			require.Equal(t, w.ID(), x.Parent)
			require.Equal(t, 1, x.Depth)
			sum += x.Duration
		}
		require.LessOrEqual(t, sum, s.Duration)
	}
}

// Windows may overlap in any order; the parent is the innermost one open at the
// start, whatever was closed meanwhile.
func TestOverlapInAnyOrder(t *testing.T) {
	for seed := range uint64(count(5, 50)) {
		r := newRig(t, []mock.Option{mock.Ideal()})
		rng := rand.New(rand.NewPCG(seed, 1))
		tr := r.track(t, "w")
		type model struct {
			w      profiler.Window
			parent uint64
			depth  int
			began  time.Duration
		}
		type stopped struct {
			model
			m    profiler.Measurement
			took time.Duration
		}
		var chain []model // outermost first
		var all []stopped
		now := func() time.Duration { return r.dev.System().Now() }
		for range 500 {
			r.dev.System().Advance(time.Duration(rng.IntN(1000)))
			i := 0
			if len(chain) > 0 {
				i = rng.IntN(len(chain))
			}
			switch at := now(); {
			case len(chain) < 20 && rng.IntN(2) == 0 || len(chain) == 0:
				x := model{w: open(t, tr), began: at}
				if n := len(chain); n > 0 {
					x.parent, x.depth = chain[n-1].w.ID(), chain[n-1].depth+1
				}
				chain = append(chain, x)
			case rng.IntN(4) == 0: // the next takes the place of the one that ends
				x := chain[i]
				m, next := tr.Lap(x.w)
				require.NoError(t, next.Err())
				all = append(all, stopped{x, m, at - x.began})
				chain[i].w, chain[i].began = next, at
			case rng.IntN(8) == 0:
				require.NoError(t, tr.Abandon(chain[i].w))
				chain = slices.Delete(chain, i, i+1)
			default:
				all = append(all, stopped{chain[i], tr.Stop(chain[i].w), at - chain[i].began})
				chain = slices.Delete(chain, i, i+1)
			}
			if len(all)%64 == 0 {
				r.flushed(t)
			}
		}
		r.flushed(t)
		for _, x := range all {
			s := span(t, x.m)
			require.Equal(t, x.w.ID(), s.ID)
			require.Equal(t, x.parent, s.Parent)
			require.Equal(t, x.depth, s.Depth)
			require.Equal(t, x.took, s.Duration)
		}
	}
}

func TestWindowsCrossGoroutines(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	tokens := make(chan profiler.Window)
	ms := make(chan profiler.Measurement, 1000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for w := range tokens {
				ms <- tr.Stop(w)
			}
		})
	}
	ids := map[uint64]bool{}
	for i := range 1000 {
		w := open(t, tr)
		ids[w.ID()] = true
		tokens <- w
		if i%50 == 0 {
			r.flushed(t)
		}
	}
	close(tokens)
	wg.Wait()
	close(ms)
	r.flushed(t)
	for m := range ms {
		require.True(t, ids[span(t, m).ID])
		delete(ids, m.ID())
	}
	require.Empty(t, ids)
}

// A lap's end is the next one's start, so that the laps add up to the whole.
func TestLapsAddUpToTheWhole(t *testing.T) {
	r := newRig(t, busy())
	a, b := r.track(t, "even"), r.track(t, "odd")
	const laps = 1000
	outer := open(t, a)
	w := open(t, a)
	first := w
	var ms []profiler.Measurement
	for i := range laps {
		r.work(t, time.Duration(i)*us)
		next := a
		if i%2 == 0 {
			next = b
		}
		var m profiler.Measurement
		m, w = next.Lap(w)
		require.NoError(t, w.Err())
		ms = append(ms, m)
		if i%37 == 0 { // the next window needs the end of one that is read back
			r.flushed(t)
		}
	}
	ms = append(ms, a.Stop(w))
	whole := a.Stop(outer)
	r.flushed(t)
	require.Equal(t, first.ID(), ms[0].ID())
	var sum time.Duration
	for i, m := range ms {
		s := span(t, m)
		require.Equal(t, outer.ID(), s.Parent)
		require.Equal(t, 1, s.Depth)
		require.Equal(t, []string{"even", "odd"}[i%2], s.Name)
		if i < laps {
			require.Equal(t, time.Duration(i)*us+recordCost, s.Duration)
		}
		sum += s.Duration
	}
	s := span(t, whole)
	// The outer's own end, and the start of the first lap, lie outside.
	require.Equal(t, s.Duration-2*recordCost, sum)
	require.Equal(t, uint64(laps+2), r.prof.Stats().Started)
}

// The stamp that two laps share serves the second however the first ends, and
// the other way round.
func TestSharedStampOutlivesEitherLap(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(8))
	tr := r.track(t, "w")
	rng := rand.New(rand.NewPCG(3, 3))
	for range count(2000, 50_000) {
		w := open(t, tr)
		var ms []profiler.Measurement
		var want []time.Duration
		for range 1 + rng.IntN(3) {
			d := time.Duration(rng.IntN(1000))
			r.work(t, d)
			m, next := tr.Lap(w)
			require.NoError(t, next.Err())
			ms, want = append(ms, m), append(want, d)
			w = next
			if rng.IntN(3) == 0 {
				r.flushed(t)
			}
		}
		if rng.IntN(2) == 0 {
			require.NoError(t, tr.Abandon(w))
		} else {
			ms, want = append(ms, tr.Stop(w)), append(want, 0)
		}
		r.flushed(t)
		for i, m := range ms {
			require.Equal(t, want[i], span(t, m).Duration)
		}
	}
	require.Zero(t, r.prof.Stats().Dropped)
}

func TestLapWithoutRoomStillStops(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(1))
	tr := r.track(t, "w")
	w := open(t, tr)
	m, next := tr.Lap(w)
	require.ErrorIs(t, next.Err(), events.ErrFull)
	r.flushed(t)
	span(t, m)
	m, next = tr.Lap(next) // an inert token: there is room again
	refused(t, m, events.ErrFull)
	require.NoError(t, next.Err())
	m = tr.Stop(next)
	r.flushed(t)
	span(t, m)
	require.Equal(t, uint64(1), r.prof.Stats().Dropped)
}

// A loop that laps begins with no window.
func TestLapOfAZeroWindowOpensTheNext(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	m, next := tr.Lap(profiler.Window{})
	refused(t, m, events.ErrInvalid)
	require.NoError(t, next.Err())
	m = tr.Stop(next)
	r.flushed(t)
	span(t, m)
}

func TestLapOfARefusedEndOpensNothing(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "w")
	w := open(t, tr)
	r.dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Code: mock.CodeInvalidHandle})
	m, next := tr.Lap(w)
	refused(t, m, events.ErrInvalid)
	require.ErrorIs(t, next.Err(), events.ErrInvalid)
	require.Contains(t, next.Err().Error(), "(400)")
	refused(t, tr.Stop(next), events.ErrInvalid)
	st := r.prof.Stats()
	require.Equal(t, uint64(2), st.Failed)
	require.Zero(t, st.Open)
	m = tr.Stop(open(t, tr))
	r.flushed(t)
	span(t, m)
}

// A failed candidate must not win by measuring nothing.
func TestFailReachesEveryOpenWindowAndNoOther(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	other := r.prof.Track(newStream(t, r), "other")
	tr := r.track(t, "w")
	done := tr.Stop(open(t, tr))
	var windows []profiler.Window
	for range 10 {
		windows = append(windows, open(t, tr))
	}
	elsewhere := open(t, other)
	reason := errors.New("the request was rejected")
	r.prof.Fail(reason)
	r.prof.Fail(errors.New("too late"))
	late := open(t, tr)
	records := r.dev.CallCount(mock.OpEventRecord)
	for _, w := range windows[:9] {
		refused(t, tr.Stop(w), reason)
	}
	m, next := tr.Lap(windows[9])
	refused(t, m, reason)
	require.ErrorIs(t, next.Err(), reason)
	refused(t, other.Stop(elsewhere), reason)
	require.Equal(t, records, r.dev.CallCount(mock.OpEventRecord), "a failed window needs no end")
	m = tr.Stop(late)
	r.flushed(t)
	span(t, m)
	span(t, done)

	w := open(t, tr)
	r.prof.Fail(nil)
	refused(t, tr.Stop(w), events.ErrInvalid)
}

func newStream(t testing.TB, r *rig) mock.Stream {
	t.Helper()
	s, err := r.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.dev.StreamDestroy(s) })
	return s
}

func TestTokensAreGoodForOneUse(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr, same := r.track(t, "w"), r.track(t, "same stream")
	other := r.prof.Track(newStream(t, r), "other stream")
	foreign := newRig(t, []mock.Option{mock.Ideal()})
	strange := foreign.track(t, "other profiler")

	check := func(name string, tr *profiler.Track, w profiler.Window) {
		t.Run(name, func(t *testing.T) {
			before := counted(r)
			refused(t, tr.Stop(w), events.ErrInvalid)
			m, next := tr.Lap(w)
			refused(t, m, events.ErrInvalid)
			if w.ID() != 0 {
				require.ErrorIs(t, next.Err(), events.ErrInvalid)
				require.ErrorIs(t, tr.Abandon(w), events.ErrInvalid)
				require.Equal(t, before, counted(r), "a bad token must change nothing")
			} else {
				require.NoError(t, tr.Abandon(next))
			}
		})
	}
	used := open(t, tr)
	tr.Stop(used)
	check("stopped", tr, used)
	abandoned := open(t, tr)
	require.NoError(t, tr.Abandon(abandoned))
	check("abandoned", tr, abandoned)
	lapped := open(t, tr)
	_, next := tr.Lap(lapped)
	check("lapped", tr, lapped)
	check("zero", tr, profiler.Window{})

	mine := open(t, tr)
	check("of another stream", other, mine)
	check("of another profiler", strange, mine)
	refused(t, r.prof.Stop(newStream(t, r), mine), events.ErrInvalid)
	refused(t, foreign.prof.Stop(foreign.stream, mine), events.ErrInvalid)

	// None of that has hurt the windows.
	for _, m := range []profiler.Measurement{same.Stop(mine), tr.Stop(next)} {
		r.flushed(t)
		span(t, m)
	}
	_, err := profiler.Measurement{}.Wait(limited(t))
	require.ErrorIs(t, err, events.ErrInvalid)
}

// counted is what Start, Stop and their like count; reading back goes on meanwhile.
func counted(r *rig) [6]uint64 {
	st := r.prof.Stats()
	return [...]uint64{st.Started, st.Failed, st.Abandoned, st.Captured, st.Dropped, st.Open}
}

func TestStartByStream(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	w := r.prof.Start(r.stream) // no track has been made
	require.NoError(t, w.Err())
	r.work(t, time.Millisecond)
	m := r.prof.Stop(r.stream, w)
	refused(t, r.prof.Stop(r.stream, w), events.ErrInvalid)
	refused(t, r.prof.Stop(r.stream, profiler.Window{}), events.ErrInvalid)
	r.flushed(t)
	s := span(t, m)
	require.Equal(t, time.Millisecond, s.Duration)
	require.Empty(t, s.Name)
}

func TestNoOpsWork(t *testing.T) {
	off, err := profiler.New(mock.NewDevice(), profiler.WithDisabled(true))
	require.NoError(t, err)
	for name, p := range map[string]prof{"nil": nil, "disabled": off} {
		t.Run(name, func(t *testing.T) {
			tr := p.Track(mock.Stream{}, "w")
			require.ErrorIs(t, tr.Err(), events.ErrUnsupported)
			require.Empty(t, tr.Name())
			w := tr.Start()
			require.ErrorIs(t, w.Err(), events.ErrUnsupported)
			require.Zero(t, w.ID())
			refused(t, tr.Stop(w), events.ErrUnsupported)
			m, next := tr.Lap(w)
			refused(t, m, events.ErrUnsupported)
			refused(t, tr.Stop(next), events.ErrUnsupported)
			require.NoError(t, tr.Abandon(w))
			tr.Close()
			refused(t, p.Stop(mock.Stream{}, p.Start(mock.Stream{})), events.ErrUnsupported)
			p.Fail(errors.New("x"))
			require.NoError(t, p.Flush(limited(t)))
			require.Zero(t, p.Stats())
			require.Zero(t, p.Origin())
			require.NoError(t, p.Close())
		})
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for name, o := range map[string]profiler.Option{
		"no windows":       profiler.WithWindows(0),
		"negative windows": profiler.WithWindows(-1),
		"too prepared":     profiler.WithPrepared(8193),
		"unprepared":       profiler.WithPrepared(-1),
		"no results":       profiler.WithResults(0),
		"no sink queue":    profiler.WithSinkQueue(0),
		"nil sink":         profiler.WithSink(nil),
		"anchors":          profiler.WithAnchorInterval(0),
		"poll":             profiler.WithPollInterval(-time.Second),
		"close":            profiler.WithCloseTimeout(0),
		"rate 0":           profiler.WithMaxClockRate(0),
		"rate 1":           profiler.WithMaxClockRate(1),
		"rate NaN":         profiler.WithMaxClockRate(math.NaN()),
		"nil option":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice()
			p, err := profiler.New(dev, o)
			require.ErrorIs(t, err, events.ErrInvalid)
			require.Nil(t, p)
			nothingLeft(t, dev)
		})
	}
	p, err := profiler.New[mock.Event, mock.Stream](nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.Nil(t, p)
	p, err = profiler.New(mock.NewDevice(), profiler.WithLogger(nil))
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// A burst at the start of a stream, faster than anything in the background.
func TestBurstThatWasPreparedForLosesNothing(t *testing.T) {
	const n = 1000
	r := rigOn(t, mock.NewDevice(mock.Ideal(), mock.QueueLimit(0)), profiler.WithPrepared(n)) // in real time
	tr := r.track(t, "burst")
	live, _ := r.dev.Live()
	require.GreaterOrEqual(t, live, 2*n, "events for all of them are there")
	gate, err := r.dev.GateClose(r.stream, time.Minute)
	require.NoError(t, err)
	for range n {
		tr.Stop(tr.Start())
	}
	require.Zero(t, r.prof.Stats().Dropped)
	require.NoError(t, gate.Open())
	require.NoError(t, r.prof.Flush(limited(t)))
	require.Equal(t, uint64(n), r.prof.Stats().Finished)
}

func TestTrackKnowsItsNameAndState(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	tr := r.track(t, "decode")
	require.Equal(t, "decode", tr.Name())
	other := r.track(t, "keeps the stream")
	w := open(t, tr)
	tr.Close()
	tr.Close()
	require.ErrorIs(t, tr.Err(), events.ErrClosed)
	require.ErrorIs(t, tr.Start().Err(), events.ErrClosed)
	m, next := tr.Lap(w) // an open window can still be stopped; no next one opens
	require.ErrorIs(t, next.Err(), events.ErrClosed)
	r.flushed(t)
	require.Equal(t, "decode", span(t, m).Name)
	require.NoError(t, other.Err())

	bad := r.prof.Track(mock.Stream{}, "no stream") // which only a record can tell
	require.ErrorIs(t, bad.Start().Err(), events.ErrInvalid)
	bad.Close()
}

// The origin of a simulated host clock was read apart from the machine's, and every
// window began before it was opened.
func TestWindowsOfASimulatedClockAreNotPlacedBeforeTheyBegan(t *testing.T) {
	for range count(30, 200) {
		r := rigOn(t, mock.NewDevice())
		tr := r.track(t, "w")
		before := time.Now()
		span, err := tr.Stop(tr.Start()).Wait(limited(t))
		after := time.Now()
		require.NoError(t, err)
		require.False(t, span.Start.Add(span.Bound).Before(before), "%v before the call, with a bound of %v", before.Sub(span.Start), span.Bound)
		require.False(t, span.End().Add(-span.Bound).After(after), "%v after the result, with a bound of %v", span.End().Sub(after), span.Bound)
	}
}
