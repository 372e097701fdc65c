package profiler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// A long window's start is between comparisons of the clocks before that of a short one in
// it is. Sinks still get the inner one first: what they make of the outer one (its own time, a
// span's children) needs that.
func TestSinksGetTheWindowsOfAStreamInTheOrderOfTheirStops(t *testing.T) {
	var got collector
	r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithSink(&got))
	tr := r.track(t, "w")
	second, err := r.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.dev.StreamDestroy(second)) }()
	other := r.prof.Track(second, "other")
	const all = 5
	compared := func() { // or there is nothing left that the clocks are compared for
		before := r.prof.Stats().Anchors
		r.dev.System().Advance(100 * time.Millisecond)
		eventually(t, func() bool { return r.prof.Stats().Anchors > before || len(got.got()) == all })
	}
	outer, apart := open(t, tr), open(t, other)
	for range 10 {
		compared()
	}
	var want []uint64
	for range 3 {
		want = append(want, tr.Stop(open(t, tr)).ID())
		compared()
	}
	want = append(want, tr.Stop(outer).ID())
	alone := other.Stop(apart).ID()
	r.sync(t)
	eventually(t, func() bool { return len(got.got()) > 0 })
	for len(got.got()) < all {
		compared()
	}
	var order []uint64
	for i, s := range got.got() {
		if s.ID == alone {
			require.Less(t, i, len(want), "a window of another stream waits for none of these")
			continue
		}
		order = append(order, s.ID)
	}
	require.Equal(t, want, order)
}
