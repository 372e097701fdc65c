package events_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

type mockPool = events.Pool[mock.Event, mock.Stream]

func newPool(t testing.TB, api mockApi, limit int) *mockPool {
	t.Helper()
	p := events.NewPool(api, limit, false)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// sameHandle and otherHandle tell the backend's events apart, not their holders'.
func sameHandle(t testing.TB, want, got *mockEvent, why ...any) {
	t.Helper()
	require.Equal(t, events.Handle(want), events.Handle(got), why...)
}

func otherHandle(t testing.TB, want, got *mockEvent, why ...any) {
	t.Helper()
	require.NotEqual(t, events.Handle(want), events.Handle(got), why...)
}

// released gives an event back before the device has reached it.
func released(t testing.TB, p *mockPool, stream mock.Stream) *mockEvent {
	t.Helper()
	e := get(t, p)
	require.NoError(t, e.Record(stream))
	require.NoError(t, e.Release())
	return e
}

// Events were made in a loop and never destroyed: pytorch/pytorch#38313,
// pytorch/pytorch#39962, tromp/cuckoo#69, llnl/camp#71.
func TestPoolGrowsToItsLimitAndSaysWhenItIsFull(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	p := newPool(t, dev, 3)
	require.Zero(t, p.Len())
	var held []*mockEvent
	made := map[mock.Event]bool{}
	for i := range 3 {
		held = append(held, get(t, p))
		made[events.Handle(held[i])] = true
		require.Equal(t, i+1, p.Len())
	}
	require.Len(t, made, 3)
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrFull)
	require.ErrorContains(t, err, "3 events")
	for _, e := range held {
		require.NoError(t, e.Release())
	}
	for i := range held {
		held[i] = get(t, p)
		require.True(t, made[events.Handle(held[i])], "nothing new is made while old ones are free")
	}
	require.Equal(t, uint64(3), dev.CallCount(mock.OpEventCreate))
	for _, e := range held {
		require.NoError(t, e.Release())
	}
	require.NoError(t, p.Close())
	noLiveEvents(t, dev)
}

func TestPoolNeedsALimit(t *testing.T) {
	for _, limit := range []int{0, -1} {
		require.PanicsWithValue(t, "events.NewPool: limit "+map[int]string{0: "0", -1: "-1"}[limit]+" is not positive",
			func() { events.NewPool[mock.Event, mock.Stream](device(t), limit, false) })
	}
}

func TestPoolMakesEventsWithoutTimingWhereTheBackendCan(t *testing.T) {
	for _, can := range []bool{true, false} {
		var opts []mock.Option
		if !can {
			opts = append(opts, mock.Without(mock.FeatureUntimedCreator))
		}
		p := events.NewPool[mock.Event, mock.Stream](device(t, opts...), 1, true)
		require.Equal(t, can, get(t, p).Untimed())
		require.NoError(t, p.Close())
	}
}

// A round-robin pool handed out events that others still waited for: one
// program deadlocked, one waited for the wrong record:
// ComputationalRadiationPhysics/picongpu#1189, torch/cutorch#222,
// ROCm/hrx-system#211.
func TestPoolNeverHandsOutAPendingEvent(t *testing.T) {
	dev := device(t, mock.Manual())
	p := newPool(t, dev, 2)
	busy := hung(t, dev)
	first := released(t, p, busy)
	other := get(t, p)
	otherHandle(t, first, other, "it grows before it steals")
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrFull)
	dev.ReleaseHangs()
	dev.System().Advance(time.Second)
	sameHandle(t, first, get(t, p))
}

func TestPoolNeverHandsOutAHeldEvent(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	p := newPool(t, dev, 1)
	e := get(t, p)
	require.NoError(t, e.Record(newStream(t, dev)))
	require.NoError(t, e.Wait())
	require.NoError(t, e.Hold())
	require.NoError(t, e.Release())
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrFull)
	require.NoError(t, e.Release())
	sameHandle(t, e, get(t, p))
}

// A call in progress counts as a holder.
func TestPoolNeverHandsOutAnEventThatACallIsUsing(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	p := newPool(t, dev, 1)
	e := get(t, p)
	require.NoError(t, e.Record(hung(t, dev)))
	waited := make(chan error)
	go func() { waited <- e.Wait() }()
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	require.NoError(t, e.Release())
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrFull)
	dev.ReleaseHangs()
	require.NoError(t, <-waited)
	sameHandle(t, e, get(t, p))
}

// A captured event that comes back would be polled, and the capture would break:
// peak-team/peak#84.
func TestPoolRetiresCapturedEventsUnasked(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.CallLog(100))
	p := newPool(t, dev, 1)
	s := newStream(t, dev)
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	e := get(t, p)
	require.ErrorIs(t, e.Record(s), events.ErrCapturing)
	require.NoError(t, e.Release())
	require.Zero(t, p.Len())
	require.Equal(t, events.StateDestroyed, e.State())
	otherHandle(t, e, get(t, p), "there is room for another one")
	require.Zero(t, dev.CallCount(mock.OpEventQuery))
	_, err := dev.EndCapture(s)
	require.NoError(t, err, "the capture is unharmed")
}

// Three waiters share what was recorded on one stream; the owner gives it back
// before they begin to wait, and takes events until the pool is full. Each
// waiter must wait for the first record.
func TestLateWaiterWaitsForTheFirstRecord(t *testing.T) {
	const waiters = 3
	dev := device(t, mock.Manual(), mock.Ideal())
	p := newPool(t, dev, 4)
	busy, free := hung(t, dev), newStream(t, dev)
	e := get(t, p)
	require.NoError(t, e.Record(busy))
	for range waiters {
		require.NoError(t, e.Hold())
	}
	require.NoError(t, e.Release())
	for {
		other, err := p.Get()
		if err != nil {
			require.ErrorIs(t, err, events.ErrFull)
			break
		}
		otherHandle(t, e, other)
		require.NoError(t, other.Record(free))
	}
	behind := newStream(t, dev)
	require.NoError(t, e.WaitOn(behind))
	after := recorded(t, dev, behind)

	waited := make(chan error)
	for range waiters {
		go func() { waited <- errors.Join(e.Wait(), e.Release()) }()
	}
	eventually(t, func() bool { return dev.System().Blocked() == waiters })
	require.False(t, query(t, after))
	dev.ReleaseHangs()
	for range waiters {
		require.NoError(t, <-waited)
	}
	require.True(t, query(t, after))
	sameHandle(t, e, get(t, p), "and now it comes back")
	require.NoError(t, after.Close())
}

// One stream that takes long must not keep back the events of all others.
func TestOneSlowStreamDoesNotStarveThePool(t *testing.T) {
	dev := device(t, mock.Manual(), mock.CallLog(100))
	p := newPool(t, dev, 4)
	busy, free := hung(t, dev), newStream(t, dev)
	for range 3 {
		released(t, p, busy)
	}
	quick := released(t, p, free)
	dev.System().Advance(time.Second)
	dev.ResetCalls()
	sameHandle(t, quick, get(t, p))
	require.Equal(t, uint64(2), dev.CallCount(mock.OpEventQuery), "what lies behind a pending event is not asked about")
}

// Events may come back in another order than they were recorded in.
func TestPoolFindsAnOlderEventThatWasReleasedLater(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	p := newPool(t, dev, 2)
	s := newStream(t, dev)
	older, younger := get(t, p), get(t, p)
	require.NoError(t, dev.Work(s, time.Second))
	require.NoError(t, older.Record(s))
	require.NoError(t, dev.Hang(s))
	require.NoError(t, younger.Record(s))
	require.NoError(t, younger.Release())
	require.NoError(t, older.Release())
	dev.System().Advance(2 * time.Second)
	sameHandle(t, older, get(t, p))
}

// While one goroutine looks through the pending events the others must not take
// the pool for full.
func TestPoolIsNotFullWhileItIsBeingLookedThrough(t *testing.T) {
	dev := &between{Device: device(t, mock.Manual())}
	p := newPool(t, dev, 2)
	s := newStream(t, dev)
	released(t, p, s)
	released(t, p, s)
	dev.System().Advance(time.Second)

	var once sync.Once
	looking, goOn := make(chan struct{}), make(chan struct{})
	dev.query = func(ask func() (bool, error)) (bool, error) {
		once.Do(func() {
			close(looking)
			<-goOn
		})
		return ask()
	}
	got := make(chan error, 2)
	take := func() {
		_, err := p.Get()
		got <- err
	}
	go take()
	<-looking
	go take()
	select {
	case err := <-got:
		require.NoError(t, err)
		t.Fatal("nobody can have an event yet")
	case <-time.After(20 * time.Millisecond): // time for a wrong answer
	}
	close(goOn)
	require.NoError(t, <-got)
	require.NoError(t, <-got)
}

// What is released while somebody looks through the pending events is not lost,
// nor is a Close.
func TestReleaseAndCloseWhileThePoolIsBeingLookedThrough(t *testing.T) {
	for _, closing := range []bool{false, true} {
		dev := &between{Device: device(t, mock.Manual(), mock.Ideal())}
		p := newPool(t, dev, 2)
		busy, free := hung(t, dev.Device), newStream(t, dev)
		pending, meanwhile := get(t, p), get(t, p)
		require.NoError(t, pending.Record(busy))
		require.NoError(t, pending.Release())
		require.NoError(t, meanwhile.Record(free))
		dev.query = func(ask func() (bool, error)) (bool, error) {
			dev.query = nil
			require.NoError(t, meanwhile.Release())
			if closing {
				require.NoError(t, p.Close())
			}
			return ask()
		}
		if closing {
			_, err := p.Get()
			require.ErrorIs(t, err, events.ErrClosed)
			require.Zero(t, p.Len())
			noLiveEvents(t, dev.Device)
			continue
		}
		sameHandle(t, meanwhile, get(t, p))
		dev.ReleaseHangs()
		sameHandle(t, pending, get(t, p))
	}
}

// An event that cannot be asked about any more makes room.
func TestPoolDropsAnEventThatTheDeviceRefusesToAnswerFor(t *testing.T) {
	dev := device(t, mock.Manual())
	p := newPool(t, dev, 1)
	lost := released(t, p, hung(t, dev))
	dev.Script(mock.Fault{Op: mock.OpEventQuery, Nth: 1, Code: mock.CodeUnknown})
	next := get(t, p)
	otherHandle(t, lost, next)
	require.Equal(t, events.StateDestroyed, lost.State())
	require.Equal(t, 1, p.Len())

	require.NoError(t, next.Record(newStream(t, dev)))
	dev.ClearScript()
	dev.Script(mock.Fault{Op: mock.OpEventQuery, Nth: 1, Code: mock.CodeUnknown})
	require.Error(t, next.Release(), "whoever releases it is told")
	require.Zero(t, p.Len())
	noLiveEvents(t, dev)
}

func TestFailedCreateGivesItsRoomBack(t *testing.T) {
	dev := device(t)
	p := newPool(t, dev, 1)
	dev.Script(mock.Fault{Op: mock.OpEventCreate, Nth: 1, Count: 3, Code: mock.CodeNotPermitted})
	for range 3 {
		_, err := p.Get()
		var driver *events.DriverError
		require.ErrorAs(t, err, &driver)
		require.NotErrorIs(t, err, events.ErrFull)
		require.Zero(t, p.Len())
	}
	get(t, p)
}

func TestEventClosedByItsHolderLeavesThePool(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	p := newPool(t, dev, 1)
	e := get(t, p)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.Zero(t, p.Len())
	noLiveEvents(t, dev)
	other := get(t, p)
	otherHandle(t, e, other)
	require.NoError(t, other.Release())
	require.NoError(t, p.Close())
	noLiveEvents(t, dev)
}

// A deferred Close behind a Release is a common habit; the pool must not hand
// out an event that it destroyed.
func TestCloseAfterReleaseTakesNothingFromThePool(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.CallLog(100))
	p := newPool(t, dev, 1)
	s := newStream(t, dev)
	e := get(t, p)
	require.NoError(t, e.Release())
	require.NoError(t, e.Close())
	again := get(t, p)
	require.NoError(t, again.Record(s))
	require.NoError(t, again.Wait())
	require.Equal(t, 1, p.Len())
	noStaleHandle(t, dev)
}

// The bound is one of the device's events, so one that a blocked call still
// keeps alive counts.
func TestClosedEventCountsUntilItIsDestroyed(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	p := newPool(t, dev, 1)
	e := get(t, p)
	require.NoError(t, e.Record(hung(t, dev)))
	waited := make(chan error)
	go func() { waited <- e.Wait() }()
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	require.NoError(t, e.Close())
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrFull)
	dev.ReleaseHangs()
	require.NoError(t, <-waited)
	get(t, p)
}

func TestClosedPoolDestroysWhatComesBack(t *testing.T) {
	dev := device(t, mock.Manual())
	p := newPool(t, dev, 3)
	busy, free := hung(t, dev), newStream(t, dev)
	held, pending := get(t, p), get(t, p)
	require.NoError(t, pending.Record(busy))
	require.NoError(t, pending.Release())
	require.NoError(t, get(t, p).Release())
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.Equal(t, 1, p.Len())
	require.Equal(t, events.StateDestroyed, pending.State())
	_, err := p.Get()
	require.ErrorIs(t, err, events.ErrClosed)
	require.NoError(t, held.Record(free), "a held event works on")
	require.NoError(t, held.Release())
	require.Zero(t, p.Len())
	noLiveEvents(t, dev)
}

func TestClosedPoolReportsWhatCouldNotBeDestroyed(t *testing.T) {
	dev := device(t)
	p := events.NewPool[mock.Event, mock.Stream](dev, 2, false)
	a, b := get(t, p), get(t, p)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	dev.Script(mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Code: mock.CodeUnknown})
	var driver *events.DriverError
	require.ErrorAs(t, p.Close(), &driver)
	live, _ := dev.Live()
	require.Equal(t, 1, live, "the other one was destroyed all the same")
}

// Without a query nobody can know that an event has been reached, other than by
// having waited for it.
func TestPoolWithoutQueryKeepsOnlyWhatWasWaitedFor(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.Without(mock.FeatureQuerier))
	p := newPool(t, dev, 1)
	s := newStream(t, dev)
	e := get(t, p)
	require.NoError(t, e.Record(s))
	require.NoError(t, e.Wait())
	require.NoError(t, e.Release())
	again := get(t, p)
	sameHandle(t, e, again)
	require.NoError(t, again.Record(s))
	require.NoError(t, again.Release())
	require.Zero(t, p.Len())
	otherHandle(t, e, get(t, p))
}

// After a fault of the device nothing hangs and nothing is counted as alive, and
// the fault is reported once, not once for each event: lattice/quda#693,
// NVIDIA/cudf#22130, mlcommons/training#44.
func TestPoolSurvivesTheLossOfItsDevice(t *testing.T) {
	dev := device(t, mock.Manual())
	p := events.NewPool[mock.Event, mock.Stream](dev, 3, false)
	idle, held := get(t, p), get(t, p)
	require.NoError(t, idle.Record(newStream(t, dev)))
	dev.System().Advance(time.Second)
	require.NoError(t, get(t, p).Release())
	require.NoError(t, idle.Release())
	dev.Lose()
	require.NoError(t, held.Release(), "a fresh event has nothing to ask the device")
	err := p.Close()
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.Equal(t, 1, strings.Count(err.Error(), "(700)"), err.Error())
	require.Zero(t, p.Len())
	require.Equal(t, uint64(3), dev.EventStats().AbandonedAtEnd)
}

func TestPoolOfALostDeviceSaysSo(t *testing.T) {
	dev := device(t, mock.Manual())
	p := events.NewPool[mock.Event, mock.Stream](dev, 1, false)
	released(t, p, hung(t, dev))
	dev.Lose()
	for range 2 {
		_, err := p.Get()
		require.ErrorIs(t, err, events.ErrDeviceFault)
		require.Zero(t, p.Len())
	}
	require.NoError(t, p.Close())
	require.Equal(t, int64(0), dev.EventStats().LiveEvents)
}

func soakRounds() int {
	if testing.Short() {
		return 1000
	}
	return 20_000
}

// Many goroutines take, record, share, wait for and give back, on several
// streams, with creates and records that fail and captures in between. No event
// has two owners, none is handed out before it was reached, and none is left.
func TestPoolHammer(t *testing.T) {
	const workers, limit = 8, 6
	dev := device(t, mock.EventCost(0), mock.LaunchLatency(0), mock.CallLog(200_000))
	dev.Script(
		mock.Fault{Op: mock.OpEventCreate, Chance: 0.05, Seed: 1, Code: mock.CodeUnknown},
		mock.Fault{Op: mock.OpEventRecord, Chance: 0.05, Seed: 2, Code: mock.CodeUnknown},
	)
	p := events.NewPool[mock.Event, mock.Stream](dev, limit, true)
	streams := []mock.Stream{newStream(t, dev), newStream(t, dev), newStream(t, dev)}
	captured := newStream(t, dev)
	require.NoError(t, dev.BeginCapture(captured, events.CaptureGlobal))

	var owners sync.Map
	var all sync.WaitGroup
	work := func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 0))
		for range soakRounds() {
			e, err := p.Get()
			var driver *events.DriverError
			if errors.Is(err, events.ErrFull) || errors.As(err, &driver) {
				continue
			}
			if err != nil {
				return err
			}
			if _, taken := owners.LoadOrStore(events.Handle(e), seed); taken {
				return errors.New("an event was handed out twice")
			}
			if e.State() != events.StateFresh {
				return errors.New("an event was handed out that is " + e.State().String())
			}
			s := streams[r.IntN(len(streams))]
			switch r.IntN(8) {
			case 0:
				s = captured
			case 1, 2:
				if err := dev.Work(s, time.Duration(r.IntN(20))*us); err != nil {
					return err
				}
			}
			if err := e.Record(s); err == nil && r.IntN(2) == 0 {
				if err := e.Hold(); err != nil {
					return err
				}
				ask := r.IntN(2) == 0
				all.Go(func() {
					if ask {
						_, _ = e.Query()
					} else {
						_ = e.Wait()
					}
					_ = e.Release()
				})
			}
			owners.Delete(events.Handle(e))
			give := e.Release
			if r.IntN(16) == 0 {
				give = e.Close
			}
			if err := give(); err != nil {
				return err
			}
			if p.Len() > limit {
				return errors.New("the pool is above its limit")
			}
		}
		return nil
	}
	failed := make(chan error, workers)
	for i := range workers {
		go func() { failed <- work(uint64(i)) }()
	}
	for range workers {
		require.NoError(t, <-failed)
	}
	all.Wait()
	require.NoError(t, p.Close())
	require.Zero(t, p.Len())
	noLiveEvents(t, dev)
	noStaleHandle(t, dev)
	_, err := dev.EndCapture(captured)
	require.NoError(t, err, "the capture is unharmed")
}
