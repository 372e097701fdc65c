package cuda_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// fake opens the backend on an imitation of the runtime. Its name is not the real
// one's, so that nothing else of this process takes it for it.
func fake(t testing.TB, opts ...fakert.Option) (*cuda.Runtime, cuda.Device, *fakert.Runtime) {
	t.Helper()
	path := fakert.Build(t, append([]fakert.Option{fakert.Name("fake-cudart.so")}, opts...)...)
	ctl := fakert.Control(t, path)
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	return rt, dev, ctl
}

func pair(t testing.TB, dev cuda.Device) (cuda.Stream, cuda.Event) {
	t.Helper()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	e, err := dev.EventCreate()
	require.NoError(t, err)
	return s, e
}

func unavailable(t testing.TB, err error) *events.UnavailableError {
	t.Helper()
	require.ErrorIs(t, err, events.ErrUnavailable)
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	return u
}

// chelsea0x3b/cudarc#422, chelsea0x3b/cudarc#464, NVIDIA/go-nvlib#87
func TestMissingRequiredSymbolsAreAllNamed(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-cudart.so"), fakert.Omit("cudaEventElapsedTime", "cudaStreamWaitEvent"))
	_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriverAPI(false))
	u := unavailable(t, err)
	require.Equal(t, events.CauseSymbolMissing, u.Cause)
	for _, want := range []string{"cudaEventElapsedTime", "cudaStreamWaitEvent", path, "13.0"} {
		require.ErrorContains(t, err, want)
	}
}

// chelsea0x3b/cudarc#490, chelsea0x3b/cudarc#512, pegainfer-project/pegainfer#263
func TestMissingOptionalSymbolSwitchesOffItsAbilityAlone(t *testing.T) {
	_, dev, _ := fake(t, fakert.Omit("cudaStreamIsCapturing", "cudaEventRecordWithFlags", "cuStreamWaitValue32_v2"))
	var api events.EventApi[cuda.Event, cuda.Stream] = dev
	_, asks := events.Ability[events.CaptureAsker[cuda.Stream]](api)
	_, graphs := events.Ability[events.Graphs[cuda.Event, cuda.Stream]](api)
	_, gates := events.Ability[events.Gate[cuda.Stream]](api)
	_, queries := events.Ability[events.Querier[cuda.Event]](api)
	require.Equal(t, []bool{false, false, false, true}, []bool{asks, graphs, gates, queries})
	s, e := pair(t, dev)
	_, err := dev.StreamCapturing(s)
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorContains(t, err, "cudaStreamIsCapturing")
	require.ErrorContains(t, err, dev.Library())
	require.ErrorContains(t, err, "13.0")
	require.ErrorIs(t, dev.CaptureBegin(s, events.CaptureRelaxed), events.ErrUnsupported)
	require.NoError(t, dev.EventRecord(e, s))
}

// CUDA gave elapsed a second version. Both are there here, and answer differently.
// ROCm/HIPIFY#2071, openxla/xla#30427
func TestElapsedIsThePlainFunction(t *testing.T) {
	_, dev, _ := fake(t, fakert.ElapsedV2())
	s, a := pair(t, dev)
	_, b := pair(t, dev)
	require.NoError(t, dev.EventRecord(a, s))
	require.NoError(t, dev.EventRecord(b, s))
	require.NoError(t, dev.EventWait(b))
	span, err := dev.EventElapsed(a, b)
	require.NoError(t, err)
	require.Less(t, span, time.Second, "the second version answers 7 s more")
}

// NVIDIA/go-nvml#82, NVIDIA/go-nvml#99, NVIDIA/go-nvml#47
func TestErrorsHaveNameAndNumberWithoutTheLibrary(t *testing.T) {
	_, dev, ctl := fake(t)
	ctl.Set("null_error_strings", 1)
	for code, want := range map[int64]string{
		400:  "cudaEventRecord: cudaErrorInvalidResourceHandle (400)",
		2:    "cudaEventRecord: cudaErrorMemoryAllocation (2)",
		4711: "cudaEventRecord: unknown code (4711)",
	} {
		s, e := pair(t, dev)
		ctl.Set("fail_EventRecord", code)
		err := dev.EventRecord(e, s)
		ctl.Set("fail_EventRecord", 0)
		require.ErrorContains(t, err, want)
		var driver *events.DriverError
		require.ErrorAs(t, err, &driver)
		require.Equal(t, int32(code), driver.Code)
	}
}

// A backend that was never opened answers every call with an error.
// sustainable-computing-io/kepler#1075
func TestZeroDeviceAnswersEveryMethod(t *testing.T) {
	v := reflect.ValueOf(cuda.Device{})
	for i := range v.NumMethod() {
		method := v.Type().Method(i)
		t.Run(method.Name, func(t *testing.T) {
			var args []reflect.Value
			for j := range method.Type.NumIn() - 1 {
				args = append(args, reflect.Zero(method.Type.In(j+1)))
			}
			for _, out := range v.Method(i).Call(args) {
				if err, ok := out.Interface().(error); ok && method.Name != "Close" {
					require.True(t, errors.Is(err, events.ErrUnavailable) || errors.Is(err, events.ErrInvalid), "%v", err)
				}
			}
		})
	}
}

// JuliaGPU/AMDGPU.jl#721, CauldronDevelopmentLLC/cbang#181
func TestBadOverridesAreNamed(t *testing.T) {
	for name, value := range map[string]string{"blank": " ", "folder": t.TempDir(), "missing": "/no/such/libcudart.so.13"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DEVEVENTS_CUDART", value)
			_, err := cuda.Open(cuda.WithDriverAPI(false))
			u := unavailable(t, err)
			require.Equal(t, events.CauseBadOverride, u.Cause)
			require.ErrorContains(t, err, "DEVEVENTS_CUDART")
			require.ErrorContains(t, err, value)
		})
	}
	t.Run("empty is unset", func(t *testing.T) {
		path := fakert.Build(t, fakert.Name("fake-cudart.so"))
		t.Setenv("DEVEVENTS_CUDART", "")
		_, err := cuda.Open(cuda.WithLibrary(path))
		require.NoError(t, err)
	})
}

// NVIDIA/warp#219, numba/numba#9732, ollama/ollama#3417, celeritas-project/celeritas#2226
func TestEachReasonForNoDeviceIsToldApart(t *testing.T) {
	for code, cause := range map[int64]events.Cause{
		34:  events.CauseStubDriver,
		35:  events.CauseDriverMissing,
		100: events.CauseNoDevice,
		3:   events.CauseSystemNotReady,
		802: events.CauseSystemNotReady,
		999: events.CauseDriverError,
	} {
		path := fakert.Build(t, fakert.Name("fake-cudart.so"))
		fakert.Control(t, path).Set("count_code", code)
		_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
		u := unavailable(t, err)
		require.Equal(t, cause, u.Cause, "code %d", code)
		require.Equal(t, int32(code), u.Code)
		require.NotEmpty(t, u.CodeName)
		require.NotEmpty(t, u.Advice)
	}
	path := fakert.Build(t, fakert.Name("fake-cudart.so"))
	fakert.Control(t, path).Set("device_count", 0)
	_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.Equal(t, events.CauseNoDevice, unavailable(t, err).Cause)
}

// cpc/hipcl#5, gfx-rs/wgpu#9414, pytorch/pytorch#14287, triton-lang/triton#10700
func TestReadingsThatAreNoDurationsAreRefused(t *testing.T) {
	_, dev, ctl := fake(t)
	s, a := pair(t, dev)
	_, b := pair(t, dev)
	require.NoError(t, dev.EventRecord(a, s))
	require.NoError(t, dev.EventRecord(b, s))
	require.NoError(t, dev.EventWait(b))
	for _, ms := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30} {
		ctl.SetFloat("elapsed_bits", ms)
		_, err := dev.EventElapsed(a, b)
		require.ErrorIs(t, err, events.ErrBadReading, "%v", ms)
		require.ErrorContains(t, err, "ms")
	}
	ctl.SetFloat("elapsed_bits", 0.0005)
	span, err := dev.EventElapsed(a, b)
	require.NoError(t, err)
	require.Equal(t, 500*time.Nanosecond, span)
	ctl.SetFloat("elapsed_bits", -1.78)
	span, err = dev.EventElapsed(a, b)
	require.NoError(t, err)
	require.Zero(t, span)
	require.Equal(t, uint64(1), dev.EventStats().Clamped)
	ctl.Set("elapsed_bits", -1)
	ctl.Set("elapsed_untouched", 1)
	_, err = dev.EventElapsed(a, b)
	require.ErrorIs(t, err, events.ErrBadReading, "success that wrote nothing")
}

// NVIDIA/cuda-python#556, pytorch/pytorch#85796, cupy/cupy#5678, pytorch/pytorch#151404
func TestElapsedTellsThreeMistakesApart(t *testing.T) {
	_, dev, ctl := fake(t)
	s, _ := pair(t, dev)
	held, _ := pair(t, dev)
	states := map[string]func() cuda.Event{
		"fresh": func() cuda.Event { _, e := pair(t, dev); return e },
		"complete": func() cuda.Event {
			_, e := pair(t, dev)
			require.NoError(t, dev.EventRecord(e, s))
			require.NoError(t, dev.EventWait(e))
			return e
		},
		"pending": func() cuda.Event { _, e := pair(t, dev); require.NoError(t, dev.EventRecord(e, held)); return e },
		"untimed": func() cuda.Event {
			e, err := dev.EventCreateUntimed(true)
			require.NoError(t, err)
			require.NoError(t, dev.EventRecord(e, s))
			require.NoError(t, dev.EventWait(e))
			return e
		},
	}
	ctl.Hold(held.Handle())
	defer ctl.Release(held.Handle())
	for startName, start := range states {
		for endName, end := range states {
			_, err := dev.EventElapsed(start(), end())
			want, number := error(nil), ""
			side := func(state string) string {
				switch {
				case startName == state && endName == state:
					return "start and end event"
				case startName == state:
					return "start event"
				}
				return "end event"
			}
			text := ""
			switch {
			case startName == "untimed" || endName == "untimed":
				want, number, text = events.ErrTimingDisabled, "(400)", side("untimed")
			case startName == "fresh" || endName == "fresh":
				want, number, text = events.ErrNotRecorded, "(400)", side("fresh")
			case startName == "pending" || endName == "pending":
				want, number, text = events.ErrNotReady, "(600)", side("pending")
			}
			if want == nil {
				require.NoError(t, err)
				continue
			}
			for _, kind := range []error{events.ErrTimingDisabled, events.ErrNotRecorded, events.ErrNotReady} {
				require.Equal(t, errors.Is(want, kind), errors.Is(err, kind), "%s to %s: %v", startName, endName, err)
			}
			require.ErrorContains(t, err, number)
			require.ErrorContains(t, err, text)
		}
	}
}

// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226
func TestNeverRecordedIsRefusedWithoutAskingTheDriver(t *testing.T) {
	_, dev, ctl := fake(t)
	s, e := pair(t, dev)
	names := []string{"calls_cudaEventQuery", "calls_cudaEventSynchronize", "calls_cudaStreamWaitEvent"}
	ask := func() {
		_, err := dev.EventQuery(e)
		require.ErrorIs(t, err, events.ErrNotRecorded)
		require.ErrorIs(t, dev.EventWait(e), events.ErrNotRecorded)
		require.ErrorIs(t, dev.StreamWaitEvent(s, e), events.ErrNotRecorded)
	}
	ask()
	require.NoError(t, dev.EventRecord(e, s))
	require.NoError(t, dev.EventWait(e))
	ctl.Set("fail_EventRecord", 400)
	require.Error(t, dev.EventRecord(e, s))
	before := []int64{ctl.Get(names[0]), ctl.Get(names[1]), ctl.Get(names[2])}
	ask() // the last record failed
	for i, name := range names {
		require.Equal(t, before[i], ctl.Get(name), name)
	}
}

// taskflow/taskflow#546, harrism/cuda_event_benchmark#2, lupinemachines/lupine#526, PaddlePaddle/Paddle#34285
func TestNoStaleHandleReachesTheLibraryHowever(t *testing.T) {
	_, dev, ctl := fake(t) // which aborts the process on a handle that it does not know
	ctl.Set("reuse_handles", 1)
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	other, _ := pair(t, dev)
	for range rounds {
		s, e := pair(t, dev)
		_, end := pair(t, dev)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventRecord(end, s))
		var wg sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := dev.EventQuery(e); return err },
			func() error { return dev.EventRecord(e, other) },
			func() error { return dev.EventWait(e) },
			func() error { _, err := dev.EventElapsed(e, end); return err },
			func() error { return dev.StreamWaitEvent(other, e) },
			func() error { return dev.EventRecord(end, s) },
			func() error { return dev.StreamSynchronize(s) },
			func() error { return dev.EventDestroy(e) },
			func() error { return dev.EventDestroy(e) },
			func() error { return dev.StreamDestroy(s) },
		} {
			for range 4 {
				wg.Go(func() { _ = call() })
			}
		}
		wg.Wait()
		require.ErrorIs(t, dev.EventRecord(e, other), events.ErrDestroyed)
		require.NoError(t, dev.EventDestroy(end))
	}
	require.Zero(t, ctl.Get("bad_handles"))
	require.Equal(t, ctl.Get("live_events"), dev.EventStats().LiveEvents)
}

// A destroy while a wait is in the driver is left to the wait.
func TestDestroyDuringAWaitIsDoneByTheWait(t *testing.T) {
	_, dev, ctl := fake(t)
	s, e := pair(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	ctl.Set("block_cudaEventSynchronize", 1)
	done := make(chan error, 1)
	go func() { done <- dev.EventWait(e) }()
	require.Eventually(t, func() bool { return ctl.Get("blocked_cudaEventSynchronize") == 1 }, 10*time.Second, time.Millisecond)
	live := ctl.Get("live_events")
	require.NoError(t, dev.EventDestroy(e))
	require.Equal(t, live, ctl.Get("live_events"), "the wait still uses it")
	ctl.Set("block_cudaEventSynchronize", 0)
	require.NoError(t, <-done)
	require.Equal(t, live-1, ctl.Get("live_events"))
	require.ErrorIs(t, dev.EventWait(e), events.ErrDestroyed)
}

// microsoft/onnxruntime#8358, pytorch/pytorch#61554, pytorch/pytorch#18584, NVIDIA/thrust#1020
func TestLastErrorOfTheThreadIsLeftAsItWas(t *testing.T) {
	_, dev, ctl := fake(t)
	s, e := pair(t, dev)
	held, pending := pair(t, dev)
	ctl.Hold(held.Handle())
	require.NoError(t, dev.EventRecord(pending, held))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	last := func() int32 { return ctl.Call("cudaPeekAtLastError") }

	done, err := dev.EventQuery(pending)
	require.NoError(t, err)
	require.False(t, done)
	require.Zero(t, last(), "not ready is no error")

	ctl.Set("fail_cudaEventRecord", 400)
	require.Error(t, dev.EventRecord(e, s))
	ctl.Set("fail_cudaEventRecord", 0)
	require.Zero(t, last(), "our own refusal is taken back")

	// Somebody else's error is not ours to take.
	ctl.Set("fail_cudaDeviceSynchronize", 2)
	require.Equal(t, int32(2), ctl.Call("cudaDeviceSynchronize"))
	require.NoError(t, dev.EventRecord(e, s))
	require.Equal(t, int32(2), last())
	ctl.Call("cudaGetLastError")
	require.Equal(t, int32(0), ctl.Release(held.Handle()))
}

// lattice/quda#693, NVIDIA/TensorRT#1469, NVIDIA/cudf#22130
func TestStickyFaultIsToldOnceAndNotAskedForAgain(t *testing.T) {
	_, dev, ctl := fake(t)
	s, e := pair(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	ctl.Set("sticky_code", 700)
	err := dev.EventWait(e)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "(700)")
	require.ErrorContains(t, err, "earlier work")
	before := ctl.Get("calls_total")
	require.ErrorIs(t, dev.EventRecord(e, s), events.ErrDeviceFault)
	_, err = dev.EventQuery(e)
	require.Error(t, err)
	_, err = dev.EventCreate()
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	require.Equal(t, before, ctl.Get("calls_total"), "later calls fail without the library")
	require.Equal(t, uint64(2), dev.EventStats().AbandonedAtEnd)
}

// openucx/ucx#9581, minio/warp#499, gorgonia/cu#14, JuliaGPU/CUDA.jl#1462
func TestCurrentDeviceStaysTheHostsAndOthersStayClosed(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-cudart.so"))
	ctl := fakert.Control(t, path)
	ctl.Set("device_count", 3)
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(t, err)
	require.Len(t, rt.Info().Devices, 3)
	for _, key := range []string{"ctx_init_0", "ctx_init_1", "ctx_init_2"} {
		require.Zero(t, ctl.Get(key), "Open and enumeration initialise nothing")
	}
	devs := make([]cuda.Device, 2)
	for i := range devs {
		devs[i], err = rt.Device(i + 1) // device 0 is never asked for
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			dev := devs[g%2]
			for range 200 {
				s, err := dev.StreamCreateNonBlocking()
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				e, err := dev.EventCreate()
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				for _, err := range []error{
					dev.EventRecord(e, s), dev.EventWait(e), dev.StreamSynchronize(s), dev.EventDestroy(e), dev.StreamDestroy(s),
				} {
					if err != nil {
						t.Error(err) // an event made on the wrong device is refused with 400
					}
				}
			}
		})
	}
	wg.Wait()
	for range 50 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if got := ctl.Get("current_context"); got != -1 {
				t.Errorf("a thread was left with the context of device %d", got)
			}
			if got := ctl.Get("current_device"); got != 0 {
				t.Errorf("a thread was left with device %d", got)
			}
		})
	}
	wg.Wait()
	require.Zero(t, ctl.Get("ctx_init_0"), "device 0 was never asked for")
	require.Zero(t, ctl.Get("calls_cudaSetDevice"))
}

// With one device nothing is switched at all.
func TestOneDeviceIsNotPinned(t *testing.T) {
	_, dev, ctl := fake(t)
	s, e := pair(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	require.NoError(t, dev.EventWait(e))
	_, err := dev.EventQuery(e)
	require.NoError(t, err)
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	require.Zero(t, ctl.Get("calls_cuCtxSetCurrent")+ctl.Get("calls_cuCtxGetCurrent")+ctl.Get("calls_cudaSetDevice"))
}

// pytorch/pytorch#104487, pytorch/pytorch#148594, pytorch/pytorch#176251, ROCm/hip#3876
func TestGlobalCaptureSurvivesOurCallsAndNotPlainOnes(t *testing.T) {
	_, dev, ctl := fake(t)
	capturing, _ := pair(t, dev)
	other, e := pair(t, dev)
	require.NoError(t, dev.EventRecord(e, other))
	for _, plain := range []bool{false, true} {
		func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			require.NoError(t, dev.CaptureBegin(capturing, events.CaptureGlobal))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					mode := ctl.Get("capture_mode")
					for _, call := range []func() error{
						func() error { _, err := dev.EventQuery(e); return err },
						func() error { return dev.EventWait(e) },
						func() error { return dev.StreamSynchronize(other) },
						func() error { return dev.EventRecord(e, other) },
					} {
						if err := call(); err != nil {
							t.Error(err)
						}
					}
					if ctl.Get("capture_mode") != mode {
						t.Error("the thread's capture mode was not restored")
					}
				})
			}
			wg.Wait()
			if plain { // the imitation shows what is avoided
				wg.Go(func() { ctl.Call("cudaEventQuery", e.Handle()) })
				wg.Wait()
			}
			graph, err := dev.CaptureEnd(capturing)
			if plain {
				require.ErrorIs(t, err, events.ErrCapturing)
				return
			}
			require.NoError(t, err)
			require.NoError(t, graph.Close())
		}()
	}
}

// rapidsai/rmm#1306, NVIDIA/cuCascade#189, pytorch/pytorch#52611
func TestHandlesOfOtherDevicesAndOpeningsAreRefused(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-cudart.so"))
	fakert.Control(t, path).Set("device_count", 2)
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(t, err)
	zero, err := rt.Device(0)
	require.NoError(t, err)
	one, err := rt.Device(1)
	require.NoError(t, err)
	_, foreign, _ := fake(t)
	s0, e0 := pair(t, zero)
	s1, e1 := pair(t, one)
	_, ef := pair(t, foreign)

	err = zero.EventRecord(e1, s0)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.Regexp(t, `device 1.*device 0`, err.Error())
	require.ErrorIs(t, one.EventRecord(e1, s0), events.ErrDeviceMismatch)
	require.ErrorIs(t, zero.EventRecord(ef, s0), events.ErrDeviceMismatch)
	require.NoError(t, zero.EventRecord(e0, s0))
	require.NoError(t, one.EventRecord(e1, s1))
	require.NoError(t, zero.EventWait(e0))
	require.NoError(t, one.EventWait(e1))
	_, err = zero.EventElapsed(e0, e1)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.NoError(t, one.StreamWaitEvent(s1, e0), "waiting for another device's event is legal")
	require.ErrorIs(t, one.StreamWaitEvent(s1, ef), events.ErrDeviceMismatch)
}

// A C int fills half a register; what is above it is garbage. ebitengine/purego#176
func TestGarbageAboveAReturnedCodeIsIgnored(t *testing.T) {
	_, dev, ctl := fake(t)
	ctl.Set("dirty_upper", 1)
	s, e := pair(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	require.NoError(t, dev.EventWait(e))
	done, err := dev.EventQuery(e)
	require.NoError(t, err)
	require.True(t, done)
	_, fresh := pair(t, dev)
	_, err = dev.EventElapsed(fresh, e)
	require.ErrorContains(t, err, "(400)")
}

// ebitengine/purego#451, ebitengine/purego#453
func TestReturnedPointersDoNotCross(t *testing.T) {
	_, _, ctl := fake(t)
	length := 2 * time.Second
	if testing.Short() {
		length = 200 * time.Millisecond
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := uintptr(0); time.Now().Before(end); i++ {
				want := uintptr(g+1)<<32 | i
				if got := ctl.Echo(want); got != want {
					t.Errorf("sent %x and got %x", want, got)
					return
				}
			}
		})
	}
	wg.Wait()
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Skip("the tests run away from the module, which a compiled test does: ", err)
	}
	v := regexp.MustCompile(`ebitengine/purego v0\.(\d+)\.(\d+)`).FindSubmatch(mod)
	require.NotNil(t, v)
	require.GreaterOrEqual(t, string(v[1])+"."+string(v[2]), "10.2", "older ones cross them")
}

// golang/go#49057: every call blocked in C is an OS thread, and all of them end.
func TestManyBlockedWaitsAllReturn(t *testing.T) {
	_, dev, ctl := fake(t)
	s, _ := pair(t, dev)
	n := 500
	if testing.Short() {
		n = 50
	}
	ctl.Set("slow_us_cudaEventSynchronize", 20_000)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			e, err := dev.EventCreate()
			if err == nil {
				err = dev.EventRecord(e, s)
			}
			if err == nil {
				err = dev.EventWait(e)
			}
			if err == nil {
				err = dev.EventDestroy(e)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, ctl.Get("live_events"), dev.EventStats().LiveEvents)
}

// NVIDIA/cudnn-frontend#211, ROCm/rocm-systems#1872
func TestTheDriverDecidesBetweenTwoMajors(t *testing.T) {
	if !alone(t) { // a real runtime that is mapped already would be taken
		return
	}
	dir := t.TempDir()
	newer := fakert.Build(t, fakert.Name("libcudart.so.13"))
	older := fakert.Build(t, fakert.Name("libcudart.so.12"))
	for _, path := range []string{newer, older} {
		require.NoError(t, os.Link(path, filepath.Join(dir, filepath.Base(path))))
	}
	driver := fakert.Build(t, fakert.Name("fake-libcuda.so"), fakert.DriverOnly())
	fakert.Control(t, driver).Set("driver_version", 12040)
	t.Setenv("LD_LIBRARY_PATH", dir)
	rt, err := cuda.Open(cuda.WithDriver(driver))
	require.NoError(t, err)
	require.Equal(t, "libcudart.so.12", filepath.Base(rt.Info().Library))
	require.Equal(t, "12.4", rt.Info().DriverVersionText)
}
