package events_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// mallocs counts all of the process, since "0 allocs/op" is rounded down.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// A profiler that allocates on every event makes the collector part of what it
// measures. The calls are made on a warm goroutine and on fresh ones, whose
// stacks still have to grow.
func TestHotCallsDoNotAllocate(t *testing.T) {
	const calls, fresh, allowed = 100_000, 10, 100
	dev := device(t, mock.EventCost(0), mock.LaunchLatency(0))
	api := events.Erase(dev)
	querier, ok := events.Ability[events.Querier[events.AnyEvent]](api)
	require.True(t, ok)
	s, raw := newStream(t, api), newStream(t, dev)
	start, err := api.EventCreate()
	require.NoError(t, err)
	end, err := api.EventCreate()
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(start, s))
	require.NoError(t, api.EventRecord(end, s))
	first, second := completed(t, dev, raw), completed(t, dev, raw)
	pool := newPool(t, dev, 1)

	for name, call := range map[string]func() error{
		"erased record":  func() error { return api.EventRecord(end, s) },
		"erased query":   func() error { _, err := querier.EventQuery(end); return err },
		"erased wait":    func() error { return api.EventWait(end) },
		"erased elapsed": func() error { _, err := api.EventElapsed(start, end); return err },
		"record":         func() error { return second.Record(raw) },
		"query":          func() error { _, err := second.Query(); return err },
		"wait":           func() error { return second.Wait() },
		"elapsed":        func() error { _, err := events.Elapsed(first, second); return err },
		"hold, release": func() error {
			if err := second.Hold(); err != nil {
				return err
			}
			return second.Release()
		},
		"get, record, release": func() error {
			e, err := pool.Get()
			if err != nil {
				return err
			}
			if err := e.Record(raw); err != nil {
				return err
			}
			return e.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			loop := func(n int) error {
				for range n {
					if err := call(); err != nil {
						return err
					}
				}
				return nil
			}
			require.NoError(t, loop(10))
			require.NoError(t, api.EventWait(end))
			require.NoError(t, second.Wait())
			var err error
			require.LessOrEqual(t, mallocs(func() { err = loop(calls) }), uint64(allowed))
			require.NoError(t, err)

			var all sync.WaitGroup
			failed := make([]error, fresh)
			require.LessOrEqual(t, mallocs(func() {
				for i := range fresh {
					all.Go(func() { failed[i] = loop(calls / fresh) })
					all.Wait() // one at a time: the pool has one event
				}
			}), uint64(allowed))
			for _, err := range failed {
				require.NoError(t, err)
			}
		})
	}
}

// A pool in steady use allocates nothing, also while its events are pending.
func TestPoolLooksThroughPendingEventsWithoutAllocating(t *testing.T) {
	const rounds, allowed = 10_000, 100
	dev := device(t, mock.Manual(), mock.Ideal(), mock.QueueLimit(0))
	pool := newPool(t, dev, 8)
	busy, free := hung(t, dev), newStream(t, dev)
	for range 4 {
		released(t, pool, busy)
	}
	held := make([]*mockEvent, 0, 4)
	var err error
	cycle := func() error {
		for range cap(held) {
			e, err := pool.Get()
			if err != nil {
				return err
			}
			if err := dev.Work(free, us); err != nil {
				return err
			}
			if err := e.Record(free); err != nil {
				return err
			}
			held = append(held, e)
		}
		for _, e := range held {
			if err := e.Release(); err != nil { // pending
				return err
			}
		}
		held = held[:0]
		dev.System().Advance(10 * us)
		return nil
	}
	for range 100 {
		require.NoError(t, cycle())
	}
	require.LessOrEqual(t, mallocs(func() {
		for range rounds {
			if err = cycle(); err != nil {
				return
			}
		}
	}), uint64(allowed))
	require.NoError(t, err)
}
