package opencl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// Timing in a loop grew memory without end (pytorch/pytorch#38313): an event
// that is recorded again gives the record before back.
func TestRecordingAgainKeepsOneRecord(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		s := b.stream(t)
		e := b.event(t)
		before := b.live("event")
		for range 1000 {
			require.NoError(t, b.EventRecord(e, s))
		}
		require.Equal(t, before+1, b.live("event"))
		require.NoError(t, b.EventWait(e))
		require.NotZero(t, e.Handle())
		require.NoError(t, b.EventDestroy(e))
		require.Equal(t, before, b.live("event"))
		require.Zero(t, e.Handle())
	})
}

// A queue may keep what was not flushed for ever, so a poll, or a wait on another
// queue, never ends. The imitated driver is of that kind.
func TestEveryRecordIsSentOff(t *testing.T) {
	b := imitated(t)
	s, other := b.stream(t), b.stream(t)
	e := b.recorded(t, s)
	require.NoError(t, b.StreamWaitEvent(other, e))
	after := b.recorded(t, other)
	for _, e := range []Event{e, after} {
		require.Eventually(t, func() bool {
			done, err := b.EventQuery(e)
			return done && err == nil
		}, patience, time.Millisecond)
	}
}

func TestRecordThatIsNotSentOffFails(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	e := b.recorded(t, s)
	b.driver.set(func() { b.driver.refuse["Flush"] = clapi.OutOfResources })
	err := b.EventRecord(e, s)
	b.driver.set(func() { delete(b.driver.refuse, "Flush") })
	require.EqualError(t, err, "clFlush: CL_OUT_OF_RESOURCES (-5)")
	require.ErrorIs(t, b.EventWait(e), events.ErrNotRecorded)
	require.Zero(t, b.live("event"))
}

// Readings through float lose the nanoseconds (pocl/pocl#1094, pocl/pocl#1015):
// after 9 s a step is 2 us.
func TestElapsedIsExactToTheNanosecond(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	const from = uint64(1) << 62
	for _, span := range []time.Duration{0, 1, 3, time.Hour + 1, 100*24*time.Hour + 1} {
		start, end := b.recorded(t, s), b.recorded(t, s)
		b.driver.set(func() {
			b.driver.stamps[clapi.Event(start.Handle())] = from
			b.driver.stamps[clapi.Event(end.Handle())] = from + uint64(span)
		})
		require.NoError(t, b.EventWait(end))
		got, err := b.EventElapsed(start, end)
		require.NoError(t, err)
		require.Equal(t, span, got)
		stamp, err := b.EventStamp(end)
		require.NoError(t, err)
		require.Equal(t, from+uint64(span), stamp)
	}
}

// ROCm/rocm-systems#9375, ROCm/rocm-libraries#6379
func TestElapsedNeverGoesBack(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	start, end := b.recorded(t, s), b.recorded(t, s)
	b.driver.set(func() { b.driver.stamps[clapi.Event(end.Handle())] = 5 })
	require.NoError(t, b.EventWait(end))
	span, err := b.EventElapsed(start, end)
	require.NoError(t, err)
	require.Zero(t, span)
	require.Equal(t, uint64(1), b.EventStats().Clamped)

	b.driver.set(func() { b.driver.stamps[clapi.Event(start.Handle())] = 1 })
	require.NoError(t, b.EventRecord(end, s))
	b.driver.set(func() { b.driver.stamps[clapi.Event(end.Handle())] = 1<<63 + 2 })
	require.NoError(t, b.EventWait(end))
	fresh := b.recorded(t, s)
	b.driver.set(func() { b.driver.stamps[clapi.Event(fresh.Handle())] = 1 })
	require.NoError(t, b.EventWait(fresh))
	_, err = b.EventElapsed(fresh, end)
	require.ErrorIs(t, err, events.ErrBadReading, "a span beyond what a duration holds")
}

func TestBothMistakesOfAPairAreNamed(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	b.shut(t, s)
	_, err := b.EventElapsed(b.event(t), b.recorded(t, s))
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.ErrorIs(t, err, events.ErrNotReady)
	require.ErrorContains(t, err, "start event")
	require.ErrorContains(t, err, "end event")
}

// A stamp read for one record must not be taken for that of the next.
func TestNewRecordHasANewStamp(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		s := b.stream(t)
		e := b.recorded(t, s)
		last := uint64(0)
		for range 20 {
			require.NoError(t, b.EventWait(e))
			stamp, err := b.EventStamp(e)
			require.NoError(t, err)
			require.GreaterOrEqual(t, stamp, last)
			last = stamp
			time.Sleep(100 * time.Microsecond)
			require.NoError(t, b.EventRecord(e, s))
			b.mustWait(t, e)
			again, err := b.EventStamp(e)
			require.NoError(t, err)
			require.Greater(t, again, last)
		}
	})
}

func (b *bench) mustWait(t testing.TB, e Event) {
	t.Helper()
	require.NoError(t, b.EventWait(e))
}

// An event that a wait is using when it is recorded again or destroyed.
func TestWaitKeepsItsRecord(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		held, idle := b.stream(t), b.stream(t)
		gate := b.shut(t, held)
		e := b.recorded(t, held)
		waited := make(chan error, 1)
		go func() { waited <- b.EventWait(e) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, b.EventRecord(e, idle))
		b.mustWait(t, e)
		select {
		case err := <-waited:
			t.Fatalf("the wait for a record that is held back returned %v", err)
		default:
		}
		require.NoError(t, b.EventDestroy(e))
		require.NoError(t, gate.Open())
		require.NoError(t, <-waited)
	})
}

// A command that ends with a negative status may have broken its context.
func TestAbortedCommandIsAFault(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	b.shut(t, s)
	e := b.recorded(t, s)
	b.driver.set(func() { b.driver.lost = -9999 })
	done, err := b.EventQuery(e)
	require.False(t, done)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "clGetEventInfo: NVIDIA: illegal read or write of a buffer (-9999)")
	b.driver.set(func() { b.driver.lost = 0 })
	_, err = b.StreamCreateNonBlocking()
	require.ErrorIs(t, err, events.ErrDeviceFault, "a fault stays")
	require.NoError(t, b.EventDestroy(e))
	require.Equal(t, uint64(1), b.EventStats().AbandonedAtEnd)
	b.fault.Store(nil) // so that the test ends in balance
	require.Zero(t, b.ReleaseEvent(clapi.Event(e.e.markForTest(b))))
}

func (e *event) markForTest(b *bench) uintptr {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	for r := range b.refs {
		if r.kind == "event" && clapi.Event(r.handle) != 0 {
			return r.handle
		}
	}
	return 0
}
