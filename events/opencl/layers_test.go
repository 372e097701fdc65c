package opencl

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
	"example.com/devevents/fence"
	"example.com/devevents/internal/alone"
	"example.com/devevents/internal/crowd"
	"example.com/devevents/profiler"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A wait must not cost a thread: Go ends a process with 10,000 of them.
func TestThousandWaitersOnFences(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		fences, err := fence.New(b.Device)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, fences.Close()) })
		const streams, waiters = 8, 1000
		var gates [streams]events.GateHandle
		var all [streams]*fence.Fence
		for i := range streams {
			s := b.stream(t)
			gates[i] = b.shut(t, s)
			all[i], err = fences.Record(s)
			require.NoError(t, err)
		}
		ctx, cancelled := deadline(t), cancelled()
		threads := pprof.Lookup("threadcreate").Count()
		results := make([]error, waiters)
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				if i%10 == 0 {
					results[i] = all[i%streams].Wait(cancelled)
				} else {
					results[i] = all[i%streams].Wait(ctx)
				}
			})
		}
		other := b.stream(t)
		require.NoError(t, fences.WaitOn(all[0], other))
		behind := b.recorded(t, other)
		time.Sleep(10 * time.Millisecond)
		for _, f := range all {
			require.ErrorIs(t, f.Err(), events.ErrNotReady)
		}
		for _, g := range gates {
			require.NoError(t, g.Open())
		}
		wg.Wait()
		for i, err := range results {
			if i%10 != 0 {
				require.NoError(t, err)
			} else if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		require.Less(t, pprof.Lookup("threadcreate").Count()-threads, 100)
		b.mustWait(t, behind)
	})
}

// golang/go#49057, JuliaGPU/CUDA.jl#2025
func TestTwelveThousandWaitsForFencesTakeFewThreads(t *testing.T) {
	library(t) // or a skip, outside of the other process
	if !alone.Run(t) {
		return
	}
	b := over(t, library(t).api)
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	var done atomic.Bool
	var gates []events.GateHandle
	d := crowd.Device[Event, Stream]{
		API: b.Device,
		Busy: func(s Stream) (func() bool, error) {
			gates = append(gates, b.shut(t, s))
			return done.Load, nil
		},
		Release: func() {
			done.Store(true)
			for _, g := range gates {
				require.NoError(t, g.Open())
			}
		},
	}
	for range 16 {
		d.Streams = append(d.Streams, b.stream(t))
	}
	waiters := 12_000
	if raceEnabled {
		waiters = 4000
	}
	crowd.Waits(t, d, waiters)
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// kernels keeps the events of kernels, whose own times are the witness.
type kernels struct {
	clapi.API
	mu   sync.Mutex
	list []clapi.Event
}

func (k *kernels) Task(q clapi.Queue, kernel clapi.Kernel) (clapi.Event, int32) {
	e, code := k.API.Task(q, kernel)
	if code == clapi.Success {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.API.RetainEvent(e)
		k.list = append(k.list, e)
	}
	return e, code
}

// take gives the times of the kernels so far on the device's clock.
func (k *kernels) take(t *testing.T) (starts, ends []time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.list {
		start, code := k.API.EventTime(e, clapi.ProfilingStart)
		require.Zero(t, code)
		end, code := k.API.EventTime(e, clapi.ProfilingEnd)
		require.Zero(t, code)
		k.API.ReleaseEvent(e)
		starts, ends = append(starts, time.Duration(start)), append(ends, time.Duration(end))
	}
	k.list = nil
	return starts, ends
}

// maxRate is how much the rates of the two clocks may differ.
const maxRate = 600e-6

func apart(d time.Duration) time.Duration { return time.Duration(float64(d.Abs()) * maxRate) }

// Windows are placed by a model; the kernels inside them, and the driver's own
// pair of clocks where it has one, say whether it is true.
func TestWindowsContainTheKernelsOwnTimes(t *testing.T) {
	t.Run("imitated", func(t *testing.T) { windowsAgainstKernels(t, newDriver()) })
	t.Run("installed", func(t *testing.T) { windowsAgainstKernels(t, library(t).api) })
}

func windowsAgainstKernels(t *testing.T, api clapi.API) {
	watch := &kernels{API: api}
	b := over(t, watch)
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	s := b.stream(t)
	if _, err := b.ScratchSpin(time.Microsecond, s); err != nil {
		require.ErrorIs(t, err, events.ErrUnsupported)
		t.Skip("the driver cannot spin: " + err.Error())
	}
	require.NoError(t, b.StreamSynchronize(s))
	watch.take(t)

	prof, err := profiler.New(b.Device)
	require.NoError(t, err)
	defer func() { require.NoError(t, prof.Close()) }()
	track := prof.Track(s, "spin")
	require.NoError(t, track.Err())
	const windows = 20
	var measurements []profiler.Measurement
	began := time.Now()
	for i := range windows {
		w := track.Start()
		_, err := b.ScratchSpin(time.Duration(i+1)*100*time.Microsecond, s)
		require.NoError(t, err)
		measurements = append(measurements, track.Stop(w))
	}
	require.NoError(t, b.StreamSynchronize(s))
	ended := time.Now()
	starts, ends := watch.take(t)
	require.Len(t, starts, windows)

	timer, both := events.Ability[events.TimerReader](b.Device)
	var device uint64
	var read time.Time
	var bracket time.Duration
	if both {
		read = time.Now()
		device, _, err = timer.DeviceAndHostTimer()
		require.NoError(t, err)
		bracket = time.Since(read)
	}
	var first profiler.Span
	for i, m := range measurements {
		span, err := m.Wait(deadline(t))
		require.NoError(t, err)
		took := ends[i] - starts[i]
		require.GreaterOrEqual(t, span.Duration, took, "window %d is shorter than the kernel in it", i)
		require.False(t, span.Start.Add(span.Bound).Before(began), "window %d", i)
		require.False(t, span.End().Add(-span.Bound).After(ended), "window %d", i)
		if i == 0 {
			first = span
		}
		// The kernel starts within the slack after the window does, so two
		// windows lie as far apart as their kernels, give or take that.
		slack := max(span.Duration-took, first.Duration-(ends[0]-starts[0]))
		gap := starts[i] - starts[0]
		off := span.Start.Sub(first.Start) - gap
		require.LessOrEqual(t, off.Abs(), span.Bound+first.Bound+slack+apart(gap), "window %d against its kernel", i)
		if both {
			ago := time.Duration(device) - starts[i]
			off := span.Start.Sub(read.Add(-ago))
			require.LessOrEqual(t, off.Abs(), span.Bound+span.Duration-took+bracket+apart(ago), "window %d against the driver's timers", i)
		}
	}
}
