package hip_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
)

// Without a device the library answers the count with one code and every other call
// with another, so the count decides, once.
// celeritas-project/celeritas#2226, ollama/ollama#3417
func TestEachReasonForNoDeviceIsToldApart(t *testing.T) {
	for code, want := range map[int64]struct {
		cause events.Cause
		name  string
	}{
		100: {events.CauseNoDevice, "hipErrorNoDevice"},
		101: {events.CauseNoDevice, "hipErrorInvalidDevice"},
		35:  {events.CauseDriverMissing, "hipErrorInsufficientDriver"},
		3:   {events.CauseSystemNotReady, "hipErrorNotInitialized"},
		999: {events.CauseDriverError, "hipErrorUnknown"},
	} {
		path := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
		ctl := fakert.Control(t, path)
		ctl.Set("count_code", code)
		rt, err := hip.Open(hip.WithLibrary(path))
		u := unavailable(t, err)
		require.Equal(t, want.cause, u.Cause, "code %d", code)
		require.Equal(t, int32(code), u.Code)
		require.Equal(t, want.name, u.CodeName)
		require.Equal(t, path, u.Path)
		require.Equal(t, int64(1), ctl.Get("calls_hipGetDeviceCount"))
		_, err = rt.Device(0)
		require.ErrorIs(t, err, events.ErrUnavailable, "there is no device whose calls could answer something else")
	}
	path := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
	fakert.Control(t, path).Set("device_count", 0)
	_, err := hip.Open(hip.WithLibrary(path))
	require.Equal(t, events.CauseNoDevice, unavailable(t, err).Cause)
}

// chelsea0x3b/cudarc#422, chelsea0x3b/cudarc#464, NVIDIA/go-nvlib#87
func TestMissingRequiredSymbolsAreAllNamed(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"), fakert.Omit("hipEventElapsedTime", "hipSetDevice"))
	_, err := hip.Open(hip.WithLibrary(path))
	u := unavailable(t, err)
	require.Equal(t, events.CauseSymbolMissing, u.Cause)
	for _, part := range []string{"hipEventElapsedTime", "hipSetDevice", "6.2.41134", path} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, u.Detail, "hipEventRecord")
}

// Releases before 5.2 lack functions that this library can do without.
// chelsea0x3b/cudarc#490, chelsea0x3b/cudarc#512, pegainfer-project/pegainfer#263
func TestOlderReleaseIsUsedForWhatItHas(t *testing.T) {
	dev, _ := open(t, fakert.Omit("hipDeviceGetUuid", "hipThreadExchangeStreamCaptureMode", "hipStreamIsCapturing", "hipEventRecordWithFlags",
		"hipGetErrorName", "hipPeekAtLastError", "hipGetLastError", "hipDriverGetVersion", "hipDeviceGetPCIBusId"))
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	e, err := dev.EventCreate()
	require.NoError(t, err)
	require.NoError(t, dev.EventRecord(e, s))
	require.NoError(t, dev.EventWait(e))
	_, err = dev.EventElapsed(e, e)
	require.NoError(t, err)
	_, err = dev.StreamCapturing(s)
	require.ErrorIs(t, err, events.ErrUnsupported)
	for _, part := range []string{"hipStreamIsCapturing", dev.Library(), "6.2.41134"} {
		require.ErrorContains(t, err, part)
	}
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
}

// Some releases answer a code that they do not know with a text without its number,
// and any may answer with nothing. NVIDIA/go-nvml#82, NVIDIA/go-nvml#99,
// NVIDIA/go-nvml#47
func TestErrorsHaveNameAndNumberWithoutTheLibrary(t *testing.T) {
	dev, ctl := open(t)
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	e, err := dev.EventCreate()
	require.NoError(t, err)
	for _, null := range []int64{0, 1} {
		ctl.Set("null_error_strings", null)
		refused := func(code int32) error {
			ctl.Set("fail_hipEventRecord", int64(code))
			defer ctl.Set("fail_hipEventRecord", 0)
			return dev.EventRecord(e, s)
		}
		for _, code := range slices.Sorted(maps.Keys(hip.Codes())) {
			if code == 0 {
				continue
			}
			if errors.Is(hip.Kind(code), events.ErrDeviceFault) {
				continue // the device would be lost to the codes after it
			}
			err := refused(code)
			require.ErrorContains(t, err, fmt.Sprintf("hipEventRecord: %s (%d)", hip.Codes()[code], code))
			if kind := hip.Kind(code); kind != nil {
				require.ErrorIs(t, err, kind)
			}
		}
		for _, code := range []int32{4711, -2, math.MaxInt32, math.MinInt32} {
			require.ErrorContains(t, refused(code), fmt.Sprintf("hipEventRecord: unknown code (%d)", code))
		}
	}
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
}

// From ROCm 7 on success and "not ready" leave the thread's last error alone, and so
// do our refusals. Older releases overwrite it at every call, whoever makes it; there
// nothing of ours may be left in it but what the last call put there itself.
// microsoft/onnxruntime#8358, pytorch/pytorch#167414, NVIDIA/thrust#1020
func TestLastErrorOfTheThreadIsLeftAsItWas(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, overwrites := range []int64{0, 1} {
		dev, ctl := open(t)
		ctl.Set("last_error_every_call", overwrites)
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		held, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		e, err := dev.EventCreate()
		require.NoError(t, err)
		pending, err := dev.EventCreate()
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventWait(e))
		ctl.Hold(held.Handle())
		require.NoError(t, dev.EventRecord(pending, held))
		last := func() int64 { return ctl.Get("last_error") }

		ctl.Set("last_error", 98) // the host program's own
		done, err := dev.EventQuery(pending)
		require.NoError(t, err)
		require.False(t, done)
		if overwrites == 0 {
			require.Equal(t, int64(98), last())
			ctl.Set("last_error", 600) // also one of the same number
			_, err = dev.EventQuery(pending)
			require.NoError(t, err)
			require.Equal(t, int64(600), last())
		}
		ctl.Set("last_error", 0)
		for function, do := range map[string]func() error{
			"EventRecord":       func() error { return dev.EventRecord(e, s) },
			"EventQuery":        func() error { _, err := dev.EventQuery(e); return err },
			"EventElapsedTime":  func() error { _, err := dev.EventElapsed(e, e); return err },
			"EventSynchronize":  func() error { return dev.EventWait(e) },
			"StreamSynchronize": func() error { return dev.StreamSynchronize(s) },
			"StreamWaitEvent":   func() error { return dev.StreamWaitEvent(s, e) },
		} {
			require.NoError(t, dev.EventRecord(e, s))
			require.NoError(t, dev.EventWait(e))
			ctl.Set("fail_hip"+function, 1)
			require.ErrorContains(t, do(), "(1)", function)
			ctl.Set("fail_hip"+function, 0)
			require.Zero(t, last(), function)
		}
		ctl.Release(held.Handle())
		require.NoError(t, dev.EventDestroy(e))
		require.NoError(t, dev.EventDestroy(pending))
		require.NoError(t, dev.StreamDestroy(s))
		require.NoError(t, dev.StreamDestroy(held))
	}
}
