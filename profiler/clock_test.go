package profiler

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

const us = time.Microsecond

// truth is a profiler on a simulated device whose harvester the test drives, so
// that every run with a seed is the same.
type truth struct {
	t      testing.TB
	dev    *mock.Device
	prof   *Profiler[mock.Stream]
	engine *engine[mock.Event, mock.Stream]
	stream mock.Stream
	lane   *stream[mock.Event, mock.Stream]
	track  *Track

	origin time.Duration // what the profiler's host clock shows when the device's shows 0

	open   []*measured
	unread []*measured
	bounds []time.Duration
	worst  time.Duration // greatest distance of a start from the truth
}

// measured is a window and what really happened.
type measured struct {
	w           Window
	m           Measurement
	start, end  mock.Event
	called      time.Duration // host time before Start
	began, done int64         // true host times of the two stamps
	known       bool
}

// Count is how many rounds a test makes: few with -short, and a tenth of many
// under the race detector, which is that much slower.
func Count(few, many int) int {
	switch {
	case testing.Short():
		return few
	case RaceDetector:
		return max(few, many/10)
	}
	return many
}

func newTruth(t testing.TB, origin time.Duration, opts []mock.Option, popts ...Option) *truth {
	t.Helper()
	dev := mock.NewDevice(append([]mock.Option{mock.AutoAdvance(), mock.QueueLimit(0), mock.HostCost(800, 250, 40)}, opts...)...)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	host := dev.HostClock()
	p, err := New(dev, append([]Option{WithHostClock(func() int64 { return host() + int64(origin) })}, popts...)...)
	require.NoError(t, err)
	x := &truth{t: t, dev: dev, prof: p, stream: s, origin: origin}
	x.engine = p.core.(*engine[mock.Event, mock.Stream])
	x.track = p.Track(s, "w")
	require.NoError(t, x.track.Err())
	x.lane = x.track.lane.(*stream[mock.Event, mock.Stream])
	x.engine.harvest.mu.Lock() // the harvester waits for it until the test is over
	t.Cleanup(func() {
		x.engine.harvest.mu.Unlock()
		require.NoError(t, p.Close())
		require.NoError(t, dev.StreamDestroy(s))
		dev.System().Close()
	})
	return x
}

func (x *truth) advance(d time.Duration) { x.dev.System().Advance(d) }

func (x *truth) start() {
	x.t.Helper()
	m := &measured{called: x.dev.System().Now()}
	m.w = x.track.Start()
	require.NoError(x.t, m.w.Err())
	x.lane.mu.Lock() // the harvester may be making more
	w := x.lane.windows[m.w.slot]
	m.start, m.end = w.start.event, w.end.event
	x.lane.mu.Unlock()
	x.open = append(x.open, m)
}

func (x *truth) stop(i int) {
	m := x.open[i]
	x.open = append(x.open[:i], x.open[i+1:]...)
	m.m = x.track.Stop(m.w)
	x.unread = append(x.unread, m)
}

func (x *truth) work(d time.Duration) {
	x.t.Helper()
	require.NoError(x.t, x.dev.Work(x.stream, d))
}

func (x *truth) window(d time.Duration) {
	x.t.Helper()
	x.start()
	x.work(d)
	x.stop(len(x.open) - 1)
}

func (x *truth) sync() {
	x.t.Helper()
	require.NoError(x.t, x.dev.StreamSynchronize(x.stream))
}

// harvest reads back what is done, and notes what really happened to it before its
// events are used again.
func (x *truth) harvest(now bool) {
	x.engine.harvest.work(now)
	for _, m := range x.unread {
		if !m.known {
			began, a := x.dev.TrueHostTime(m.start)
			done, b := x.dev.TrueHostTime(m.end)
			m.began, m.done, m.known = began, done, a && b
		}
	}
}

// spans takes the windows that have a result.
func (x *truth) spans() (all []*measured, spans []Span) {
	x.t.Helper()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	kept := x.unread[:0]
	for _, m := range x.unread {
		out, found := x.lane.results.get(m.m.position)
		if !found {
			kept = append(kept, m)
			continue
		}
		require.NoError(x.t, out.err)
		s, err := m.m.Wait(gone)
		require.NoError(x.t, err)
		require.True(x.t, m.known)
		all, spans = append(all, m), append(spans, s)
	}
	x.unread = kept
	return all, spans
}

// check requires of every result that the truth lies in its bound, and gives them.
func (x *truth) check() []Span {
	x.t.Helper()
	all, spans := x.spans()
	tick := x.engine.harvest.placer.clock.Tick()
	for i, m := range all {
		s := spans[i]
		at := s.Start.Sub(x.prof.Origin()) - x.origin
		require.GreaterOrEqual(x.t, at, m.called, "a window appears to start before the call that opened it")
		off := time.Duration(m.began) - at
		if off.Abs() > s.Bound {
			require.FailNow(x.t, "the truth lies outside", "off by %v, bound %v: window %+v, span %+v, stats %+v", off, s.Bound, m, s, x.prof.Stats())
		}
		x.bounds = append(x.bounds, s.Bound)
		x.worst = max(x.worst, off.Abs())
		took := x.dev.DeviceTime(time.Duration(m.done)) - x.dev.DeviceTime(time.Duration(m.began))
		require.InDelta(x.t, took, s.Duration, float64(tick)+1+6e-8*float64(took))
		require.GreaterOrEqual(x.t, s.Duration, time.Duration(0))
		require.Equal(x.t, s.Start.Add(s.Duration), s.End())
	}
	return spans
}

// torn takes the unread windows, which must all have been given up because the clocks
// were set apart, and says how many they are.
func (x *truth) torn() int {
	x.t.Helper()
	for _, m := range x.unread {
		out, found := x.lane.results.get(m.m.position)
		require.True(x.t, found)
		require.ErrorIs(x.t, out.err, events.ErrBadReading)
	}
	n := len(x.unread)
	x.unread = nil
	return n
}

func (x *truth) finish() {
	x.t.Helper()
	for len(x.open) > 0 {
		x.stop(0)
	}
	x.sync()
	x.advance(time.Second) // until it is seen, too
	x.harvest(true)
	x.harvest(true)
	x.check()
	require.Empty(x.t, x.unread)
}

// rounds is what a property test does many times over, in an order that the seed
// decides: windows long and short, one in another and one beside another, deep
// queues, pauses from nanoseconds to hours, readers at once and late.
func (x *truth) rounds(rng *rand.Rand, n int) {
	x.t.Helper()
	upTo := func(d time.Duration) time.Duration { // any order of magnitude is as likely
		return time.Duration(math.Exp(rng.Float64() * math.Log(float64(d))))
	}
	for range n {
		switch k := rng.IntN(100); {
		case k < 40 && len(x.unread)+len(x.open) < 100:
			x.window(upTo(100 * time.Millisecond))
		case k < 50 && len(x.unread)+len(x.open) < 100:
			x.start()
		case k < 60 && len(x.open) > 0:
			x.stop(rng.IntN(len(x.open)))
		case k < 62:
			x.work(upTo(5 * time.Second)) // what comes is stamped long after it is recorded
		case k < 80:
			x.advance(upTo(time.Second))
		case k < 81:
			x.advance(upTo(2 * time.Hour))
		case k < 84:
			x.sync()
			x.harvest(true) // a reader who has waited
		case k < 95:
			x.harvest(false)
		default:
			x.harvest(true)
		}
		if len(x.unread)+len(x.open) >= 100 {
			for len(x.open) > 50 {
				x.stop(0)
			}
			x.sync()
			x.harvest(true)
		}
		x.check()
	}
	x.finish()
}

// The truth lies inside every bound, whatever the clocks, the host and the device
// do, as long as the clocks' rates differ by no more than promised.
// meta-pytorch/torchcomms#2424, wolfpld/tracy#171, wolfpld/tracy#1394
func TestTruthLiesInsideEveryBound(t *testing.T) {
	for name, x := range map[string]struct {
		opts   []mock.Option
		script func(dev *mock.Device, rng *rand.Rand)
		origin time.Duration
	}{
		"quiet":              {},
		"exact":              {opts: []mock.Option{mock.Tick(1), mock.ExactReadings()}},
		"50 ppm":             {opts: []mock.Option{mock.Drift(50)}},
		"-50 ppm":            {opts: []mock.Option{mock.Drift(-50), mock.Offset(-3 * time.Hour)}},
		"fastest":            {opts: []mock.Option{mock.Drift(600)}},
		"slowest":            {opts: []mock.Option{mock.Drift(-600)}},
		"wander":             {opts: []mock.Option{mock.Wander(1, 7), mock.Drift(10)}},
		"tick of 500 ns":     {opts: []mock.Option{mock.Tick(500)}},
		"tick of 1 us":       {opts: []mock.Option{mock.Tick(1000), mock.Drift(100)}},
		"tick, free events":  {opts: []mock.Option{mock.Tick(1000), mock.EventCost(0), mock.LaunchLatency(0), mock.HostCost(0, 100, 0)}},
		"answers 30 us late": {opts: []mock.Option{mock.VisibleAfter(30 * us)}},
		"answers 5 ms late":  {opts: []mock.Option{mock.VisibleAfter(5 * time.Millisecond)}},
		"slow calls":         {opts: []mock.Option{mock.HostCost(40*us, 10*us, us)}},
		"free calls":         {opts: []mock.Option{mock.HostCost(0, 100, 0)}},
		"slow to start":      {opts: []mock.Option{mock.LaunchLatency(300 * us)}},
		"old device clock":   {opts: []mock.Option{mock.Offset(9000 * time.Hour)}},
		"old host clock":     {opts: []mock.Option{mock.Tick(1), mock.ExactReadings(), mock.EventCost(17), mock.HostCost(20, 20, 1)}, origin: 54 * 365 * 24 * time.Hour}, // such as nanoseconds since 1970
		"host often preempted": {script: func(dev *mock.Device, rng *rand.Rand) {
			dev.Script(mock.PreemptRandomly(0.05, time.Millisecond, rng.Uint64()))
		}},
		"host stops at times": {script: func(dev *mock.Device, _ *rand.Rand) { dev.Script(mock.PreemptEvery(500, 50*time.Millisecond)) }},
		"calls delayed": {script: func(dev *mock.Device, rng *rand.Rand) {
			dev.Script(
				mock.Fault{Op: mock.OpEventRecord, Chance: 0.1, Seed: rng.Uint64(), Before: 100 * us, After: 100 * us, Vary: true},
				mock.Fault{Op: mock.OpEventQuery, Chance: 0.1, Seed: rng.Uint64(), Before: 100 * us, After: 50 * time.Millisecond, Vary: true},
				mock.Fault{Op: mock.OpRoundQuery, Chance: 0.1, Seed: rng.Uint64(), Before: 100 * us, After: 100 * us, Vary: true})
		}},
		"drift steps": {script: func(dev *mock.Device, rng *rand.Rand) {
			at := time.Duration(0)
			for range 10_000 {
				// More than one within a link between anchors of 0.1 s shows nowhere; in
				// longer links nothing is made of it.
				at += 550*time.Millisecond + time.Duration(rng.Int64N(int64(400*time.Millisecond)))
				dev.SetDrift(at, 1200*rng.Float64()-600)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bounds []time.Duration
			var worst time.Duration
			for seed := range uint64(Count(4, 600)) {
				rng := rand.New(rand.NewPCG(seed, 5))
				w := newTruth(t, x.origin, x.opts)
				if x.script != nil {
					x.script(w.dev, rng)
				}
				w.rounds(rng, 400)
				require.Zero(t, w.prof.Stats().Contradictions, "seed %d", seed)
				require.Zero(t, w.prof.Stats().Failed, "seed %d", seed)
				bounds = append(bounds, w.bounds...)
				worst = max(worst, w.worst)
			}
			require.NotEmpty(t, bounds)
			t.Logf("%d windows; bounds %v; farthest from the truth %v", len(bounds), quantiles(bounds), worst)
		})
	}
}

func quantiles(all []time.Duration) string {
	all = append([]time.Duration(nil), all...)
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))] }
	return fmt.Sprintf("p50 %v p90 %v p99 %v", at(0.5), at(0.9), at(0.99))
}
