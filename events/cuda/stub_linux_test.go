package cuda_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// The toolkit's stub has the driver's name. The runtime that finds it first says 34
// and not where it lies, which is all that its user has to know.
// NVIDIA/warp#219, numba/numba#9732
func TestStubInTheDriversPlaceIsNamedByItsPath(t *testing.T) {
	inFolder(t, []string{"libcudart.so.13", "libcuda.so.1"}, func(t *testing.T, dir string) {
		stub := filepath.Join(t.TempDir(), "lib64", "stubs", "libcuda.so.1")
		require.NoError(t, os.MkdirAll(filepath.Dir(stub), 0o750))
		require.NoError(t, os.Link(filepath.Join(dir, "libcuda.so.1"), stub))
		resident(t, stub)
		runtimeFile := filepath.Join(dir, "libcudart.so.13")
		fakert.Control(t, runtimeFile).Set("count_code", 34)
		_, err := cuda.Open(cuda.WithLibrary(runtimeFile))
		u := unavailable(t, err)
		require.Equal(t, events.CauseStubDriver, u.Cause)
		require.Equal(t, int32(34), u.Code)
		require.Contains(t, u.Detail, stub)
		sentence(t, u.Detail)
	})
}

// resident maps a file as the loader maps a library's code.
func resident(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	code, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(code)) })
}
