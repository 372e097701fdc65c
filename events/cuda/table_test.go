package cuda

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/cfamily"
)

// frozen are the driver library's functions whose plain name is an old version.
var frozen = []string{
	"cuMemAlloc", "cuMemFree", "cuMemHostGetDevicePointer", "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
	"cuMemsetD8", "cuMemGetInfo", "cuMemGetAddressRange", "cuMemHostRegister", "cuMemAllocHost",
	"cuEventDestroy", "cuStreamDestroy", "cuStreamBeginCapture", "cuStreamWaitValue32", "cuStreamWriteValue32",
	"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxSetFlags", "cuDeviceGetUuid", "cuDeviceTotalMem",
	"cuCtxCreate", "cuCtxDestroy", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuGraphInstantiate", "cuGetProcAddress",
	"cuStreamGetCaptureInfo", "cuLinkCreate", "cuModuleGetGlobal",
}

// moved are functions of the runtime whose arguments differ between the majors, that
// open a context where nobody asked for one, or that take the per-thread default
// stream for the default one.
var moved = []string{
	"cudaGraphInstantiate", "cudaGetDeviceProperties", "cudaGetDeviceProperties_v2", "cudaGetDriverEntryPoint",
	"cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3",
	"cudaEventElapsedTime_v2", "cuEventElapsedTime_v2", "cudaLaunchHostFunc_v2",
	"cudaSetDevice", "cudaGetDevice", "cudaInitDevice", "cudaDeviceReset", "cudaThreadExchangeStreamCaptureMode",
	"cudaMemPrefetchAsync", "cudaMemAdvise", "cudaGraphKernelNodeCopyAttributes", "cudaDeviceSynchronize",
	"cuMemcpyHtoDAsync_v2_ptsz",
}

// ROCm/HIPIFY#2071, NVIDIA/TransformerEngine#1835, aws/aws-ofi-nccl#1019,
// NVIDIA/cuvs#1323, GPUOpen-LibrariesAndSDKs/Orochi#143
func TestOnlyFunctionsThatNeverChangedAreNamed(t *testing.T) {
	for _, table := range []*cfamily.Table{runtimeTable(), driverTable()} {
		require.Greater(t, len(table.Symbols), 40)
		seen := map[string]cfamily.Op{}
		for op, s := range table.Symbols {
			switch {
			case table.API == "runtime" && s.From == cfamily.FromRuntime:
				require.True(t, strings.HasPrefix(s.Name, "cuda"), s.Name)
			default:
				require.True(t, strings.HasPrefix(s.Name, "cu") && !strings.HasPrefix(s.Name, "cuda"), s.Name)
			}
			require.Regexp(t, `^cu(da)?[A-Z][A-Za-z0-9]+(_v2)?$`, s.Name)
			for _, suffix := range []string{"_ptsz", "_ptds", "_spt", "_v3"} {
				require.False(t, strings.HasSuffix(s.Name, suffix), s.Name)
			}
			require.NotContains(t, frozen, s.Name)
			require.NotContains(t, moved, s.Name)
			if twin, ok := seen[s.Name]; ok && s.Name != "cuDriverGetVersion" {
				t.Errorf("%s is named for %d and for %d", s.Name, twin, op)
			}
			seen[s.Name] = op
			if table.API == "runtime" && s.From == cfamily.FromDriver {
				require.Equal(t, cfamily.Optional, s.Need, "%s: a machine may have no driver library", s.Name)
			}
		}
	}
	require.NotContains(t, runtimeTable().Symbols, cfamily.OpSetDevice)
	require.NotContains(t, driverTable().Symbols, cfamily.OpSetDevice)
}

// Tables are made anew for each opening, so that one cannot change another's.
func TestTablesAreNotShared(t *testing.T) {
	first := runtimeTable()
	delete(first.Symbols, cfamily.OpEventRecord)
	first.Library.Names[0] = "changed"
	require.Contains(t, runtimeTable().Symbols, cfamily.OpEventRecord)
	require.NotEqual(t, "changed", runtimeTable().Library.Names[0])
	driver := driverTable()
	driver.Codes[1] = "changed"
	require.Equal(t, "CUDA_ERROR_INVALID_VALUE", driverTable().Codes[1])
	require.Equal(t, "cudaErrorInvalidValue", codes[1])
}

func TestVersionsAreSpelledAsPeopleDo(t *testing.T) {
	for version, want := range map[int]string{13000: "13.0", 12080: "12.8", 12100: "12.10", 11000: "11.0", 11080: "11.8"} {
		require.Equal(t, want, versionText(version))
	}
}

// The driver's spelling is made from the runtime's, except where the words differ.
func TestDriverCodesAreSpelledAsTheDriverDoes(t *testing.T) {
	driver := driverTable().Codes
	require.ElementsMatch(t, slices.Collect(maps.Keys(codes)), slices.Collect(maps.Keys(driver)))
	for code, want := range map[int32]string{
		0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED",
		100: "CUDA_ERROR_NO_DEVICE", 201: "CUDA_ERROR_INVALID_CONTEXT", 214: "CUDA_ERROR_ECC_UNCORRECTABLE",
		218: "CUDA_ERROR_INVALID_PTX", 400: "CUDA_ERROR_INVALID_HANDLE", 600: "CUDA_ERROR_NOT_READY",
		700: "CUDA_ERROR_ILLEGAL_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED", 802: "CUDA_ERROR_SYSTEM_NOT_READY",
		900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 907: "CUDA_ERROR_CAPTURED_EVENT", 999: "CUDA_ERROR_UNKNOWN",
	} {
		require.Equal(t, want, driver[code])
	}
}

func TestPreferenceFollowsTheDriver(t *testing.T) {
	names := []string{runtimeStem + "13", runtimeStem + "12", runtimeStem + "11.0"}
	for driver, want := range map[int][]int{0: {0, 1, 2}, 13000: {0, 1, 2}, 14000: {0, 1, 2}, 12040: {1, 2, 0}, 11080: {2, 0, 1}, 10020: {0, 1, 2}} {
		var wanted []string
		for _, i := range want {
			wanted = append(wanted, names[i])
		}
		require.Equal(t, wanted, prefer(names, driver), "driver %d", driver)
	}
	require.Equal(t, []string{runtimeStem + "13", runtimeStem + "12", runtimeStem + "11.0"}, names, "the list is its caller's")
}

// Concurrent calls that return pointers get each other's in older versions.
// ebitengine/purego#451, ebitengine/purego#452, ebitengine/purego#453,
// ebitengine/purego#457
func TestPuregoIsNewEnough(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Skip("the tests run away from the module, which a compiled test does: ", err)
	}
	defer func() { require.NoError(t, file.Close()) }()
	found := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "require "))
		if len(fields) < 2 || fields[0] != "github.com/ebitengine/purego" {
			continue
		}
		found = true
		var v [3]int
		n, err := fmt.Sscanf(fields[1], "v%d.%d.%d", &v[0], &v[1], &v[2])
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.GreaterOrEqual(t, slices.Compare(v[:], []int{0, 10, 2}), 0, fields[1])
	}
	require.True(t, found)
}

func FuzzPrefer(f *testing.F) {
	f.Add("13 12 11.0", 12040)
	f.Add("99999999999999999999 012 -1 110", 13000)
	f.Add("", 0)
	f.Add("13.dll x13 .13 13", -5)
	f.Fuzz(func(t *testing.T, list string, driver int) {
		var names []string
		for i, version := range strings.Split(list, " ") {
			if i%5 != 4 {
				version = runtimeStem + version
			}
			require.GreaterOrEqual(t, majorOf(version), 0)
			names = append(names, version)
		}
		before := slices.Clone(names)
		got := prefer(names, driver)
		require.Equal(t, before, names, "the list is its caller's")
		require.ElementsMatch(t, names, got)
		if driver == 0 {
			require.Equal(t, names, got)
			return
		}
		// The supported ones first, and in each half the given order.
		supported := func(name string) bool { return majorOf(name) <= driver/1000 }
		var want []string
		for _, first := range []bool{true, false} {
			for _, name := range names {
				if supported(name) == first {
					want = append(want, name)
				}
			}
		}
		require.Equal(t, want, got)
	})
}

func FuzzMajorOf(f *testing.F) {
	for _, name := range []string{runtimeStem + "13", runtimeStem + "12.8.90", runtimeStem + "110.dll", runtimeStem, "libcuda.so.1", runtimeStem + "1234567890123456789012"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		major := majorOf(name)
		require.GreaterOrEqual(t, major, 0)
		if !strings.HasPrefix(name, runtimeStem) {
			require.Zero(t, major)
		}
		if major > 0 {
			digits := strconv.Itoa(major)
			rest := strings.TrimLeft(strings.TrimPrefix(name, runtimeStem), "0")
			require.True(t, strings.HasPrefix(rest, digits), "%d is not what %q begins with", major, name)
		}
	})
}
