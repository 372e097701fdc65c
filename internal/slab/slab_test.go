package slab_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/slab"
)

func Example() {
	var points slab.Slab[[2]int]
	p := points.Next(1024)
	p[0] = 7
	fmt.Println(*p, *points.Next(1024))
	// Output: [7 0] [0 0]
}

func TestEveryObjectIsAnotherAndFewAllocationsMakeThem(t *testing.T) {
	var s slab.Slab[uint64]
	seen := map[*uint64]bool{}
	for range 10_000 {
		x := s.Next(512)
		require.Zero(t, *x)
		require.False(t, seen[x])
		*x, seen[x] = 1, true
	}
	got := testing.AllocsPerRun(10, func() {
		for range 512 {
			s.Next(512)
		}
	})
	require.LessOrEqual(t, got, 1.0)
}
