package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// Graphs were timed as a whole, with a hot cache and with one number
// (triton-lang/triton#8384, meta-pytorch/tritonbench#519, NVIDIA/TileGym#118,
// NVIDIA/nvbench#124).
func TestGraphRowsAgreeWithGatedOnes(t *testing.T) {
	b := newCached(t, 32*mib)
	for _, opts := range [][]Option{{Bytes(32 * mib)}, {Cold(ColdNone)}} {
		gated := b.bench(b.read, opts...)
		launches := b.dev.CallCount(mock.OpGraphLaunch)
		graph := b.bench(b.read, append(opts, AsGraph())...)
		require.Equal(t, OK, graph.Status)
		require.Equal(t, "graph, "+gated.Mode, graph.Mode)
		require.Equal(t, "not needed: launched as graphs of 20", graph.Gate)
		require.InDelta(t, gated.Latency.Median, graph.Latency.Median, 64)
		require.Nil(t, graph.Leak, "nobody asked: a graph is on the device as a whole when it begins")
		require.Greater(t, b.dev.CallCount(mock.OpGraphLaunch), launches)
		for _, s := range graph.Samples {
			require.GreaterOrEqual(t, s.Complete, s.Duration)
		}
	}
	require.NoError(t, b.timer.Close())
	live, _ := b.dev.Live()
	require.Zero(t, live, "the graphs' events are given back")
}

// The function is called to be captured, and no more often.
func TestGraphIsCapturedOnceAndLaunchedInChunks(t *testing.T) {
	b := newBed(t)
	calls := 0
	work := b.work(10 * time.Microsecond)
	r := b.bench(func(it Iters) error { calls++; return work(it) }, AsGraph(), Samples(200, 200))
	require.Equal(t, 200, r.Latency.N)
	require.Equal(t, 1+r.WarmUp.Runs+1+1+graphIterations, calls, "first call, warm-up, rehearsal, a look how long it takes, capture")
	require.EqualValues(t, 1+200/graphIterations, b.dev.CallCount(mock.OpGraphLaunch), "the first launch uploads it")
	require.InDelta(t, 10_000+1280, r.Latency.Median, 32)
}

// A capture that cannot be had was an error of the whole run, or went on with half a graph.
func TestCaptureThatFailsFallsBackToTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		opts  []mock.Option
		wrong func(b *bed, captured bool) error
	}{
		"the function waits": {"StreamCaptureUnsupported", nil, func(b *bed, captured bool) error {
			if captured {
				return b.dev.StreamSynchronize(b.stream)
			}
			return nil
		}},
		"the function fails": {"not in a graph", nil, func(_ *bed, captured bool) error {
			if captured {
				return Skip("not in a graph")
			}
			return nil
		}},
		"the function panics": {"panic: not in a graph", nil, func(_ *bed, captured bool) error {
			if captured {
				panic("not in a graph")
			}
			return nil
		}},
		"no graphs": {"the backend has no graphs", []mock.Option{mock.Without(mock.FeatureGraphs)}, func(*bed, bool) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.opts...)
			work := b.work(10 * time.Microsecond)
			r := b.bench(func(it Iters) error {
				captured, err := b.dev.StreamCapturing(b.stream)
				require.NoError(t, err)
				if err := work(it); err != nil {
					return err
				}
				return c.wrong(b, captured)
			}, AsGraph())
			require.Equal(t, OK, r.Status)
			require.True(t, hasNote(r, "not measured as a graph but on the stream: "))
			require.True(t, hasNote(r, c.why), "%v", r.Notes)
			require.Equal(t, "held", r.Gate)
			require.Equal(t, "cold (not verified)", r.Mode)
			require.InDelta(t, 10_000+1280, r.Latency.Median, 32)
			require.NoError(t, b.timer.Close())
			live, _ := b.dev.Live()
			require.Zero(t, live)
		})
	}
}

// A graph of ten calls that use twenty buffers in turn uses the same ten each time
// (flashinfer-ai/flashinfer#2187, flashinfer-ai/flashinfer#2213).
func TestGraphGoesRoundTheWholeRing(t *testing.T) {
	b := newCached(t, mib)
	r := b.rotated(24, 8*mib, AsGraph())
	require.Equal(t, "graph, rotating (cold, verified)", r.Mode)
	require.Equal(t, "not needed: launched as graphs of 24", r.Gate)
	require.InDelta(t, missNS(8*mib)+eachRead, r.Latency.Median, 64)

	r = b.rotated(257, mib, AsGraph())
	require.Equal(t, "rotating (cold, verified)", r.Mode)
	require.True(t, hasNote(r, "does not go round 257 buffers"))
}

// A graph that the device does not finish ends its case.
func TestGraphThatHangsEndsTheCase(t *testing.T) {
	b := newBed(t)
	b.dev.Script(mock.Fault{Op: mock.OpGraphLaunch, Nth: 3, Hang: true})
	r := b.bench(b.work(time.Microsecond), AsGraph(), WallBudget(200*time.Millisecond), Samples(500, 500), Precision(1e-9))
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Stop, "lost")
	require.ErrorIs(t, b.timer.Close(), events.ErrExpired)
	b.dev.ReleaseHangs()
}

// A launch that fails is one failed sample, and the next one counts.
func TestGraphLaunchThatFailsOnceGoesOn(t *testing.T) {
	b := newBed(t)
	b.dev.Script(mock.Fault{Op: mock.OpGraphLaunch, Nth: 3, Code: mock.CodeInvalidValue})
	r := b.bench(b.work(time.Microsecond), AsGraph(), Samples(100, 100))
	require.Equal(t, OK, r.Status)
	require.Equal(t, 1, r.FailedCount)
	require.Len(t, r.Samples, 99)
	require.Contains(t, r.Errors[0].Text, "launching the graph")
}

// A launch is waited for as a whole: twenty iterations of what takes a tenth of the budget
// each were a device that never finishes, for this case and all later ones.
func TestGraphOfLongWorkIsShort(t *testing.T) {
	sys := mock.New() // in real time, by which waits are bounded
	t.Cleanup(sys.Close)
	dev := sys.Device(0)
	timer := NewDeviceEvents(dev)
	stream, err := timer.Stream()
	require.NoError(t, err)
	r := runOne(t, NewRunner(WarmUp(0, 0), On(timer), In(GPU), Cold(ColdNone), WallBudget(2*time.Second), Samples(5, 5)), func(g *GroupOf[int]) {
		g.Bench("case", func(int, Iters) error { return dev.Work(stream, 200*time.Millisecond) }, AsGraph())
	})
	require.Equal(t, OK, r.Status, r.Stop)
	require.Equal(t, "not needed: launched as graphs of 1", r.Gate)
	require.NoError(t, timer.Close())
}

// Work on another stream runs while it is captured, and rows of the graph that it is not
// in were next to nothing (flashinfer-ai/flashinfer-bench#427).
func TestWorkThatEscapesTheCaptureIsFound(t *testing.T) {
	b := newBed(t)
	other, err := b.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	r := b.bench(func(Iters) error { return b.dev.Work(other, 250*time.Microsecond) }, AsGraph())
	require.True(t, hasNote(r, "on another stream than the captured one"), r.Notes)
	require.NotContains(t, r.Mode, "graph")
	require.Equal(t, r.Escape.Of, r.Escape.Count)
}

// A test that ends itself in a function must not leave a stream that is captured for ever.
func TestCaptureIsEndedWhenTheFunctionLeaves(t *testing.T) {
	b := newBed(t)
	work := b.work(10 * time.Microsecond)
	left := make(chan struct{})
	go func() {
		defer close(left)
		Group(b.runner, "g", func(g *GroupOf[int]) {
			g.Set(On(b.timer), In(GPU), AsGraph())
			g.Bench("case", func(_ int, it Iters) error {
				if captured, err := b.dev.StreamCapturing(b.stream); err != nil || captured {
					runtime.Goexit()
				}
				return work(it)
			})
		})
	}()
	<-left
	captured, err := b.dev.StreamCapturing(b.stream)
	require.NoError(t, err)
	require.False(t, captured)
	require.Equal(t, OK, b.bench(work, AsGraph()).Status)
	require.NoError(t, b.timer.Close())
	live, _ := b.dev.Live()
	require.Zero(t, live)
}

func TestGraphRowsHaveTheirMetrics(t *testing.T) {
	b := newBed(t)
	work := b.work(10 * time.Microsecond)
	r := runOne(t, b.runner, func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU), AsGraph(), Bytes(1<<20))
		g.BenchSample("case", func(_ int, it Iters) (Done, error) {
			return Done{Metrics: []Metric{{Name: "mine", Value: Int(7)}}}, work(it)
		})
	})
	names := map[string]float64{}
	for _, m := range r.Metrics {
		names[m.Name] = m.Summary.Median
	}
	require.InDelta(t, 7, names["mine"], 0)
	require.InDelta(t, r.Latency.Median/1e6, names["mock_event_ms"], 1e-6)
	require.Contains(t, names, "gpu_gib_s")
	require.NotContains(t, names, "host_overhead_ms", "the host's time is a launch's")
}

// tidying is a device whose driver has something to do after each capture, for as long.
type tidying struct {
	*mock.Device
	takes time.Duration
	due   bool
}

func (d *tidying) CaptureEnd(s mock.Stream) (events.Graph[mock.Stream], error) {
	d.due = true
	return d.Device.CaptureEnd(s)
}

func (d *tidying) DeviceSynchronize() error {
	if d.due {
		d.due = false
		d.System().Advance(d.takes)
	}
	return d.Device.DeviceSynchronize()
}

// What a driver does for a new graph was taken for work that had escaped, and the row came from
// the stream (seen on an H200).
func TestDriversOwnWorkBehindACaptureIsNotTheFunctions(t *testing.T) {
	dev := &tidying{Device: mock.NewDevice(mock.AutoAdvance(), mock.HostCost(1300, 270, 25)), takes: 300 * time.Microsecond}
	defer dev.System().Close()
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	other, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	on := func(s mock.Stream) *Result {
		return runOne(t, NewRunner(WarmUp(10*time.Microsecond, 200*time.Millisecond), On(timer), In(GPU), AsGraph()), func(g *GroupOf[int]) {
			g.Bench("case", func(int, Iters) error { return dev.Work(s, 50*time.Microsecond) })
		})
	}
	r := on(stream)
	require.Contains(t, r.Mode, "graph", r.Notes)
	require.Nil(t, r.Escape)
	escaped := on(other)
	require.NotContains(t, escaped.Mode, "graph")
	require.True(t, hasNote(escaped, "on another stream than the captured one"), escaped.Notes)
}
