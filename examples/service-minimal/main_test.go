package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/gputest"
)

func TestEveryRequestIsMeasuredOnTheSimulatedDevice(t *testing.T) { serve(t, "mock") }

func TestGPUEveryRequestIsMeasured(t *testing.T) {
	gputest.Device(t)
	serve(t, "cuda")
}

func serve(t *testing.T, backend string) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-backend", backend, "-requests", "20"}, &out))
	t.Log("\n" + out.String())
	require.Equal(t, 20, strings.Count(out.String(), "prefill"))
	require.Equal(t, 20, strings.Count(out.String(), "decode"))
	require.Contains(t, out.String(), "40 windows: 40 measured, 0 failed, 0 dropped; the sink got 40")
}

func TestUnknownBackendIsRefused(t *testing.T) {
	require.ErrorContains(t, run(context.Background(), []string{"-backend", "none"}, &bytes.Buffer{}), "mock or cuda")
}
