package profiler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"example.com/devevents/events"
)

// However many sinks are stuck, Close is held up once: by its deadline, or by a moment if
// nothing is left of it.
func TestStuckSinksHoldCloseUpOnceForAllOfThem(t *testing.T) {
	for _, left := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint(left, " left"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := make(chan struct{})
				set := &sinkSet{limit: 4, count: &counters{}, log: zap.NewNop()}
				const n = 1000
				for range n {
					_, err := set.add(SinkFunc(func([]Span) error { <-stuck; return nil }))
					require.NoError(t, err)
				}
				set.push([]Span{{}})
				synctest.Wait()
				set.push([]Span{{}, {}})
				began := time.Now()
				late := set.close(began.Add(left), left)
				require.Equal(t, max(left, sinkGrace), time.Since(began)) // the bubble's time
				require.Len(t, late, n)
				require.ErrorIs(t, late[0], events.ErrExpired)
				require.EqualValues(t, 2*n, set.count.sinkDropped.Load(), "what waited is lost and counted")
				close(stuck)
			})
		})
	}
}
