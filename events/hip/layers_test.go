package hip_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/fence"
	"example.com/devevents/profiler"
)

// limited ends what hangs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// HIP reads an event that was recorded in a capture as if that record had never been:
// a span between stamps of some earlier window, and no error. So a window whose start
// or end fell into a capture has no time, also where the capture is over at its end.
// NVIDIA/warp#556, ROCm/rocm-systems#2380, gwoltman/gpuowl#59
func TestWindowBesideACaptureIsNotReadFromOldStamps(t *testing.T) {
	dev, ctl := open(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	p, err := profiler.New(dev, profiler.WithWindows(2)) // so that each event has stamps from before
	require.NoError(t, err)
	tr := p.Track(s, "w")
	require.NoError(t, tr.Err())
	finished := func() {
		t.Helper()
		w := tr.Start()
		for ; w.Err() != nil; w = tr.Start() { // there is room again in a moment
			require.ErrorIs(t, w.Err(), events.ErrFull)
			time.Sleep(100 * time.Microsecond)
		}
		ctl.Work(s.Handle(), int64(50*time.Microsecond))
		span, err := tr.Stop(w).Wait(limited(t))
		require.NoError(t, err)
		require.GreaterOrEqual(t, span.Duration, 50*time.Microsecond)
	}
	begin := func() { require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal)) }
	end := func() {
		graph, err := dev.CaptureEnd(s)
		require.NoError(t, err, "the capture was harmed")
		require.NoError(t, graph.Close())
	}
	for name, window := range map[string]func() profiler.Measurement{
		"all of it": func() profiler.Measurement {
			begin()
			defer end()
			return tr.Stop(tr.Start())
		},
		"the start": func() profiler.Measurement {
			begin()
			w := tr.Start()
			end()
			return tr.Stop(w)
		},
		"the end": func() profiler.Measurement {
			w := tr.Start()
			begin()
			defer end()
			return tr.Stop(w)
		},
	} {
		for range 4 {
			finished()
		}
		_, err := window().Wait(limited(t))
		require.ErrorIs(t, err, events.ErrCapturing, name)
		require.Zero(t, ctl.Get("invalidated_captures"), name)
	}
	finished()
	require.NoError(t, p.Close())
	require.NoError(t, dev.StreamDestroy(s))
	require.Zero(t, ctl.Get("live_events"))
}

// On HIP up to 6 even a thread-local capture dies of what others ask, so everything
// is asked in relaxed mode. ROCm/hip#3876, pytorch/pytorch#176251
func TestCaptureSurvivesFencesAndWindows(t *testing.T) {
	for _, mode := range []events.CaptureMode{events.CaptureGlobal, events.CaptureThreadLocal, events.CaptureRelaxed} {
		dev, ctl := open(t)
		ctx := limited(t)
		captured, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		other, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		fences, err := fence.New(dev)
		require.NoError(t, err)
		p, err := profiler.New(dev)
		require.NoError(t, err)

		runtime.LockOSThread()
		require.NoError(t, dev.CaptureBegin(captured, mode))
		done := make(chan error)
		go func() {
			done <- func() error {
				tr := p.Track(other, "beside a capture")
				defer tr.Close()
				for range 50 {
					w := tr.Start()
					f, err := fences.Record(other)
					if err != nil {
						return err
					}
					if err := f.Wait(ctx); err != nil {
						return err
					}
					if _, err := tr.Stop(w).Wait(ctx); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
		require.NoError(t, <-done)
		graph, err := dev.CaptureEnd(captured)
		runtime.UnlockOSThread()
		require.NoError(t, err, "%v", mode)
		require.NoError(t, graph.Close())
		require.Zero(t, ctl.Get("invalidated_captures"))
		require.NoError(t, p.Close())
		require.NoError(t, fences.Close())
	}
}

// Newer runtimes sleep in a wait only for events with this one flag, so a fence's has
// no other. pytorch/pytorch#82061, ROCm/legacy-rocm-build#3483
func TestEventsOfFencesAskToSleep(t *testing.T) {
	dev, ctl := open(t)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	fences, err := fence.New(dev)
	require.NoError(t, err)
	f, err := fences.Record(s)
	require.NoError(t, err)
	require.Equal(t, int64(1), ctl.Get("last_create_flags"))
	require.NoError(t, f.Wait(limited(t)))
	p, err := profiler.New(dev)
	require.NoError(t, err)
	require.Zero(t, ctl.Get("last_create_flags"), "a window's has timing, and is not slept for")
	require.NoError(t, p.Close())
	require.NoError(t, fences.Close())
	require.NoError(t, dev.StreamDestroy(s))
}
