package fence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

func TestStreamWaitHoldsTheStreamAndNotTheHost(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	a, b := stream(t, dev), stream(t, dev)
	require.NoError(t, dev.Work(a, 100*us))
	f := record(t, fences, a)
	require.NoError(t, fences.WaitOn(f, b))
	behind := record(t, fences, b)
	require.Zero(t, dev.WaitCount(), "no call that waits")

	done := behind.Done()
	dev.System().Advance(99 * us)
	polling(t, dev, 5)
	pending(t, behind)
	dev.System().Advance(us)
	within(t, done)
	require.NoError(t, behind.Err())
	require.NoError(t, wait(f))

	waits := dev.CallCount(mock.OpStreamWaitEvent)
	require.NoError(t, fences.WaitOn(f, b), "reached: there is nothing to wait for")
	require.Equal(t, waits, dev.CallCount(mock.OpStreamWaitEvent))
}

// Two goroutines record on one stream, and the first is held up between the
// device's queue and ours. Were the second entered before it, a wait for the
// older would hide the younger.
func TestRecordsOfOneStreamAreEnteredInItsOrder(t *testing.T) {
	dev, fences := device(t)
	s, other := stream(t, dev), stream(t, dev)
	entered, letGo := make(chan struct{}), make(chan struct{})
	dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Nth: 1, Hook: func() {
		close(entered)
		<-letGo
	}})
	made := make(chan string, 2)
	recorder := func() {
		f, err := fences.Record(s)
		if err == nil {
			err = wait(f)
		}
		made <- fmt.Sprint(f, err)
	}
	go recorder()
	within(t, entered)
	go recorder()
	f := record(t, fences, other) // others are not held up
	require.Contains(t, f.String(), "fence 1 ")
	time.Sleep(5 * time.Millisecond)
	require.EqualValues(t, 2, dev.CallCount(mock.OpEventRecord), "the second must not overtake")
	close(letGo)
	for range 2 {
		require.Regexp(t, `^fence [23] .*, reached ?<nil>$`, within(t, made))
	}
}

// A wait queued for a fence keeps its meaning when the fence is closed, or its
// source, and its event is destroyed or used again.
func TestStreamWaitOutlivesTheFence(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal())
	a, b := stream(t, dev), stream(t, dev)
	g, err := dev.GateClose(a, time.Hour)
	require.NoError(t, err)
	f := record(t, fences, a)
	require.NoError(t, fences.WaitOn(f, b))
	require.NoError(t, f.Close())
	require.NoError(t, fences.Close())
	again := sourceOf(t, dev)
	behind := record(t, again, b)
	early := behind.Done()
	polling(t, dev, 5)
	pending(t, behind)
	require.NoError(t, g.Open())
	within(t, early)
	require.NoError(t, behind.Err())
	require.NoError(t, again.Close())
}

func TestStreamOfAnotherDeviceWaits(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.Manual(), mock.Ideal())
	t.Cleanup(sys.Close)
	first, second := sourceOf(t, sys.Device(0)), sourceOf(t, sys.Device(1))
	a, b := stream(t, sys.Device(0)), stream(t, sys.Device(1))
	require.NoError(t, sys.Device(0).Work(a, 100*us))
	f := record(t, first, a)
	require.NoError(t, second.WaitOn(f, b))
	require.EqualValues(t, 1, sys.Device(1).CallCount(mock.OpStreamWaitEvent), "the stream's device is asked")
	behind := record(t, second, b)
	early := behind.Done()
	polling(t, sys.Device(1), 3)
	pending(t, behind)
	sys.Advance(100 * us)
	within(t, early)
	require.NoError(t, behind.Err())

	other := mock.NewDevice()
	t.Cleanup(other.System().Close)
	foreign := sourceOf(t, other)
	pendingFence := record(t, first, hung(t, sys.Device(0)))
	require.ErrorIs(t, foreign.WaitOn(pendingFence, stream(t, other)), events.ErrDeviceMismatch)
	require.ErrorIs(t, first.WaitOn(pendingFence, b), events.ErrDeviceMismatch, "not a stream of its device")
	require.ErrorIs(t, first.WaitOn(pendingFence, mock.Stream{}), events.ErrInvalid)
	_, err := first.Record(b)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	for _, fences := range []source{first, second, foreign} {
		require.NoError(t, fences.Close())
	}
	require.Zero(t, sys.Device(0).EventStats().LiveEvents)
	require.Zero(t, sys.Device(1).EventStats().LiveEvents)
}

// holder is a program's own type: it names no vendor.
type holder struct {
	fences *fence.AnySource
	stream events.AnyStream
	last   *fence.Fence
}

func TestFencesOfAnErasedDevice(t *testing.T) {
	dev := mock.NewDevice(mock.Manual(), mock.Ideal(), mock.CallLog(100))
	t.Cleanup(dev.System().Close)
	raw := stream(t, dev)
	api := events.Erase(dev)
	fences, err := fence.New(api)
	require.NoError(t, err)
	h := holder{fences: fences}
	h.stream, err = events.EraseStream(api, raw)
	require.NoError(t, err)
	require.NoError(t, dev.Work(raw, us))
	h.last, err = h.fences.Record(h.stream)
	require.NoError(t, err)
	require.Contains(t, h.last.String(), "mock device 0 (Simulated device), stream no. 1, pending")
	b, err := api.StreamCreateNonBlocking()
	require.NoError(t, err)
	require.NoError(t, h.fences.WaitOn(h.last, b))

	direct := sourceOf(t, dev)
	require.ErrorIs(t, direct.WaitOn(h.last, raw), events.ErrDeviceMismatch)
	require.NoError(t, direct.Close())

	dev.System().Advance(us)
	require.NoError(t, wait(h.last))
	require.Zero(t, dev.CallCount(mock.OpEventQuery), "rounds are found through Erase")
	require.NotZero(t, dev.CallCount(mock.OpRoundQuery))
	require.EqualValues(t, 1, dev.CallCount(mock.OpEventCreateUntimed))
	require.NoError(t, h.fences.Close())
	require.Zero(t, dev.EventStats().LiveEvents)
}

// flags notes how events are asked for.
type flags struct {
	*mock.Device
	blocking []bool
}

func (d *flags) EventCreateUntimed(blocking bool) (mock.Event, error) {
	d.blocking = append(d.blocking, blocking)
	return d.Device.EventCreateUntimed(blocking)
}

// Default events spin in a host wait, and a flag set elsewhere than on the event
// changes nothing: pytorch/pytorch#82061, cupy/cupy#7911,
// NVIDIA/cuda-python#657.
func TestEventsAreUntimedAndBlocking(t *testing.T) {
	dev := &flags{Device: mock.NewDevice()}
	t.Cleanup(dev.System().Close)
	fences, err := fence.New(dev)
	require.NoError(t, err)
	require.NoError(t, wait(record(t, fences, stream(t, dev.Device))))
	require.Equal(t, []bool{true}, dev.blocking)
	require.Zero(t, dev.CallCount(mock.OpEventCreate))
	require.NoError(t, fences.Close())

	plain, fences := device(t, mock.Without(mock.FeatureUntimedCreator))
	require.NoError(t, wait(record(t, fences, stream(t, plain))))
	require.EqualValues(t, 1, plain.CallCount(mock.OpEventCreate))
}

// A record into a capture is an error, the capture goes on, and the event that
// got into it is never asked about: pytorch/pytorch#176251.
func TestCapturingStreamIsRefusedUnharmed(t *testing.T) {
	for _, mode := range []events.CaptureMode{events.CaptureGlobal, events.CaptureThreadLocal, events.CaptureRelaxed} {
		t.Run(mode.String(), func(t *testing.T) {
			dev, fences := device(t, mock.CallLog(1000))
			s, other := stream(t, dev), stream(t, dev)
			outside, reached := record(t, fences, hung(t, dev)), record(t, fences, other)
			require.NoError(t, wait(reached))
			require.NoError(t, dev.CaptureBegin(s, mode))
			require.NoError(t, dev.Work(s, us))
			_, err := fences.Record(s)
			require.ErrorIs(t, err, events.ErrCapturing)
			require.ErrorContains(t, err, "record again when the capture has ended")
			require.ErrorIs(t, fences.WaitOn(outside, s), events.ErrCapturing)
			require.ErrorIs(t, fences.WaitOn(reached, s), events.ErrCapturing, "the same, whatever is known of the fence")
			require.NoError(t, wait(record(t, fences, other)))
			g, err := dev.CaptureEnd(s)
			require.NoError(t, err)
			require.NoError(t, g.Launch(s))
			require.NoError(t, g.Close())
			require.NoError(t, wait(record(t, fences, s)), "once it has ended")
			require.Equal(t, mock.OpEventDestroy, callAfterCapture(t, dev.Calls()))
			dev.ReleaseHangs()
		})
	}
}

// callAfterCapture finds the event that was recorded into the capture, and gives the
// one call that was made with it afterwards.
func callAfterCapture(t *testing.T, log []mock.Call) mock.Op {
	t.Helper()
	var event uint64
	inCapture := false
	var later []mock.Op
	for _, c := range log {
		switch {
		case c.Op == mock.OpCaptureBegin:
			inCapture = true
		case inCapture && event == 0 && c.Op == mock.OpEventRecord:
			event = c.Event
		case event != 0 && c.Event == event:
			later = append(later, c.Op)
		}
	}
	require.Len(t, later, 1)
	return later[0]
}

// A query from any thread kills a global capture elsewhere in the process,
// unless the thread is exempted, which a round does: pytorch/pytorch#104487,
// pytorch/pytorch#148594, ROCm/hip#3876.
func TestPollsAreMadeInRounds(t *testing.T) {
	dev, fences := deviceWith(t, []fence.Option{fence.WithBlockingThreads(0)}, mock.CallLog(5000))
	s, other := stream(t, dev), stream(t, dev)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	f := record(t, fences, hung(t, dev))
	done := f.Done()
	for range 100 {
		require.NoError(t, wait(record(t, fences, other)))
		record(t, fences, other)
	}
	polling(t, dev, 20)
	dev.ReleaseHangs()
	within(t, done)
	_, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	eventually(t, func() bool { return dev.OpenRounds() == 0 })

	open := false
	for _, c := range dev.Calls() {
		switch c.Op {
		case mock.OpRoundBegin:
			require.False(t, open, "one round at a time")
			open = true
		case mock.OpRoundEnd:
			require.True(t, open)
			open = false
		case mock.OpRoundQuery:
			require.True(t, open)
		case mock.OpEventQuery, mock.OpEventWait, mock.OpStreamSynchronize:
			t.Errorf("%v outside a round", c.Op)
		}
	}
	require.False(t, open)
}

// Where the backend cannot exempt a thread, the driver refuses a poll during a
// capture. The wait ends with that: asked again and again, every capture of the
// program would die.
func TestRefusalDuringACaptureIsNotRetried(t *testing.T) {
	dev, fences := device(t, mock.Unrelaxed(true))
	s := stream(t, dev)
	f := record(t, fences, hung(t, dev))
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.ErrorIs(t, wait(f), events.ErrCapturing)
	require.EqualValues(t, 1, dev.CallCount(mock.OpRoundQuery))
	_, err := dev.CaptureEnd(s)
	require.ErrorIs(t, err, events.ErrCapturing)
	dev.ReleaseHangs()
}

// A long round would hold its OS thread for long.
func TestRoundsAreShort(t *testing.T) {
	dev, fences := device(t, mock.Manual(), mock.Ideal(), mock.QueueLimit(0), mock.CallLog(10_000))
	var all []<-chan struct{}
	for range 1000 {
		s := stream(t, dev)
		require.NoError(t, dev.Work(s, us))
		all = append(all, record(t, fences, s).Done())
	}
	dev.ResetCalls()
	dev.System().Advance(us)
	for _, done := range all {
		within(t, done)
	}
	longest, n := 0, 0
	for _, c := range dev.Calls() {
		if c.Op == mock.OpRoundQuery {
			n++
		} else {
			n = 0
		}
		longest = max(longest, n)
	}
	require.Equal(t, 256, longest)
}

// Without a CaptureAsker a fence works as long as nobody captures.
func TestWithoutCaptureAsker(t *testing.T) {
	dev, fences := device(t, mock.Without(mock.FeatureCaptureAsker, mock.FeatureIdentifier))
	s := stream(t, dev)
	f := record(t, fences, s)
	require.NoError(t, fences.WaitOn(f, stream(t, dev)))
	require.NoError(t, wait(f))
	require.NoError(t, fences.WaitOn(f, s))
	require.Equal(t, "fences of mock", fences.String())
}
