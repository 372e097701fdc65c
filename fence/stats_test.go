package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

func TestStatsAccountForEveryFenceAndWait(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	reached := record(t, fences, stream(t, dev))
	require.NoError(t, wait(reached))
	s := hung(t, dev)
	closed, pends := record(t, fences, s), record(t, fences, s)
	require.NoError(t, closed.Close())
	over, stop := context.WithCancel(t.Context())
	waits := waiting(over, pends, 3)
	eventually(t, func() bool { return fences.Stats().Waiting == 3 })
	st := fences.Stats()
	require.Positive(t, st.Polls)
	st.Polls = 0
	require.Equal(t, "{Recorded:3 Reached:1 Failed:0 Closed:1 Pending:1 Waiting:3 GivenUp:0 Polls:0 Threads:0}", fmt.Sprintf("%+v", st))
	stop()
	for range 3 {
		require.ErrorIs(t, within(t, waits), context.Canceled)
	}
	require.ErrorIs(t, pends.Wait(over), context.Canceled)
	st = fences.Stats()
	require.Zero(t, st.Waiting)
	require.EqualValues(t, 4, st.GivenUp)
	dev.Script(mock.Fault{Op: mock.OpRoundQuery, Code: mock.CodeUnknown})
	require.ErrorContains(t, wait(pends), "mockErrorUnknown")
	dev.ClearScript()
	st = fences.Stats()
	require.EqualValues(t, 1, st.Failed)
	require.Zero(t, st.Pending)
	require.Zero(t, source(nil).Stats())
	dev.ReleaseHangs()
}

func TestStatsCountBlockedThreads(t *testing.T) {
	dev, fences := device(t, mock.Ideal(), mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	f := record(t, fences, hung(t, dev))
	waits := waiting(t.Context(), f, 2)
	eventually(t, func() bool { return fences.Stats().Threads == 1 })
	dev.ReleaseHangs()
	require.NoError(t, errors.Join(within(t, waits), within(t, waits)))
	eventually(t, func() bool { return fences.Stats().Threads == 0 })
}

// The log line of a stuck request has to say for how long, on what.
func TestTextOfAPendingFenceSaysItsAge(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	f := record(t, fences, hung(t, dev))
	time.Sleep(3 * time.Millisecond)
	require.Regexp(t, `^fence 1 of mock device 0 \(Simulated device\), stream .*, pending for [0-9.]+m?s$`, f.String())
	dev.ReleaseHangs()
	require.NoError(t, wait(f))
}
