package fence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

func TestFenceIsReachedAfterTheWorkBeforeIt(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	require.NoError(t, dev.Work(s, 100*us))
	f := record(t, fences, s)
	require.NoError(t, dev.Work(s, time.Hour))
	pending(t, f)
	early := f.Done()
	polling(t, dev, 3)
	pending(t, f)
	dev.System().Advance(100 * us)
	within(t, early)
	require.NoError(t, f.Err())
	require.NoError(t, f.Wait(context.Background()), "after completion")
	within(t, f.Done())
	require.NoError(t, f.Close())
	require.NoError(t, f.Err(), "a result stays after Close")
}

// A wait that is queued before the record counts as satisfied on the device,
// and its consumer reads unfinished data: iree-org/iree#17025,
// sgl-project/sglang#14214, eyalroz/cuda-api-wrappers#226.
func TestUnrecordedFenceIsNotWaitedFor(t *testing.T) {
	dev, fences := device(t, mock.Manual())
	s := stream(t, dev)
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Code: mock.CodeUnknown})
	failed, err := fences.Record(s)
	require.Error(t, err)
	dev.ResetCalls()
	for name, f := range map[string]*fence.Fence{"nil": nil, "zero": {}, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, f.Wait(context.Background()), events.ErrNotRecorded)
			require.ErrorIs(t, fences.WaitOn(f, s), events.ErrNotRecorded)
			require.ErrorIs(t, f.Err(), events.ErrNotRecorded)
			within(t, f.Done())
			require.Equal(t, "fence, never recorded", f.String())
			require.NoError(t, f.Close())
		})
	}
	require.Zero(t, dev.CallCount(mock.OpAny), "nothing reaches the driver")
}

func TestManyWaitersOnOneFence(t *testing.T) {
	dev, fences := device(t)
	s := hung(t, dev)
	f := record(t, fences, s)
	results := waiting(context.Background(), f, 1000)
	polling(t, dev, 5)
	pending(t, f)
	dev.ReleaseHangs()
	for range 1000 {
		require.NoError(t, within(t, results))
	}
	require.NoError(t, wait(f))
}

func TestFencesOfOneStreamComplete(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	var all []*fence.Fence
	for range 5 {
		require.NoError(t, dev.Work(s, us))
		all = append(all, record(t, fences, s))
	}
	dev.System().Advance(3 * us)
	require.NoError(t, wait(all[2]))
	require.NoError(t, all[0].Err(), "older ones are known with it")
	require.NoError(t, all[1].Err())
	pending(t, all[3])
	last := all[4].Done()
	dev.System().Advance(2 * us)
	within(t, last)
	require.NoError(t, all[3].Err())
}

// In order, a fence that is reached answers for all before it: not one question for each.
func TestManyFencesAreFoundWithFewQuestions(t *testing.T) {
	const n = 1000
	dev, fences := device(t, mock.Manual(), mock.Ideal(), mock.QueueLimit(0))
	s := stream(t, dev)
	for _, reached := range []int{n, n / 2, 1, 0} {
		var all []*fence.Fence
		for range n {
			require.NoError(t, dev.Work(s, us))
			all = append(all, record(t, fences, s))
		}
		before := dev.CallCount(mock.OpRoundQuery)
		var last <-chan struct{}
		if reached > 0 {
			last = all[reached-1].Done()
		}
		dev.System().Advance(time.Duration(reached) * us)
		if reached > 0 {
			within(t, last)
		}
		for i, f := range all[:reached] {
			require.NoError(t, f.Err(), "fence %d of %d", i, reached)
		}
		for i, f := range all[reached:] {
			require.ErrorIs(t, f.Err(), events.ErrNotReady, "fence %d behind %d", i, reached)
		}
		if reached == n {
			require.Less(t, dev.CallCount(mock.OpRoundQuery)-before, uint64(200), "some of them while the first was not reached")
		}
		dev.System().Advance(n * us)
		require.NoError(t, wait(all[n-1]))
		require.NoError(t, all[0].Err())
	}
	require.Zero(t, dev.CallCount(mock.OpEventQuery), "the pool takes the word of the fences")
	require.NoError(t, fences.Close())
}

// One handle can stand for many streams: CUDA's per-thread default stream. A
// fence there must not be hidden by an older one that hangs, nor be the reason to take
// an older one for reached.
func TestHungFenceDoesNotHideYoungerOnes(t *testing.T) {
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	alias := perThread{Device: dev, hung: hung(t, dev), useHung: new(atomic.Bool)}
	fences, err := fence.New(alias)
	require.NoError(t, err)
	s, err := alias.StreamCreateNonBlocking()
	require.NoError(t, err)
	recorded := func() *fence.Fence {
		f, err := fences.Record(s)
		require.NoError(t, err)
		return f
	}
	first := recorded()
	alias.useHung.Store(true)
	var old []*fence.Fence
	for range 10 {
		old = append(old, recorded())
	}
	alias.useHung.Store(false)
	young := recorded()
	require.NoError(t, wait(young))
	require.NoError(t, wait(first))
	results := waiting(context.Background(), old[0], 1)
	require.NoError(t, wait(recorded()), "also while somebody waits for an old one")
	time.Sleep(10 * time.Millisecond)
	require.Zero(t, dev.System().Blocked(), "a thread would see the oldest alone")
	for _, f := range old {
		pending(t, f)
	}
	dev.ReleaseHangs()
	require.NoError(t, within(t, results))
	require.NoError(t, fences.Close())
	require.Zero(t, dev.EventStats().LiveEvents)
}

func TestNothingIsPolledWhileNobodyWaits(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	s := stream(t, dev)
	f := record(t, fences, s)
	time.Sleep(5 * time.Millisecond)
	require.Zero(t, dev.CallCount(mock.OpRoundBegin))
	pending(t, f)
	require.NoError(t, wait(f))
	rounds := dev.CallCount(mock.OpRoundBegin)
	time.Sleep(5 * time.Millisecond)
	require.Equal(t, rounds, dev.CallCount(mock.OpRoundBegin))
}

func TestTextsNameDeviceAndStream(t *testing.T) {
	dev, fences := device(t, mock.Named("Toy 3000"))
	s := hung(t, dev)
	f := record(t, fences, s)
	require.Regexp(t, `^fence 1 of mock device 0 \(Toy 3000\), stream 0x[0-9a-f]+, pending for [0-9.]+m?s$`, f.String())
	require.Equal(t, "fences of mock device 0 (Toy 3000)", fences.String())
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer cancel()
	require.Regexp(t, `^fence wait: mock device 0 \(Toy 3000\), stream 0x[0-9a-f]+: gave up after [0-9.]+m?s: context deadline exceeded$`,
		f.Wait(ctx).Error())
	require.NoError(t, f.Close())
	require.Regexp(t, `, closed$`, f.String())
	done := record(t, fences, stream(t, dev))
	require.NoError(t, wait(done))
	require.Regexp(t, `^fence 2 .*, reached$`, done.String())
	dev.Script(mock.Fault{Op: mock.OpRoundQuery, Nth: 1, Code: mock.CodeUnknown})
	failed := record(t, fences, stream(t, dev))
	require.Regexp(t, `^fence wait: after [0-9.]+[µm]?s: mock device 0 \(Toy 3000\), stream 0x[0-9a-f]+: mockRoundQuery: mockErrorUnknown \(999\)$`,
		wait(failed).Error())
	require.Regexp(t, `, failed: mockRoundQuery: mockErrorUnknown \(999\)$`, failed.String())
	require.Equal(t, "no fences", source(nil).String())
}

func TestBadOptionsAndNothingAreRefused(t *testing.T) {
	dev := mock.NewDevice()
	for name, opt := range map[string]fence.Option{
		"limit": fence.WithLimit(0), "threads": fence.WithBlockingThreads(-1), "timeout": fence.WithCloseTimeout(0), "before it began": fence.WithBlockingAfter(-1),
	} {
		_, err := fence.New(dev, opt)
		require.ErrorIs(t, err, events.ErrInvalid, name)
	}
	_, err := fence.New(dev, fence.WithLimit(3), nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorContains(t, err, "option 1 is nil")
	_, err = fence.New[mock.Event, mock.Stream](nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	var none source
	_, err = none.Record(mock.Stream{})
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorIs(t, none.WaitOn(nil, mock.Stream{}), events.ErrInvalid)
	require.NoError(t, none.Close())

	dev, fences := device(t)
	_, err = fences.Record(mock.Stream{})
	require.ErrorIs(t, err, events.ErrInvalid)
	f := record(t, fences, stream(t, dev))
	require.ErrorIs(t, f.Wait(nil), events.ErrInvalid) //nolint:staticcheck // what a mistake gets
}

// Without queries and without threads nobody would ever find out.
func TestNoThreadsAreRefusedWhereNothingElseLooks(t *testing.T) {
	dev := mock.NewDevice(mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	defer dev.System().Close()
	_, err := fence.New(dev, fence.WithBlockingThreads(0))
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorContains(t, err, "cannot query")
}

// A Source that New did not make is an error in every call, and no crash.
func TestSourceThatWasNeverMadeSaysSo(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	s := stream(t, dev)
	f := record(t, fences, s)
	for name, none := range map[string]source{"nil": nil, "zero": {}} {
		_, err := none.Record(s)
		require.ErrorIs(t, err, events.ErrInvalid, name)
		require.ErrorContains(t, err, "fence.New makes one", name)
		require.ErrorIs(t, none.WaitOn(f, s), events.ErrInvalid, name)
		require.ErrorIs(t, none.WaitOn(nil, s), events.ErrInvalid, name)
		require.Zero(t, none.Stats(), name)
		require.Equal(t, "no fences", none.String(), name)
		require.NoError(t, none.Close(), name)
		require.NoError(t, none.Close(), name)
	}
}

// The api of no device is refused by the first record, and not by a crash.
func TestFencesOfNoErasedDeviceAreRefused(t *testing.T) {
	fences, err := fence.New(events.Erase[mock.Event, mock.Stream](nil))
	if err == nil {
		_, err = fences.Record(events.AnyStream{})
		require.NoError(t, fences.Close())
	}
	require.ErrorIs(t, err, events.ErrInvalid)
}
