package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

// A round-robin pool used an event again while others still waited for it: one
// program hung, another waited only for the last record, and one handle ended in
// somebody else's graph. ComputationalRadiationPhysics/picongpu#1189,
// torch/cutorch#222, ROCm/hrx-system#211, peak-team/peak#84.
func TestLateWaiterWaitsForTheFirstRecord(t *testing.T) {
	dev, fences := device(t)
	slow, quick := hung(t, dev), stream(t, dev)
	first := record(t, fences, slow)
	early := waiting(context.Background(), first, 3)
	for range 1000 {
		f := record(t, fences, quick)
		require.NoError(t, wait(f))
		require.NoError(t, f.Close())
	}
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(10), "others share what is free")
	late := waiting(context.Background(), first, 3)
	polling(t, dev, 5)
	pending(t, first)
	require.Empty(t, early)
	require.Empty(t, late)
	dev.ReleaseHangs()
	for range 3 {
		require.NoError(t, within(t, early))
		require.NoError(t, within(t, late))
	}
}

// Events of fences that nobody waited for, closed or not, are used again.
func TestDroppedFencesGiveTheirEventsBack(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s, other := stream(t, dev), stream(t, dev)
	for i := range 10_000 {
		f := record(t, fences, s)
		require.NoError(t, fences.WaitOn(f, other))
		if i%2 == 0 {
			require.NoError(t, f.Close())
		}
	}
	// They are asked for 32 at a time, since one question answers for as many.
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(33))
}

// The same where the backend cannot query: there Close must do it.
func TestClosedFencesGiveTheirEventsBackWithoutQueries(t *testing.T) {
	dev, fences := device(t, mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	s := hung(t, dev)
	for range 100 {
		f := record(t, fences, s)
		require.NoError(t, f.Close())
		require.ErrorIs(t, f.Wait(context.Background()), events.ErrClosed)
	}
	require.Zero(t, dev.EventStats().LiveEvents)

	other := mock.NewDevice(mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	fences = sourceOf(t, other)
	f := record(t, fences, stream(t, other))
	other.Script(mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Code: mock.CodeUnknown})
	require.ErrorContains(t, f.Close(), "fence close: mock device 0")
	require.NoError(t, fences.Close(), "told already")
}

func TestLimitIsAnErrorAndPasses(t *testing.T) {
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	fences := sourceOf(t, dev, fence.WithLimit(3))
	slow := hung(t, dev)
	var held []*fence.Fence
	for range 3 {
		held = append(held, record(t, fences, slow))
	}
	_, err := fences.Record(stream(t, dev))
	require.ErrorIs(t, err, events.ErrFull)
	require.ErrorContains(t, err, "WithLimit")
	require.EqualValues(t, 3, dev.EventStats().LiveEvents)
	dev.ReleaseHangs()
	record(t, fences, stream(t, dev))
	require.NoError(t, held[2].Err(), "found out when an event was needed")
	require.NoError(t, fences.Close())
	require.Zero(t, dev.EventStats().LiveEvents)
}

// A program that makes streams as it goes does not make the source grow.
func TestManyStreamsComeAndGo(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	kept := hung(t, dev)
	old := record(t, fences, kept)
	for range 1000 {
		s := stream(t, dev)
		require.NoError(t, wait(record(t, fences, s)))
		require.NoError(t, dev.StreamDestroy(s))
	}
	require.Less(t, fence.Lanes(fences), 200)
	dev.ReleaseHangs()
	require.NoError(t, wait(old))
}

func TestClosedFenceEndsItsWaits(t *testing.T) {
	dev, fences := device(t)
	s := hung(t, dev)
	f := record(t, fences, s)
	results := waiting(context.Background(), f, 5)
	done := f.Done()
	polling(t, dev, 5)
	require.NoError(t, f.Close())
	for range 5 {
		require.ErrorIs(t, within(t, results), events.ErrClosed)
	}
	within(t, done)
	require.ErrorIs(t, f.Err(), events.ErrClosed)
	require.ErrorIs(t, f.Wait(context.Background()), events.ErrClosed)
	require.ErrorIs(t, fences.WaitOn(f, s), events.ErrClosed)
	within(t, f.Done())
	require.NoError(t, f.Close())
	require.EqualValues(t, 1, dev.EventStats().LiveEvents, "the device has not reached it")
	dev.ReleaseHangs()
	for range 10 {
		require.NoError(t, wait(record(t, fences, s)))
	}
	require.LessOrEqual(t, dev.EventStats().LiveEvents, int64(3), "now it has")
}

func TestCloseOfTheSourceEndsEverything(t *testing.T) {
	for name, off := range map[string][]mock.Feature{
		"polled":  nil,
		"blocked": {mock.FeatureRoundQuerier, mock.FeatureQuerier},
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice(mock.Without(off...))
			fences := sourceOf(t, dev)
			var results []<-chan error
			for range 4 {
				s := hung(t, dev)
				for range 4 {
					f := record(t, fences, s)
					results = append(results, waiting(context.Background(), f, 2))
					f.Done()
				}
			}
			reached := record(t, fences, stream(t, dev))
			require.NoError(t, wait(reached))
			eventually(t, func() bool { return dev.CallCount(mock.OpRoundQuery) > 5 || dev.System().Blocked() == 4 })
			// A blocked call of the driver ends when the device is done.
			closed := make(chan error, 2)
			for range 2 {
				go func() { closed <- fences.Close() }()
			}
			for _, r := range results {
				for range 2 {
					require.ErrorIs(t, within(t, r), events.ErrClosed, "at once, whatever the driver does")
				}
			}
			dev.ReleaseHangs()
			require.NoError(t, within(t, closed))
			require.NoError(t, within(t, closed))
			require.NoError(t, fences.Close())
			require.Zero(t, dev.EventStats().LiveEvents)
			require.Zero(t, dev.OpenRounds())

			dev.ResetCalls()
			_, err := fences.Record(stream(t, dev))
			require.ErrorIs(t, err, events.ErrClosed)
			require.ErrorIs(t, fences.WaitOn(reached, stream(t, dev)), events.ErrClosed)
			require.NoError(t, reached.Wait(context.Background()), "a result stays")
			require.Zero(t, dev.CallCount(mock.OpEventRecord))
		})
	}
}

// Close must end also where the driver does not: each call that can hang does.
func TestCloseIsNotHeldUpByTheDriver(t *testing.T) {
	const limit = 20 * time.Millisecond
	t.Run("blocked waits", func(t *testing.T) {
		dev := mock.NewDevice(mock.Without(mock.FeatureRoundQuerier, mock.FeatureQuerier))
		fences := sourceOf(t, dev, fence.WithCloseTimeout(limit))
		for range 3 {
			waiting(context.Background(), record(t, fences, hung(t, dev)), 1)
		}
		eventually(t, func() bool { return dev.System().Blocked() == 3 })
		err := fences.Close()
		require.ErrorIs(t, err, events.ErrExpired)
		require.ErrorContains(t, err, "holds 3 calls")
		require.Equal(t, err, fences.Close())
		dev.ReleaseHangs()
		eventually(t, func() bool { return dev.EventStats().LiveEvents == 0 })
	})
	t.Run("a record on a full queue", func(t *testing.T) {
		dev := mock.NewDevice(mock.QueueLimit(2))
		fences := sourceOf(t, dev, fence.WithCloseTimeout(limit))
		s := hung(t, dev)
		record(t, fences, s)
		refused := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := fences.Record(s)
				refused <- err
			}()
		}
		eventually(t, func() bool { return dev.System().Blocked() == 1 })
		require.ErrorIs(t, fences.Close(), events.ErrExpired)
		dev.ReleaseHangs()
		require.ErrorIs(t, within(t, refused), events.ErrClosed)
		require.ErrorIs(t, within(t, refused), events.ErrClosed)
		require.Zero(t, dev.EventStats().LiveEvents)
	})
	for _, op := range []mock.Op{mock.OpEventDestroy, mock.OpRoundQuery, mock.OpRoundBegin, mock.OpRoundEnd} {
		t.Run(op.String(), func(t *testing.T) {
			dev := mock.NewDevice()
			fences := sourceOf(t, dev, fence.WithCloseTimeout(limit))
			f := record(t, fences, hung(t, dev))
			record(t, fences, stream(t, dev))
			entered, letGo := make(chan struct{}), make(chan struct{})
			dev.Script(mock.Fault{Op: op, Nth: 1, Hook: func() {
				close(entered)
				<-letGo
			}})
			result := waiting(context.Background(), f, 1)
			if op != mock.OpEventDestroy {
				within(t, entered)
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				require.ErrorIs(t, record(t, fences, stream(t, dev)).Wait(ctx), context.DeadlineExceeded, "nor is a wait")
				cancel()
			}
			require.ErrorIs(t, fences.Close(), events.ErrExpired)
			require.ErrorIs(t, within(t, result), events.ErrClosed)
			close(letGo)
			eventually(t, func() bool { return dev.EventStats().LiveEvents == 0 })
		})
	}
}

// Whatever is refused, the caller hears it, and nothing is left behind.
func TestRefusalsLeaveNothingBehind(t *testing.T) {
	for _, op := range []mock.Op{mock.OpEventCreateUntimed, mock.OpEventRecord, mock.OpStreamCapturing} {
		t.Run(op.String(), func(t *testing.T) {
			dev, fences := device(t)
			s := stream(t, dev)
			dev.Script(mock.Fault{Op: op, Nth: 1, Code: mock.CodeUnknown})
			f, err := fences.Record(s)
			require.ErrorContains(t, err, "(999)")
			require.ErrorContains(t, err, "fence record: mock device 0 (Simulated device), stream 0x")
			require.Nil(t, f)
			require.NoError(t, wait(record(t, fences, s)))
			require.EqualValues(t, 1, dev.EventStats().LiveEvents)
		})
	}
	t.Run("out of memory", func(t *testing.T) {
		dev, fences := device(t)
		dev.Script(mock.Fault{Op: mock.OpEventCreateUntimed, Code: mock.CodeOutOfMemory, Count: 2})
		_, err := fences.Record(stream(t, dev))
		require.ErrorIs(t, err, events.ErrFull)
		require.NotContains(t, err.Error(), "WithLimit")
	})
	t.Run("stream wait", func(t *testing.T) {
		dev, fences := device(t)
		f := record(t, fences, hung(t, dev))
		dev.Script(mock.Fault{Op: mock.OpStreamWaitEvent, Nth: 1, Code: mock.CodeUnknown})
		require.ErrorContains(t, fences.WaitOn(f, stream(t, dev)), "(999)")
		pending(t, f)
		dev.ReleaseHangs()
		require.NoError(t, wait(f))
	})
	t.Run("end of a round", func(t *testing.T) {
		dev := mock.NewDevice()
		fences := sourceOf(t, dev)
		dev.Script(mock.Fault{Op: mock.OpRoundEnd, Nth: 1, Count: 10, Code: mock.CodeUnknown})
		for range 10 {
			require.NoError(t, wait(record(t, fences, stream(t, dev))), "the answer was given")
		}
		err := fences.Close()
		require.ErrorContains(t, err, "fence: close of the source for mock device 0")
		require.ErrorContains(t, err, "mockRoundEnd: mockErrorUnknown (999)")
		require.ErrorContains(t, err, "and 6 more")
		require.Zero(t, dev.EventStats().LiveEvents)
	})
	t.Run("destroy", func(t *testing.T) {
		dev := mock.NewDevice()
		fences := sourceOf(t, dev)
		record(t, fences, hung(t, dev))
		require.NoError(t, wait(record(t, fences, stream(t, dev))))
		dev.Script(mock.Fault{Op: mock.OpEventDestroy, Code: mock.CodeUnknown})
		require.ErrorContains(t, fences.Close(), "mockEventDestroy: mockErrorUnknown (999)")
		require.EqualValues(t, 2, dev.CallCount(mock.OpEventDestroy), "each was tried")
	})
}

// The device is lost at each of the calls that a fence's life is made of.
func TestDeviceLostAtEachStep(t *testing.T) {
	ops := []mock.Op{
		mock.OpEventCreateUntimed, mock.OpEventRecord, mock.OpStreamCapturing, mock.OpStreamWaitEvent,
		mock.OpRoundBegin, mock.OpRoundQuery, mock.OpRoundEnd, mock.OpEventDestroy,
	}
	for _, op := range ops {
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprint(op, nth), func(t *testing.T) {
				dev := mock.NewDevice(mock.Ideal())
				t.Cleanup(dev.System().Close)
				fences := sourceOf(t, dev)
				streams := []mock.Stream{stream(t, dev), stream(t, dev), hung(t, dev)}
				dev.Script(mock.Fault{Op: op, Nth: nth, Lose: true, Code: mock.CodeLaunchFailure})
				lost := false
				check := func(err error) {
					if err != nil {
						require.ErrorIs(t, err, events.ErrDeviceFault)
						require.ErrorContains(t, err, "(719)")
						lost = true
					}
				}
				var results []<-chan error
				for i, s := range streams {
					for range 2 {
						f, err := fences.Record(s)
						check(err)
						if err != nil {
							continue
						}
						results = append(results, waiting(context.Background(), f, 2))
						check(fences.WaitOn(f, streams[(i+1)%3]))
						if s != streams[2] {
							check(wait(f))
						}
					}
				}
				dev.ReleaseHangs()
				for _, r := range results {
					check(within(t, r))
					check(within(t, r))
				}
				check(fences.Close())
				require.True(t, lost, "somebody is told")
				stats := dev.EventStats()
				require.Zero(t, stats.LiveEvents)
				require.Zero(t, dev.OpenRounds())
			})
		}
	}
}

// Everything at once, for the race detector; at the end nothing is left.
func TestHammer(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	dev, fences := device(t)
	streams := []mock.Stream{stream(t, dev), stream(t, dev), stream(t, dev)}
	shared := make(chan *fence.Fence, 64)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range rounds {
				if err := hammer(dev, fences, streams, shared, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func hammer(dev *mock.Device, fences source, streams []mock.Stream, shared chan *fence.Fence, r *rand.Rand) error {
	s := streams[r.IntN(len(streams))]
	if err := dev.Work(s, time.Duration(r.IntN(50))*us); err != nil {
		return err
	}
	f, err := fences.Record(s)
	if err != nil {
		return err
	}
	select {
	case shared <- f:
	default:
	}
	closedIsFine := func(err error) error {
		if errors.Is(err, events.ErrClosed) {
			return nil
		}
		return err
	}
	for range 3 {
		select {
		case g := <-shared:
			f = g
		default:
		}
		switch r.IntN(6) {
		case 0:
			err = closedIsFine(wait(f))
		case 1:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(100))*us)
			if err = closedIsFine(f.Wait(ctx)); errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			cancel()
		case 2:
			<-f.Done()
			err = closedIsFine(f.Err())
		case 3:
			err = closedIsFine(fences.WaitOn(f, streams[r.IntN(len(streams))]))
		case 4:
			err = f.Close()
		case 5:
			_ = f.String()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// At most 100 mallocs in 100,000 records.
func TestRecordAllocatesNextToNothing(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	for range 10_000 {
		record(t, fences, s)
	}
	const n = 100_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if _, err := fences.Record(s); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.Mallocs-before.Mallocs, uint64(100))
}
