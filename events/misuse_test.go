package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// everyCall is each call of an event that needs one, beside a good other.
func everyCall(e, good *mockEvent, s mock.Stream) map[string]error {
	got := map[string]error{
		"record": e.Record(s),
		"wait":   e.Wait(),
		"waiton": e.WaitOn(s),
		"hold":   e.Hold(),
	}
	_, got["query"] = e.Query()
	_, got["elapsed start"] = events.Elapsed(e, good)
	_, got["elapsed end"] = events.Elapsed(good, e)
	return got
}

// A pool hands the driver's event to the next holder; whoever released it before
// must neither overwrite the record of that one nor give its event away.
func TestStaleHolderCannotHarmTheNextOne(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal(), mock.CallLog(100))
	p := newPool(t, dev, 1)
	s, other := newStream(t, dev), newStream(t, dev)
	good := completed(t, dev, other)
	stale := get(t, p)
	require.NoError(t, stale.Release())
	next := get(t, p)
	sameHandle(t, stale, next, "one event of the driver")
	require.NoError(t, dev.Work(s, us))
	require.NoError(t, next.Record(s))
	dev.ResetCalls()
	for use, err := range everyCall(stale, good, other) {
		require.ErrorIs(t, err, events.ErrDestroyed, use)
	}
	require.ErrorIs(t, stale.Release(), events.ErrDestroyed)
	require.NoError(t, stale.Close())
	require.Equal(t, events.StateDestroyed, stale.State())
	require.Zero(t, dev.CallCount(mock.OpAny), "nothing reaches the driver")

	require.Equal(t, events.StateRecorded, next.State())
	require.False(t, query(t, next), "its own record, and not another on the other stream")
	dev.System().Advance(us)
	require.NoError(t, next.Wait())
	require.NoError(t, next.Release())
	require.Equal(t, 1, p.Len())
}

// What is in the pool belongs to nobody, and says so already before it is lent again.
func TestReleasedEventIsGone(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	p := newPool(t, dev, 1)
	e := get(t, p)
	require.NoError(t, e.Record(newStream(t, dev)))
	require.NoError(t, e.Release())
	require.Equal(t, events.StateDestroyed, e.State())
	require.ErrorIs(t, e.Release(), events.ErrDestroyed)
}

// A stale holder is still in a call when its last hold goes: the event must not be
// lent before the call is out.
func TestCallOfAReleasedEventEndsBeforeItIsLentAgain(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	p := newPool(t, dev, 2)
	e := get(t, p)
	require.NoError(t, e.Record(hung(t, dev)))
	waited := make(chan error)
	go func() { waited <- e.Wait() }()
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	require.NoError(t, e.Release())
	otherHandle(t, e, get(t, p))
	dev.ReleaseHangs()
	require.NoError(t, <-waited)
	sameHandle(t, e, get(t, p))
}

// A device that could not be opened and was not checked is an error, not a crash.
func TestNoDeviceIsRefused(t *testing.T) {
	_, err := events.New[mock.Event, mock.Stream](nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	_, err = events.NewUntimed[mock.Event, mock.Stream](nil, true)
	require.ErrorIs(t, err, events.ErrInvalid)
	for name, p := range map[string]*mockPool{
		"nil": nil, "zero": {}, "no device": events.NewPool[mock.Event, mock.Stream](nil, 1, true),
	} {
		_, err := p.Get()
		require.ErrorIs(t, err, events.ErrInvalid, name)
		require.NotErrorIs(t, err, events.ErrFull, name)
		require.Zero(t, p.Len(), name)
		require.NoError(t, p.Close(), name)
		_, err = p.Get()
		require.ErrorIs(t, err, events.ErrInvalid, name)
	}
}

// The api of no device has a name and no abilities, and refuses every call.
func TestErasedNothingRefusesEveryCall(t *testing.T) {
	for name, api := range map[string]events.AnyApi{
		"of a vendor": events.Erase[mock.Event, mock.Stream](nil),
		"erased":      events.Erase[events.AnyEvent, events.AnyStream](nil),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "none", api.Backend())
			_, err := api.EventCreate()
			require.ErrorIs(t, err, events.ErrInvalid)
			require.ErrorContains(t, err, "Erase")
			_, err = api.StreamCreateNonBlocking()
			require.ErrorIs(t, err, events.ErrInvalid)
			s := newStream(t, device(t))
			erased, err := events.EraseStream(api, s)
			if err == nil {
				require.ErrorIs(t, api.StreamSynchronize(erased), events.ErrInvalid)
				require.ErrorIs(t, api.StreamDestroy(erased), events.ErrInvalid)
			}
			_, err = api.EventElapsed(events.AnyEvent{}, events.AnyEvent{})
			for use, err := range map[string]error{
				"destroy": api.EventDestroy(events.AnyEvent{}),
				"record":  api.EventRecord(events.AnyEvent{}, erased),
				"wait":    api.EventWait(events.AnyEvent{}),
				"elapsed": err,
				"waiton":  api.StreamWaitEvent(erased, events.AnyEvent{}),
			} {
				require.ErrorIs(t, err, events.ErrInvalid, use)
			}
			_, ok := events.Ability[events.Querier[events.AnyEvent]](api)
			require.False(t, ok)
			_, ok = events.Ability[events.Gate[events.AnyStream]](api)
			require.False(t, ok)
			_, err = events.New(api)
			require.ErrorIs(t, err, events.ErrInvalid)
		})
	}
	_, err := events.EraseStream[mock.Stream](nil, mock.Stream{})
	require.ErrorIs(t, err, events.ErrInvalid)
}

// Events lent by a pool are small and made many at a time.
func TestPoolLendsWithoutAnAllocationEach(t *testing.T) {
	dev := device(t, mock.Ideal(), mock.AutoAdvance())
	p := newPool(t, dev, 1)
	cycle := func() (err error) {
		e, err := p.Get()
		if err != nil {
			return err
		}
		return e.Release()
	}
	for range 100 {
		require.NoError(t, cycle())
	}
	var err error
	require.LessOrEqual(t, mallocs(func() {
		for range 100_000 {
			if err = cycle(); err != nil {
				return
			}
		}
	}), uint64(40))
	require.NoError(t, err)
}
