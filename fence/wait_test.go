package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
	"example.com/devevents/internal/alone"
	"example.com/devevents/internal/crowd"
)

// A wait without a limit hung a server when one kernel never ended, and Ctrl-C
// was ignored: vllm-project/vllm#52247, NVIDIA/nvbench#290.
func TestCancelledWaitEndsAndTheEventOutlivesIt(t *testing.T) {
	dev, fences := device(t)
	s := hung(t, dev)
	f := record(t, fences, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	results := waiting(ctx, f, 10)
	polling(t, dev, 5)
	reason := errors.New("the client went away")
	cancel(reason)
	for range 10 {
		err := within(t, results)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
	}
	err := f.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled, "cancelled before")
	require.ErrorContains(t, err, "gave up after 0s")
	require.EqualValues(t, 1, dev.EventStats().LiveEvents)
	pending(t, f)

	later := waiting(context.Background(), f, 1)
	polling(t, dev, 1)
	dev.ReleaseHangs()
	require.NoError(t, within(t, later), "others may still wait")
	for range 10 {
		require.NoError(t, wait(record(t, fences, s)))
	}
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(3), "the event is used again")
}

// In a bubble of fake time a deadline can be told to the nanosecond, and what
// polls on behind a wait that has been given up would stop the bubble's end.
func TestDeadlineEndsTheWaitAndThePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, fences := inBubble(t, fence.WithBlockingThreads(0))
		f := record(t, fences, hung(t, dev))
		for _, limit := range []time.Duration{time.Nanosecond, 100 * us, time.Second, 10 * time.Second} {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			began := time.Now()
			err := f.Wait(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, limit, time.Since(began))
			cancel()
		}
		time.Sleep(20 * time.Millisecond)
		polls := dev.CallCount(mock.OpRoundBegin)
		time.Sleep(time.Hour)
		require.Equal(t, polls, dev.CallCount(mock.OpRoundBegin))
	})
}

// A core at 100 % while waiting: openmm/openmm#3547, Neroued/ninfer#301,
// pytorch/pytorch#28224, ROCm/legacy-rocm-build#3483, JuliaGPU/CUDA.jl#893. By
// design a wait that is only polled is asked about less and less often, up to each
// hundredth of its age and each 10 ms, however many wait.
func TestLongWaitIsPolledLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, fences := inBubble(t, fence.WithBlockingThreads(0))
		f := record(t, fences, hung(t, dev))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		results := waiting(ctx, f, 64)
		var at []uint64
		for _, sleep := range []time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 8 * time.Second} {
			time.Sleep(sleep)
			at = append(at, dev.CallCount(mock.OpRoundQuery))
		}
		for range 64 {
			require.ErrorIs(t, <-results, context.DeadlineExceeded)
		}
		require.InDelta(t, 100+quickPolls, at[0], quickPolls+20, "each millisecond")
		require.InDelta(t, 230, at[1]-at[0], 20, "each hundredth of the age")
		require.InDelta(t, 800, at[2]-at[1], 20, "each 10 ms")
	})
}

// quickPolls is how often a new wait is asked about without a pause, and about how
// often in the millisecond behind that.
const quickPolls = 80

// What takes longer than a poll is worth is waited for by a thread, which asks nothing.
func TestLongWaitIsHandedToAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, fences := inBubble(t)
		results := waiting(context.Background(), record(t, fences, hung(t, dev)), 64)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, dev.System().Blocked())
		require.Equal(t, 1, fences.Stats().Threads)
		polls := dev.CallCount(mock.OpRoundQuery)
		time.Sleep(time.Hour)
		require.Equal(t, polls, dev.CallCount(mock.OpRoundQuery))
		dev.ReleaseHangs()
		for range 64 {
			require.NoError(t, <-results)
		}
		synctest.Wait()
		require.Zero(t, fences.Stats().Threads)
	})
}

// A blocked wait of an ordinary event spins: 500 ms of a core for 500 ms (CUDA).
func TestNoThreadWaitsForEventsThatSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, fences := deviceWith(t, []fence.Option{fence.Coarse()}, mock.Without(mock.FeatureUntimedCreator))
		results := waiting(context.Background(), record(t, fences, hung(t, dev)), 3)
		time.Sleep(time.Second)
		require.Zero(t, dev.System().Blocked())
		dev.ReleaseHangs()
		for range 3 {
			require.NoError(t, <-results)
		}
	})
}

// Threads that hang must not keep others from their results.
func TestMoreHungStreamsThanThreadsHideNoOther(t *testing.T) {
	dev, fences := deviceWith(t, []fence.Option{fence.WithBlockingThreads(2), fence.WithBlockingAfter(0)})
	var hanging []<-chan error
	for range 5 {
		hanging = append(hanging, waiting(context.Background(), record(t, fences, hung(t, dev)), 2))
	}
	eventually(t, func() bool { return dev.System().Blocked() == 2 })
	for range 20 {
		s := stream(t, dev)
		require.NoError(t, dev.Work(s, 100*us))
		require.NoError(t, wait(record(t, fences, s)))
		require.Equal(t, 2, fences.Stats().Threads)
	}
	dev.ReleaseHangs()
	for _, r := range hanging {
		require.NoError(t, errorsOf(t, r, 2))
	}
}

func errorsOf(t *testing.T, results <-chan error, n int) error {
	t.Helper()
	var all []error
	for range n {
		all = append(all, within(t, results))
	}
	return errors.Join(all...)
}

// A thread waits for the oldest fence of a stream; the younger ones of it still get
// their results in order, with and without somebody who waits for the oldest.
func TestFencesBehindOneThatAThreadWaitsFor(t *testing.T) {
	for _, leave := range []bool{false, true} {
		dev, fences := deviceWith(t, []fence.Option{fence.WithBlockingAfter(0)})
		s := hung(t, dev)
		oldest := record(t, fences, s)
		ctx, cancel := context.WithCancel(context.Background())
		first := waiting(ctx, oldest, 1)
		eventually(t, func() bool { return dev.System().Blocked() == 1 })
		var rest []<-chan error
		for range 5 {
			rest = append(rest, waiting(context.Background(), record(t, fences, s), 2))
		}
		if leave {
			cancel()
			require.ErrorIs(t, within(t, first), context.Canceled)
		}
		dev.ReleaseHangs()
		for _, r := range rest {
			require.NoError(t, errorsOf(t, r, 2))
		}
		if !leave {
			require.NoError(t, within(t, first))
		}
		require.NoError(t, wait(oldest))
		cancel()
	}
}

// A record may find a fence reached that a thread still waits for: its event must not
// be another fence's before that thread is out of the driver.
func TestEventIsNotUsedAgainWhileAThreadWaitsForIt(t *testing.T) {
	dev, fences := deviceWith(t, []fence.Option{fence.WithBlockingAfter(0)})
	for range 200 {
		s := hung(t, dev)
		results := waiting(context.Background(), record(t, fences, s), 1)
		eventually(t, func() bool { return dev.System().Blocked() == 1 })
		var both sync.WaitGroup
		both.Go(dev.ReleaseHangs)
		both.Go(func() {
			for range 5 {
				require.NoError(t, wait(record(t, fences, s)))
			}
		})
		both.Wait()
		require.NoError(t, within(t, results))
		require.NoError(t, dev.StreamDestroy(s))
	}
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(16))
}

// A thread in the driver cannot be called back: Close ends every wait at once, gives up
// on the threads within its limit, and what they hold is destroyed when they let go.
func TestCloseNeedsNoneOfTheBlockedThreads(t *testing.T) {
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	fences := sourceOf(t, dev, fence.WithBlockingAfter(0), fence.WithCloseTimeout(20*time.Millisecond))
	var results []<-chan error
	for range 20 {
		results = append(results, waiting(context.Background(), record(t, fences, hung(t, dev)), 1))
	}
	eventually(t, func() bool { return dev.System().Blocked() == 16 })
	err := fences.Close()
	require.ErrorIs(t, err, events.ErrExpired)
	require.ErrorContains(t, err, "the driver still holds 16 calls, and 16 events")
	for _, r := range results {
		require.ErrorIs(t, within(t, r), events.ErrClosed)
	}
	dev.ReleaseHangs()
	eventually(t, func() bool { return dev.EventStats().LiveEvents == 0 && dev.System().Blocked() == 0 })
}

// A Done channel that nobody reads any longer costs polls until the fence is closed.
func TestUnreadDoneChannelIsPolledUntilTheFenceIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, fences := inBubble(t, fence.WithBlockingThreads(0))
		f := record(t, fences, hung(t, dev))
		f.Done()
		time.Sleep(10 * time.Second)
		polls := dev.CallCount(mock.OpRoundQuery)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1000, dev.CallCount(mock.OpRoundQuery)-polls, 10, "each 10 ms")
		require.NoError(t, f.Close())
		time.Sleep(20 * time.Millisecond)
		polls = dev.CallCount(mock.OpRoundQuery)
		time.Sleep(time.Hour)
		require.Equal(t, polls, dev.CallCount(mock.OpRoundQuery))
	})
}

// The result counts where both come at the same moment, whichever is first.
func TestResultAndCancelAtTheSameMoment(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	won, gaveUp := 0, 0
	for range 300 {
		require.NoError(t, dev.Work(s, us))
		f := record(t, fences, s)
		ctx, cancel := context.WithCancel(context.Background())
		results := waiting(ctx, f, 2)
		known := f.Done()
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(func() { dev.System().Advance(us) })
		both.Wait()
		for range 2 {
			switch err := within(t, results); {
			case err == nil:
				won++
			default:
				require.ErrorIs(t, err, context.Canceled)
				gaveUp++
			}
		}
		within(t, known)
		require.NoError(t, f.Wait(ctx), "known, so ctx does not count")
	}
	require.Equal(t, 600, won+gaveUp)
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(10), "no event is lost")
}

// overtaken is a context that is done by the time at which a wait looks, but not
// before the fence has a result.
type overtaken struct {
	context.Context
	result func()
	done   bool
}

func (c *overtaken) Done() <-chan struct{} {
	c.result()
	c.done = true
	over := make(chan struct{})
	close(over)
	return over
}

func (c *overtaken) Err() error {
	if c.done {
		return context.Canceled
	}
	return nil
}

func TestKnownResultCountsMoreThanCancel(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	for range 50 { // which of two ready channels is taken is left to chance
		require.NoError(t, dev.Work(s, us))
		f := record(t, fences, s)
		ctx := &overtaken{Context: context.Background(), result: func() {
			known := f.Done()
			dev.System().Advance(us)
			within(t, known)
		}}
		require.NoError(t, f.Wait(ctx))
	}
}

// A poll loop that looks only for success spins for ever once the device has
// failed, and a callback that never fires leaves its waiter:
// ComputationalRadiationPhysics/picongpu#1485, JuliaGPU/CUDA.jl#1369,
// vllm-project/vllm#52247.
func TestFaultEndsEveryWait(t *testing.T) {
	for name, off := range map[string][]mock.Feature{
		"rounds":  nil,
		"queries": {mock.FeatureRoundQuerier},
		"threads": {mock.FeatureRoundQuerier, mock.FeatureQuerier},
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice(mock.Without(off...))
			t.Cleanup(dev.System().Close)
			fences := sourceOf(t, dev)
			var results []<-chan error
			var all []*fence.Fence
			for range 3 {
				s := hung(t, dev)
				for range 3 {
					f := record(t, fences, s)
					all = append(all, f)
					results = append(results, waiting(context.Background(), f, 3))
				}
			}
			unasked := record(t, fences, stream(t, dev))
			eventually(t, func() bool {
				return dev.CallCount(mock.OpRoundQuery)+dev.CallCount(mock.OpEventQuery) > 10 || dev.System().Blocked() == 3
			})
			dev.Lose()
			for _, r := range results {
				for range 3 {
					err := within(t, r)
					require.ErrorIs(t, err, events.ErrDeviceFault)
					require.ErrorContains(t, err, "mockErrorIllegalAddress (700)")
				}
			}
			for _, f := range all {
				require.ErrorIs(t, f.Err(), events.ErrDeviceFault)
				require.ErrorIs(t, fences.WaitOn(f, hungStreamOf(dev)), events.ErrDeviceFault)
			}
			require.ErrorIs(t, wait(unasked), events.ErrDeviceFault)
			_, err := fences.Record(hungStreamOf(dev))
			require.ErrorIs(t, err, events.ErrDeviceFault)
			require.ErrorIs(t, fences.Close(), events.ErrDeviceFault)
			stats := dev.EventStats()
			require.Zero(t, stats.LiveEvents)
			require.EqualValues(t, 10, stats.AbandonedAtEnd)
		})
	}
}

// hungStreamOf wraps a stream without a call that a lost device would refuse.
func hungStreamOf(dev *mock.Device) mock.Stream { return dev.WrapStream(0) }

// A failure of one question ends the waits for that fence and no others.
func TestRefusedQueryEndsTheWaitsForItsFence(t *testing.T) {
	for _, code := range []int32{mock.CodeUnknown, mock.CodeNotPermitted, mock.CodeCaptureUnsupported} {
		for _, op := range []mock.Op{mock.OpRoundQuery, mock.OpRoundBegin} {
			t.Run(fmt.Sprint(op, code), func(t *testing.T) {
				dev, fences := device(t)
				bad, good := record(t, fences, hung(t, dev)), record(t, fences, stream(t, dev))
				dev.ResetCalls() // a record may ask about other streams
				dev.Script(mock.Fault{Op: op, Nth: 1, Code: code})
				err := wait(bad)
				require.ErrorContains(t, err, fmt.Sprintf("(%d)", code))
				require.Equal(t, code == mock.CodeCaptureUnsupported, errors.Is(err, events.ErrCapturing))
				require.EqualValues(t, 1, dev.CallCount(op), "not retried")
				require.NoError(t, wait(good))
				require.ErrorContains(t, wait(bad), fmt.Sprintf("(%d)", code), "the result stays")
				eventually(t, func() bool { return dev.EventStats().LiveEvents == 1 }) // it is not used again
			})
		}
	}
}

// 500 waits in C took 504 OS threads, and 10,000 end a Go process:
// golang/go#49057, microsoft/typescript-go#3120, ethereum/go-ethereum#2212,
// JuliaGPU/CUDA.jl#2025.
func TestHundredThousandWaitsTakeFewThreads(t *testing.T) {
	waiters := 100_000
	if raceEnabled {
		waiters = 5000 // the detector keeps a history of each
	}
	for name, off := range map[string][]mock.Feature{
		"handed over": nil,
		"polled":      {mock.FeatureUntimedCreator},
		"blocked":     {mock.FeatureQuerier, mock.FeatureRoundQuerier},
	} {
		t.Run(name, func(t *testing.T) {
			if !alone.Run(t) {
				return
			}
			dev := mock.NewDevice(mock.Without(off...))
			defer dev.System().Close()
			var over atomic.Bool
			d := crowd.Device[mock.Event, mock.Stream]{
				API:     dev,
				Busy:    func(s mock.Stream) (func() bool, error) { return over.Load, dev.Hang(s) },
				Release: func() { over.Store(true); dev.ReleaseHangs() },
			}
			for range 16 {
				d.Streams = append(d.Streams, stream(t, dev))
			}
			crowd.Waits(t, d, waiters)
			require.Zero(t, dev.EventStats().LiveEvents)
		})
	}
}

// Without queries one stream that hangs takes one thread, not all.
func TestHungStreamTakesOneBlockingThread(t *testing.T) {
	dev := mock.NewDevice(mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	t.Cleanup(dev.System().Close)
	fences := sourceOf(t, dev, fence.WithBlockingThreads(2))
	slow := hung(t, dev)
	var hanging []<-chan error
	for range 10 {
		hanging = append(hanging, waiting(context.Background(), record(t, fences, slow), 1))
	}
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	for range 10 {
		s := stream(t, dev)
		require.NoError(t, dev.Work(s, us))
		require.NoError(t, wait(record(t, fences, s)))
	}
	require.Equal(t, 1, dev.System().Blocked())
	dev.ReleaseHangs()
	for _, r := range hanging {
		require.NoError(t, within(t, r))
	}
	require.NoError(t, fences.Close())
	require.Zero(t, dev.EventStats().LiveEvents)
}
