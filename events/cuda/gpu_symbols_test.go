package cuda

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/dl"
)

// CUDA gives a function new meaning by exporting it again as _v2. In the runtime
// none of ours may have such a sibling; in the driver elapsed has one, which
// promises less (pending errors are not reported), so the plain one stays right,
// after a query. ROCm/HIPIFY#2071, openxla/xla#30427, NVIDIA/TransformerEngine#1835
func TestGPURuntimeSymbolsHaveNoNewerSibling(t *testing.T) {
	rt, err := Open()
	if err != nil {
		if os.Getenv("DEVEVENTS_REQUIRE_GPU") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs an NVIDIA GPU")
	}
	if rt.Info().API != "runtime" {
		t.Skip("the runtime library is not installed")
	}
	runtimeLib, err := dl.OpenExact(rt.Info().Library)
	require.NoError(t, err)
	driverLib, err := dl.OpenExact(rt.Info().Driver)
	require.NoError(t, err)
	for _, s := range runtimeTable().Symbols {
		lib := runtimeLib
		if s.From == cfamily.FromDriver {
			lib = driverLib
		}
		require.NotZero(t, lib.Lookup(s.Name), "%s is not in %s", s.Name, lib.Path())
		if s.From == cfamily.FromDriver {
			continue
		}
		for _, suffix := range []string{"_v2", "_v3"} {
			require.Zero(t, lib.Lookup(s.Name+suffix), "%s exports %s: read what it changed before calling the plain one", lib.Path(), s.Name+suffix)
		}
	}
}
