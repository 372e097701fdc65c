package profiler

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// A service measures for hours: memory stays what it is, and windows are placed at the end
// as well as at the beginning. An hour of simulated time at 1,000 windows a second, or half
// a minute of it with -short.
func TestAnHourOfWindowsIsAsGoodAtItsEnd(t *testing.T) {
	length := time.Duration(Count(30, 3600)) * time.Second
	x := newTruth(t, 0, []mock.Option{mock.Drift(14), mock.Wander(0.1, 3)})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first, last []time.Duration // bounds of the second and of the last tenth
	var memory uint64
	var events int
	began := x.dev.System().Now()
	at := func() time.Duration { return x.dev.System().Now() - began }
	n := 0
	for at() < length {
		due := at() + 10*time.Millisecond
		for range 10 {
			x.window(50 * us)
			n++
			if rest := due - at() - 9*time.Millisecond; rest > 0 {
				x.advance(rest)
			}
		}
		if rest := due - at(); rest > 0 {
			x.advance(rest)
		}
		x.harvest(false)
		x.check()
		switch done := float64(at()) / float64(length); {
		case done < 0.1:
			x.bounds = x.bounds[:0]
		case done < 0.2:
			first = append(first, x.bounds...)
			x.bounds = x.bounds[:0]
			if memory == 0 {
				memory = heap()
				events, _ = x.dev.Live()
			}
		case done > 0.9:
			last = append(last, x.bounds...)
			x.bounds = x.bounds[:0]
		default:
			x.bounds = x.bounds[:0]
		}
	}
	live, _ := x.dev.Live()
	require.Less(t, heap(), memory+uint64(8*(len(first)+len(last)))+(4<<20), "memory grew over %d windows", n)
	require.LessOrEqual(t, live, events+512)
	x.finish()
	slices.Sort(first)
	slices.Sort(last)
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	require.NotEmpty(t, first)
	require.NotEmpty(t, last)
	require.LessOrEqual(t, p99(last), p99(first)+p99(first)/5)
	require.Zero(t, x.prof.Stats().Contradictions)
	t.Logf("%d windows in %v: bounds at first %s, at last %s; farthest from the truth %v; %+v", n, at(), quantiles(first), quantiles(last), x.worst, x.prof.ClockStats())
}
