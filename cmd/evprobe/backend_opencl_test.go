package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/opencl"
)

// A device that is listed and cannot be opened: which library, which code, and
// what to do, each of them once.
func TestOpenCLDeviceThatCannotBeOpenedIsExplained(t *testing.T) {
	d := opencl.DeviceInfo{Identity: events.Identity{Ordinal: 1, Name: "Some GPU"}}
	refused := &events.DriverError{Backend: "opencl", Op: "clCreateContext", Code: -2, Name: "CL_DEVICE_NOT_AVAILABLE", Kind: events.ErrContextLost}
	u := cannotOpen("libOpenCL.so.1", d, fmt.Errorf("opencl: opening device 1 (Some GPU): %w", refused))
	require.Equal(t, events.CauseDriverError, u.Cause)
	require.Equal(t, "libOpenCL.so.1", u.Path)
	require.NotEmpty(t, u.Advice)
	for _, once := range []string{"clCreateContext", "CL_DEVICE_NOT_AVAILABLE (-2)", "Some GPU", "libOpenCL.so.1"} {
		require.Equal(t, 1, strings.Count(u.Error(), once), "%s in %s", once, u)
	}

	u = cannotOpen("libOpenCL.so.1", d, errors.New("a marker was not reached"))
	require.Zero(t, u.Code)
	require.Contains(t, u.Error(), "a marker was not reached")
}
