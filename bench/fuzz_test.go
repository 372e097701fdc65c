package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What somebody types never takes the program down, and never asks for more points
// than there is time for.
func FuzzAxisText(f *testing.F) {
	for _, text := range []string{"N=[1:9:2]", "N[pow2]=[4:16:4]", "T=[a, b]", "N=[1:1e300:1e-300]", "N=[::]", "=", "N=[-1:-9:-0]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAxis(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, a.name)
		require.NotEmpty(t, a.values)
		require.LessOrEqual(t, len(a.values), maxAxis)
		for _, v := range a.values {
			require.NotEmpty(t, v)
		}
	})
}
