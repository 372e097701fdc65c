package cuda_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// state is what the library keeps for the calling thread.
type state struct{ device, context, mode, lastError int64 }

func (r *rig) state() state {
	return state{r.ctl.Get("current_device"), r.ctl.Get("current_context"), r.ctl.Get("capture_mode"), r.ctl.Get("last_error")}
}

// setMode is the host program's own choice of a capture mode.
func (r *rig) setMode(t testing.TB, mode byte) {
	t.Helper()
	m := fakert.Bytes(8)
	m[0] = mode
	require.Zero(t, r.ctl.Call("cuThreadExchangeStreamCaptureMode", m.Addr()))
	runtime.KeepAlive(m)
}

// What a program has chosen for its thread is the same after every call.
// openucx/ucx#9581, gorgonia/cu#14, JuliaGPU/CUDA.jl#1462
func TestThreadIsTheSameAfterEveryCall(t *testing.T) {
	for _, c := range []struct {
		devices int
		driver  bool
	}{{3, false}, {3, true}, {1, true}} {
		for _, host := range []int{-1, 0, 1, 2} { // the device that the host program has chosen
			if host >= c.devices {
				continue
			}
			t.Run(fmt.Sprintf("devices=%d/driver=%v/host=%d", c.devices, c.driver, host), func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				r := open(t, c.devices, c.driver)
				calls := r.calls(t)
				if host >= 0 {
					require.Zero(t, r.ctl.Call("cudaSetDevice", uintptr(host)))
				}
				r.setMode(t, 1)
				r.ctl.Set("last_error", 98) // a refusal that the host program has not looked at
				before := r.state()
				require.Equal(t, int64(1), before.mode)
				require.Equal(t, int64(host), before.context)
				for _, call := range calls {
					require.NoError(t, call.do(), call.methods)
					require.Equal(t, before, r.state(), call.methods)
				}
				e, s := r.event(t), r.stream(t)
				for name, do := range map[string]func() error{
					"EventDestroy":  func() error { return r.dev.EventDestroy(e) },
					"StreamDestroy": func() error { return r.dev.StreamDestroy(s) },
					"Graph.Close":   func() error { return r.graph.Close() },
					"Close":         func() error { return r.dev.Close() },
				} {
					require.NoError(t, do(), name)
					require.Equal(t, before, r.state(), name)
				}
				require.Equal(t, int64(boolInt(host >= 0)), r.ctl.Get("calls_cudaSetDevice"), "the host's own call is the only one")
			})
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Also where the call fails: in the library, or before it.
func TestThreadIsTheSameAfterACallThatFails(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s := r.stream(t)
		e := r.complete(t, s)
		require.Zero(t, r.ctl.Call("cudaSetDevice", 1))
		r.setMode(t, 1)
		before := r.state()
		for function, do := range map[string]func() error{
			"EventCreateWithFlags": func() error { _, err := r.dev.EventCreate(); return err },
			"EventRecord":          func() error { return r.dev.EventRecord(e, s) },
			"EventSynchronize":     func() error { return r.dev.EventWait(r.recorded(t, s)) },
			"EventQuery":           func() error { _, err := r.dev.EventQuery(r.recorded(t, s)); return err },
			"EventElapsedTime":     func() error { e := r.recorded(t, s); _, err := r.dev.EventElapsed(e, e); return err },
			"StreamSynchronize":    func() error { return r.dev.StreamSynchronize(s) },
			"StreamIsCapturing":    func() error { _, err := r.dev.StreamCapturing(s); return err },
			"StreamBeginCapture":   func() error { return r.dev.CaptureBegin(s, events.CaptureGlobal) },
			"EventDestroy":         func() error { return r.dev.EventDestroy(r.event(t)) },
		} {
			restore := r.fail(function, 999)
			require.ErrorContains(t, do(), "(999)", function)
			restore()
			require.Equal(t, before, r.state(), function)
		}
		r.ctl.Set("last_error", 98) // somebody else's, which stays: the call did not get that far
		before.lastError = 98
		for _, function := range []string{"cuCtxSetCurrent", "cuCtxGetCurrent"} {
			r.ctl.Set("fail_"+function, 201)
			_, err := r.dev.EventCreate()
			require.ErrorIs(t, err, events.ErrContextLost)
			_, err = r.dev.RoundBegin()
			require.ErrorIs(t, err, events.ErrContextLost)
			require.ErrorContains(t, err, "(201)")
			r.ctl.Set("fail_"+function, 0)
			require.Equal(t, before, r.state(), function)
		}
		require.NoError(t, r.dev.EventRecord(e, s))
		require.Equal(t, before, r.state())
	})
}

// A context that could not be opened for want of memory is asked for again.
func TestContextThatCouldNotBeOpenedIsTriedAgain(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		r.ctl.Set("fail_cuDevicePrimaryCtxRetain", 2)
		_, err := r.dev.EventCreate()
		require.ErrorContains(t, err, "(2)")
		r.ctl.Set("fail_cuDevicePrimaryCtxRetain", 0)
		together(8, func() {
			if _, err := r.dev.EventCreate(); err != nil {
				t.Error(err)
			}
		})
		require.Equal(t, int64(1), r.ctl.Get("ctx_retained_0"), "retained once for all")
		require.Equal(t, int64(8), r.ctl.Get("live_events"))
	})
}

// openucx/ucx#9581, minio/warp#499, gorgonia/cu#14, JuliaGPU/CUDA.jl#1462,
// AccelerateHS/accelerate#261
func TestCurrentDeviceStaysTheHostsAndOthersStayClosed(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, r *rig) {
		require.Len(t, r.rt.Info().Devices, 3)
		require.Equal(t, 3, r.rt.DeviceCount())
		for i := range 3 {
			require.Zero(t, r.ctl.Get(fmt.Sprintf("ctx_init_%d", i)), "Open and enumeration initialise nothing")
			active, known := r.rt.Initialized(i)
			require.True(t, known)
			require.False(t, active)
		}
		devs := []cuda.Device{r.device(t, 1), r.device(t, 2)} // device 0 is never asked for
		rounds := 200
		if testing.Short() {
			rounds = 50
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				dev := devs[g%2]
				for range rounds {
					if err := window(dev); err != nil {
						t.Errorf("device %d: %v", dev.Ordinal(), err) // an event made on the wrong device is refused with 400
						return
					}
				}
			})
		}
		wg.Wait()
		for range 50 {
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				if got := (r.state()); got != (state{0, -1, 0, 0}) {
					t.Errorf("a thread was left with %+v", got)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int64{0, 1, 1}, []int64{r.ctl.Get("ctx_init_0"), r.ctl.Get("ctx_init_1"), r.ctl.Get("ctx_init_2")})
		require.Zero(t, r.ctl.Get("calls_cudaSetDevice"))
		active, _ := r.rt.Initialized(0)
		require.False(t, active)
		active, _ = r.rt.Initialized(1)
		require.True(t, active)
		r.leavesNothing(t)
	})
}

// window times nothing, with a chance to change threads between any two calls.
func window(dev cuda.Device) error {
	s, err := dev.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	runtime.Gosched()
	e, err := dev.EventCreate()
	if err != nil {
		return err
	}
	for _, call := range []func() error{
		func() error { return dev.EventRecord(e, s) },
		func() error { return dev.EventWait(e) },
		func() error { _, err := dev.EventQuery(e); return err },
		func() error { _, err := dev.EventElapsed(e, e); return err },
		func() error { _, err := dev.StreamCapturing(s); return err },
		func() error { return dev.StreamWaitEvent(s, e) },
		func() error { return dev.StreamSynchronize(s) },
		func() error { return dev.EventDestroy(e) },
		func() error { return dev.StreamDestroy(s) },
	} {
		runtime.Gosched()
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// Each device is itself, by names that stay the same when visibility changes.
func TestDevicesAreTold(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		info := r.rt.Info()
		for i := range 2 {
			dev := r.device(t, i)
			id := dev.Identity()
			require.Equal(t, id, info.Devices[i])
			require.Equal(t, i, id.Ordinal)
			require.Equal(t, i, dev.Ordinal())
			require.Equal(t, fmt.Sprintf("Fake cuda device %d", i), id.Name)
			require.Equal(t, fmt.Sprintf("0000:%02x:00.0", 0x1a+i), id.PCIBusID)
			require.Equal(t, fmt.Sprintf("GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe%02x", i), id.UUID)
			require.Equal(t, fmt.Sprintf("cuda:%d (Fake cuda device %d)", i, i), dev.String())
		}
		require.Equal(t, r.path, info.Library)
		require.Equal(t, map[bool]string{false: "runtime", true: "driver"}[r.driver], info.API)
	})
	t.Run("which the library cannot tell", func(t *testing.T) {
		r := open(t, 1, false)
		for _, function := range []string{"cuDeviceGetName", "cuDeviceGetUuid_v2", "cudaDeviceGetPCIBusId"} {
			r.ctl.Set("fail_"+function, 1)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		r.reopen(t)
		require.Equal(t, events.Identity{Kind: events.KindGPU, Vendor: "NVIDIA"}, r.dev.Identity())
		require.Zero(t, r.ctl.Get("last_error"))
	})
}

// With one device nothing is switched at all, except for what only the driver
// library can do.
func TestOneDeviceIsNotPinned(t *testing.T) {
	r := open(t, 1, false)
	for range 4 {
		require.NoError(t, window(r.dev))
	}
	switches := func() int64 {
		return r.ctl.Get("calls_cuCtxSetCurrent") + r.ctl.Get("calls_cuCtxGetCurrent") + r.ctl.Get("calls_SetDevice") + r.ctl.Get("calls_cuDevicePrimaryCtxRetain")
	}
	require.Zero(t, switches())
	buffer, err := r.dev.ScratchAlloc(64)
	require.NoError(t, err)
	require.NoError(t, r.dev.ScratchFree(buffer))
	require.NotZero(t, switches())
	require.Zero(t, r.ctl.Get("calls_SetDevice"))
	before := switches()
	require.NoError(t, window(r.dev))
	require.Equal(t, before, switches())
	require.Equal(t, int64(1), r.ctl.Get("ctx_init_0"))
	r.leavesNothing(t)
}

// A goroutine that waits holds its thread with it, and nobody else meets there what
// the wait has set.
func TestBlockedWaitKeepsItsThreadToItself(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		one := r.device(t, 1)
		s, err := one.StreamCreateNonBlocking()
		require.NoError(t, err)
		e, err := one.EventCreate()
		require.NoError(t, err)
		require.NoError(t, one.EventRecord(e, s))
		release := r.block(t, "EventSynchronize")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := one.EventWait(e); err != nil {
					t.Error(err)
				}
			})
		}
		r.blocked(t, "EventSynchronize", 8)
		together(50, func() {
			if got := r.state(); got != (state{0, -1, 0, 0}) {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Millisecond)
		})
		release()
		wg.Wait()
	})
}

// microsoft/onnxruntime#8358, pytorch/pytorch#61554, pytorch/pytorch#18584, NVIDIA/thrust#1020
func TestLastErrorOfTheThreadIsLeftAsItWas(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		dev, ctl := r.dev, r.ctl
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s, held := r.stream(t), r.stream(t)
		e := r.complete(t, s)
		ctl.Hold(held.Handle())
		pending := r.recorded(t, held)
		last := func() int32 { return ctl.Call("cudaPeekAtLastError") }

		// Not ready is no error.
		for range 3 {
			done, err := dev.EventQuery(pending)
			require.NoError(t, err)
			require.False(t, done)
			_, err = dev.EventElapsed(e, pending)
			require.ErrorIs(t, err, events.ErrNotReady)
		}
		require.Zero(t, last())

		// Our own refusals are taken back.
		buffer, err := dev.ScratchAlloc(64)
		require.NoError(t, err)
		for function, do := range map[string]func() error{
			"EventRecord":          func() error { return dev.EventRecord(r.event(t), s) },
			"EventRecordWithFlags": func() error { return dev.EventRecordExternal(r.event(t), s) },
			"EventQuery":           func() error { _, err := dev.EventQuery(e); return err },
			"EventSynchronize":     func() error { return dev.EventWait(e) },
			"EventElapsedTime":     func() error { _, err := dev.EventElapsed(e, e); return err },
			"EventCreateWithFlags": func() error { _, err := dev.EventCreate(); return err },
			"EventDestroy":         func() error { return dev.EventDestroy(r.event(t)) },
			"StreamCreateWithFlags": func() error {
				_, err := dev.StreamCreateNonBlocking()
				return err
			},
			"StreamSynchronize":  func() error { return dev.StreamSynchronize(s) },
			"StreamWaitEvent":    func() error { return dev.StreamWaitEvent(s, e) },
			"StreamIsCapturing":  func() error { _, err := dev.StreamCapturing(s); return err },
			"StreamBeginCapture": func() error { return dev.CaptureBegin(s, events.CaptureGlobal) },
			"StreamEndCapture":   func() error { _, err := dev.CaptureEnd(s); return err },
		} {
			for _, code := range []int32{400, 1, 999, 46} {
				restore := r.fail(function, code)
				require.ErrorContains(t, do(), fmt.Sprintf("(%d)", code), function)
				restore()
				require.Zero(t, last(), "%s, code %d", function, code)
			}
		}
		round, err := dev.RoundBegin()
		require.NoError(t, err)
		restore := r.fail("EventQuery", 400)
		_, err = dev.RoundQuery(round, e)
		restore()
		require.ErrorIs(t, err, events.ErrInvalid)
		require.NoError(t, dev.RoundEnd(round))
		require.Zero(t, last())

		// Somebody else's error is not ours to take, not even under a number that we
		// are given too: the driver library's functions keep no last error.
		ctl.Set("fail_cudaDeviceSynchronize", 2)
		require.Equal(t, int32(2), ctl.Call("cudaDeviceSynchronize"))
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventWait(e))
		require.ErrorIs(t, dev.EventRecord(cuda.Event{}, s), events.ErrInvalid)
		for _, c := range []struct {
			function string
			do       func() error
		}{
			{"cuMemAlloc_v2", func() error { _, err := dev.ScratchAlloc(64); return err }},
			{"cuMemsetD8Async", func() error { return dev.ScratchMemset(buffer, 0, 64, s) }},
			{"cuMemHostAlloc", func() error { _, err := dev.ScratchSpin(1, s); return err }},
			{"cuStreamWaitValue32_v2", func() error { _, err := dev.GateClose(s, time.Second); return err }},
		} {
			ctl.Set("fail_"+c.function, 2)
			require.ErrorContains(t, c.do(), c.function)
			ctl.Set("fail_"+c.function, 0)
			require.Equal(t, int32(2), last(), c.function)
		}
		require.Equal(t, int32(2), ctl.Call("cudaGetLastError"))
		require.Zero(t, ctl.Release(held.Handle()))
	})
}

// A refusal on one thread does not clear the same number on another.
func TestLastErrorOfAnotherThreadIsLeftAlone(t *testing.T) {
	r := open(t, 1, false)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, e := r.stream(t), r.event(t)
	r.ctl.Set("last_error", 400)
	defer r.fail("EventRecord", 400)()
	together(8, func() {
		if err := r.dev.EventRecord(e, s); err == nil {
			t.Error("the record should have failed")
		}
	})
	require.Equal(t, int32(400), r.ctl.Call("cudaPeekAtLastError"))
	require.NotZero(t, r.ctl.Get("calls_cudaGetLastError"))
}

// lattice/quda#693, NVIDIA/TensorRT#1469, NVIDIA/cudf#22130
func TestStickyFaultIsToldOnceAndNotAskedForAgain(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for _, code := range []int64{700, 719, 710} {
			r := open(t, 2, r.driver)
			s, e := r.stream(t), r.event(t)
			calls := r.calls(t)
			gate, err := r.dev.GateClose(s, time.Minute)
			require.NoError(t, err)
			round, err := r.dev.RoundBegin()
			require.NoError(t, err)
			require.NoError(t, r.dev.EventRecord(e, s))
			r.ctl.Set("sticky_code", code)
			cleared := r.ctl.Get("calls_cudaGetLastError")
			first := r.dev.EventWait(e)
			require.ErrorIs(t, first, events.ErrDeviceFault)
			require.ErrorContains(t, first, fmt.Sprintf("(%d)", code))
			require.ErrorContains(t, first, "earlier work")
			require.ErrorContains(t, first, r.fn("EventSynchronize"))
			require.Equal(t, cleared, r.ctl.Get("calls_cudaGetLastError"), "a sticky error is not taken back")
			require.Equal(t, int32(code), r.ctl.Call("cudaPeekAtLastError"))

			r.quiet(t, func() {
				for _, call := range calls {
					err := call.do()
					require.ErrorIs(t, err, events.ErrDeviceFault, call.methods)
					require.ErrorContains(t, err, r.fn("EventSynchronize"), "%s tells of the first", call.methods)
				}
				_, err := r.dev.RoundQuery(round, e)
				require.ErrorIs(t, err, events.ErrDeviceFault)
				require.NoError(t, r.dev.EventDestroy(e))
				require.NoError(t, r.dev.EventDestroy(e))
				require.NoError(t, r.dev.StreamDestroy(s))
				require.Equal(t, uint64(2), r.dev.EventStats().AbandonedAtEnd)
				require.NoError(t, r.graph.Close())
				require.Equal(t, uint64(4), r.dev.EventStats().AbandonedAtEnd, "a graph is two handles")
				require.ErrorIs(t, r.dev.Close(), events.ErrInvalid, "the gate is closed")
				require.NoError(t, gate.Open())
				require.NoError(t, r.dev.Close())
				require.NoError(t, r.dev.Close())
				require.Equal(t, uint64(5), r.dev.EventStats().AbandonedAtEnd)
			})
			require.NoError(t, r.dev.RoundEnd(round))
			require.Zero(t, r.ctl.Get("capture_mode"))
		}
	})
}

// A fault is one device's, and so is the refusal to go on.
func TestFaultOfOneDeviceLeavesTheOtherAtWork(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		s := r.stream(t)
		e := r.recorded(t, s)
		restore := r.fail("EventSynchronize", 700)
		require.ErrorIs(t, r.dev.EventWait(e), events.ErrDeviceFault)
		restore()
		require.ErrorIs(t, r.dev.EventRecord(e, s), events.ErrDeviceFault)
		require.ErrorIs(t, r.dev.EventWait(e), events.ErrDeviceFault, "the record that was refused does not hide why")
		require.NoError(t, window(r.device(t, 1)))
	})
}

// A reset of the device is not a fault of it: what is made anew may work.
func TestLostContextIsToldEachTime(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, e := r.stream(t), r.event(t)
		require.NoError(t, r.dev.EventRecord(e, s))
		for _, code := range []int32{46, 709} {
			r.ctl.Set("sticky_code", int64(code))
			for range 2 {
				before := r.ctl.Get("calls_total")
				err := r.dev.EventWait(e)
				require.ErrorIs(t, err, events.ErrContextLost)
				require.NotErrorIs(t, err, events.ErrDeviceFault)
				require.ErrorContains(t, err, fmt.Sprintf("(%d)", code))
				require.ErrorContains(t, err, "reset")
				require.Greater(t, r.ctl.Get("calls_total"), before)
			}
			_, err := r.dev.EventCreate()
			require.ErrorIs(t, err, events.ErrContextLost)
		}
		r.ctl.Set("sticky_code", 0)
		require.NoError(t, window(r.dev))
		require.NoError(t, r.dev.EventDestroy(e))
		require.NoError(t, r.dev.StreamDestroy(s))
		require.Zero(t, r.dev.EventStats().AbandonedAtEnd)
		r.leavesNothing(t)
	})
}
