package dl

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsReadFromTheName(t *testing.T) {
	for _, c := range []struct{ stem, base, version string }{
		{"libcudart.so.", "libcudart.so.13", "13"},
		{"libcudart.so.", "libcudart.so.13.0.96", "13.0.96"},
		{"cudart64_", "cudart64_110.dll", "110"},
	} {
		got, ok := versionOf(c.stem, c.base)
		require.True(t, ok, c.base)
		require.Equal(t, c.version, got)
	}
	for _, base := range []string{"libcudart.so", "libcudart.so.", "libcudart.so.13.", "libcudart.so..13", "libcudart.so.13.bak", "libcudart.so.13-old", "libcuda.so.1"} {
		_, ok := versionOf("libcudart.so.", base)
		require.False(t, ok, base)
	}
	_, ok := versionOf("", "13")
	require.False(t, ok)
	require.Equal(t, "13", majorOf("13.0.96"))
}

func TestVersionsAreOrderedByNumber(t *testing.T) {
	names := []string{"cuda-13.0", "cuda-9.2", "cuda-12.10", "cuda", "cuda-12.8", "cuda-100000000000000000000.1", "cuda-012.8"}
	slices.SortFunc(names, naturalCompare)
	require.Equal(t, []string{"cuda", "cuda-9.2", "cuda-012.8", "cuda-12.8", "cuda-12.10", "cuda-13.0", "cuda-100000000000000000000.1"}, names)
}

// A comparison that is not an order makes the choice between two versions depend
// on how a directory happens to be listed.
func FuzzNaturalCompareIsAnOrder(f *testing.F) {
	f.Add("cuda-9.2", "cuda-13.0", "cuda")
	f.Add("007", "7", "07a")
	f.Add("", "0", "\xff0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		sign := func(n int) int { return min(max(n, -1), 1) }
		require.Equal(t, sign(naturalCompare(a, b)), -sign(naturalCompare(b, a)))
		require.Equal(t, a == b, naturalCompare(a, b) == 0)
		if naturalCompare(a, b) <= 0 && naturalCompare(b, c) <= 0 {
			require.LessOrEqual(t, naturalCompare(a, c), 0)
		}
	})
}

func FuzzVersionOf(f *testing.F) {
	f.Add("libcudart.so.", "libcudart.so.13.0.96")
	f.Add("cudart64_", "cudart64_13.dll")
	f.Add("x", "x..1")
	f.Fuzz(func(t *testing.T, stem, base string) {
		version, ok := versionOf(stem, base)
		if !ok {
			require.Empty(t, version)
			return
		}
		require.True(t, strings.HasPrefix(base, stem+version))
		require.NotEmpty(t, majorOf(version))
		require.Empty(t, strings.Trim(version, "0123456789."))
	})
}
