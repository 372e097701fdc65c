package gpupprof_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
)

// On hardware, too, the shares of a profile are those of the work: spins tell how long
// they took by the device's own timer.
func TestGPUProfileSharesAreThoseOfTheWork(t *testing.T) {
	dev := gputest.Device(t)
	stream := gputest.Stream(t, dev)
	prof, err := profiler.New(dev, profiler.WithStacks(true))
	require.NoError(t, err)
	defer func() { require.NoError(t, prof.Close()) }()
	p := gpupprof.New()
	_, err = prof.AddSink(p)
	require.NoError(t, err)
	tr := prof.Track(stream, "work")
	var long, short []events.Spin
	for range 40 {
		long = append(long, longWork(t, dev, stream, tr))
		short = append(short, shortWork(t, dev, stream, tr))
	}
	require.NoError(t, dev.StreamSynchronize(stream))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, prof.Flush(ctx))
	require.NoError(t, prof.Close())
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	rows := top(t, file)
	wantLong, wantShort := total(t, long), total(t, short)
	gotLong, gotShort := rows[here+"longWork"].cum, rows[here+"shortWork"].cum
	want := float64(wantLong) / float64(wantLong+wantShort)
	got := float64(gotLong) / float64(gotLong+gotShort)
	t.Logf("spins %v and %v, profile %v and %v, share %.4f and %.4f", wantLong, wantShort, gotLong, gotShort, want, got)
	require.InDelta(t, want, got, 0.02)
	require.InEpsilon(t, wantLong, gotLong, 0.02)
	require.InEpsilon(t, wantShort, gotShort, 0.02)
}

//go:noinline
func longWork(t *testing.T, dev cuda.Device, stream cuda.Stream, tr *profiler.Track) events.Spin {
	return spun(t, dev, stream, tr, 3*time.Millisecond)
}

//go:noinline
func shortWork(t *testing.T, dev cuda.Device, stream cuda.Stream, tr *profiler.Track) events.Spin {
	return spun(t, dev, stream, tr, time.Millisecond)
}

func spun(t *testing.T, dev cuda.Device, stream cuda.Stream, tr *profiler.Track, d time.Duration) (s events.Spin) {
	t.Helper()
	require.NoError(t, profiler.Do(context.Background(), tr, func(context.Context) (err error) {
		s, err = dev.ScratchSpin(d, stream)
		return err
	}))
	return s
}

func total(t *testing.T, spins []events.Spin) (sum time.Duration) {
	t.Helper()
	for _, s := range spins {
		took, err := s.Measured()
		require.NoError(t, err)
		sum += took
	}
	return sum
}
