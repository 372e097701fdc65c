package opencl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

func TestForeignQueueIsMeasuredAndNotReleased(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		handle := b.foreignQueue(t)
		found, err := b.rt.DeviceOf(handle)
		require.NoError(t, err)
		require.Equal(t, b.Device, found)
		s := b.WrapStream(handle)
		require.Equal(t, handle, s.Handle())
		start, end := b.recorded(t, s), b.recorded(t, s)
		b.mustWait(t, end)
		_, err = b.EventElapsed(start, end)
		require.NoError(t, err)
		require.NoError(t, b.StreamSynchronize(s))
		// A device has one clock, whatever the context.
		ours := b.recorded(t, b.stream(t))
		b.mustWait(t, ours)
		_, err = b.EventElapsed(start, ours)
		require.NoError(t, err)
		require.ErrorIs(t, b.StreamDestroy(s), events.ErrInvalid)
	})
}

// OpenCL has no waits across contexts; a driver answers with a code, or waits for
// nothing.
func TestWaitAcrossContextsIsRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		foreign, ours := b.WrapStream(b.foreignQueue(t)), b.stream(t)
		theirs := b.recorded(t, foreign)
		mine := b.recorded(t, ours)
		err := b.StreamWaitEvent(ours, theirs)
		require.ErrorIs(t, err, events.ErrDeviceMismatch)
		require.ErrorContains(t, err, "another OpenCL context")
		require.ErrorIs(t, b.StreamWaitEvent(foreign, mine), events.ErrDeviceMismatch)
		require.NoError(t, b.StreamWaitEvent(foreign, theirs))
		require.NoError(t, b.StreamSynchronize(foreign))
	})
}

// Records without times read as nonsense, or as a device error.
func TestQueueWithoutProfilingHasNoTimes(t *testing.T) {
	for _, zero := range []bool{false, true} {
		b := imitated(t, func(f *driver) { f.zeroTimes = zero })
		handle := b.foreignQueue(t)
		b.driver.set(func() { b.driver.unprofiled[clapi.Queue(handle)] = true })
		s := b.WrapStream(handle)
		e, good := b.recorded(t, s), b.recorded(t, b.stream(t))
		b.mustWait(t, e)
		b.mustWait(t, good)
		_, err := b.EventElapsed(e, good)
		require.ErrorIs(t, err, events.ErrTimingDisabled)
		require.ErrorContains(t, err, "start event")
		_, err = b.EventElapsed(good, e)
		require.ErrorIs(t, err, events.ErrTimingDisabled)
		require.ErrorContains(t, err, "end event")
	}
}

// Timing events went to another device than the work (ROCm/hip#1992,
// rapidsai/rmm#1306): a wrapped queue is asked where it belongs.
func TestForeignQueueOfAnotherDeviceIsRefused(t *testing.T) {
	b := imitated(t)
	second, err := b.rt.Device(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	s := second.WrapStream(b.foreignQueue(t))
	e, err := second.EventCreate()
	require.NoError(t, err)
	err = second.EventRecord(e, s)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.ErrorContains(t, err, "Runtime.DeviceOf")
	require.NoError(t, second.EventDestroy(e))

	_, err = b.rt.DeviceOf(0)
	require.ErrorIs(t, err, events.ErrInvalid)
	_, err = b.rt.DeviceOf(0x10)
	require.ErrorIs(t, err, events.ErrInvalid)
	b.driver.set(func() { b.driver.queues[0x20] = &imitatedQueue{device: 0x909} })
	_, err = b.rt.DeviceOf(0x20)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
}

// Fills in a foreign context write to memory of that context, which Close gives
// back.
func TestFillsServeForeignContexts(t *testing.T) {
	b := imitated(t, func(f *driver) { f.untimed["Marker"] = true })
	require.True(t, b.StampsByFill())
	before := b.live("mem")
	for range 3 {
		s := b.WrapStream(b.foreignQueue(t))
		for range 2 {
			e := b.recorded(t, s)
			b.mustWait(t, e)
			_, err := b.EventElapsed(e, e)
			require.NoError(t, err)
		}
	}
	require.Equal(t, before+3, b.live("mem"))
	e, s := b.event(t), b.WrapStream(b.foreignQueue(t))
	for _, method := range []string{"CreateBuffer", "Fill"} { // the first success keeps the buffer
		b.driver.set(func() { b.driver.refuse[method] = clapi.OutOfResources })
		require.ErrorContains(t, b.EventRecord(e, s), "CL_OUT_OF_RESOURCES (-5)")
		b.driver.set(func() { delete(b.driver.refuse, method) })
		require.ErrorIs(t, b.EventWait(e), events.ErrNotRecorded)
	}
}

// A marker without a time: the same on the machine's own driver, with its
// answers for markers withheld.
func TestFillsStampOnTheInstalledDriver(t *testing.T) {
	b := over(t, &markersWithoutTimes{API: library(t).api, markers: map[clapi.Event]bool{}})
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.True(t, b.StampsByFill())
	s := b.stream(t)
	start := b.recorded(t, s)
	spin, err := b.ScratchSpin(5*time.Millisecond, s)
	if err != nil {
		require.ErrorIs(t, err, events.ErrUnsupported)
		t.Skip("the driver cannot spin: " + err.Error())
	}
	end := b.recorded(t, s)
	b.mustWait(t, end)
	span, err := b.EventElapsed(start, end)
	require.NoError(t, err)
	took, err := spin.Measured()
	require.NoError(t, err)
	require.GreaterOrEqual(t, span, took)
}

type markersWithoutTimes struct {
	clapi.API
	markers map[clapi.Event]bool // a test uses it from one goroutine
}

func (m *markersWithoutTimes) Marker(q clapi.Queue, barrier bool) (clapi.Event, int32) {
	e, code := m.API.Marker(q, barrier)
	m.markers[e] = true
	return e, code
}

func (m *markersWithoutTimes) ReleaseEvent(e clapi.Event) int32 {
	delete(m.markers, e)
	return m.API.ReleaseEvent(e)
}

func (m *markersWithoutTimes) EventTime(e clapi.Event, param uint32) (uint64, int32) {
	if m.markers[e] {
		return 0, clapi.ProfilingInfoNotAvailable
	}
	return m.API.EventTime(e, param)
}

// Out of order, a marker holds nothing back: work behind a record ran before it,
// and the span read shorter than the work in it.
func TestRecordsHoldOnQueuesOutOfOrder(t *testing.T) {
	everywhere(t, recordsOutOfOrder)
	t.Run("imitated, barriers without a time", func(t *testing.T) {
		recordsOutOfOrder(t, imitated(t, func(f *driver) { f.untimedJoins, f.zeroTimes = true, true }))
	})
	t.Run("imitated, by fills", func(t *testing.T) {
		recordsOutOfOrder(t, imitated(t, func(f *driver) { f.untimed["Marker"] = true }))
	})
	t.Run("installed, by fills", func(t *testing.T) {
		b := over(t, &markersWithoutTimes{API: library(t).api, markers: map[clapi.Event]bool{}})
		t.Cleanup(func() { b.balanced(t) })
		b.open(t)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		recordsOutOfOrder(t, b)
	})
}

func recordsOutOfOrder(t *testing.T, b *bench) {
	q, code := b.CreateQueue(b.context, b.id, clapi.QueueProfiling|clapi.QueueOutOfOrder, false)
	if code == -35 {
		t.Skip("the driver has no queues out of order: CL_INVALID_QUEUE_PROPERTIES")
	}
	require.Zero(t, code)
	t.Cleanup(func() { require.Zero(t, b.ReleaseQueue(q)) })
	s := b.WrapStream(uintptr(q))
	b.spun(t, b.stream(t), time.Microsecond)
	const long, short = 50 * time.Millisecond, 20 * time.Millisecond
	first := b.recorded(t, s)
	_, err := b.ScratchSpin(long, s)
	require.NoError(t, err)
	middle := b.recorded(t, s)
	_, err = b.ScratchSpin(short, s)
	require.NoError(t, err)
	last := b.recorded(t, s)
	b.mustWait(t, last)
	before, err := b.EventElapsed(first, middle)
	require.NoError(t, err)
	behind, err := b.EventElapsed(middle, last)
	require.NoError(t, err)
	require.GreaterOrEqual(t, before, long-long/100)
	require.GreaterOrEqual(t, behind, short-short/100)
}

func TestQueueThatDoesNotSayItsOrderIsRefused(t *testing.T) {
	b := imitated(t, func(f *driver) { f.refuse["QueueProperties"] = clapi.OutOfResources })
	err := b.EventRecord(b.event(t), b.WrapStream(b.foreignQueue(t)))
	require.ErrorContains(t, err, "clGetCommandQueueInfo: CL_OUT_OF_RESOURCES (-5)")
}
