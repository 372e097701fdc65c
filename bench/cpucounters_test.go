package bench

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// sums is work whose instructions can be counted.
func sums(_ int, it Iters) error {
	x := uint64(1)
	for range 1000 * it.N {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
	return nil
}

var sink uint64

func counterNames(r *Result) []string {
	var list []string
	for _, m := range r.Metrics {
		list = append(list, m.Section+"/"+m.Name)
	}
	return list
}

// On a kernel that counts there are counts, on one that refuses there is the time
// alone, and the label says which.
func TestProcessorsCountersOrTimingOnly(t *testing.T) {
	r := runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
		g.Set(FixedChunk(100))
		g.Bench("sums", sums)
	})
	require.Equal(t, OK, r.Status)
	set, err := openCounters()
	if err != nil {
		t.Log("this kernel refuses:", err)
		require.Equal(t, "timing only", r.Label)
		require.Empty(t, r.Metrics)
		return
	}
	require.NoError(t, set.close())
	require.Equal(t, "timing + CPU counters", r.Label)
	require.Contains(t, counterNames(r), "cpu/cycles")
	for _, m := range r.Metrics {
		if m.Name == "instructions" {
			require.Greater(t, m.Summary.Median, 1000.0)
			require.Less(t, m.Summary.Median, 100_000.0)
		}
	}
}

// fakeCounters gives what a test wants.
type fakeCounters struct {
	n       counts
	running float64
	err     error
	open    int
}

func (f *fakeCounters) start() error { f.open++; return nil }
func (f *fakeCounters) stop() error  { f.open--; return nil }
func (f *fakeCounters) close() error { return nil }
func (f *fakeCounters) read(into *counts) (float64, error) {
	*into = f.n
	return f.running, f.err
}

func withCounters(t *testing.T, f *fakeCounters, refused error) *Result {
	t.Helper()
	b := &cpuCounters{open: func() (counterSet, error) {
		if refused != nil {
			return nil, refused
		}
		return f, nil
	}}
	return runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
		g.Set(On(b), FixedChunk(10))
		g.Bench("case", nothing)
	})
}

func TestCountersAreOfAnOperation(t *testing.T) {
	f := &fakeCounters{running: 1, n: counts{cycles: 400, instructions: 1000, branches: 100, branchMisses: 10, cacheRefs: -1, cacheMisses: -1}}
	r := withCounters(t, f, nil)
	require.Equal(t, []string{"cpu/cycles", "cpu/instructions", "cpu/ipc", "cpu/branches", "cpu/branch_misses"}, counterNames(r), "what the processor lacks has no row")
	require.InDelta(t, 40, r.Metrics[0].Summary.Median, 1e-9)
	require.InDelta(t, 2.5, r.Metrics[2].Summary.Median, 1e-9)
	require.Zero(t, f.open)
	require.Equal(t, "timing + CPU counters", r.Label)
}

func TestCountersThatNeverRanGiveATimeAlone(t *testing.T) {
	r := withCounters(t, &fakeCounters{}, nil)
	require.Equal(t, OK, r.Status)
	require.Empty(t, r.Metrics)

	r = withCounters(t, nil, errors.New("perf_event_open: permission denied"))
	require.Equal(t, OK, r.Status)
	require.Equal(t, "timing only", r.Label)

	r = withCounters(t, &fakeCounters{err: errors.New("gone")}, nil)
	require.Equal(t, Failed, r.Status)
}

func TestCountersOfAGroupAreDecodedAndScaled(t *testing.T) {
	words := func(list ...uint64) []byte {
		var buf []byte
		for _, w := range list {
			buf = binary.NativeEndian.AppendUint64(buf, w)
		}
		return buf
	}
	was := times{enabled: 1000, running: 1000}
	var n counts
	running, err := decodeGroup(words(2, 3000, 2000, 50, 70), []int{0, 4}, &was, &n)
	require.NoError(t, err)
	require.InDelta(t, 0.5, running, 1e-9, "since the last time")
	require.Equal(t, counts{100, -1, -1, -1, 140, -1}, n)
	require.Equal(t, times{3000, 2000}, was)

	running, err = decodeGroup(words(2, 3000, 2000, 50, 70), []int{0, 4}, &was, &n)
	require.NoError(t, err)
	require.Zero(t, running, "not counted at all")
	_, err = decodeGroup(words(2, 3000, 2000, 50), []int{0, 4}, &was, &n)
	require.ErrorIs(t, err, errShortRead)
	_, err = decodeGroup(nil, []int{0}, &was, &n)
	require.ErrorIs(t, err, errShortRead)
	_, err = decodeGroup(words(1, 3000, 2000, 50, 70), []int{0, 4}, &was, &n)
	require.ErrorIs(t, err, errShortRead)
}
