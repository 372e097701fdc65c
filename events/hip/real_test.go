package hip_test

import (
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
	unfit := t.Skip
	if os.Getenv("DEVEVENTS_REQUIRE_AMDHIP") == "1" {
		unfit = t.Fatal
	}
	path := os.Getenv("DEVEVENTS_TEST_AMDHIP")
	if path == "" {
		unfit("needs AMD's HIP library, named by DEVEVENTS_TEST_AMDHIP: run .ci/run amd")
	}
	if _, err := os.Stat("/dev/kfd"); err == nil {
		unfit("this machine has an AMD device, and the test is about having none")
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
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseNoDevice, u.Cause)
	require.Equal(t, int32(100), u.Code)
	require.Equal(t, "hipErrorNoDevice", u.CodeName)
	file, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	require.Equal(t, file, u.Path)
	require.Positive(t, u.Version)
	t.Log(u)
}

// Without an option the library is found by its versioned name alone, the only
// one that a runtime installation has. CauldronDevelopmentLLC/cbang#181
func TestRealAMDLibraryIsFoundByItsVersionedName(t *testing.T) {
	path := realLibrary(t)
	_, err := hip.Open()
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseNoDevice, u.Cause)
	file, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	require.Equal(t, file, u.Path)
}

// A loader and a runtime keep state for each thread, and whoever asks second must
// not find another answer, nor a crash.
func TestRealAMDLibraryAnswersEverybodyAlike(t *testing.T) {
	path := realLibrary(t)
	answers := make(chan error, 16)
	for range cap(answers) {
		go func() {
			_, err := hip.Open(hip.WithLibrary(path))
			answers <- err
		}()
	}
	for range cap(answers) {
		var u *events.UnavailableError
		require.ErrorAs(t, <-answers, &u)
		require.Equal(t, events.CauseNoDevice, u.Cause)
		require.Equal(t, int32(100), u.Code)
	}
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
