package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// The truth is what the answers around a moment allow, and nothing else: a judge who
// takes less lets violations pass, and one who takes more finds some where there are none.
func TestTruthIsWhatTheAnswersAllow(t *testing.T) {
	x := &experiment{}
	for i := range 20 {
		at := time.Duration(i) * 10 * time.Millisecond
		// The host's clock is 5 ppm fast, and each answer lies somewhere in 2 us.
		host := at + time.Duration(5e-6*float64(at))
		x.links = append(x.links, link{timer: uint64(1e9 + at), before: host - 500, after: host + 1500})
	}
	slope := 1 + 5e-6
	for _, at := range []time.Duration{15 * time.Millisecond, 100 * time.Millisecond, 103456789} {
		truth, ok := x.truthOf(uint64(1e9+at), slope)
		require.True(t, ok)
		host := at + time.Duration(5e-6*float64(at))
		require.Zero(t, truth.distance(host))
		require.LessOrEqual(t, truth.to-truth.from, 2*time.Microsecond+200)
		require.InDelta(t, host+500, truth.middle(), 200)
		require.Equal(t, 100*time.Nanosecond, truth.distance(truth.to+100))
		require.Equal(t, 100*time.Nanosecond, truth.distance(truth.from-100))
	}
	for _, outside := range []uint64{1, 1e9, 2e9} {
		_, ok := x.truthOf(outside, slope)
		require.False(t, ok, "nothing is known on one side")
	}
	x.links[10].before += time.Millisecond
	x.links[10].after += time.Millisecond
	_, ok := x.truthOf(uint64(1e9+100e6), slope)
	require.False(t, ok, "answers that exclude each other")
}

// A window whose bound does not reach the truth must be counted, one whose does must not.
func TestJudgeCountsBoundsThatDoNotReachTheTruth(t *testing.T) {
	judged := func(off time.Duration) *summary {
		x := &experiment{spans: map[uint64]profiler.Span{}}
		for i := range 20 {
			at := time.Duration(i) * 10 * time.Millisecond
			x.links = append(x.links, link{timer: uint64(1e9 + at), before: at - 1000, after: at + 1000})
		}
		for i := range uint64(10) {
			at := 50*time.Millisecond + time.Duration(i)*time.Millisecond
			x.windows = append(x.windows, &window{id: i + 1, first: uint64(1e9 + at), last: uint64(1e9 + at + 2000)})
			x.spans[i+1] = profiler.Span{ID: i + 1, Start: x.prof.Origin().Add(at + off), Bound: 3 * time.Microsecond, Duration: 5 * time.Microsecond}
		}
		return x.judge()
	}
	require.Zero(t, judged(0).Violations)
	require.Zero(t, judged(0).Ours.Max)
	require.Zero(t, judged(3*time.Microsecond).Violations)
	require.Equal(t, 10, judged(5*time.Microsecond).Violations)
	require.Equal(t, 10, judged(-8*time.Microsecond).Violations)
	require.InDelta(t, 5-1, judged(5*time.Microsecond).Ours.Max, 0.3)
	require.False(t, math.IsNaN(judged(0).Drift))
}

func TestGPUTruthLiesInTheBounds(t *testing.T) {
	gputest.Device(t)
	dir := t.TempDir()
	require.Zero(t, run(t.Context(), []string{"-for", "3s", "-out", dir}))
	for _, name := range []string{"summary.json", "windows.csv.gz", "errors.svg", "distributions.svg"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Positive(t, info.Size())
	}
}
