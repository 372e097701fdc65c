package opencl

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A destroyed handle is refused also while an earlier call still keeps it alive.
func TestNobodyEntersAfterTheOwnerLeft(t *testing.T) {
	var s shared
	s.init()
	require.True(t, s.enter())
	first, free := s.kill()
	require.True(t, first)
	require.False(t, free, "a call is in it")
	require.False(t, s.enter())
	first, free = s.kill()
	require.False(t, first || free)
	require.True(t, s.leave(), "the last one out frees")
	require.False(t, s.enter())
}

func TestLastOneOutFreesOnce(t *testing.T) {
	for range 200 {
		var s shared
		var freed atomic.Int32
		s.init()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 20 {
					if s.enter() && s.leave() {
						freed.Add(1)
					}
				}
				if i%4 == 0 {
					if _, free := s.kill(); free {
						freed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, int32(1), freed.Load())
	}
}
