package opencl

import (
	"sync/atomic"
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

// A wait for one record that ends while the next is pending.
func TestFinishedWaitSaysNothingOfTheNextRecord(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		first, second := b.stream(t), b.stream(t)
		gate := b.shut(t, first)
		b.shut(t, second)
		e := b.recorded(t, first)
		waited := make(chan error, 1)
		go func() { waited <- b.EventWait(e) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, b.EventRecord(e, second))
		require.NoError(t, gate.Open())
		require.NoError(t, <-waited)
		done, err := b.EventQuery(e)
		require.NoError(t, err)
		require.False(t, done)
	})
}

// A command that ends with a negative status may have broken its context.
func TestAbortedCommandIsAFault(t *testing.T) {
	b := doomed(t)
	s := b.stream(t)
	gate, err := b.GateClose(s, patience)
	require.NoError(t, err)
	e := b.recorded(t, s)
	b.driver.set(func() { b.driver.lost = -9999 })
	done, err := b.EventQuery(e)
	require.False(t, done)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "clGetEventInfo: NVIDIA: illegal read or write of a buffer (-9999)")
	b.driver.set(func() { b.driver.lost = 0 })
	_, err = b.StreamCreateNonBlocking()
	require.ErrorIs(t, err, events.ErrDeviceFault, "a fault stays")
	require.NoError(t, gate.Open(), "a gate lets go all the same")
	require.NoError(t, b.EventDestroy(e))
	require.Equal(t, uint64(2), b.EventStats().AbandonedAtEnd, "the event and the gate's")
}

// Drivers report a kernel's crash as a queue that is not one, at the next call.
func TestDriverThatDisownsOurQueueHasLostIt(t *testing.T) {
	b := doomed(t)
	s, e := b.stream(t), b.event(t)
	b.driver.set(func() { b.driver.refuse["Finish"] = clapi.InvalidCommandQueue })
	err := b.StreamSynchronize(s)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "clFinish: CL_INVALID_COMMAND_QUEUE (-36)")
	require.ErrorIs(t, b.EventRecord(e, s), events.ErrDeviceFault)
}

// A foreign queue that is gone is its owner's mistake, and no fault.
func TestForeignQueueThatIsInvalidIsNoFault(t *testing.T) {
	b := imitated(t)
	gone := b.WrapStream(0x10)
	err := b.EventRecord(b.event(t), gone)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorContains(t, err, "clGetCommandQueueInfo: CL_INVALID_COMMAND_QUEUE (-36)")
	require.ErrorIs(t, b.StreamSynchronize(b.WrapStream(0)), events.ErrInvalid)
	b.stream(t)
}

// A program may fail a user event on purpose: what waited for it is dropped, and
// the device is as good as before.
func TestFailedUserEventIsNoFault(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	failing, code := b.CreateUserEvent(b.context)
	require.Zero(t, code)
	require.Zero(t, b.Barrier(s.handle, failing))
	e := b.recorded(t, s)
	waited := make(chan error, 1)
	go func() { waited <- b.EventWait(e) }()
	require.Zero(t, b.SetUserEvent(failing, -77))
	require.Zero(t, b.ReleaseEvent(failing))
	_, span := b.EventElapsed(e, e)
	done, asked := b.EventQuery(e)
	require.False(t, done)
	for _, err := range []error{<-waited, span, asked} {
		require.ErrorContains(t, err, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14)")
		require.NotErrorIs(t, err, events.ErrDeviceFault)
	}
	fresh := b.stream(t)
	b.mustWait(t, b.recorded(t, fresh))
}

func TestDestroyThatFailsIsReportedOrCounted(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	e, err := b.EventCreate()
	require.NoError(t, err)
	require.NoError(t, b.EventRecord(e, s))
	b.driver.set(func() { b.driver.refuse["ReleaseEvent"] = -58 })
	require.NoError(t, b.EventRecord(e, s), "the record is good, only the one before could not be given back")
	require.Equal(t, uint64(1), b.EventStats().DestroyFailed)
	require.ErrorContains(t, b.EventDestroy(e), "clReleaseEvent: CL_INVALID_EVENT (-58)")
	b.driver.set(func() { delete(b.driver.refuse, "ReleaseEvent") })
	require.Zero(t, b.EventStats().LiveEvents)
}

// Two goroutines record one event: the one whose marker was queued last is the
// last record, whoever comes back first.
func TestLastQueuedRecordIsTheLastRecord(t *testing.T) {
	api := &slowMarker{API: newDriver(), queued: make(chan struct{}), hold: make(chan struct{})}
	b := over(t, api)
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	s, e := b.stream(t), b.event(t)
	api.slow.Store(true)
	results := make(chan error, 2)
	go func() { results <- b.EventRecord(e, s) }()
	<-api.queued
	go func() { results <- b.EventRecord(e, s) }()
	time.Sleep(20 * time.Millisecond) // the second is done, or waits for its turn
	close(api.hold)
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	require.Equal(t, api.last.Load(), uint64(e.Handle()))
}

// slowMarker keeps the caller of one marker until it is let go.
type slowMarker struct {
	clapi.API
	slow         atomic.Bool
	last         atomic.Uint64 // the marker that was queued last
	queued, hold chan struct{}
}

func (m *slowMarker) Marker(q clapi.Queue, barrier bool) (clapi.Event, int32) {
	e, code := m.API.Marker(q, barrier)
	m.last.Store(uint64(e))
	if m.slow.CompareAndSwap(true, false) {
		close(m.queued)
		<-m.hold
	}
	return e, code
}
