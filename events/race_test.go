package events_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func hammerRounds() int {
	if testing.Short() {
		return 200
	}
	return 5000
}

// A destroy beside a query crashed in the driver: harrism/cuda_event_benchmark#2,
// lupinemachines/lupine#526. Whoever comes late is refused before the device.
func TestCloseHammerBesideEveryOtherCall(t *testing.T) {
	dev := device(t, mock.EventCost(us), mock.LaunchLatency(0), mock.CallLog(100_000))
	streams := []mock.Stream{newStream(t, dev), newStream(t, dev)}
	done := completed(t, dev, streams[0])
	for range hammerRounds() {
		e := recorded(t, dev, streams[0])
		uses := []func() error{
			func() error { return e.Record(streams[1]) },
			func() error { return e.Wait() },
			func() error { return e.WaitOn(streams[0]) },
			func() error { _, err := e.Query(); return err },
			func() error { _, err := events.Elapsed(done, e); return err },
			func() error { _, err := events.Elapsed(e, done); return err },
			func() error {
				if err := e.Hold(); err != nil {
					return err
				}
				return e.Release()
			},
			func() error { return e.Close() },
			func() error { return e.Close() },
		}
		var all sync.WaitGroup
		failed := make([]error, len(uses))
		for i, use := range uses {
			all.Go(func() { failed[i] = use() })
		}
		all.Wait()
		for _, err := range failed {
			switch {
			case err == nil, errors.Is(err, events.ErrDestroyed), errors.Is(err, events.ErrNotReady), errors.Is(err, events.ErrReversed):
			default:
				require.NoError(t, err)
			}
		}
		require.ErrorIs(t, e.Wait(), events.ErrDestroyed)
	}
	require.NoError(t, done.Close())
	noLiveEvents(t, dev)
	noStaleHandle(t, dev)
}

func TestReleaseHammerDestroysOnce(t *testing.T) {
	dev := device(t)
	for range hammerRounds() {
		const holders = 6
		e := newEvent(t, dev)
		for range holders - 1 {
			require.NoError(t, e.Hold())
		}
		var all sync.WaitGroup
		var refused atomic.Int32
		for range holders + 2 {
			all.Go(func() {
				if errors.Is(e.Release(), events.ErrDestroyed) {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		require.Equal(t, int32(2), refused.Load())
	}
	require.Equal(t, uint64(hammerRounds()), dev.CallCount(mock.OpEventDestroy))
	noLiveEvents(t, dev)
}

// A poller elsewhere killed the capture that an event was being recorded into:
// pytorch/pytorch#104487, pytorch/pytorch#176251.
func TestPollerHammerLeavesTheCaptureAlone(t *testing.T) {
	dev := device(t, mock.EventCost(0), mock.LaunchLatency(0))
	captured, free := newStream(t, dev), newStream(t, dev)
	e := recorded(t, dev, free)
	var stop atomic.Bool
	var polls atomic.Uint64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				_, _ = e.Query()
				polls.Add(1)
			}
		})
	}
	broken := 0
	for range hammerRounds() / 8 {
		require.NoError(t, dev.BeginCapture(captured, events.CaptureGlobal))
		seen := polls.Load()
		require.ErrorIs(t, e.Record(captured), events.ErrCapturing)
		for polls.Load() < seen+2 {
			runtime.Gosched()
		}
		if _, err := dev.EndCapture(captured); err != nil {
			broken++
		}
		require.NoError(t, e.Record(free))
	}
	stop.Store(true)
	all.Wait()
	require.Zero(t, broken, "captures broken by a query")
}

// Of two records at the same time the one that the device saw last counts, so
// that no event which went into a capture is taken for a pending one.
func TestRecordHammerKnowsWhichRecordWasLast(t *testing.T) {
	dev := device(t, mock.EventCost(0), mock.LaunchLatency(0), mock.CallLog(16))
	captured, free := newStream(t, dev), newStream(t, dev)
	require.NoError(t, dev.BeginCapture(captured, events.CaptureGlobal))
	e := newEvent(t, dev)
	for range hammerRounds() {
		dev.ResetCalls()
		var all sync.WaitGroup
		for _, s := range []mock.Stream{captured, free, captured, free} {
			all.Go(func() { _ = e.Record(s) })
		}
		all.Wait()
		var last mock.Call
		for _, c := range dev.Calls() {
			if c.Op == mock.OpEventRecord {
				last = c
			}
		}
		want := events.StateRecorded
		if last.Stream == captured.ID() {
			want = events.StateCaptured
		}
		require.Equal(t, want, e.State())
	}
}
