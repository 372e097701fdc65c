package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

const mib = 1 << 20

// timed is what a call puts on the stream.
func timed(t *testing.T, dev *mock.Device, s mock.Stream, queue func() error) time.Duration {
	t.Helper()
	start := recorded(t, dev, s)
	require.NoError(t, queue())
	end := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(end))
	span, err := dev.EventElapsed(start, end)
	require.NoError(t, err)
	return span
}

func TestCacheMakesWhatWasUsedLastFaster(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.CacheOf(60*mib, 4))
	alloc := func(bytes int64) events.Buffer {
		b, err := dev.ScratchAlloc(bytes)
		require.NoError(t, err)
		return b
	}
	data, flush := alloc(32*mib), alloc(120*mib)
	read := func(bytes int64) time.Duration {
		return timed(t, dev, s, func() error { return dev.LaunchRead(data, bytes, s) })
	}
	fill := func(bytes int64) time.Duration {
		return timed(t, dev, s, func() error { return dev.ScratchMemset(flush, 0, bytes, s) })
	}
	cold := read(32 * mib)
	require.InDelta(t, 32*mib/4.58e3, cold.Nanoseconds(), 2)
	hot := read(32 * mib)
	require.InDelta(t, float64(cold)/4, float64(hot), 2)
	fill(20 * mib)
	require.Equal(t, hot, read(32*mib), "both fit")
	fill(30 * mib)
	require.Equal(t, cold, read(32*mib), "what was used longest ago is dropped first, over and over")
	first := fill(120 * mib)
	require.Equal(t, first, fill(120*mib), "writes go to memory")
	require.Equal(t, cold, read(32*mib))

	dev.SetAside(data, 32*mib)
	fill(120 * mib)
	require.Equal(t, hot, read(32*mib), "no fill evicts lines that were set aside")
	require.NoError(t, dev.CacheResetPersisting())
	fill(120 * mib)
	require.Equal(t, cold, read(32*mib))

	copied := timed(t, dev, s, func() error { return dev.ScratchCopy(flush, data, 16*mib, s) })
	require.InDelta(t, 16*mib/4.58e3*(1.0/4+1), copied.Nanoseconds(), 3, "the source was there")
	require.NoError(t, dev.ScratchFree(data))
	require.ErrorIs(t, dev.LaunchRead(data, 1, s), events.ErrInvalid)
}

func TestWholeDeviceIsWaitedFor(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	other, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	require.NoError(t, dev.Work(other, time.Second))
	require.NoError(t, dev.StreamDestroy(other))
	require.NoError(t, dev.Work(dev.WrapStream(7), 2*time.Second))
	require.NoError(t, dev.LaunchEmpty(s))
	require.NoError(t, dev.DeviceSynchronize())
	require.Equal(t, 2*time.Second, dev.System().Now())

	require.NoError(t, dev.CaptureBegin(s, events.CaptureThreadLocal))
	require.ErrorIs(t, dev.DeviceSynchronize(), events.ErrCapturing)
	_, err = dev.CaptureEnd(s)
	require.ErrorIs(t, err, events.ErrCapturing)
	require.NoError(t, dev.DeviceSynchronize())
}
