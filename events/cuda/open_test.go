package cuda_test

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/alone"
)

// chelsea0x3b/cudarc#422, chelsea0x3b/cudarc#464, NVIDIA/go-nvlib#87
func TestMissingRequiredSymbolsAreAllNamed(t *testing.T) {
	path, ctl := build(t, fakert.Omit("cudaEventElapsedTime", "cudaStreamWaitEvent", "cuEventQuery", "cuStreamCreate"))
	ctl.Set("runtime_version", 12060)
	ctl.Set("driver_version", 12080)
	for _, c := range []struct {
		driver  bool
		version int
		missing []string
	}{
		{false, 12060, []string{"cudaEventElapsedTime", "cudaStreamWaitEvent", "12.6"}},
		{true, 12080, []string{"cuEventQuery", "cuStreamCreate", "12.8"}},
	} {
		_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(c.driver))
		u := unavailable(t, err)
		require.Equal(t, events.CauseSymbolMissing, u.Cause)
		require.Equal(t, path, u.Path)
		require.Equal(t, c.version, u.Version)
		for _, want := range append(c.missing, path) {
			require.ErrorContains(t, err, want)
		}
		require.NotContains(t, u.Detail, "EventRecord", "what is there is not named")
	}
}

// chelsea0x3b/cudarc#490, chelsea0x3b/cudarc#512, pegainfer-project/pegainfer#263
func TestMissingOptionalSymbolSwitchesOffItsAbilityAlone(t *testing.T) {
	r := open(t, 1, false, fakert.Omit("cudaStreamIsCapturing", "cudaEventRecordWithFlags", "cuStreamWaitValue32_v2"))
	dev := r.dev
	var api events.EventApi[cuda.Event, cuda.Stream] = dev
	_, asks := events.Ability[events.CaptureAsker[cuda.Stream]](api)
	_, graphs := events.Ability[events.Graphs[cuda.Event, cuda.Stream]](api)
	_, gates := events.Ability[events.Gate[cuda.Stream]](api)
	_, queries := events.Ability[events.Querier[cuda.Event]](api)
	_, works := events.Ability[events.Scratch[cuda.Stream]](api)
	require.Equal(t, []bool{false, false, false, true, true}, []bool{asks, graphs, gates, queries, works})
	s, e := r.stream(t), r.event(t)
	r.quiet(t, func() {
		for missing, refused := range map[string]func() error{
			"cudaStreamIsCapturing":    func() error { _, err := dev.StreamCapturing(s); return err },
			"cudaEventRecordWithFlags": func() error { return dev.EventRecordExternal(e, s) },
			"cuStreamWaitValue32_v2":   func() error { _, err := dev.GateClose(s, 1); return err },
			"cudaStreamBeginCapture":   func() error { return dev.CaptureBegin(s, events.CaptureRelaxed) }, // of no use without the others
			"cudaStreamEndCapture":     func() error { _, err := dev.CaptureEnd(s); return err },
		} {
			err := refused()
			require.ErrorIs(t, err, events.ErrUnsupported)
			for _, want := range []string{missing, dev.Library(), "13.0"} {
				require.ErrorContains(t, err, want)
			}
		}
	})
	require.NoError(t, dev.EventRecord(e, s))
	require.NoError(t, dev.EventWait(e))
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	r.leavesNothing(t)
}

// A backend that was never opened answers every call with an error, whatever it is
// given. sustainable-computing-io/kepler#1075
func TestZeroDeviceAnswersEveryMethod(t *testing.T) {
	failure := reflect.TypeFor[error]()
	answers := func(t *testing.T, arguments map[reflect.Type]reflect.Value) {
		v := reflect.ValueOf(cuda.Device{})
		for i := range v.NumMethod() {
			method := v.Type().Method(i)
			var args []reflect.Value
			for j := range method.Type.NumIn() - 1 {
				in := method.Type.In(j + 1)
				arg, ok := arguments[in]
				if !ok {
					arg = reflect.Zero(in)
				}
				args = append(args, arg)
			}
			for _, out := range v.Method(i).Call(args) {
				if out.Type() != failure || method.Name == "Close" {
					continue
				}
				err, _ := out.Interface().(error)
				require.Error(t, err, method.Name)
				if method.Name != "CaptureBegin" { // of a bad mode first
					require.ErrorIs(t, err, events.ErrUnavailable, method.Name)
				}
			}
		}
	}
	t.Run("with nothing", func(t *testing.T) { answers(t, nil) })
	t.Run("with what is another's", func(t *testing.T) {
		r := open(t, 1, false)
		s, e := r.stream(t), r.event(t)
		buffer, err := r.dev.ScratchAlloc(64)
		require.NoError(t, err)
		r.quiet(t, func() {
			answers(t, map[reflect.Type]reflect.Value{
				reflect.TypeFor[cuda.Event]():         reflect.ValueOf(e),
				reflect.TypeFor[cuda.Stream]():        reflect.ValueOf(s),
				reflect.TypeFor[events.Buffer]():      reflect.ValueOf(buffer),
				reflect.TypeFor[events.Round]():       reflect.ValueOf(events.Round{Open: true}),
				reflect.TypeFor[events.CaptureMode](): reflect.ValueOf(events.CaptureMode(9)),
			})
		})
	})
	require.NoError(t, cuda.Device{}.Close())
	require.Equal(t, "no device", cuda.Device{}.String())
	require.Equal(t, -1, cuda.Device{}.Ordinal())
	require.Equal(t, "cuda", cuda.Device{}.Backend())
	for _, ability := range []any{(*events.Querier[cuda.Event])(nil), (*events.StatsReader)(nil), (*events.Gate[cuda.Stream])(nil)} {
		require.False(t, cuda.Device{}.Offers(ability), "%T", ability)
	}
}

// Whoever looks past the error of Open has no runtime, and is told so.
// NVIDIA/go-nvml#47, sustainable-computing-io/kepler#1075
func TestRuntimeThatWasNotOpenedHasNoDevices(t *testing.T) {
	for name, rt := range map[string]*cuda.Runtime{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, rt.DeviceCount())
			require.Equal(t, cuda.Info{Backend: "cuda"}, rt.Info())
			dev, err := rt.Device(0)
			require.ErrorIs(t, err, events.ErrUnavailable)
			_, err = dev.EventCreate()
			require.ErrorIs(t, err, events.ErrUnavailable)
			_, known := rt.Initialized(0)
			require.False(t, known)
		})
	}
}

func TestDeviceThatDoesNotExistIsInvalid(t *testing.T) {
	r := open(t, 2, false)
	for _, i := range []int{-1, 2, 1 << 40} {
		dev, err := r.rt.Device(i)
		require.ErrorIs(t, err, events.ErrInvalid)
		require.ErrorContains(t, err, "of 2")
		require.Equal(t, cuda.Device{}, dev)
	}
	one := r.device(t, 1)
	require.Equal(t, one, r.device(t, 1))
	require.NotEqual(t, one, r.device(t, 0))
}

// JuliaGPU/AMDGPU.jl#721, CauldronDevelopmentLLC/cbang#181
func TestBadOverridesAreNamed(t *testing.T) {
	good, _ := build(t)
	for name, value := range map[string]string{
		"blank": " ", "folder": t.TempDir(), "missing": "/no/such/libcudart.so.13", "bare": "libcudart.so.13", "tab": "\t",
	} {
		t.Run(name, func(t *testing.T) {
			named := func(err error, variable string) {
				u := unavailable(t, err)
				require.Equal(t, events.CauseBadOverride, u.Cause)
				require.ErrorContains(t, err, strings.Trim(value, "\t"))
				if variable != "" {
					require.ErrorContains(t, err, variable)
				}
				require.NotEmpty(t, u.Advice)
			}
			_, err := cuda.Open(cuda.WithLibrary(value), cuda.WithDriver(good))
			named(err, "")
			_, err = cuda.Open(cuda.WithLibrary(good), cuda.WithDriver(value))
			named(err, "")
			_, err = cuda.Open(cuda.WithDriver(value), cuda.WithDriverAPI(true))
			named(err, "")
			t.Run("runtime", func(t *testing.T) {
				t.Setenv("DEVEVENTS_CUDART", value)
				_, err := cuda.Open(cuda.WithDriver(good))
				named(err, "DEVEVENTS_CUDART")
				_, err = cuda.Open(cuda.WithDriver(good), cuda.WithLibrary(good))
				require.NoError(t, err, "the program's own word comes first")
			})
			t.Run("driver", func(t *testing.T) {
				t.Setenv("DEVEVENTS_CUDA_DRIVER", value)
				_, err := cuda.Open(cuda.WithLibrary(good))
				named(err, "DEVEVENTS_CUDA_DRIVER")
				_, err = cuda.Open(cuda.WithDriverAPI(true))
				named(err, "DEVEVENTS_CUDA_DRIVER")
			})
		})
	}
	t.Run("empty is unset", func(t *testing.T) {
		t.Setenv("DEVEVENTS_CUDART", "")
		t.Setenv("DEVEVENTS_CUDA_DRIVER", "")
		_, err := cuda.Open(cuda.WithLibrary(good))
		require.NoError(t, err)
		_, err = cuda.Open(cuda.WithLibrary(good), cuda.WithDriver(""))
		require.NoError(t, err)
	})
	t.Run("good", func(t *testing.T) {
		t.Setenv("DEVEVENTS_CUDART", good)
		t.Setenv("DEVEVENTS_CUDA_DRIVER", good)
		rt, err := cuda.Open()
		require.NoError(t, err)
		require.Equal(t, good, rt.Info().Library)
		require.Equal(t, good, rt.Info().Driver)
		require.Equal(t, "runtime", rt.Info().API)
	})
}

// A library that somebody named is that one or an error, also where the driver
// library could stand in for it.
func TestNamedRuntimeIsNotReplacedByTheDriver(t *testing.T) {
	driver, _ := build(t)
	lacking := fakert.Build(t, fakert.Name("fake-cuda.so"), fakert.DriverOnly())
	for _, open := range []func(t *testing.T) error{
		func(*testing.T) error {
			_, err := cuda.Open(cuda.WithLibrary(lacking), cuda.WithDriver(driver))
			return err
		},
		func(t *testing.T) error {
			t.Setenv("DEVEVENTS_CUDART", lacking)
			_, err := cuda.Open(cuda.WithDriver(driver))
			return err
		},
	} {
		err := open(t)
		u := unavailable(t, err)
		require.Equal(t, events.CauseSymbolMissing, u.Cause)
		require.ErrorContains(t, err, lacking)
		require.ErrorContains(t, err, "cudaEventCreateWithFlags")
	}
}

// NVIDIA/warp#219, numba/numba#9732, ollama/ollama#3417, celeritas-project/celeritas#2226
func TestEachReasonForNoDeviceIsToldApart(t *testing.T) {
	type answer struct {
		cause           events.Cause
		runtime, driver string
	}
	for code, want := range map[int64]answer{
		34:  {events.CauseStubDriver, "cudaErrorStubLibrary", "CUDA_ERROR_STUB_LIBRARY"},
		35:  {events.CauseDriverMissing, "cudaErrorInsufficientDriver", "CUDA_ERROR_INSUFFICIENT_DRIVER"},
		100: {events.CauseNoDevice, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE"},
		3:   {events.CauseSystemNotReady, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED"},
		802: {events.CauseSystemNotReady, "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY"},
		999: {events.CauseDriverError, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN"},
	} {
		path, ctl := build(t)
		ctl.Set("count_code", code)
		for driver, name := range map[bool]string{false: want.runtime, true: want.driver} {
			_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(driver))
			u := unavailable(t, err)
			require.Equal(t, want.cause, u.Cause, "code %d", code)
			require.Equal(t, int32(code), u.Code)
			require.Equal(t, name, u.CodeName)
			require.Equal(t, path, u.Path)
			require.ErrorContains(t, err, name)
			sentence(t, u.Detail)
			sentence(t, u.Advice)
		}
	}
}

// sentence checks that a text is one sentence, fit for a line with others.
func sentence(t *testing.T, text string) {
	t.Helper()
	require.NotEmpty(t, text)
	require.NotContains(t, text, "\n")
	require.NotContains(t, text, ". ")
	require.False(t, strings.HasSuffix(text, "."), text)
}

// The driver library refuses to count before it could be initialised, and that
// says nothing about why. celeritas-project/celeritas#2226, ollama/ollama#3417
func TestNoDeviceAtAllIsNoDevice(t *testing.T) {
	for _, driver := range []bool{false, true} {
		path, ctl := build(t)
		ctl.Set("device_count", 0)
		_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(driver))
		u := unavailable(t, err)
		require.Equal(t, events.CauseNoDevice, u.Cause, "%v", err)
		require.Equal(t, int32(100), u.Code)
	}
	path, ctl := build(t)
	ctl.Set("fail_cuInit", 804)
	_, err := cuda.Open(cuda.WithDriver(path), cuda.WithDriverAPI(true))
	u := unavailable(t, err)
	require.Equal(t, events.CauseSystemNotReady, u.Cause, "%v", err)
	require.Equal(t, int32(804), u.Code, "the first refusal is the one that tells")
}

// A look for devices must not fail the program's next call that reads the last
// error. NVIDIA/thrust#1020, pytorch/pytorch#18584
func TestOpenThatFailsLeavesNoLastError(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	path, ctl := build(t)
	for _, code := range []int64{100, 35, 802, 999} {
		ctl.Set("count_code", code)
		_, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
		require.Equal(t, int32(code), unavailable(t, err).Code)
		require.Zero(t, ctl.Get("last_error"), "code %d", code)
	}
	ctl.Set("count_code", 0)
	ctl.Set("last_error", 400)
	ctl.Set("fail_cudaRuntimeGetVersion", 36)
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(t, err)
	require.Zero(t, rt.Info().RuntimeVersion)
	require.Equal(t, "unknown", rt.Info().RuntimeVersionText)
	require.Zero(t, ctl.Get("last_error"), "the refusal took the place of what was there, and is taken back")
}

// inFolder runs a test in a process of its own, where nothing is mapped yet that
// the search would take first, with libraries in a folder of the user's path.
func inFolder(t *testing.T, names []string, test func(t *testing.T, dir string)) {
	t.Helper()
	const variable = "DEVEVENTS_TEST_FOLDER"
	if os.Getenv(variable) == "" {
		dir := t.TempDir()
		for _, name := range names {
			require.NoError(t, os.Link(fakert.Build(t, fakert.Name(name)), filepath.Join(dir, name)))
		}
		t.Setenv(variable, dir)
		t.Setenv("LD_LIBRARY_PATH", dir)
	}
	if alone.Run(t) {
		test(t, os.Getenv(variable))
	}
}

// here skips where the search found a real library behind the ones of the test.
func here(t *testing.T, rt *cuda.Runtime, dir string) {
	t.Helper()
	if rt != nil && filepath.Dir(rt.Info().Library) != dir {
		t.Skip("another CUDA library is installed here: ", rt.Info().Library)
	}
}

// NVIDIA/cudnn-frontend#211, ROCm/rocm-systems#1872
func TestTheDriverDecidesBetweenTwoMajors(t *testing.T) {
	majors := []string{"libcudart.so.13", "libcudart.so.12", "fake-libcuda.so"}
	for _, c := range []struct {
		name, text, want string
		version          int
	}{
		{"older", "12.4", "libcudart.so.12", 12040},
		{"newer", "13.0", "libcudart.so.13", 13000},
		{"newer than both", "14.2", "libcudart.so.13", 14020},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, majors, func(t *testing.T, dir string) {
				driver := filepath.Join(dir, "fake-libcuda.so")
				fakert.Control(t, driver).Set("driver_version", int64(c.version))
				rt, err := cuda.Open(cuda.WithDriver(driver))
				require.NoError(t, err)
				info := rt.Info()
				require.Equal(t, filepath.Join(dir, c.want), info.Library)
				require.Equal(t, driver, info.Driver)
				require.Equal(t, c.version, info.DriverVersion)
				require.Equal(t, c.text, info.DriverVersionText)
				require.Equal(t, "13.0", info.RuntimeVersionText)
				require.Equal(t, "runtime", info.API)
			})
		})
	}
}

// A runtime that the driver is too old for is passed over while another may do,
// and told of when none does. ollama/ollama#3417, NVIDIA/cudnn-frontend#211
func TestInsufficientRuntimeIsPassedOver(t *testing.T) {
	majors := []string{"libcudart.so.13", "libcudart.so.12", "fake-libcuda.so"}
	t.Run("one of two", func(t *testing.T) {
		inFolder(t, majors, func(t *testing.T, dir string) {
			fakert.Control(t, filepath.Join(dir, "libcudart.so.13")).Set("count_code", 35)
			rt, err := cuda.Open(cuda.WithDriver(filepath.Join(dir, "fake-libcuda.so")))
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, "libcudart.so.12"), rt.Info().Library)
			dev, err := rt.Device(0)
			require.NoError(t, err)
			_, err = dev.EventCreate()
			require.NoError(t, err, "what was resolved in the first one is forgotten")
			require.Equal(t, int64(1), fakert.Control(t, rt.Info().Library).Get("live_events"))
		})
	})
	t.Run("both", func(t *testing.T) {
		inFolder(t, majors, func(t *testing.T, dir string) {
			for _, name := range majors[:2] {
				fakert.Control(t, filepath.Join(dir, name)).Set("count_code", 35)
			}
			rt, err := cuda.Open(cuda.WithDriver(filepath.Join(dir, "fake-libcuda.so")))
			here(t, rt, dir)
			u := unavailable(t, err)
			require.Equal(t, events.CauseDriverMissing, u.Cause)
			require.Equal(t, int32(35), u.Code)
			for _, name := range majors[:2] {
				i := slices.IndexFunc(u.Candidates, func(c events.Candidate) bool { return c.Path == filepath.Join(dir, name) })
				require.GreaterOrEqual(t, i, 0, "%v", err)
				require.Contains(t, u.Candidates[i].Reason, "(35)")
			}
		})
	})
}

// Programs that link the runtime statically have no library of it.
func TestDriverStandsInForAMissingRuntime(t *testing.T) {
	inFolder(t, []string{"fake-libcuda.so"}, func(t *testing.T, dir string) {
		driver := filepath.Join(dir, "fake-libcuda.so")
		rt, err := cuda.Open(cuda.WithDriver(driver))
		require.NoError(t, err)
		here(t, rt, dir)
		require.Equal(t, "driver", rt.Info().API)
		require.Equal(t, driver, rt.Info().Library)
		_, err = cuda.Open(cuda.WithDriver(driver), cuda.WithDriverAPI(false))
		require.Equal(t, events.CauseLibraryMissing, unavailable(t, err).Cause)

		// The driver's answer is told then, and what was tried for both.
		fakert.Control(t, driver).Set("count_code", 100)
		_, err = cuda.Open(cuda.WithDriver(driver))
		u := unavailable(t, err)
		require.Equal(t, events.CauseNoDevice, u.Cause)
		require.ErrorContains(t, err, "libcudart.so.13")
		require.ErrorContains(t, err, driver)
	})
}
