package profiler_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// gpuRig is a profiler on a real device. Its end checks that it leaves nothing.
func gpuRig(t *testing.T, opts ...profiler.Option) (cuda.Device, *profiler.Profiler[cuda.Stream]) {
	t.Helper()
	dev := gputest.Device(t)
	before := dev.EventStats()
	p, err := profiler.New(dev, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		after := dev.EventStats()
		require.Equal(t, before.LiveEvents, after.LiveEvents)
		require.Equal(t, before.DestroyFailed, after.DestroyFailed)
		st := p.Stats()
		require.Equal(t, st.Started, st.Finished+st.Failed+st.Abandoned+st.Captured+st.Dropped, "%+v", st)
		t.Logf("%+v", st)
	})
	return dev, p
}

// A window says what the device's own timer says, and lies where the host knows
// that it lay: after the gate was opened and before it was read.
func TestGPUWindowsAgreeWithTheDeviceTimer(t *testing.T) {
	dev, p := gpuRig(t)
	s := gputest.Stream(t, dev)
	tr := p.Track(s, "spin")
	require.NoError(t, tr.Err())
	for _, length := range []time.Duration{100 * us, time.Millisecond} {
		var off, bounds []time.Duration
		for i := range 100 {
			gate, err := dev.GateClose(s, 5*time.Second)
			require.NoError(t, err)
			w := open(t, tr)
			spin, err := dev.ScratchSpin(length, s)
			require.NoError(t, err)
			m := tr.Stop(w)
			opened := time.Now()
			require.NoError(t, gate.Open())
			if i%2 == 0 { // read at once, or after the device is done
				require.NoError(t, dev.StreamSynchronize(s))
			}
			got := span(t, m)
			read := time.Now()
			took, err := spin.Measured()
			require.NoError(t, err)
			require.GreaterOrEqual(t, got.Duration, took)
			require.False(t, got.Start.Add(got.Bound).Before(opened), "placed %v before the gate was opened", opened.Sub(got.Start))
			require.False(t, got.End().Add(-got.Bound).After(read), "placed %v behind its reading", got.End().Sub(read))
			off, bounds = append(off, got.Duration-took), append(bounds, got.Bound)
		}
		slices.Sort(off)
		slices.Sort(bounds)
		t.Logf("%v: windows read %v more than the device timer (median; %v to %v); bound %v (median; at most %v)", length, off[50], off[0], off[99], bounds[50], bounds[99])
		require.LessOrEqual(t, off[50], 6*us)
	}
	require.Zero(t, p.Stats().Contradictions)
}

// peak-team/peak#84, NVIDIA/warp#556, pytorch/pytorch#148594
func TestGPUGlobalCaptureSurvivesProfiling(t *testing.T) {
	dev, p := gpuRig(t, profiler.WithAnchorInterval(2*time.Millisecond))
	capturing, neighbour := gputest.Stream(t, dev), gputest.Stream(t, dev)
	here, there := p.Track(capturing, "here"), p.Track(neighbour, "there")
	buffer, err := dev.ScratchAlloc(4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.ScratchFree(buffer)) }()
	fill := func(s cuda.Stream) { require.NoError(t, dev.ScratchMemset(buffer, 1, 4096, s)) }

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 20 {
		before := open(t, here)
		fill(capturing)
		require.NoError(t, dev.CaptureBegin(capturing, events.CaptureGlobal))
		// Windows of the stream that is captured.
		inside := open(t, here)
		fill(capturing)
		refused(t, here.Stop(inside), events.ErrCapturing)
		m, next := here.Lap(open(t, here))
		refused(t, m, events.ErrCapturing)
		require.ErrorIs(t, next.Err(), events.ErrCapturing)
		require.NoError(t, here.Abandon(open(t, here)))
		across := open(t, here)
		// And of its neighbour, read meanwhile by everybody.
		var wg sync.WaitGroup
		failed := make(chan error, 4)
		for range 4 {
			wg.Go(func() {
				for range 25 {
					w := there.Start()
					if _, err := there.Stop(w).Wait(limited(t)); err != nil {
						failed <- fmt.Errorf("neighbour: %w", err)
						return
					}
				}
				if err := p.Flush(limited(t)); err != nil {
					failed <- err
				}
			})
		}
		wg.Wait()
		close(failed)
		for err := range failed {
			t.Error(err)
		}
		time.Sleep(3 * time.Millisecond) // for the harvester, and an anchor
		graph, err := dev.CaptureEnd(capturing)
		require.NoError(t, err, "the capture was harmed")

		_, err = here.Stop(across).Wait(limited(t)) // its start went into the graph
		require.Error(t, err)
		w := open(t, here)
		require.NoError(t, graph.Launch(capturing))
		m = here.Stop(w)
		require.NoError(t, dev.StreamSynchronize(capturing))
		span(t, m)
		span(t, here.Stop(before))
		require.NoError(t, graph.Close())
	}
	st := p.Stats()
	require.GreaterOrEqual(t, st.Captured, uint64(20*3), "%+v", st)
	require.Equal(t, uint64(20*4), st.Captured+st.Failed, "%+v", st)
}

func TestGPUSoakKeepsMemoryFlat(t *testing.T) {
	length := 20 * time.Second
	if testing.Short() {
		length = 2 * time.Second
	}
	var sink counter
	dev, p := gpuRig(t, profiler.WithSink(&sink))
	s := gputest.Stream(t, dev)
	tr := p.Track(s, "w")
	buffer, err := dev.ScratchAlloc(1 << 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.ScratchFree(buffer)) }()
	soak(t, length, func() profiler.Measurement {
		w := tr.Start()
		if err := dev.ScratchMemset(buffer, 0, buffer.Bytes, s); err != nil {
			t.Error(err)
		}
		return tr.Stop(w)
	}, p.Stats, func() int { return int(dev.EventStats().LiveEvents) })
	require.NoError(t, p.Flush(limited(t)))
	require.NoError(t, dev.StreamSynchronize(s))
	st := p.Stats()
	require.Zero(t, st.Failed+st.Captured+st.Contradictions, "%+v", st)
	require.Less(t, st.Dropped, st.Started/100, "%+v", st)
}

// Laps on a real device: the parts add up to the whole, but for the records.
func TestGPULapsAddUpToTheWhole(t *testing.T) {
	dev, p := gpuRig(t)
	s := gputest.Stream(t, dev)
	tr := p.Track(s, "lap")
	gate, err := dev.GateClose(s, 5*time.Second)
	require.NoError(t, err)
	outer := open(t, tr)
	w := open(t, tr)
	var ms []profiler.Measurement
	for range 20 {
		_, err := dev.ScratchSpin(50*us, s)
		require.NoError(t, err)
		var m profiler.Measurement
		m, w = tr.Lap(w)
		require.NoError(t, w.Err())
		ms = append(ms, m)
	}
	require.NoError(t, tr.Abandon(w))
	whole := tr.Stop(outer)
	require.NoError(t, gate.Open())
	require.NoError(t, dev.StreamSynchronize(s))
	var sum time.Duration
	for _, m := range ms {
		got := span(t, m)
		require.GreaterOrEqual(t, got.Duration, 50*us)
		sum += got.Duration
	}
	all := span(t, whole)
	require.LessOrEqual(t, sum, all.Duration)
	require.InDelta(t, all.Duration, sum, float64(10*us)) // two records
}
