package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

// A number without a name, or a name without its number, leaves a user with
// nothing to look for.
func TestErrorsHaveNameAndNumber(t *testing.T) {
	require.EqualError(t, driverError(opMarker, -36, events.ErrInvalid), "clEnqueueMarkerWithWaitList: CL_INVALID_COMMAND_QUEUE (-36)")
	require.EqualError(t, driverError(opFinish, -4711, nil), "clFinish: unknown code (-4711)")
	seen := map[string]int32{}
	for code, name := range codes {
		require.Regexp(t, `^(CL_[A-Z0-9_]+|NVIDIA: .*)$`, name)
		other, twice := seen[name]
		require.False(t, twice, "%s is %d and %d", name, code, other)
		seen[name] = code
	}
	for code, kind := range map[int32]error{
		-36: events.ErrInvalid, -58: events.ErrInvalid, -72: events.ErrInvalid, -7: events.ErrTimingDisabled,
		-1: events.ErrUnavailable, -1001: events.ErrUnavailable, -4: events.ErrFull, -11: events.ErrUnsupported,
		-1121: events.ErrContextLost, -9999: events.ErrDeviceFault,
	} {
		require.Equal(t, kind, kindOf(code), code)
	}
	for _, code := range []int32{-5, -14, -8, -73, -29} {
		require.NoError(t, kindOf(code), code)
	}
}
