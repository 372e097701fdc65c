package profiler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

const recordCost = 1280 * time.Nanosecond // of the simulated device

// tracel-ai/cubecl#1580, tracel-ai/cubecl#1421, pytorch/pytorch#3754
func TestNestedWindowsAreNotChargedToTheOuter(t *testing.T) {
	r := newRig(t, []mock.Option{mock.LaunchLatency(0), mock.Tick(1), mock.ExactReadings()})
	const depth = 100
	tr := r.track(t, "nest")
	var windows [depth]profiler.Window
	for i := range windows {
		windows[i] = open(t, tr)
	}
	r.work(t, 5*time.Millisecond)
	var ms [depth]profiler.Measurement
	for i := depth - 1; i >= 0; i-- {
		ms[i] = tr.Stop(windows[i])
	}
	r.flushed(t)
	for i := range ms {
		s := span(t, ms[i])
		require.Equal(t, i, s.Depth)
		if i == 0 {
			require.Zero(t, s.Parent)
		} else {
			require.Equal(t, windows[i-1].ID(), s.Parent)
		}
		// The records of the windows inside, and our own last one.
		inside := time.Duration(depth - 1 - i)
		require.Equal(t, 5*time.Millisecond+(2*inside+1)*recordCost, s.Duration)
	}
}

// wolfpld/tracy#1085, intel/llvm#10042
func TestOuterGrowsOnlyByTheRecordsOfTheInner(t *testing.T) {
	for _, inner := range []int{0, 1, 10, 1000} {
		r := newRig(t, []mock.Option{mock.LaunchLatency(0), mock.Tick(1), mock.ExactReadings(), mock.QueueLimit(0)})
		outer, in := r.track(t, "outer"), r.track(t, "inner")
		const total = 20 * time.Millisecond
		w := open(t, outer)
		var ms []profiler.Measurement
		for range inner {
			x := open(t, in)
			r.work(t, total/time.Duration(inner))
			ms = append(ms, in.Stop(x))
			if len(ms)%100 == 0 { // the device is behind; so may the profiler be
				require.NoError(t, r.prof.Flush(canceled(t, ms, r)))
			}
		}
		if inner == 0 {
			r.work(t, total)
		}
		m := outer.Stop(w)
		r.flushed(t)
		s := span(t, m)
		require.Equal(t, total+time.Duration(2*inner+1)*recordCost, s.Duration, "%d inner windows", inner)
		var sum time.Duration
		for _, m := range ms {
			x := span(t, m)
			require.Equal(t, w.ID(), x.Parent)
			require.False(t, x.Start.Add(x.Bound).Before(s.Start.Add(-s.Bound)), "an inner window begins before its outer")
			sum += x.Duration
		}
		require.LessOrEqual(t, sum, s.Duration)
	}
}

// canceled lets the device catch up, and gives a context for the flush that
// follows.
func canceled(t *testing.T, _ []profiler.Measurement, r *rig) context.Context {
	r.sync(t)
	return limited(t)
}
