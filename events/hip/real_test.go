package hip_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
)

// realLibrary is AMD's own library, unpacked by .ci/run, on a machine without an
// AMD device.
func realLibrary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DEVEVENTS_TEST_AMDHIP")
	if path == "" {
		if os.Getenv("DEVEVENTS_REQUIRE_AMDHIP") == "1" {
			t.Fatal("DEVEVENTS_REQUIRE_AMDHIP is set and DEVEVENTS_TEST_AMDHIP names no library")
		}
		t.Skip("needs AMD's HIP library: run .ci/run amd")
	}
	if _, err := os.Stat("/dev/kfd"); err == nil {
		t.Skip("this machine has an AMD device, and the test is about having none")
	}
	return path
}

// ROCm 5.2 answers the count with "no device" and every other call with "invalid
// device", so the count decides once and for all.
// celeritas-project/celeritas#2226, ollama/ollama#3417
func TestRealAMDLibraryWithoutADeviceSaysSo(t *testing.T) {
	path := realLibrary(t)
	_, err := hip.Open(hip.WithLibrary(path))
	require.ErrorIs(t, err, events.ErrUnavailable)
	var u *events.UnavailableError
	require.True(t, errors.As(err, &u))
	require.Equal(t, events.CauseNoDevice, u.Cause)
	require.Equal(t, int32(100), u.Code)
	require.Equal(t, "hipErrorNoDevice", u.CodeName)
	real, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	require.Equal(t, real, u.Path)
	require.Positive(t, u.Version)
	t.Log(u)
}

// Without an option the library is found by its versioned name alone, the only
// one that a runtime installation has. CauldronDevelopmentLLC/cbang#181
func TestRealAMDLibraryIsFoundByItsVersionedName(t *testing.T) {
	path := realLibrary(t)
	_, err := hip.Open()
	var u *events.UnavailableError
	require.True(t, errors.As(err, &u))
	require.Equal(t, events.CauseNoDevice, u.Cause)
	real, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	require.Equal(t, real, u.Path)
}

// The names in our table are the library's own.
func TestRealAMDLibraryNamesItsErrorsAsWeDo(t *testing.T) {
	lib := fakert.Control(t, realLibrary(t))
	for code, name := range hip.Codes() {
		got := lib.CallText("hipGetErrorName", uintptr(uint32(code)))
		if got == "hipErrorUnknown" {
			continue // newer than this library
		}
		require.Equal(t, name, got, "code %d", code)
	}
}
