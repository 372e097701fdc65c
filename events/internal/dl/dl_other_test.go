//go:build !windows && (!linux || android || faketime || !(amd64 || arm64))

package dl

import (
	"testing"

	"example.com/devevents/events"

	"github.com/stretchr/testify/require"
)

func TestPlatformWithoutARuntimeSaysSo(t *testing.T) {
	_, err := Open(Spec{Backend: "cuda", Names: []string{"libcudart.so.13"}})
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseNotThisPlatform, u.Cause)
	require.ErrorContains(t, err, "no CUDA or HIP runtime exists here")
	_, err = OpenExact("/usr/lib/libx.so")
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseNotThisPlatform, u.Cause)
	require.Empty(t, MappedFiles("lib"))
}
