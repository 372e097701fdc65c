package fence_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/fence"
	"example.com/devevents/internal/alone"
	"example.com/devevents/internal/crowd"
	"example.com/devevents/internal/gputest"
)

// The tests of this file need a real device. They skip where there is none and
// fail there with DEVEVENTS_REQUIRE_GPU=1.

// gpu gives a device with a source of fences, which must leave nothing behind.
func gpu(t *testing.T) (cuda.Device, *fence.Source[cuda.Stream]) {
	t.Helper()
	dev := gputest.Device(t)
	before := dev.EventStats()
	fences, err := fence.New(dev)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, fences.Close())
		after := dev.EventStats()
		require.Equal(t, before.LiveEvents, after.LiveEvents)
		require.Equal(t, before.DestroyFailed, after.DestroyFailed)
	})
	return dev, fences
}

// gated is a stream held back by a gate, and a fence behind it.
func gated(t *testing.T, dev cuda.Device, fences *fence.Source[cuda.Stream]) (cuda.Stream, *fence.Fence, events.GateHandle) {
	t.Helper()
	s := gputest.Stream(t, dev)
	gate, err := dev.GateClose(s, 20*time.Second)
	require.NoError(t, err)
	f, err := fences.Record(s)
	require.NoError(t, err)
	return s, f, gate
}

func TestGPUFenceBehindAGate(t *testing.T) {
	dev, fences := gpu(t)
	_, f, gate := gated(t, dev, fences)
	results := waiting(context.Background(), f, 100)
	done := f.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, f.Wait(ctx), context.DeadlineExceeded, "the gate is closed")
	require.Empty(t, results)
	pending(t, f)

	opened := time.Now()
	require.NoError(t, gate.Open())
	within(t, done)
	t.Logf("%v: seen %v after the gate was opened", f, time.Since(opened))
	for range 100 {
		require.NoError(t, within(t, results))
	}
	require.NoError(t, f.Err())
	require.NoError(t, f.Wait(context.Background()))
}

func TestGPUClosedFenceBehindAGate(t *testing.T) {
	dev, fences := gpu(t)
	s, f, gate := gated(t, dev, fences)
	results := waiting(context.Background(), f, 10)
	require.NoError(t, f.Close())
	for range 10 {
		require.ErrorIs(t, within(t, results), events.ErrClosed)
	}
	live := dev.EventStats().LiveEvents
	require.NoError(t, gate.Open())
	require.NoError(t, dev.StreamSynchronize(s))
	again, err := fences.Record(s)
	require.NoError(t, err)
	require.NoError(t, wait(again))
	require.LessOrEqual(t, dev.EventStats().LiveEvents, live+1, "its event goes back to the others")
}

// Closed with everything behind a gate that stays closed: Close does not wait
// for the device.
func TestGPUCloseWithWaitersBehindAGate(t *testing.T) {
	dev, fences := gpu(t)
	s, f, gate := gated(t, dev, fences)
	results := waiting(context.Background(), f, 10)
	require.NoError(t, fences.Close(), "no thread waits for it yet")
	for range 10 {
		require.ErrorIs(t, within(t, results), events.ErrClosed)
	}
	require.NoError(t, gate.Open(), "the watchdog has not come first")
	require.NoError(t, dev.StreamSynchronize(s))
}

func TestGPUStreamWaitsForAFence(t *testing.T) {
	dev, fences := gpu(t)
	_, f, gate := gated(t, dev, fences)
	b := gputest.Stream(t, dev)
	require.NoError(t, fences.WaitOn(f, b))
	behind, err := fences.Record(b)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, behind.Wait(ctx), context.DeadlineExceeded, "b must wait for the gate of a")
	require.NoError(t, gate.Open())
	require.NoError(t, wait(behind))
	require.NoError(t, wait(f))
	require.NoError(t, fences.WaitOn(f, b))
	require.ErrorIs(t, fences.WaitOn(nil, b), events.ErrNotRecorded)
}

// pytorch/pytorch#104487, pytorch/pytorch#148594, pytorch/pytorch#176251
func TestGPUGlobalCaptureSurvivesFences(t *testing.T) {
	dev, fences := gpu(t)
	_, slow, gate := gated(t, dev, fences)
	capturing, other := gputest.Stream(t, dev), gputest.Stream(t, dev)
	buffer, err := dev.ScratchAlloc(4096)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.ScratchFree(buffer)) }()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, dev.CaptureBegin(capturing, events.CaptureGlobal))
	require.NoError(t, dev.ScratchMemset(buffer, 1, 4096, capturing))
	for range 3 {
		_, err = fences.Record(capturing)
		require.ErrorIs(t, err, events.ErrCapturing)
	}
	require.ErrorIs(t, fences.WaitOn(slow, capturing), events.ErrCapturing)

	results := waiting(context.Background(), slow, 10)
	eventually(t, func() bool { return fences.Stats().Threads == 1 }) // also a thread inside the driver harms nothing
	var others sync.WaitGroup
	failed := make(chan error, 8)
	for range 8 {
		others.Go(func() {
			for range 1250 {
				f, err := fences.Record(other)
				if err == nil {
					err = wait(f)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	others.Wait()
	require.Empty(t, failed)
	require.NoError(t, gate.Open())
	for range 10 {
		require.NoError(t, within(t, results))
	}

	graph, err := dev.CaptureEnd(capturing)
	require.NoError(t, err, "the capture was broken")
	require.NoError(t, graph.Launch(capturing))
	f, err := fences.Record(capturing)
	require.NoError(t, err)
	require.NoError(t, wait(f))
	require.GreaterOrEqual(t, fences.Stats().Reached, uint64(10_000))
	require.NoError(t, graph.Close())
}

// golang/go#49057, JuliaGPU/CUDA.jl#2025
func TestGPUTwelveThousandWaits(t *testing.T) {
	gputest.Runtime(t) // or a skip, outside of the other process
	if !alone.Run(t) {
		return
	}
	dev := gputest.Device(t)
	d := crowd.Device[cuda.Event, cuda.Stream]{
		API: dev,
		Busy: func(s cuda.Stream) (func() bool, error) {
			spin, err := dev.ScratchSpin(2*time.Second, s)
			return func() bool {
				_, err := spin.Measured()
				return !errors.Is(err, events.ErrNotReady)
			}, err
		},
	}
	for range 16 {
		d.Streams = append(d.Streams, gputest.Stream(t, dev))
	}
	crowd.Waits(t, d, 12_000)
}
