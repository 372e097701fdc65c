package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestGateHoldsTheStream(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Ideal())
	g, err := dev.GateClose(s, time.Second)
	require.NoError(t, err)
	start := recorded(t, dev, s)
	require.NoError(t, dev.Work(s, 10*us))
	end := recorded(t, dev, s)
	dev.System().Advance(500 * time.Millisecond)
	require.False(t, done(t, dev, start))
	require.NoError(t, g.Open())
	require.True(t, done(t, dev, start))
	require.NoError(t, g.Open())
	dev.System().Advance(time.Minute)
	require.NoError(t, g.Open(), "the watchdog did not come first")
	span, err := dev.EventElapsed(start, end)
	require.NoError(t, err)
	require.Equal(t, 10*us, span, "the time of queueing does not show")
	at, _ := dev.TrueHostTime(start)
	require.EqualValues(t, 500*time.Millisecond, at)
}

// A gate never holds a device for ever, even when nobody looks in time.
func TestGateExpires(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	g, err := dev.GateClose(s, time.Second)
	require.NoError(t, err)
	e := recorded(t, dev, s)
	dev.System().Advance(time.Hour)
	require.ErrorIs(t, g.Open(), events.ErrExpired)
	require.True(t, done(t, dev, e))
	at, _ := dev.TrueHostTime(e)
	require.EqualValues(t, time.Second, at)
	require.ErrorIs(t, g.Open(), events.ErrExpired)

	_, err = dev.GateClose(s, 0)
	require.ErrorIs(t, err, events.ErrInvalid)
}

func TestGateBehindAFullQueueIsLetGoByItsWatchdog(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.QueueLimit(8))
	_, err := dev.GateClose(s, time.Second)
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, dev.Work(s, us))
	}
	require.GreaterOrEqual(t, dev.System().Now(), time.Second)
}

// Queues that wait for each other across gates are worked out together.
func TestGatedStreamHoldsThoseThatWaitForIt(t *testing.T) {
	dev, a := device(t, mock.Manual(), mock.Ideal(), mock.WaitLatency(100))
	b, c := stream(t, dev), stream(t, dev)
	g, err := dev.GateClose(a, time.Hour)
	require.NoError(t, err)
	ea := recorded(t, dev, a)
	require.NoError(t, dev.StreamWaitEvent(b, ea))
	eb := recorded(t, dev, b)
	require.NoError(t, dev.StreamWaitEvent(c, eb))
	require.NoError(t, dev.StreamWaitEvent(a, ea), "its own past")
	ec := recorded(t, dev, c)
	dev.System().Advance(time.Second)
	require.NoError(t, g.Open())
	dev.System().Advance(time.Second)
	for i, e := range []mock.Event{ea, eb, ec} {
		at, ok := dev.TrueHostTime(e)
		require.True(t, ok)
		require.EqualValues(t, int(time.Second)+100*i, at)
	}
}

func TestScratchMemory(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Memory(1<<30), mock.Ideal())
	_, err := dev.ScratchAlloc(0)
	require.ErrorIs(t, err, events.ErrInvalid)
	b, err := dev.ScratchAlloc(1 << 29)
	require.NoError(t, err)
	other, err := dev.ScratchAlloc(1 << 29)
	require.NoError(t, err)
	require.GreaterOrEqual(t, other.Address, b.Address+uintptr(b.Bytes))
	_, err = dev.ScratchAlloc(1)
	require.ErrorIs(t, err, events.ErrFull)

	start := recorded(t, dev, s)
	require.NoError(t, dev.ScratchMemset(b, 1, 1<<29, s))
	middle := recorded(t, dev, s)
	require.NoError(t, dev.ScratchCopy(other, b, 1<<29, s))
	end := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(end))
	fill, err := dev.EventElapsed(start, middle)
	require.NoError(t, err)
	copied, err := dev.EventElapsed(middle, end)
	require.NoError(t, err)
	require.InDelta(t, 117*us, fill, float64(us))
	require.InDelta(t, float64(2*fill), float64(copied), float64(us))

	require.ErrorIs(t, dev.ScratchMemset(b, 1, b.Bytes+1, s), events.ErrInvalid)
	require.ErrorIs(t, dev.ScratchMemset(b, 1, -1, s), events.ErrInvalid)
	require.NoError(t, dev.ScratchFree(b))
	require.ErrorIs(t, dev.ScratchFree(b), events.ErrInvalid)
	require.ErrorIs(t, dev.ScratchCopy(other, b, 1, s), events.ErrInvalid)
	_, err = dev.ScratchAlloc(1 << 29)
	require.NoError(t, err)
}

func TestSpinMeasuresItself(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Drift(-400))
	for _, d := range []time.Duration{0, -1, 11 * time.Second} {
		_, err := dev.ScratchSpin(d, s)
		require.ErrorIs(t, err, events.ErrInvalid)
	}
	start := recorded(t, dev, s)
	sp, err := dev.ScratchSpin(10*us+1, s)
	require.NoError(t, err)
	end := recorded(t, dev, s)
	_, err = sp.Measured()
	require.ErrorIs(t, err, events.ErrNotReady)
	dev.System().Advance(time.Second)
	got, err := sp.Measured()
	require.NoError(t, err)
	require.Equal(t, 10*us+16, got, "a whole number of ticks")
	span, err := dev.EventElapsed(start, end)
	require.NoError(t, err)
	require.GreaterOrEqual(t, span, got)
}
