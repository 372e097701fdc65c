package dl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that looked in one place reported installed libraries as missing.
// CauldronDevelopmentLLC/cbang#181, ollama/ollama#602.
func TestDirectoriesCoverTheKnownInstallations(t *testing.T) {
	for _, c := range []struct {
		name string
		dirs []string
		has  []string
	}{
		{"cuda amd64", cudaDirs("linux", "amd64"), []string{
			"$CUDA_HOME/lib64", "$CUDA_PATH/targets/x86_64-linux/lib", "/usr/local/cuda/lib64", "/usr/local/cuda-*/targets/x86_64-linux/lib",
			"/opt/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "$NVHPC_ROOT/cuda/*/lib64",
			"/opt/nvidia/hpc_sdk/Linux_x86_64/*/cuda/*/lib64", "$VIRTUAL_ENV/lib/python*/site-packages/nvidia/cu[0-9]*/lib",
			"$VIRTUAL_ENV/lib/python*/site-packages/nvidia/cuda_runtime/lib", "$CONDA_PREFIX/lib",
			"$HOME/.local/lib/python*/site-packages/nvidia/cuda_runtime/lib"}},
		{"cuda arm64", cudaDirs("linux", "arm64"), []string{
			"/usr/local/cuda/targets/sbsa-linux/lib", "/usr/local/cuda/targets/aarch64-linux/lib", "/usr/lib/aarch64-linux-gnu",
			"/opt/nvidia/hpc_sdk/Linux_aarch64/*/cuda/*/lib64"}},
		{"driver amd64", driverDirs("linux", "amd64"), []string{
			"/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64", "/usr/lib/wsl/lib", "/usr/lib/wsl/drivers/*",
			"/usr/local/nvidia/lib64", "/run/opengl-driver/lib"}},
		{"driver arm64", driverDirs("linux", "arm64"), []string{"/usr/lib/aarch64-linux-gnu/tegra", "/usr/lib/aarch64-linux-gnu/nvidia"}},
		{"hip amd64", hipDirs("linux", "amd64"), []string{
			"$ROCM_PATH/lib", "$HIP_PATH/lib", "/opt/rocm/lib", "/opt/rocm-*/lib", "/opt/rocm/core/lib", "/opt/rocm/core-*/lib", "/opt/rocm/hip/lib",
			"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "$VIRTUAL_ENV/lib/python*/site-packages/_rocm_sdk_core/lib"}},
		{"cuda windows", cudaDirs("windows", "amd64"), []string{`$CUDA_PATH\bin\x64`, `$CUDA_PATH\bin`,
			`$ProgramFiles\NVIDIA GPU Computing Toolkit\CUDA\v*\bin`}},
		{"driver windows", driverDirs("windows", "amd64"), []string{`$SystemRoot\System32`}},
		{"hip windows", hipDirs("windows", "amd64"), []string{`$HIP_PATH\bin`, `$SystemRoot\System32`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Subset(t, c.dirs, c.has)
			sorted := slices.Sorted(slices.Values(c.dirs))
			require.Equal(t, sorted, slices.Compact(slices.Clone(sorted)), "a directory is listed twice")
			for _, dir := range c.dirs {
				require.NotContains(t, dir, "stubs")
				require.Contains(t, "/$", dir[:1], "%s depends on the working directory", dir)
				_, err := filepath.Match(dir, "")
				require.NoError(t, err, dir)
				if strings.Contains(c.name, "arm64") {
					require.NotContains(t, dir, "x86_64")
				} else {
					require.NotContains(t, dir, "aarch64")
				}
			}
		})
	}
	for _, dirs := range [][]string{cudaDirs("darwin", "arm64"), driverDirs("js", "wasm"), hipDirs("linux", "s390x"), cudaDirs("plan9", "amd64"), hipDirs("darwin", "arm64"), driverDirs("darwin", "arm64")} {
		require.Empty(t, dirs)
	}
}

// What the user has activated comes before what the machine has.
func TestActiveEnvironmentComesBeforeTheMachine(t *testing.T) {
	for _, c := range []struct {
		dirs          []string
		mine, machine string
	}{
		{cudaDirs("linux", "amd64"), "$VIRTUAL_ENV/lib/python*/site-packages/nvidia/cuda_runtime/lib", "/usr/local/cuda/lib64"},
		{hipDirs("linux", "amd64"), "$VIRTUAL_ENV/lib/python*/site-packages/_rocm_sdk_core/lib", "/opt/rocm/lib"},
	} {
		require.Less(t, slices.Index(c.dirs, c.mine), slices.Index(c.dirs, c.machine))
	}
}

func TestExpandTakesValuesLiterally(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("patterns have no escape on this system")
	}
	t.Setenv("DL_TEST_HOME", `/a[b]*?\c`)
	dir, ok := expand("$DL_TEST_HOME/lib")
	require.True(t, ok)
	require.Equal(t, `/a[b]*?\c/lib`, dir)
	dir, ok = expand("$DL_TEST_HOME/lib*")
	require.True(t, ok)
	matched, err := filepath.Match(dir, `/a[b]*?\c/lib64`)
	require.NoError(t, err)
	require.True(t, matched)
	require.Empty(t, os.Getenv("DL_TEST_UNSET"))
	_, ok = expand("/x/$DL_TEST_UNSET")
	require.False(t, ok)
}
