package events_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

var sentinels = []error{
	events.ErrUnavailable, events.ErrUnsupported, events.ErrInvalid, events.ErrNotReady, events.ErrNotRecorded,
	events.ErrTimingDisabled, events.ErrReversed, events.ErrCapturing, events.ErrDeviceMismatch, events.ErrDeviceFault,
	events.ErrContextLost, events.ErrClosed, events.ErrDestroyed, events.ErrExpired, events.ErrFull, events.ErrBadReading,
}

func TestSentinelsAreToldApart(t *testing.T) {
	texts := map[string]bool{}
	for i, a := range sentinels {
		require.False(t, texts[a.Error()], a)
		texts[a.Error()] = true
		for j, b := range sentinels {
			require.Equal(t, i == j, errors.Is(a, b))
		}
	}
}

// The text of an error must not need the library that failed, and a code that
// nobody knows keeps its number: NVIDIA/go-nvml#82, NVIDIA/go-nvml#99,
// NVIDIA/go-nvml#47, sustainable-computing-io/kepler#1075.
func TestDriverErrorAlwaysSaysOperationNameAndNumber(t *testing.T) {
	for i, kind := range append([]error{nil}, sentinels...) {
		err := &events.DriverError{Backend: "cuda", Op: "cudaEventRecord", Code: 400, Name: "cudaErrorInvalidResourceHandle", Kind: kind}
		require.True(t, strings.HasPrefix(err.Error(), "cudaEventRecord: cudaErrorInvalidResourceHandle (400)"), err.Error())
		wrapped := fmt.Errorf("start of window: %w", err)
		for j, s := range sentinels {
			require.Equal(t, i == j+1, errors.Is(wrapped, s), "%v as %v", kind, s)
		}
		var driver *events.DriverError
		require.ErrorAs(t, wrapped, &driver)
		require.Equal(t, int32(400), driver.Code)
	}
	for _, code := range []int32{12345, -1, 0, 2147483647} {
		err := &events.DriverError{Backend: "hip", Op: "hipEventQuery", Code: code}
		require.Equal(t, fmt.Sprintf("hipEventQuery: unknown code (%d)", code), err.Error())
		require.Equal(t, fmt.Sprintf("hipEventQuery: unknown code (%d)", code), fmt.Sprintf("%+v", err))
		require.NoError(t, errors.Unwrap(err))
	}
}

// A crash of an earlier kernel was blamed on the event call that saw it first:
// lattice/quda#693, NVIDIA/TensorRT#1469, NVIDIA/cudf#22130.
func TestStickyErrorsPointAwayFromTheCallThatSawThem(t *testing.T) {
	fault := &events.DriverError{Op: "cudaEventSynchronize", Code: 700, Name: "cudaErrorIllegalAddress", Kind: fmt.Errorf("device 1: %w", events.ErrDeviceFault)}
	require.ErrorContains(t, fault, "earlier work on this device failed, not this call")
	lost := &events.DriverError{Op: "cudaEventRecord", Code: 46, Name: "cudaErrorDevicesUnavailable", Kind: events.ErrContextLost}
	require.ErrorContains(t, lost, "context destroyed")
	capturing := &events.DriverError{Op: "cudaEventQuery", Code: 900, Name: "cudaErrorStreamCaptureUnsupported", Kind: events.ErrCapturing}
	require.ErrorContains(t, capturing, "wait for its end")
}

// Users saw only the last name tried, or a number, or advice for another cause:
// NVIDIA/warp#219, numba/numba#9732, ollama/ollama#3417.
func TestUnavailableErrorListsEveryCandidate(t *testing.T) {
	err := &events.UnavailableError{
		Backend: "cuda", Cause: events.CauseDriverMissing,
		Detail: "the runtime says that the driver is too old", Advice: "install a driver for CUDA 13",
		Path: "/opt/cuda/lib64/libcudart.so.13", Version: 13000, Code: 35, CodeName: "cudaErrorInsufficientDriver",
		Candidates: []events.Candidate{
			{Path: "libcudart.so.13", Reason: "insufficient driver"},
			{Path: "libcudart.so.12", Reason: "no such file"},
		},
		Near: []string{"/usr/lib/libcudart.so.14"},
	}
	require.ErrorIs(t, fmt.Errorf("open: %w", err), events.ErrUnavailable)
	for _, part := range []string{
		"cuda unavailable (driver-missing-or-old)", err.Detail, err.Advice, "[cudaErrorInsufficientDriver (35)]",
		err.Path, "version 13000", "\n  tried libcudart.so.13: insufficient driver", "\n  tried libcudart.so.12: no such file",
		"\n  seen but not tried: /usr/lib/libcudart.so.14",
	} {
		require.ErrorContains(t, err, part)
	}
	bare := &events.UnavailableError{Backend: "hip", Cause: events.CauseDriverError, Detail: "refused", Code: 4711}
	require.Equal(t, "hip unavailable (driver-error): refused [unknown code (4711)]", bare.Error())
	require.ErrorIs(t, bare, events.ErrUnavailable)
	none := &events.UnavailableError{Backend: "hip", Cause: events.CauseNotThisPlatform, Detail: "no such runtime"}
	require.Equal(t, "hip unavailable (not-on-this-platform): no such runtime", none.Error())
}
