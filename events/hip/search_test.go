package hip_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/alone"
)

// inFolder runs a test in a process of its own, since no second HIP library may be
// loaded into one, with imitations in a folder of the user's path.
func inFolder(t *testing.T, names []string, test func(t *testing.T, dir string)) {
	t.Helper()
	const variable = "DEVEVENTS_TEST_FOLDER"
	if dir := os.Getenv(variable); dir != "" {
		test(t, dir)
		return
	}
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.Link(fakert.Build(t, fakert.Name(name), fakert.Vendor("hip")), filepath.Join(dir, name)))
	}
	alone.Run(t, variable+"="+dir, "LD_LIBRARY_PATH="+dir)
}

func unavailable(t *testing.T, err error) *events.UnavailableError {
	t.Helper()
	require.ErrorIs(t, err, events.ErrUnavailable)
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	return u
}

// Distributions ship libamdhip64.so.5 alone, a copied library may have its full
// version, and the next major comes with a name that nobody has written down yet.
// CauldronDevelopmentLLC/cbang#181, warpfront/hipfire#64
func TestRuntimeIsFoundUnderNamesThatNobodyWroteDown(t *testing.T) {
	for _, name := range []string{"libamdhip64.so.5", "libamdhip64.so.6.2.41134", "libamdhip64.so.8"} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, []string{name}, func(t *testing.T, dir string) {
				rt, err := hip.Open()
				var u *events.UnavailableError
				if errors.As(err, &u) && u.Path != "" && filepath.Dir(u.Path) != dir {
					t.Skip("another HIP library is installed here, and has no device: ", u.Path)
				}
				require.NoError(t, err)
				if filepath.Dir(rt.Info().Library) != dir {
					t.Skip("another HIP library is installed here: ", rt.Info().Library)
				}
				require.Equal(t, filepath.Join(dir, name), rt.Info().Library)
			})
		})
	}
}

// A machine with two majors is no error, and the older one is taken only where
// somebody says so or the process has it already; the other is never mapped beside
// it. ROCm/rocm-systems#1872
func TestChoiceBetweenMajorsHasAnOrder(t *testing.T) {
	all := []string{"libamdhip64.so.5", "libamdhip64.so.7", "libamdhip64.so.6"}
	for name, c := range map[string]struct {
		want    string
		prepare func(t *testing.T, dir string)
	}{
		"named":          {"libamdhip64.so.5", func(t *testing.T, dir string) { t.Setenv("DEVEVENTS_HIP", filepath.Join(dir, "libamdhip64.so.5")) }},
		"in the process": {"libamdhip64.so.6", func(t *testing.T, dir string) { fakert.Control(t, filepath.Join(dir, "libamdhip64.so.6")) }},
		"the newest":     {"libamdhip64.so.7", func(*testing.T, string) {}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			inFolder(t, all, func(t *testing.T, dir string) {
				c.prepare(t, dir)
				for range 2 {
					rt, err := hip.Open()
					require.NoError(t, err)
					require.Equal(t, filepath.Join(dir, c.want), rt.Info().Library)
				}
				if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
					for _, other := range all {
						require.Equal(t, other == c.want, strings.Contains(string(maps), filepath.Join(dir, other)+"\n"), other)
					}
				}
			})
		})
	}
}

// JuliaGPU/AMDGPU.jl#721, CauldronDevelopmentLLC/cbang#181
func TestBadOverridesAreNamed(t *testing.T) {
	good := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
	for name, value := range map[string]string{
		"blank": " ", "folder": filepath.Dir(good), "missing": "/no/such/libamdhip64.so.7", "bare": "libamdhip64.so.7",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hip.Open(hip.WithLibrary(value))
			require.Equal(t, events.CauseBadOverride, unavailable(t, err).Cause)
			require.ErrorContains(t, err, value)
			t.Setenv("DEVEVENTS_HIP", value)
			_, err = hip.Open()
			u := unavailable(t, err)
			require.Equal(t, events.CauseBadOverride, u.Cause)
			require.Contains(t, u.Error(), "DEVEVENTS_HIP=")
			require.Contains(t, u.Error(), value)
		})
	}
}
