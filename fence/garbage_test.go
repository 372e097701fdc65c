package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

var noQueries = mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier)

// limitedDevice is device with options for the source.
func limitedDevice(t *testing.T, opts []fence.Option, on ...mock.Option) (*mock.Device, source) {
	t.Helper()
	dev := mock.NewDevice(on...)
	t.Cleanup(dev.System().Close)
	fences := sourceOf(t, dev, opts...)
	t.Cleanup(func() {
		dev.ReleaseHangs()
		require.NoError(t, fences.Close())
		require.Zero(t, dev.EventStats().LiveEvents)
	})
	return dev, fences
}

// recordWhenThereIsRoom records on s, as often as it is refused for want of room.
func recordWhenThereIsRoom(t *testing.T, fences source, s mock.Stream) (f *fence.Fence) {
	t.Helper()
	eventually(t, func() (ok bool) {
		var err error
		if f, err = fences.Record(s); err != nil {
			require.ErrorIs(t, err, events.ErrFull)
		}
		return err == nil
	})
	return f
}

// A fence may be dropped, and a wait given up; where the backend cannot query,
// nobody found out that the device had reached such fences, and the source was
// full for ever.
func TestDroppedFencesComeBackWithoutQueries(t *testing.T) {
	const limit, fencesMade = 20, 100
	for name, give := range map[string]func(*fence.Fence) error{
		"dropped": func(*fence.Fence) error { return nil },
		"given up": func(f *fence.Fence) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := f.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	} {
		for _, streams := range []int{1, 3, fencesMade} {
			t.Run(fmt.Sprint(name, streams), func(t *testing.T) {
				dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(limit), fence.WithBlockingThreads(2)}, mock.Ideal(), noQueries)
				var all []mock.Stream
				for range streams {
					all = append(all, stream(t, dev))
				}
				for i := range fencesMade {
					require.NoError(t, give(recordWhenThereIsRoom(t, fences, all[i%streams])))
					require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(limit))
				}
				require.EqualValues(t, fencesMade, fences.Stats().Recorded)
			})
		}
	}
}

// A dropped fence that was collected still has its result.
func TestCollectedFenceCanStillBeWaitedForWithoutQueries(t *testing.T) {
	dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(4)}, mock.Ideal(), noQueries)
	s := stream(t, dev)
	first := record(t, fences, s)
	for range 10 {
		recordWhenThereIsRoom(t, fences, s)
	}
	require.NoError(t, first.Err())
	require.NoError(t, wait(first))
}

// Record has to say no, and soon, when the device is the reason.
func TestFullSourceWithoutQueriesRefusesWhileTheDeviceHangs(t *testing.T) {
	dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(3)}, mock.Ideal(), noQueries)
	slow := hung(t, dev)
	for range 3 {
		record(t, fences, slow)
	}
	for range 3 {
		_, err := fences.Record(slow)
		require.ErrorIs(t, err, events.ErrFull)
		require.ErrorContains(t, err, "WithLimit")
	}
	require.Equal(t, 1, fences.Stats().Threads, "one thread for one stream")
	dev.ReleaseHangs()
	recordWhenThereIsRoom(t, fences, slow)
}

// Fences that nobody waits for must not take every thread from those that somebody
// waits for.
func TestDroppedFencesLeaveThreadsToThoseWhoWait(t *testing.T) {
	dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(12), fence.WithBlockingThreads(4)}, mock.Ideal(), noQueries)
	for range 11 {
		record(t, fences, hung(t, dev))
	}
	eventually(t, func() bool { return dev.System().Blocked() == 2 })
	f := record(t, fences, stream(t, dev))
	_, err := fences.Record(stream(t, dev))
	require.ErrorIs(t, err, events.ErrFull)
	require.Equal(t, 2, dev.System().Blocked(), "half of the threads")
	require.NoError(t, wait(f))
}

// Nothing blocks a thread as long as few fences are unfinished.
func TestFewDroppedFencesTakeNoThread(t *testing.T) {
	dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(12)}, mock.Ideal(), noQueries)
	for range 6 {
		record(t, fences, hung(t, dev))
	}
	time.Sleep(2 * time.Millisecond) // time for a wrong thread
	require.Zero(t, dev.CallCount(mock.OpEventWait)+uint64(dev.System().Blocked()))
}

// A service makes a stream and drops a fence for each request. Their events were
// kept until the limit, tens of thousands of them, since nobody recorded on those
// streams again.
func TestDroppedFencesOfStreamsOutOfUseComeBack(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal(), mock.QueueLimit(0))
	const pend = 50
	for range pend {
		record(t, fences, hung(t, dev))
	}
	for range 10_000 {
		s := stream(t, dev)
		record(t, fences, s)
		require.NoError(t, dev.StreamDestroy(s))
	}
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(4*pend), "in proportion to those that pend")
	require.Less(t, fence.Lanes(fences), 500)
	dev.ReleaseHangs()
}

// One Record at the limit asked about everything, 100 ms for 65,536 fences, while
// nobody else could poll.
func TestRecordAsksABoundedNumberOfQuestions(t *testing.T) {
	const limit = 2000
	for _, streams := range []int{1, 10, limit} {
		t.Run(strconv.Itoa(streams), func(t *testing.T) {
			dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(limit)}, mock.Manual(), mock.Ideal(), mock.QueueLimit(0))
			var all []mock.Stream
			for i := range limit {
				if i < streams {
					all = append(all, hung(t, dev))
				}
				record(t, fences, all[i%streams])
			}
			_, err := fences.Record(all[0])
			require.ErrorIs(t, err, events.ErrFull)
			dev.ReleaseHangs()
			for i := range limit {
				dev.ResetCalls()
				record(t, fences, all[i%streams])
				require.LessOrEqual(t, dev.CallCount(mock.OpRoundQuery), uint64(256))
			}
		})
	}
}

// Whoever is refused does not start again where the last one started: one stream
// that is done is found among thousands that hang.
func TestFullSourceFindsTheOneStreamThatIsDone(t *testing.T) {
	const limit = 1000
	dev, fences := limitedDevice(t, []fence.Option{fence.WithLimit(limit)}, mock.Manual(), mock.Ideal(), mock.QueueLimit(0))
	done := stream(t, dev)
	require.NoError(t, dev.Work(done, us))
	var slow mock.Stream
	for i := range limit {
		s := done
		if i != 700 {
			s = hung(t, dev)
			slow = s
		}
		record(t, fences, s)
	}
	_, err := fences.Record(slow)
	require.ErrorIs(t, err, events.ErrFull)
	dev.System().Advance(us)
	refused := 0
	for ; err != nil && refused < 10; refused++ {
		_, err = fences.Record(slow)
	}
	require.NoError(t, err)
}

// A wait behind thousands of dropped fences of its stream must not hold up the
// waits for other streams.
func TestWaitBehindManyDroppedFencesLetsOthersIn(t *testing.T) {
	const dropped = 2000
	dev, fences := device(t, mock.Manual(), mock.Ideal(), mock.QueueLimit(0), mock.CallLog(20_000))
	long, short := hung(t, dev), hung(t, dev)
	var last *fence.Fence
	for range dropped {
		last = record(t, fences, long)
	}
	f := record(t, fences, short)
	dev.ReleaseHangs()
	entered, letGo := make(chan struct{}), make(chan struct{})
	dev.Script(mock.Fault{Op: mock.OpRoundQuery, Nth: 1, Hook: func() {
		close(entered)
		<-letGo
	}})
	behind := waiting(context.Background(), last, 1)
	within(t, entered)
	other := waiting(context.Background(), f, 1)
	eventually(t, func() bool { return fences.Stats().Waiting == 2 })
	close(letGo)
	require.NoError(t, within(t, other))
	require.NoError(t, within(t, behind))

	var event uint64
	asked := 0
	for _, c := range dev.Calls() {
		switch {
		case c.Op == mock.OpEventRecord && c.Stream == short.ID():
			event = c.Event
		case c.Op == mock.OpRoundQuery && c.Event == event:
			require.LessOrEqual(t, asked, 2*256)
			return
		case c.Op == mock.OpRoundQuery && event != 0:
			asked++
		}
	}
	t.Fatal("the other stream was never asked about")
}
