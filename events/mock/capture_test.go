package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func capturing(t *testing.T, dev *mock.Device, s mock.Stream) bool {
	t.Helper()
	ok, err := dev.StreamCapturing(s)
	require.NoError(t, err)
	return ok
}

// A poll of an unrelated event killed captures: pytorch/pytorch#104487,
// pytorch/pytorch#148594, ROCm/hip#3876. Ours does not; a plain one does, and
// only in global mode.
func TestPlainPollKillsAGlobalCapture(t *testing.T) {
	polls := map[string]func(*mock.Device, mock.Event, mock.Stream) error{
		"query": func(d *mock.Device, e mock.Event, _ mock.Stream) error {
			_, err := d.EventQuery(e)
			return err
		},
		"wait":        func(d *mock.Device, e mock.Event, _ mock.Stream) error { return d.EventWait(e) },
		"synchronize": func(d *mock.Device, _ mock.Event, s mock.Stream) error { return d.StreamSynchronize(s) },
		"round query": func(d *mock.Device, e mock.Event, _ mock.Stream) error {
			r, err := d.RoundBegin()
			if err != nil {
				return err
			}
			defer func() { _ = d.RoundEnd(r) }()
			_, err = d.RoundQuery(r, e)
			return err
		},
	}
	for name, poll := range polls {
		for _, mode := range []events.CaptureMode{events.CaptureGlobal, events.CaptureThreadLocal, events.CaptureRelaxed} {
			for _, plain := range []bool{false, true} {
				sys := mock.New(mock.Devices(2), mock.AutoAdvance(), mock.Unrelaxed(plain))
				t.Cleanup(sys.Close)
				dev, poller := sys.Device(0), sys.Device(1) // a capture anywhere in the process
				s, unrelated := stream(t, dev), stream(t, poller)
				e := recorded(t, poller, unrelated)
				require.NoError(t, dev.CaptureBegin(s, mode))
				err := poll(poller, e, unrelated)
				_, endErr := dev.CaptureEnd(s)
				if plain && mode == events.CaptureGlobal {
					require.ErrorIs(t, err, events.ErrCapturing, "%s %v", name, mode)
					require.ErrorContains(t, err, "(900)")
					require.ErrorContains(t, endErr, "(901)")
				} else {
					require.NoError(t, err, "%s %v plain %t", name, mode, plain)
					require.NoError(t, endErr, "%s %v plain %t", name, mode, plain)
				}
			}
		}
	}
}

func TestUnrelaxedCanBeSwitched(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	outside := recorded(t, dev, stream(t, dev))
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	_, err := dev.EventQuery(outside)
	require.NoError(t, err)
	dev.Unrelaxed(true)
	_, err = dev.EventQuery(outside)
	require.ErrorIs(t, err, events.ErrCapturing)
}

// Create, destroy, record elsewhere, elapsed and stream create harm no capture,
// plain or not.
func TestHarmlessCallsDuringACapture(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Unrelaxed(true))
	other := stream(t, dev)
	a := recorded(t, dev, other)
	require.NoError(t, dev.EventWait(a))
	captured := event(t, dev)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, dev.EventRecord(captured, s))
	b := recorded(t, dev, other)
	require.NoError(t, dev.EventDestroy(b))
	_, err := dev.EventElapsed(a, a)
	require.NoError(t, err)
	_, err = dev.EventElapsed(captured, a)
	require.ErrorIs(t, err, events.ErrCapturing)
	require.ErrorContains(t, err, "start event")
	require.NoError(t, dev.EventDestroy(captured))
	require.NoError(t, dev.StreamDestroy(stream(t, dev)))
	_, err = dev.CaptureEnd(s)
	require.NoError(t, err)
}

// A record in a capture succeeds and stamps nothing: peak-team/peak#84,
// NVIDIA/warp#556. Polling such an event is fatal to the capture.
func TestRecordInACaptureStampsNothing(t *testing.T) {
	polls := map[string]func(*mock.Device, mock.Event) error{
		"query": func(d *mock.Device, e mock.Event) error { _, err := d.EventQuery(e); return err },
		"wait":  func(d *mock.Device, e mock.Event) error { return d.EventWait(e) },
	}
	for name, poll := range polls {
		dev, s := device(t, mock.AutoAdvance())
		e := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(e))
		require.NoError(t, dev.CaptureBegin(s, events.CaptureRelaxed))
		require.NoError(t, dev.EventRecord(e, s))
		_, ok := dev.TrueHostTime(e)
		require.False(t, ok, "the old stamp is gone")
		require.True(t, capturing(t, dev, s))
		err := poll(dev, e)
		require.ErrorIs(t, err, events.ErrCapturing, name)
		require.ErrorContains(t, err, "(907)", name)
		require.True(t, capturing(t, dev, s), "invalidated counts as captured")
		require.ErrorContains(t, dev.EventRecord(event(t, dev), s), "(901)")
		require.ErrorContains(t, dev.Work(s, us), "(901)")
		_, err = dev.CaptureEnd(s)
		require.ErrorIs(t, err, events.ErrCapturing, name)
		require.ErrorContains(t, err, "(901)")
		require.False(t, capturing(t, dev, s))

		err = poll(dev, e)
		require.ErrorIs(t, err, events.ErrCapturing, "after the end it is a plain error")
		require.ErrorContains(t, err, "code 1)")
		_, err = dev.EventElapsed(e, e)
		require.ErrorIs(t, err, events.ErrCapturing)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, poll(dev, e), "a new record heals it")
	}
}

func TestPlainRecordAddsNoNode(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.EventCost(us))
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	recorded(t, dev, s)
	g, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	require.NoError(t, g.Launch(s))
	require.NoError(t, dev.StreamSynchronize(s))
	require.Zero(t, dev.System().Now())
}

// The guard that missed the invalidated state: microsoft/onnxruntime#29584.
func TestInvalidatedCaptureIsStillACapture(t *testing.T) {
	dev, s := device(t, mock.Without(mock.FeatureGraphs))
	require.False(t, dev.InvalidateCapture(s))
	require.False(t, dev.InvalidateCapture(mock.Stream{}))
	require.ErrorIs(t, dev.CaptureBegin(s, events.CaptureGlobal), events.ErrUnsupported)
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal), "a foreign library captures")
	e := recorded(t, dev, s)
	require.True(t, dev.InvalidateCapture(s))
	require.True(t, capturing(t, dev, s))
	dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Nth: 1, Code: mock.CodeCaptureImplicit})
	_, err := dev.StreamCapturing(s)
	require.ErrorIs(t, err, events.ErrCapturing)
	require.ErrorContains(t, err, "(906)")
	_, err = dev.EndCapture(s)
	require.ErrorContains(t, err, "(901)")
	_, err = dev.EventQuery(e)
	require.ErrorIs(t, err, events.ErrCapturing)
}

func TestCaptureIsBegunAndEndedOnce(t *testing.T) {
	dev, s := device(t)
	_, err := dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(401)")
	require.ErrorIs(t, dev.CaptureBegin(s, 7), events.ErrInvalid)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.ErrorContains(t, dev.CaptureBegin(s, events.CaptureGlobal), "(401)")
	_, err = dev.GateClose(s, time.Second)
	require.ErrorContains(t, err, "(900)")
	_, err = dev.CaptureEnd(s)
	require.NoError(t, err)
}

func TestSynchronizingACapturedStreamKillsTheCapture(t *testing.T) {
	dev, s := device(t)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureRelaxed))
	require.ErrorContains(t, dev.StreamSynchronize(s), "(900)")
	_, err := dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(901)")
}

func TestDestroyingACapturedStreamKillsTheCapture(t *testing.T) {
	dev, s := device(t)
	side := stream(t, dev)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureRelaxed))
	require.NoError(t, dev.StreamWaitEvent(side, recorded(t, dev, s)))
	require.NoError(t, dev.StreamDestroy(side))
	_, err := dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(901)")
}

func TestCaptureMustNotWaitForTheOutside(t *testing.T) {
	dev, s := device(t)
	outside := recorded(t, dev, stream(t, dev))
	require.NoError(t, dev.CaptureBegin(s, events.CaptureRelaxed))
	require.ErrorContains(t, dev.StreamWaitEvent(s, outside), "(905)")
	_, err := dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(901)")
}

func TestTwoCapturesDoNotMerge(t *testing.T) {
	dev, a := device(t)
	b := stream(t, dev)
	require.NoError(t, dev.CaptureBegin(a, events.CaptureRelaxed))
	require.NoError(t, dev.CaptureBegin(b, events.CaptureRelaxed))
	require.ErrorContains(t, dev.StreamWaitEvent(b, recorded(t, dev, a)), "(902)")
	for _, s := range []mock.Stream{a, b} {
		_, err := dev.CaptureEnd(s)
		require.ErrorContains(t, err, "(901)")
	}
}

// A stream that waits for a captured event is captured from then on.
func TestWaitingStreamJoinsTheCapture(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	side := stream(t, dev)
	begin := func() {
		require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
		require.NoError(t, dev.StreamWaitEvent(side, recorded(t, dev, s)))
		require.True(t, capturing(t, dev, side))
	}
	begin()
	require.NoError(t, dev.Work(side, us))
	require.NoError(t, dev.StreamWaitEvent(s, recorded(t, dev, side)))
	_, err := dev.CaptureEnd(side)
	require.ErrorContains(t, err, "(903)")
	_, err = dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(901)")
	require.False(t, capturing(t, dev, side))

	begin()
	require.NoError(t, dev.Work(side, us))
	_, err = dev.CaptureEnd(s)
	require.ErrorContains(t, err, "(904)", "the work on the side was not joined")

	begin()
	require.NoError(t, dev.Work(side, us))
	joined := recorded(t, dev, side)
	require.NoError(t, dev.StreamWaitEvent(s, joined))
	g, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	require.NoError(t, g.Launch(side))
	require.NoError(t, dev.StreamSynchronize(side))
	require.Equal(t, us, dev.System().Now())

	require.ErrorIs(t, dev.StreamWaitEvent(s, joined), events.ErrCapturing, "nothing to wait for after the end")
	require.False(t, capturing(t, dev, s))
}

// External events are nodes, stamped at every launch.
func TestExternalEventsAreStampedAtLaunch(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	start, end := event(t, dev), event(t, dev)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, dev.EventRecordExternal(start, s))
	sp, err := dev.ScratchSpin(10*us, s)
	require.NoError(t, err)
	require.NoError(t, dev.EventRecordExternal(end, s))
	g, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	_, err = dev.EventQuery(end)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	_, err = sp.Measured()
	require.ErrorIs(t, err, events.ErrNotReady)
	var last int64
	for range 3 {
		dev.System().Advance(time.Second)
		require.NoError(t, g.Launch(s))
		require.NoError(t, dev.EventWait(end))
		span, err := dev.EventElapsed(start, end)
		require.NoError(t, err)
		require.Equal(t, 10*us, span)
		at, ok := dev.TrueHostTime(end)
		require.True(t, ok)
		require.Greater(t, at, last)
		last = at
	}
	measured, err := sp.Measured()
	require.NoError(t, err)
	require.Equal(t, 10*us, measured)
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Launch(s), events.ErrClosed)

	err = dev.EventRecordExternal(end, s)
	require.ErrorIs(t, err, events.ErrInvalid, "outside a capture CUDA refuses it")
	require.ErrorContains(t, err, "(401)")
	require.ErrorIs(t, dev.EventWait(end), events.ErrNotRecorded)
}

func TestGraphInsideACapture(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, dev.Work(s, 3*us))
	inner, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, inner.Launch(s))
	require.NoError(t, inner.Launch(s))
	outer, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	require.NoError(t, outer.Launch(s))
	require.NoError(t, dev.StreamSynchronize(s))
	require.Equal(t, 6*us, dev.System().Now())
}

// A launch is refused like any other call, and waits for room like any other work.
func TestLaunchMeetsItsLimits(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.QueueLimit(2))
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, dev.Work(s, us))
	g, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, g.Launch(s))
	}
	require.Equal(t, us, dev.System().Now())
	require.ErrorIs(t, g.Launch(mock.Stream{}), events.ErrInvalid)
	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.True(t, dev.InvalidateCapture(s))
	require.ErrorContains(t, g.Launch(s), "(901)")
	require.ErrorContains(t, dev.StreamWaitEvent(s, recorded(t, dev, stream(t, dev))), "(901)")
	require.ErrorContains(t, dev.EventRecordExternal(event(t, dev), s), "(901)")
	dev.Lose()
	require.ErrorIs(t, g.Launch(s), events.ErrDeviceFault)
}
