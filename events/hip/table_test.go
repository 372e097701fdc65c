package hip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/cfamily"
)

// moved are functions whose arguments, structures or enumerations differ between the
// majors 5 to 7, or that newer ones lack.
var moved = []string{
	"hipGetDeviceProperties", "hipGetDevicePropertiesR0000", "hipGetDevicePropertiesR0600", "hipChooseDevice", "hipChooseDeviceR0600",
	"hipPointerGetAttributes", "hipDeviceGetAttribute", "hipStreamGetCaptureInfo", "hipStreamGetCaptureInfo_v2",
	"hipStreamUpdateCaptureDependencies", "hipGraphInstantiate", "hipGraphKernelNodeGetParams", "hipGetProcAddress",
	"hipMemAllocHost", "hipMallocHost", "hipHostAlloc", "hipMemcpyToArray", "hipModuleLoadDataEx",
	"hipCtxCreate", "hipCtxSetCurrent", "hipCtxGetCurrent", "hipCtxSynchronize", "hipDevicePrimaryCtxRetain", "hipDeviceReset",
	"hipDeviceSynchronize", "hipEventCreate", "hipStreamCreate", "hipExtGetLastError",
}

// The same name got another structure, and programs read fields that were not there.
// ROCm/HIPIFY#2071
func TestOnlyFunctionsThatNeverChangedAreNamed(t *testing.T) {
	seen := map[string]cfamily.Op{}
	require.Greater(t, len(table().Symbols), 30)
	for op, s := range table().Symbols {
		require.Regexp(t, `^hip[A-Z][A-Za-z0-9]+$`, s.Name, "no suffix of a version or of a release")
		require.NotContains(t, moved, s.Name)
		require.Equal(t, cfamily.FromRuntime, s.From, "HIP has one library")
		require.False(t, strings.HasSuffix(s.Name, "_spt"), "%s takes the per-thread default stream for the default one", s.Name)
		if twin, ok := seen[s.Name]; ok {
			t.Errorf("%s is named for %d and for %d", s.Name, twin, op)
		}
		seen[s.Name] = op
	}
}

// Tables are made anew for each opening, so that one cannot change another's.
func TestTablesAreNotShared(t *testing.T) {
	first := table()
	delete(first.Symbols, cfamily.OpEventRecord)
	first.Library.Names[0] = "changed"
	require.Contains(t, table().Symbols, cfamily.OpEventRecord)
	require.NotEqual(t, "changed", table().Library.Names[0])
}
