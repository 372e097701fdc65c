package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/internal/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryRequestIsMeasuredOnTheSimulatedDevice(t *testing.T) { serve(t, "mock") }

func TestGPUEveryRequestIsMeasured(t *testing.T) {
	gputest.Device(t)
	serve(t, "cuda")
}

// A driver that is not CUDA's twin, where there is one.
func TestEveryRequestIsMeasuredThroughOpenCL(t *testing.T) {
	gputest.OpenCL(t)
	serve(t, "opencl")
}

// A measurement that is lost fails no request.
func TestServiceOutlivesDroppedWindows(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-requests", "2000", "-streams", "300"}, &out))
	require.Contains(t, out.String(), "4000 windows: ")
}

func serve(t *testing.T, backend string) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-backend", backend, "-requests", "20"}, &out))
	t.Log("\n" + out.String())
	require.Equal(t, 20, strings.Count(out.String(), "prefill"))
	require.Equal(t, 20, strings.Count(out.String(), "decode"))
	require.Contains(t, out.String(), "40 windows: 40 measured, 0 failed, 0 dropped; the sink got 40")
}

func TestInterruptedServiceLeavesNothing(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	interrupt()
	err := run(ctx, []string{"-requests", "20"}, &bytes.Buffer{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestUnknownBackendIsRefused(t *testing.T) {
	require.ErrorContains(t, run(context.Background(), []string{"-backend", "none"}, &bytes.Buffer{}), "mock, cuda or opencl")
}
