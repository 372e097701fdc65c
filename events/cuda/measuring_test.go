package cuda_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

func TestCacheIsThatOfTheDevice(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		r.ctl.Set("cache_bytes", 50<<20)
		bytes, err := r.dev.CacheBytes()
		require.NoError(t, err)
		require.EqualValues(t, 50<<20, bytes)
		active, known := r.rt.Initialized(0)
		require.True(t, known)
		require.False(t, active, "asking opens nothing")
		require.NoError(t, r.dev.CacheResetPersisting())
		require.EqualValues(t, 1, r.ctl.Get("line_resets"))
		r.ctl.Set("cache_bytes", 0)
		_, err = r.dev.CacheBytes()
		require.ErrorIs(t, err, events.ErrUnsupported)
		require.ErrorContains(t, err, "0 bytes")
		r.ctl.Set("fail_cuDeviceGetAttribute", 101)
		_, err = r.dev.CacheBytes()
		require.ErrorContains(t, err, "101")
		r.ctl.Set("fail_cuCtxResetPersistingL2Cache", 801)
		require.NoError(t, r.dev.CacheResetPersisting(), "nothing is set aside on such a device")
		r.ctl.Set("fail_cuCtxResetPersistingL2Cache", 1)
		require.ErrorIs(t, r.dev.CacheResetPersisting(), events.ErrInvalid)
	})
}

func TestKernelsAreLoadedBeforeAGateCloses(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		b, err := r.dev.ScratchAlloc(4096)
		require.NoError(t, err)
		gate, err := r.dev.GateClose(s, time.Minute)
		require.NoError(t, err)
		loads := r.ctl.Get("calls_cuModuleGetFunction")
		require.NoError(t, r.dev.LaunchEmpty(s))
		require.NoError(t, r.dev.LaunchRead(b, 4096, s))
		require.Equal(t, loads, r.ctl.Get("calls_cuModuleGetFunction"))
		require.NoError(t, gate.Open())
		require.NoError(t, r.dev.StreamSynchronize(s))
		require.NoError(t, r.dev.Close())
		require.NoError(t, r.dev.LaunchEmpty(s), "loaded again")
		require.NoError(t, r.dev.LaunchRead(b, 4096, s))
		require.NoError(t, r.dev.StreamSynchronize(s))
		require.NoError(t, r.dev.ScratchFree(b))
		require.NoError(t, r.dev.Close())
	})
}

func TestWholeDeviceIsWaitedFor(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		a, b := r.stream(t), r.stream(t)
		for _, s := range []cuda.Stream{a, b} {
			_, err := r.dev.ScratchSpin(1_000_000, s)
			require.NoError(t, err)
		}
		e := r.recorded(t, b)
		require.NoError(t, r.dev.DeviceSynchronize())
		reached, err := r.dev.EventQuery(e)
		require.NoError(t, err)
		require.True(t, reached)
	})
}

// Each of the optional functions may be missing, and takes its ability along.
func TestMissingFunctionsTakeTheirAbilities(t *testing.T) {
	for missing, lost := range map[string]string{
		"cuDeviceGetAttribute":        "cache",
		"cuCtxResetPersistingL2Cache": "",
		"cuCtxSynchronize":            "synchronizer",
		"cuLaunchKernel":              "kernels",
	} {
		path := fakert.Build(t, fakert.Omit(missing))
		rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
		require.NoError(t, err)
		dev, err := rt.Device(0)
		require.NoError(t, err)
		_, cache := events.Ability[events.Cache](dev)
		_, synchronizer := events.Ability[events.DeviceSynchronizer](dev)
		_, empty := events.Ability[events.EmptyKernel[cuda.Stream]](dev)
		require.Equal(t, lost != "cache", cache, missing)
		require.Equal(t, lost != "synchronizer", synchronizer, missing)
		_, reader := events.Ability[events.ReadKernel[cuda.Stream]](dev)
		require.Equal(t, lost != "kernels", empty, missing)
		require.Equal(t, lost != "kernels", reader, missing)
		if cache {
			require.NoError(t, dev.CacheResetPersisting(), "a library without it is older than the lines")
		}
		require.NoError(t, dev.Close())
	}
}

func TestVersionsAreThoseOfTheTwoLibraries(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		driver, library := r.dev.Versions()
		require.Equal(t, "13.0", driver)
		if !r.driver {
			require.Equal(t, "13.0", library)
		} else {
			require.Empty(t, library)
		}
	})
}

// Iterations of a graph, each with a fill before its first event: no fill is in a span, and
// each launch stamps all events anew.
func TestFillsOfAGraphLieOutsideItsSpans(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s := r.stream(t)
		_, err := r.dev.ScratchSpin(1, s) // loads the kernel
		require.NoError(t, err)
		require.NoError(t, r.dev.StreamSynchronize(s))
		const fill, work = 64 << 20, 100 * time.Microsecond // 14.7 us of filling
		buffer, err := r.dev.ScratchAlloc(fill)
		require.NoError(t, err)
		var starts, ends []cuda.Event
		require.NoError(t, r.dev.CaptureBegin(s, events.CaptureThreadLocal))
		for range 3 {
			starts, ends = append(starts, r.event(t)), append(ends, r.event(t))
			require.NoError(t, r.dev.ScratchMemset(buffer, 0, fill, s))
			require.NoError(t, r.dev.EventRecordExternal(starts[len(starts)-1], s))
			_, err := r.dev.ScratchSpin(work, s)
			require.NoError(t, err)
			require.NoError(t, r.dev.EventRecordExternal(ends[len(ends)-1], s))
		}
		graph, err := r.dev.CaptureEnd(s)
		require.NoError(t, err)
		defer func() { require.NoError(t, graph.Close()) }()
		for range 2 {
			require.NoError(t, graph.Launch(s))
			require.NoError(t, r.dev.StreamSynchronize(s))
			for i := range starts {
				span, err := r.dev.EventElapsed(starts[i], ends[i])
				require.NoError(t, err)
				require.GreaterOrEqual(t, span, work)
				require.Less(t, span, work+10*time.Microsecond)
			}
			between, err := r.dev.EventElapsed(ends[0], starts[1])
			require.NoError(t, err)
			require.Greater(t, between, 14*time.Microsecond, "the fill")
		}
		require.NoError(t, r.dev.ScratchFree(buffer))
	})
}

func TestNilOptionIsRefused(t *testing.T) {
	_, err := cuda.Open(cuda.WithLibrary("libcudart.so"), nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorContains(t, err, "option 1 is nil")
}

// A program that frees something and tries again has to know that memory is what is full.
func TestMemoryThatIsFullIsErrFull(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		_, err := r.dev.ScratchAlloc(1 << 50)
		require.ErrorIs(t, err, events.ErrFull)
		require.ErrorContains(t, err, "(2)")
	})
}
