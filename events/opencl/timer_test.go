package opencl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

// The timers read the clock that stamps events: a record lies between two
// readings of it.
func TestDeviceTimerIsTheClockOfTheStamps(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		timer, offered := events.Ability[events.TimerReader](b.Device)
		if !offered {
			_, _, err := b.Device.DeviceAndHostTimer()
			require.ErrorIs(t, err, events.ErrUnsupported)
			t.Skip("the driver has no clGetDeviceAndHostTimer")
		}
		s, e := b.stream(t), b.event(t)
		before, host, err := timer.DeviceAndHostTimer()
		require.NoError(t, err)
		require.NoError(t, b.EventRecord(e, s))
		b.mustWait(t, e)
		after, later, err := timer.DeviceAndHostTimer()
		require.NoError(t, err)
		stamp, err := b.EventStamp(e)
		require.NoError(t, err)
		require.LessOrEqual(t, before, stamp)
		require.LessOrEqual(t, stamp, after)
		require.Less(t, host, later)
		require.Less(t, later-host, uint64(patience))
	})
}

func TestTimerThatIsRefusedIsNotOffered(t *testing.T) {
	b := imitated(t, func(f *driver) { f.refuse["DeviceAndHostTimer"] = -59 })
	_, offered := events.Ability[events.TimerReader](b.Device)
	require.False(t, offered)
	_, offered = events.Ability[events.Querier[Event]](b.Device)
	require.True(t, offered)
}

// What OpenCL cannot do is an absent ability, not a method that fails.
func TestWhatOpenCLCannotDoIsAbsent(t *testing.T) {
	b := imitated(t)
	_, graphs := events.Ability[events.Graphs[Event, Stream]](b.Device)
	_, captures := events.Ability[events.CaptureAsker[Stream]](b.Device)
	_, rounds := events.Ability[events.RoundQuerier[Event]](b.Device)
	_, untimed := events.Ability[events.UntimedCreator[Event]](b.Device)
	require.False(t, graphs || captures || rounds || untimed)
}

func TestSpinIsUnsupportedWhereTheKernelDoesNotCompile(t *testing.T) {
	b := imitated(t, func(f *driver) { f.refuse["BuildProgram"] = -11 })
	s := b.stream(t)
	for range 2 {
		_, err := b.ScratchSpin(time.Millisecond, s)
		require.ErrorIs(t, err, events.ErrUnsupported)
		require.ErrorContains(t, err, "CL_BUILD_PROGRAM_FAILURE (-11)")
		require.ErrorContains(t, err, "what the compiler says")
	}
	b.driver.set(func() { clear(b.driver.refuse) })
	_, err := b.ScratchSpin(time.Millisecond, s)
	require.ErrorIs(t, err, events.ErrUnsupported, "what was found out holds")
}

func TestSpinsInFlightAreBounded(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	gate := b.shut(t, s)
	for range maxSpins {
		_, err := b.ScratchSpin(time.Microsecond, s)
		require.NoError(t, err)
	}
	_, err := b.ScratchSpin(time.Microsecond, s)
	require.ErrorIs(t, err, events.ErrFull)
	require.NoError(t, gate.Open())
	require.NoError(t, b.StreamSynchronize(s))
	_, err = b.ScratchSpin(time.Microsecond, s)
	require.NoError(t, err)
	require.NoError(t, b.StreamSynchronize(s))
}

// Memory and programs lie in our context, and a queue of another one cannot
// reach them.
func TestScratchWorkOnAForeignContextIsRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		s := b.WrapStream(b.foreignQueue(t))
		m, err := b.ScratchAlloc(64)
		require.NoError(t, err)
		other, err := b.ScratchAlloc(64)
		require.NoError(t, err)
		_, spin := b.ScratchSpin(time.Microsecond, s)
		for _, err := range []error{b.ScratchMemset(m, 0, 64, s), b.ScratchCopy(m, other, 64, s), spin} {
			require.ErrorIs(t, err, events.ErrDeviceMismatch)
		}
		require.NoError(t, b.ScratchFree(m))
		require.NoError(t, b.ScratchFree(other))
		require.ErrorIs(t, b.ScratchFree(m), events.ErrInvalid)
	})
}

func TestGateThatCannotCloseLeavesTheStreamFree(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	for method, code := range map[string]int32{"CreateUserEvent": -6, "Barrier": -5, "Flush": -5} {
		b.driver.set(func() { b.driver.refuse[method] = code })
		_, err := b.GateClose(s, time.Minute)
		require.ErrorContains(t, err, codes[code])
		b.driver.set(func() { delete(b.driver.refuse, method) })
		b.mustWait(t, b.recorded(t, s))
	}
	_, err := b.GateClose(s, 0)
	require.ErrorIs(t, err, events.ErrInvalid)
}
