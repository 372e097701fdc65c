package cuda_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// A runtime installation has no bare libcudart.so, a copied one may have its full
// version alone, and the next major is a working library with a name that nobody
// has written down yet.
// CauldronDevelopmentLLC/cbang#181, rapidsai/kvikio#200, chelsea0x3b/cudarc#451,
// ollama/ollama#602
func TestRuntimeIsFoundUnderNamesThatNobodyWroteDown(t *testing.T) {
	for _, name := range []string{"libcudart.so.12", "libcudart.so.11.0", "libcudart.so.13.0.96", "libcudart.so.11.8.89", "libcudart.so.14"} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, []string{name, "fake-libcuda.so"}, func(t *testing.T, dir string) {
				rt, err := cuda.Open(cuda.WithDriver(filepath.Join(dir, "fake-libcuda.so")), cuda.WithDriverAPI(false))
				require.NoError(t, err)
				here(t, rt, dir)
				require.Equal(t, filepath.Join(dir, name), rt.Info().Library)
				require.Equal(t, "runtime", rt.Info().API)
			})
		})
	}
}

// Two majors are a choice with an order that can be read: what somebody named, what
// the process has already, the newest that the driver supports. A stale one in a
// folder of the system is none of them.
// NVIDIA/cudnn-frontend#211, NVIDIA/cudnn-frontend#270, ROCm/rocm-systems#1872
func TestChoiceBetweenMajorsHasAnOrder(t *testing.T) {
	all := []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "fake-libcuda.so"}
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		want    string
		prepare func(t *testing.T, dir string) []cuda.Option
	}{
		"named by the program": {"libcudart.so.11.0", func(t *testing.T, dir string) []cuda.Option {
			t.Setenv("DEVEVENTS_CUDART", in(dir, "libcudart.so.13"))
			return []cuda.Option{cuda.WithLibrary(in(dir, "libcudart.so.11.0"))}
		}},
		"named by the user": {"libcudart.so.11.0", func(t *testing.T, dir string) []cuda.Option {
			fakert.Control(t, in(dir, "libcudart.so.12")) // in the process
			t.Setenv("DEVEVENTS_CUDART", in(dir, "libcudart.so.11.0"))
			return nil
		}},
		"in the process": {"libcudart.so.12", func(t *testing.T, dir string) []cuda.Option {
			fakert.Control(t, in(dir, "libcudart.so.12"))
			return nil
		}},
		"the newest": {"libcudart.so.13", func(*testing.T, string) []cuda.Option { return nil }},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			inFolder(t, all, func(t *testing.T, dir string) {
				options := c.prepare(t, dir)
				rt, err := cuda.Open(append(options, cuda.WithDriver(in(dir, "fake-libcuda.so")))...)
				require.NoError(t, err)
				require.Equal(t, in(dir, c.want), rt.Info().Library)
				require.Equal(t, 13000, rt.Info().RuntimeVersion)
			})
		})
	}
}

// The text of a failure to load must not need what failed to load.
// NVIDIA/go-nvml#82, NVIDIA/go-nvml#99, sustainable-computing-io/kepler#1075
func TestFailureToLoadExplainsItselfWithoutALibrary(t *testing.T) {
	inFolder(t, nil, func(t *testing.T, dir string) {
		rt, err := cuda.Open(cuda.WithDriverAPI(false))
		here(t, rt, dir)
		u := unavailable(t, err)
		require.Equal(t, events.CauseLibraryMissing, u.Cause)
		for _, format := range []string{"%v", "%+v", "%s", "%q"} {
			text := fmt.Sprintf(format, err)
			require.NotContains(t, text, "%!")
			for _, part := range []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "DEVEVENTS_CUDART"} {
				require.Contains(t, text, part)
			}
		}
		require.Zero(t, rt.DeviceCount())
		require.Equal(t, cuda.Info{Backend: "cuda"}, rt.Info())
		dev, err := rt.Device(0)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.Equal(t, "no device", fmt.Sprintf("%v", dev))
	})
}

// The count decides at Open. Asked again in the middle of a program, a library whose
// devices have gone answers every call with a code that says something else.
// celeritas-project/celeritas#2226, ollama/ollama#3417
func TestDevicesAreCountedAtOpenAndNeverAgain(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		counted := r.ctl.Get("calls_GetDeviceCount") + r.ctl.Get("calls_cuDeviceGetCount")
		require.Equal(t, int64(1), counted)
		r.ctl.Set("fail_"+r.fn("GetDeviceCount"), 100)
		require.Equal(t, 2, r.rt.DeviceCount())
		require.Len(t, r.rt.Info().Devices, 2)
		require.NoError(t, window(r.device(t, 1)))
		require.Equal(t, counted, r.ctl.Get("calls_GetDeviceCount")+r.ctl.Get("calls_cuDeviceGetCount"))
	})
}

// A profiler puts a driver library of its own in front of the real one, which lacks
// what it has never heard of. Events need none of that.
// vortex-data/vortex#6660, chelsea0x3b/cudarc#422, pegainfer-project/pegainfer#263
func TestDriverWithoutEverythingOptionalStillTimesEvents(t *testing.T) {
	bare := fakert.Build(t, fakert.Name("fake-injected.so"), fakert.DriverOnly(), fakert.Omit(
		"cuDeviceGetName", "cuDeviceGetUuid_v2", "cuDeviceGetPCIBusId", "cuThreadExchangeStreamCaptureMode",
		"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxGetState",
		"cuMemAlloc_v2", "cuMemFree_v2", "cuMemsetD8Async", "cuMemcpyDtoDAsync_v2",
		"cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuMemFreeHost",
		"cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload", "cuLaunchKernel", "cuStreamWaitValue32_v2",
		"cuEventRecordWithFlags", "cuStreamIsCapturing", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
		"cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy"))
	full, _ := build(t)
	for _, options := range [][]cuda.Option{
		{cuda.WithDriver(bare), cuda.WithDriverAPI(true)},
		{cuda.WithDriver(bare), cuda.WithLibrary(full)},
	} {
		rt, err := cuda.Open(options...)
		require.NoError(t, err)
		dev, err := rt.Device(0)
		require.NoError(t, err)
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		e, err := dev.EventCreate()
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventWait(e))
		_, err = dev.EventElapsed(e, e)
		require.NoError(t, err)
		_, err = dev.GateClose(s, time.Second)
		require.ErrorIs(t, err, events.ErrUnsupported)
		require.ErrorContains(t, err, dev.Library())
		_, err = dev.ScratchAlloc(64)
		require.ErrorIs(t, err, events.ErrUnsupported)
		require.NoError(t, dev.EventDestroy(e))
		require.NoError(t, dev.StreamDestroy(s))
		require.NoError(t, dev.Close())
	}
}
