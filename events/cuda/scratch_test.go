package cuda_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

func TestSpinIsMeasuredByTheDevicesTimer(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		s := r.stream(t)
		_, err := r.dev.ScratchSpin(1, s) // which loads the kernel, and waits for it
		require.NoError(t, err)
		r.ctl.Set("manual_clock", 1)
		start, end := r.recorded(t, s), r.event(t)
		spin, err := r.dev.ScratchSpin(10*time.Millisecond, s)
		require.NoError(t, err)
		require.NoError(t, r.dev.EventRecord(end, s))
		for range 2 {
			took, err := spin.Measured()
			require.ErrorIs(t, err, events.ErrNotReady)
			require.Zero(t, took)
			r.ctl.Set("advance_ns", 4_000_000)
		}
		r.ctl.Set("advance_ns", 4_000_000)
		require.NoError(t, r.dev.StreamSynchronize(s))
		measured := func() {
			t.Helper()
			took, err := spin.Measured()
			require.NoError(t, err)
			require.Equal(t, 10*time.Millisecond, took)
		}
		measured()
		span, err := r.dev.EventElapsed(start, end)
		require.NoError(t, err)
		require.GreaterOrEqual(t, span, 10*time.Millisecond)
		longest, err := r.dev.ScratchSpin(10*time.Second, s)
		require.NoError(t, err)
		r.ctl.Set("advance_ns", 10_000_000_001)
		require.NoError(t, r.dev.StreamSynchronize(s))
		took, err := longest.Measured()
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, took)

		r.ctl.Set("manual_clock", 0)
		for range 300 { // its words are used by others meanwhile
			_, err := r.dev.ScratchSpin(1, s)
			require.NoError(t, err)
			require.NoError(t, r.dev.StreamSynchronize(s))
		}
		measured()
		require.NoError(t, r.dev.Close())
		measured()
	})
}

// The parameters of a launch are reached through pointers that nothing adjusts when a
// goroutine's stack moves, and the library may look at them late.
// ebitengine/purego#158, ebitengine/purego#210
func TestLaunchParametersSurviveFreshGoroutines(t *testing.T) {
	r := open(t, 1, false)
	s := r.stream(t)
	r.ctl.Set("slow_us_cuLaunchKernel", 1000)
	r.ctl.Set("slow_us_cuModuleGetFunction", 200)
	var stop atomic.Bool
	var churn sync.WaitGroup
	defer churn.Wait()
	defer stop.Store(true)
	for range 4 { // users of the stacks that are given back
		churn.Go(func() {
			for !stop.Load() {
				together(8, func() { deep(300, func() {}) })
			}
		})
	}
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for depth := range 100 {
			want := time.Duration(1000+100*round+depth) * 32
			var spin events.Spin
			var err error
			together(1, func() { deep(depth, func() { spin, err = r.dev.ScratchSpin(want, s) }) })
			require.NoError(t, err)
			require.NoError(t, r.dev.StreamSynchronize(s))
			took, err := spin.Measured()
			require.NoError(t, err)
			require.Equal(t, want, took)
			if depth%10 == 0 { // the kernel's name is one of them
				require.NoError(t, r.dev.Close())
			}
		}
	}
}

func TestSpinsAndGatesAreBounded(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, other := r.stream(t), r.stream(t)
		gate, err := r.dev.GateClose(s, time.Minute)
		require.NoError(t, err)
		spins := make([]events.Spin, 256)
		for i := range spins {
			spins[i], err = r.dev.ScratchSpin(time.Duration(i+1)*32, s)
			require.NoError(t, err, "%d", i)
		}
		r.quiet(t, func() {
			_, err = r.dev.ScratchSpin(time.Microsecond, other)
			require.ErrorIs(t, err, events.ErrFull)
			require.ErrorContains(t, err, "256")
		})
		require.ErrorIs(t, r.dev.Close(), events.ErrInvalid, "a gate is closed")
		require.NoError(t, gate.Open())
		require.NoError(t, r.dev.StreamSynchronize(s))
		for i, spin := range spins {
			took, err := spin.Measured()
			require.NoError(t, err)
			require.Equal(t, time.Duration(i+1)*32, took)
		}
		_, err = r.dev.ScratchSpin(time.Microsecond, other)
		require.NoError(t, err)

		gates := make([]events.GateHandle, 64)
		for i := range gates {
			gates[i], err = r.dev.GateClose(s, time.Minute)
			require.NoError(t, err, "%d", i)
		}
		r.quiet(t, func() {
			_, err = r.dev.GateClose(other, time.Minute)
			require.ErrorIs(t, err, events.ErrFull)
			require.ErrorContains(t, err, "64")
		})
		for _, gate := range gates {
			require.NoError(t, gate.Open())
		}
		require.NoError(t, r.dev.StreamSynchronize(s))
		require.NoError(t, r.dev.StreamSynchronize(other))
		require.NoError(t, r.dev.Close())
		require.NoError(t, r.dev.StreamDestroy(s))
		require.NoError(t, r.dev.StreamDestroy(other))
		r.leavesNothing(t)
	})
}

func TestGateHoldsTheStreamUntilOpened(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		s := r.stream(t)
		for range 70 { // more often than there are words for gates
			gate, err := r.dev.GateClose(s, time.Minute)
			require.NoError(t, err)
			e := r.recorded(t, s)
			done, err := r.dev.EventQuery(e)
			require.NoError(t, err)
			require.False(t, done)
			together(4, func() {
				if err := gate.Open(); err != nil {
					t.Error(err)
				}
			})
			require.NoError(t, r.dev.EventWait(e))
			require.NoError(t, gate.Open(), "once more does nothing")
			require.NoError(t, r.dev.EventDestroy(e))
		}
		late, err := r.dev.GateClose(s, time.Minute)
		require.NoError(t, err)
		require.NoError(t, r.dev.StreamDestroy(s), "its work still runs")
		require.NoError(t, late.Open())
		require.Eventually(t, func() bool { return r.ctl.Get("queued") == 0 }, 30*time.Second, time.Millisecond)
		require.NoError(t, r.dev.Close())
		require.NoError(t, late.Open(), "after Close")
		r.leavesNothing(t)
	})
}

func TestWatchdogOpensAForgottenGate(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		gate, err := r.dev.GateClose(s, 5*time.Millisecond)
		require.NoError(t, err)
		e := r.recorded(t, s)
		require.NoError(t, r.dev.EventWait(e))
		for range 2 {
			err = gate.Open()
			require.ErrorIs(t, err, events.ErrExpired)
			require.ErrorContains(t, err, "5ms")
		}
		require.NoError(t, r.dev.Close())
		require.NoError(t, r.dev.EventDestroy(e))
		require.NoError(t, r.dev.StreamDestroy(s))
		r.leavesNothing(t)
	})
}

// A gate opens while somebody is stuck behind it, whatever they hold.
func TestGateOpensWhileALaunchIsStuckBehindIt(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		_, err := r.dev.ScratchSpin(1, s)
		require.NoError(t, err)
		require.NoError(t, r.dev.StreamSynchronize(s))
		r.ctl.Set("queue_depth", 3)
		gate, err := r.dev.GateClose(s, time.Minute)
		require.NoError(t, err)
		stuck := make(chan error, 8)
		for range 8 {
			go func() { _, err := r.dev.ScratchSpin(1, s); stuck <- err }()
		}
		require.Eventually(t, func() bool { return r.ctl.Get("queued") == 3 }, 30*time.Second, time.Millisecond)
		require.NoError(t, gate.Open())
		for range 8 {
			require.NoError(t, <-stuck)
		}
	})
}

func TestCloseWaitsForNothingAndFreesEverything(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		require.NoError(t, r.dev.Close(), "nothing was made")
		s := r.stream(t)
		for range 2 { // a closed device may be used again
			r.ctl.Hold(s.Handle())
			spin, err := r.dev.ScratchSpin(time.Microsecond, s)
			require.NoError(t, err)
			require.Equal(t, int64(1), r.ctl.Get("live_modules"))
			require.Equal(t, int64(1), r.ctl.Get("live_allocations"))
			err = r.dev.Close()
			require.ErrorIs(t, err, events.ErrNotReady)
			require.ErrorContains(t, err, "still running")
			require.Equal(t, int64(1), r.ctl.Get("live_modules"))
			r.ctl.Release(s.Handle())
			require.NoError(t, r.dev.StreamSynchronize(s))
			require.NoError(t, r.dev.Close())
			took, err := spin.Measured()
			require.NoError(t, err)
			require.Equal(t, time.Microsecond, took)
			for _, key := range []string{"live_modules", "live_allocations"} {
				require.Zero(t, r.ctl.Get(key), key)
			}
			r.quiet(t, func() { require.NoError(t, r.dev.Close()) })
		}
		e := r.complete(t, s)
		require.NoError(t, r.dev.EventDestroy(e), "events and streams are their owners'")
		require.NoError(t, r.dev.StreamDestroy(s))
		r.leavesNothing(t)
	})
}

// Whatever step of the preparation fails, nothing is lost and the next try may work.
func TestScratchThatCouldNotBePreparedLeavesNothing(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		for _, function := range []string{
			"cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuModuleLoadData", "cuModuleGetFunction",
			r.fn("StreamCreateWithFlags"), "cuLaunchKernel",
		} {
			r.ctl.Set("fail_"+function, 2)
			for range 3 {
				_, err := r.dev.ScratchSpin(time.Microsecond, s)
				require.ErrorContains(t, err, function)
				require.ErrorContains(t, err, "(2)")
				_, err = r.dev.GateClose(s, time.Minute)
				require.Error(t, err)
				require.LessOrEqual(t, r.ctl.Get("live_modules"), int64(1), function)
				require.LessOrEqual(t, r.ctl.Get("live_allocations"), int64(1), function)
			}
			require.NoError(t, r.dev.Close(), function)
			require.Zero(t, r.ctl.Get("live_modules"), function)
			require.Zero(t, r.ctl.Get("live_allocations"), function)
			require.Equal(t, int64(1), r.ctl.Get("live_streams"), function)

			_, err := r.dev.ScratchSpin(time.Microsecond, s)
			require.Error(t, err)
			r.ctl.Set("fail_"+function, 0)
			spin, err := r.dev.ScratchSpin(time.Microsecond, s)
			require.NoError(t, err, function)
			require.NoError(t, r.dev.StreamSynchronize(s))
			took, err := spin.Measured()
			require.NoError(t, err)
			require.Equal(t, time.Microsecond, took)
			require.Equal(t, int64(1), r.ctl.Get("live_modules"), function)
			require.NoError(t, r.dev.Close())
		}

		// A launch or a gate that fails later gives its place back.
		_, err := r.dev.ScratchSpin(time.Microsecond, s)
		require.NoError(t, err)
		require.NoError(t, r.dev.StreamSynchronize(s))
		r.ctl.Set("fail_cuLaunchKernel", 701)
		r.ctl.Set("fail_cuStreamWaitValue32_v2", 801)
		for range 300 {
			_, err := r.dev.ScratchSpin(time.Microsecond, s)
			require.ErrorContains(t, err, "(701)")
			_, err = r.dev.GateClose(s, time.Minute)
			require.ErrorIs(t, err, events.ErrUnsupported)
		}
		require.NoError(t, r.dev.Close())
		require.NoError(t, r.dev.StreamDestroy(s))
		r.leavesNothing(t)
	})
}

func TestScratchWorkIsWorkOnTheStream(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		dev := r.device(t, 1)
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		start, err := dev.EventCreate()
		require.NoError(t, err)
		end, err := dev.EventCreate()
		require.NoError(t, err)
		a, err := dev.ScratchAlloc(1 << 30)
		require.NoError(t, err)
		b, err := dev.ScratchAlloc(1 << 30)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(start, s))
		require.NoError(t, dev.ScratchMemset(a, 0x5a, 1<<30, s))
		require.NoError(t, dev.ScratchCopy(b, a, 1<<30, s))
		require.NoError(t, dev.EventRecord(end, s))
		require.NoError(t, dev.EventWait(end))
		span, err := dev.EventElapsed(start, end)
		require.NoError(t, err)
		require.Greater(t, span, 400*time.Microsecond)
		require.NoError(t, dev.ScratchFree(a))
		require.NoError(t, dev.ScratchFree(b))
		err = dev.ScratchFree(b)
		require.ErrorIs(t, err, events.ErrInvalid)
		_, err = dev.ScratchAlloc(1 << 60)
		require.ErrorContains(t, err, "(2)")
		require.ErrorContains(t, err, "allocating 1152921504606846976 bytes")
		require.Zero(t, r.ctl.Get("ctx_init_0"), "the other device was never asked for")
		require.NoError(t, dev.EventDestroy(start))
		require.NoError(t, dev.EventDestroy(end))
		require.NoError(t, dev.StreamDestroy(s))
		require.NoError(t, dev.Close())
		r.leavesNothing(t)
	})
}

// Many goroutines use and close one device's scratch, and all that is told is that it
// is in use or full.
func TestScratchHammer(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		rounds := 60
		if testing.Short() {
			rounds = 15
		}
		expected := func(err error, kinds ...error) bool {
			for _, kind := range kinds {
				if errors.Is(err, kind) {
					return true
				}
			}
			return err == nil
		}
		together(6,
			func() {
				s, err := r.dev.StreamCreateNonBlocking()
				if err != nil {
					t.Error(err)
					return
				}
				for i := range rounds {
					if err := gatedSpin(r.dev, s, time.Duration(i+1)*320); err != nil {
						t.Error(err)
					}
				}
				if err := r.dev.StreamDestroy(s); err != nil {
					t.Error(err)
				}
			},
			func() {
				for range rounds {
					if err := r.dev.Close(); !expected(err, events.ErrNotReady, events.ErrInvalid) {
						t.Error(err)
					}
					time.Sleep(50 * time.Microsecond)
				}
			})
		require.NoError(t, r.dev.Close())
		r.leavesNothing(t)
	})
}

// gatedSpin measures one spin behind a gate.
func gatedSpin(dev cuda.Device, s cuda.Stream, length time.Duration) error {
	gate, err := dev.GateClose(s, time.Minute)
	if err != nil {
		return err
	}
	spin, err := dev.ScratchSpin(length, s)
	if err := errors.Join(err, gate.Open()); err != nil {
		return err
	}
	if err := dev.StreamSynchronize(s); err != nil {
		return err
	}
	took, err := spin.Measured()
	if err == nil && took != length {
		err = errors.New("a spin of " + length.String() + " took " + took.String())
	}
	return err
}
