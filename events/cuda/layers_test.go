package cuda_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/fence"
	"example.com/devevents/internal/alone"
	"example.com/devevents/internal/crowd"
	"example.com/devevents/profiler"
)

// What fences and windows call, as the library sees it.

func (r *rig) fences(t *testing.T) *fence.Source[cuda.Stream] {
	t.Helper()
	fences, err := fence.New(r.dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fences.Close()) })
	return fences
}

func (r *rig) profiler(t *testing.T) *profiler.Profiler[cuda.Stream] {
	t.Helper()
	p, err := profiler.New(r.dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// limited ends what hangs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A wait burns a core unless its event was made for sleeping, and a comparison of
// clocks is late by the wake-up if it was. It is worth nothing on a stream that waits
// for the work of others.
// pytorch/pytorch#82061, cupy/cupy#7911, NVIDIA/cuda-python#657,
// unslothai/llama.cpp#191, oneapi-src/unified-runtime#1634
func TestLayersAskForEventsAndStreamsOfTheRightKind(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		fences := r.fences(t)
		f, err := fences.Record(s)
		require.NoError(t, err)
		require.Equal(t, int64(3), r.ctl.Get("last_create_flags"), "a fence's: no timing, blocking wait")
		require.NoError(t, f.Wait(limited(t)))

		made := r.ctl.Get("live_streams")
		out := fakert.Bytes(8)
		require.Zero(t, r.ctl.Call("cudaStreamCreateWithFlags", out.Addr(), 0))
		runtime.KeepAlive(out)
		require.Zero(t, r.ctl.Get("last_stream_flags"), "a stream that waits for the default one")
		p := r.profiler(t)
		require.Equal(t, made+2, r.ctl.Get("live_streams"), "one for comparing the clocks")
		require.Equal(t, int64(1), r.ctl.Get("last_stream_flags"), "non-blocking")
		require.Zero(t, r.ctl.Get("last_create_flags"), "timing, and no sleep in a wait")
		tr := p.Track(s, "w")
		require.NoError(t, tr.Err())
		m := tr.Stop(tr.Start())
		_, err = m.Wait(limited(t))
		require.NoError(t, err)
		require.Zero(t, r.ctl.Get("last_create_flags"))
	})
}

// A capture in global mode dies of a plain query anywhere in the process, and of a
// synchronize. Fences that are polled, windows that are read back, events that are
// made for both and comparisons of the clocks go on beside it.
// pytorch/pytorch#104487, pytorch/pytorch#148594, pytorch/pytorch#176251,
// ROCm/hip#3876
func TestGlobalCaptureSurvivesFencesAndWindows(t *testing.T) {
	for _, devices := range []int{1, 2} {
		onFakes(t, devices, func(t *testing.T, r *rig) {
			fences, p := r.fences(t), r.profiler(t)
			other, held := r.stream(t), r.stream(t)
			ctx := limited(t)
			r.ctl.Hold(held.Handle())
			pending, err := fences.Record(held)
			require.NoError(t, err)
			graph, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {
				done := pending.Done()
				together(4, func() {
					tr := p.Track(other, "beside a capture") // whose events are made now
					for range 50 {
						w := tr.Start()
						if w.Err() != nil {
							continue // there is room again in a moment
						}
						f, err := fences.Record(other)
						if err == nil {
							err = f.Wait(ctx)
						}
						if err == nil {
							_, err = tr.Stop(w).Wait(ctx)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
					tr.Close()
				})
				require.Eventually(t, func() bool { return fences.Stats().Threads == 1 }, 30*time.Second, time.Millisecond)
				require.Zero(t, r.ctl.Get("invalidated_captures"))
				r.ctl.Release(held.Handle())
				<-done
			})
			require.NoError(t, err)
			require.NoError(t, pending.Err())
			require.NoError(t, graph.Close())
			require.NotZero(t, p.Stats().Finished)
		})
	}
}

// The same ten thousand times, with one wait that a thread has taken over.
func TestGlobalCaptureSurvivesTenThousandFences(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		fences := r.fences(t)
		held := r.stream(t)
		ctx := limited(t)
		r.ctl.Hold(held.Handle())
		pending, err := fences.Record(held)
		require.NoError(t, err)
		graph, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {
			done := pending.Done()
			require.Eventually(t, func() bool { return fences.Stats().Threads == 1 }, 30*time.Second, time.Millisecond)
			together(8, func() {
				s := r.stream(t)
				for range 1250 {
					f, err := fences.Record(s)
					if err == nil {
						err = f.Wait(ctx)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
			r.ctl.Release(held.Handle())
			<-done
		})
		require.NoError(t, err)
		require.Zero(t, r.ctl.Get("invalidated_captures"))
		require.NoError(t, graph.Close())
		require.EqualValues(t, 10_001, fences.Stats().Reached)
	})
}

// Whatever the library answers when it is asked whether a stream is being captured,
// a window never has the time of something else, and the capture goes on.
// microsoft/onnxruntime#29584, tracel-ai/cubecl#1580, peak-team/peak#84,
// NVIDIA/warp#556
func TestWindowInEveryStateOfACapture(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s := r.stream(t)
		done := r.complete(t, s)
		p := r.profiler(t)
		tr := p.Track(s, "w")
		window := func() error {
			_, err := tr.Stop(tr.Start()).Wait(limited(t))
			return err
		}
		invalidated := func() int64 { return r.ctl.Get("invalidated_captures") }
		require.NoError(t, window(), "not captured")

		require.NoError(t, r.dev.CaptureBegin(s, events.CaptureGlobal))
		for range 10 {
			require.ErrorIs(t, window(), events.ErrCapturing, "active")
		}
		require.Zero(t, invalidated())
		graph, err := r.dev.CaptureEnd(s)
		require.NoError(t, err, "the capture was harmed")
		require.NoError(t, graph.Close())
		require.NoError(t, window())

		require.NoError(t, r.dev.CaptureBegin(s, events.CaptureGlobal))
		w := tr.Start()
		require.NoError(t, w.Err())
		together(1, func() { r.ctl.Call("cudaEventQuery", done.Handle()) })
		require.Equal(t, int64(1), invalidated())
		_, err = tr.Stop(w).Wait(limited(t))
		require.ErrorIs(t, err, events.ErrCapturing, "invalidated meanwhile")
		require.ErrorIs(t, window(), events.ErrCapturing, "invalidated, and not ended")
		_, err = r.dev.CaptureEnd(s)
		require.ErrorIs(t, err, events.ErrCapturing)

		for _, code := range []int32{906, 900} {
			restore := r.fail("StreamIsCapturing", code)
			require.ErrorIs(t, window(), events.ErrCapturing, "the record went well, the question did not (%d)", code)
			restore()
		}
		require.NoError(t, window())
		require.Equal(t, int64(1), invalidated())
		require.Zero(t, r.ctl.Get("last_error"))
	})
}

// 500 waits inside the library took 504 OS threads, and Go ends a process with 10,000.
// golang/go#49057, microsoft/typescript-go#3120, ethereum/go-ethereum#2212,
// JuliaGPU/CUDA.jl#2025
func TestTwelveThousandWaitsForFencesTakeFewThreads(t *testing.T) {
	for name, driver := range map[string]bool{"runtime": false, "driver": true} {
		t.Run(name, func(t *testing.T) {
			if !alone.Run(t) {
				return
			}
			r := open(t, 2, driver)
			var over atomic.Bool
			d := crowd.Device[cuda.Event, cuda.Stream]{
				API: r.dev,
				Busy: func(s cuda.Stream) (func() bool, error) {
					r.ctl.Hold(s.Handle())
					return over.Load, nil
				},
			}
			for range 16 {
				d.Streams = append(d.Streams, r.stream(t))
			}
			d.Release = func() {
				require.Equal(t, int64(16), r.ctl.Get("calls_"+r.fn("EventSynchronize")), "one for each stream")
				over.Store(true)
				for _, s := range d.Streams {
					r.ctl.Release(s.Handle())
				}
			}
			waiters := 12_000
			if raceEnabled {
				waiters = 4000
			}
			crowd.Waits(t, d, waiters)
			require.Zero(t, r.ctl.Get("calls_"+r.fn("StreamSynchronize")))
		})
	}
}

// A wall clock is set by people and time daemons; placement by it jumped with them.
// What the host's clock shows here is its monotonic reading, and the wall only where
// a time is printed. LMCache/LMCache#3103
func TestWindowsArePlacedOnTheMonotonicClock(t *testing.T) {
	r := open(t, 1, false)
	s := r.stream(t)
	before := time.Now()
	p := r.profiler(t)
	tr := p.Track(s, "w")
	require.NoError(t, tr.Err())
	span, err := tr.Stop(tr.Start()).Wait(limited(t))
	require.NoError(t, err)
	for name, at := range map[string]time.Time{"origin": p.Origin(), "start": span.Start, "end": span.End()} {
		require.Contains(t, at.String(), " m=", "%s has lost its monotonic reading", name)
		require.False(t, at.Before(before), name)
		require.False(t, at.After(time.Now()), name)
	}
}
