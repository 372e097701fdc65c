package events_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// kind is one of the things that an event can be when it is used.
type kind struct {
	state   string
	untimed bool
}

func (k kind) String() string {
	if k.untimed {
		return k.state + " untimed"
	}
	return k.state
}

// wrong is what the kind makes of Elapsed. A pending event is a mistake only
// where there is no other.
func (k kind) wrong() error {
	switch {
	case k.untimed:
		return events.ErrTimingDisabled
	case k.state == "fresh":
		return events.ErrNotRecorded
	case k.state == "captured":
		return events.ErrCapturing
	}
	return nil
}

// zoo makes events of every kind, directly on the simulated device or erased.
type zoo[E any, S comparable] struct {
	dev                  *mock.Device
	api                  events.EventApi[E, S]
	free, hung, captured S
	hang                 func() error // before each record on hung, since a release lets all go
}

func newZoo[E any, S comparable](t *testing.T, dev *mock.Device, api events.EventApi[E, S], erase func(mock.Stream) S) zoo[E, S] {
	t.Helper()
	captured, busy := newStream(t, dev), newStream(t, dev)
	require.NoError(t, dev.BeginCapture(captured, events.CaptureGlobal))
	hang := func() error { return dev.Hang(busy) }
	return zoo[E, S]{dev, api, newStream(t, api), erase(busy), erase(captured), hang}
}

func (z zoo[E, S]) make(t *testing.T, k kind) *events.Event[E, S] {
	t.Helper()
	create := events.New[E, S]
	if k.untimed {
		create = func(api events.EventApi[E, S]) (*events.Event[E, S], error) { return events.NewUntimed(api, true) }
	}
	e, err := create(z.api)
	require.NoError(t, err)
	require.Equal(t, k.untimed, e.Untimed())
	state := events.StateFresh
	switch k.state {
	case "fresh":
	case "pending":
		require.NoError(t, z.hang())
		require.NoError(t, e.Record(z.hung))
		state = events.StateRecorded
	case "complete":
		require.NoError(t, e.Record(z.free))
		require.True(t, query(t, e))
		state = events.StateComplete
	case "captured":
		require.ErrorIs(t, e.Record(z.captured), events.ErrCapturing)
		state = events.StateCaptured
	case "destroyed":
		require.NoError(t, e.Record(z.free))
		require.NoError(t, e.Close())
		state = events.StateDestroyed
	}
	require.Equal(t, state, e.State(), "%v", k)
	return e
}

func kinds() []kind {
	var list []kind
	for _, state := range []string{"fresh", "pending", "complete", "captured", "destroyed"} {
		list = append(list, kind{state, false}, kind{state, true})
	}
	return list
}

func eachWay(t *testing.T, direct func(*testing.T, zoo[mock.Event, mock.Stream]), erased func(*testing.T, zoo[events.AnyEvent, events.AnyStream])) {
	opts := []mock.Option{mock.Manual(), mock.Ideal(), mock.CallLog(10_000)}
	t.Run("direct", func(t *testing.T) {
		dev := device(t, opts...)
		direct(t, newZoo[mock.Event](t, dev, dev, func(s mock.Stream) mock.Stream { return s }))
	})
	t.Run("erased", func(t *testing.T) {
		dev := device(t, opts...)
		api := events.Erase(dev)
		erased(t, newZoo(t, dev, api, func(s mock.Stream) events.AnyStream {
			a, err := events.EraseStream(api, s)
			require.NoError(t, err)
			return a
		}))
	})
}

// unharmed looks that the capture is whole and that nobody asked about an event
// that went into it: asking is what breaks a capture.
func unharmed(t *testing.T, dev *mock.Device) {
	t.Helper()
	captured := map[uint64]uint64{} // event to stream, of its last record
	for _, c := range dev.Calls() {
		switch c.Op {
		case mock.OpEventRecord:
			captured[c.Event] = c.Stream
		case mock.OpEventQuery, mock.OpRoundQuery, mock.OpEventWait, mock.OpStreamWaitEvent:
			require.NotErrorIs(t, c.Err, events.ErrCapturing, "%v of event %d, recorded on %d", c.Op, c.Event, captured[c.Event])
		}
	}
}

func pairs[E any, S comparable](t *testing.T, z zoo[E, S]) {
	const apart = 3 * time.Millisecond
	for _, a := range kinds() {
		for _, b := range kinds() {
			name := fmt.Sprintf("%v to %v", a, b)
			start := z.make(t, a)
			z.dev.System().Advance(apart)
			end := z.make(t, b)
			span, err := events.Elapsed(start, end)
			switch {
			case a.state == "destroyed":
				require.ErrorIs(t, err, events.ErrDestroyed, name)
				require.ErrorContains(t, err, "start", name)
			case b.state == "destroyed":
				require.ErrorIs(t, err, events.ErrDestroyed, name)
				require.ErrorContains(t, err, "end", name)
			case a.wrong() != nil || b.wrong() != nil:
				for side, wrong := range map[string]error{"start event": a.wrong(), "end event": b.wrong()} {
					if wrong == nil {
						require.NotContains(t, err.Error(), side, name)
						continue
					}
					require.ErrorIs(t, err, wrong, name)
					require.ErrorContains(t, err, side+": ", name)
				}
			case a.state == "pending":
				require.ErrorIs(t, err, events.ErrNotReady, name)
				require.ErrorContains(t, err, "start", name)
			case b.state == "pending":
				require.ErrorIs(t, err, events.ErrNotReady, name)
				require.ErrorContains(t, err, "end", name)
			default:
				require.NoError(t, err, name)
				require.Equal(t, apart, span, name)
			}
			if err != nil {
				require.Zero(t, span, name)
			}
			require.NoError(t, start.Close())
			require.NoError(t, end.Close())
		}
	}
	noLiveEvents(t, z.dev)
	noStaleHandle(t, z.dev)
	unharmed(t, z.dev)
}

// One code stood for not recorded, made without timing and not ready, and
// nobody could tell what to fix: NVIDIA/cuda-python#556, pytorch/pytorch#85796,
// cupy/cupy#5678, pytorch/pytorch#151404, meta-pytorch/torchcomms#2270.
func TestElapsedSaysWhichMistakeOnWhichSide(t *testing.T) {
	eachWay(t, pairs[mock.Event, mock.Stream], pairs[events.AnyEvent, events.AnyStream])
}

func usesOf[E any, S comparable](t *testing.T, z zoo[E, S]) {
	for _, k := range kinds() {
		e := z.make(t, k)
		z.dev.ResetCalls()
		done, queryErr := e.Query()
		waitOnErr := e.WaitOn(z.free)
		var want error
		switch k.state {
		case "fresh":
			want = events.ErrNotRecorded
		case "captured":
			want = events.ErrCapturing
		case "destroyed":
			want = events.ErrDestroyed
		}
		if want != nil {
			require.False(t, done, "%v", k)
			for op, err := range map[string]error{"query": queryErr, "wait": e.Wait(), "stream wait": waitOnErr} {
				require.ErrorIs(t, err, want, "%v, %s", k, op)
				require.ErrorContains(t, err, op+":", "%v", k)
			}
			require.Zero(t, z.dev.CallCount(mock.OpAny), "%v: refused before the device", k)
		} else {
			require.NoError(t, queryErr, "%v", k)
			require.NoError(t, waitOnErr, "%v", k)
			require.Equal(t, k.state == "complete", done, "%v", k)
		}
		if k.state == "complete" {
			require.NoError(t, e.Wait())
			require.Zero(t, z.dev.CallCount(mock.OpEventQuery), "what is known is not asked again")
			require.Zero(t, z.dev.CallCount(mock.OpEventWait), "what is known is not waited for")
		}
		if k.state == "pending" {
			waited := make(chan error)
			go func() { waited <- e.Wait() }()
			eventually(t, func() bool { return z.dev.System().Blocked() == 1 })
			require.Equal(t, events.StateRecorded, e.State())
			z.dev.ReleaseHangs()
			require.NoError(t, <-waited)
			require.Equal(t, events.StateComplete, e.State())
			z.dev.System().Advance(us)
		}
		require.NoError(t, e.Close())
	}
	unharmed(t, z.dev)
}

// A never-recorded event answers "complete", and pollers took work for done that
// had not begun: ROCm/hip#3383, eyalroz/cuda-api-wrappers#226,
// iree-org/iree#17025.
func TestNeverRecordedIsNotCompleteInAnyUse(t *testing.T) {
	dev := device(t, mock.Manual(), mock.CallLog(10))
	s := newStream(t, dev)
	e := newEvent(t, dev)
	dev.ResetCalls()
	done, err := e.Query()
	require.False(t, done)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.ErrorIs(t, e.Wait(), events.ErrNotRecorded)
	require.ErrorIs(t, e.WaitOn(s), events.ErrNotRecorded)
	require.Zero(t, dev.CallCount(mock.OpAny))
}

func TestEveryStateDecidesQueryWaitAndWaitOn(t *testing.T) {
	eachWay(t, usesOf[mock.Event, mock.Stream], usesOf[events.AnyEvent, events.AnyStream])
}

// Swapped arguments read as a full negative span, which a clamp would turn into
// a plausible 0: CHIP-SPV/chipStar#128, ROCm/rocm-systems#9375.
func TestSwappedEventsOfOneStreamAreReversed(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	s := newStream(t, dev)
	first := recorded(t, dev, s)
	require.NoError(t, dev.Work(s, 50*time.Millisecond))
	second := recorded(t, dev, s)
	dev.System().Advance(time.Second)
	span, err := events.Elapsed(first, second)
	require.NoError(t, err)
	require.Equal(t, 50*time.Millisecond, span)
	span, err = events.Elapsed(second, first)
	require.ErrorIs(t, err, events.ErrReversed)
	require.Zero(t, span)
	require.Zero(t, dev.EventStats().Clamped, "a mistake of the caller is no skew of clocks")

	span, err = events.Elapsed(first, first)
	require.NoError(t, err)
	require.Zero(t, span)

	// The order of the last records counts, not that of earlier ones.
	require.NoError(t, first.Record(s))
	_, err = events.Elapsed(first, second)
	require.ErrorIs(t, err, events.ErrReversed)
	span, err = events.Elapsed(second, first)
	require.NoError(t, err)
	require.Equal(t, 950*time.Millisecond, span)
}

func TestSwapIsSeenOnAStreamThatWasWrappedTwice(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	api := events.Erase(dev)
	w, ok := events.Ability[events.StreamWrapper[events.AnyStream]](api)
	require.True(t, ok)
	first := completed(t, api, w.WrapStream(0xabc))
	second := completed(t, api, w.WrapStream(0xabc))
	_, err := events.Elapsed(second, first)
	require.ErrorIs(t, err, events.ErrReversed)
}

// Who knows that a later event was reached need not ask about an earlier one; a claim that
// does not follow is refused, or an event would be used again too early.
func TestReachedWithTakesOnlyWhatFollows(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	s, other := newStream(t, dev), newStream(t, dev)
	require.NoError(t, dev.Work(s, time.Millisecond))
	first, second, third := recorded(t, dev, s), recorded(t, dev, s), recorded(t, dev, s)
	elsewhere := recorded(t, dev, other)
	fresh, err := events.New[mock.Event, mock.Stream](dev)
	require.NoError(t, err)
	dead, err := events.New[mock.Event, mock.Stream](dev)
	require.NoError(t, err)
	require.NoError(t, dead.Close())

	require.ErrorIs(t, first.ReachedWith(second), events.ErrNotReady, "nobody has seen that")
	dev.System().Advance(time.Second)
	done, err := second.Query()
	require.NoError(t, err)
	require.True(t, done)
	asked := dev.CallCount(mock.OpEventQuery)
	require.ErrorIs(t, third.ReachedWith(second), events.ErrInvalid, "recorded behind it")
	require.ErrorIs(t, elsewhere.ReachedWith(second), events.ErrInvalid, "on another stream")
	require.ErrorIs(t, fresh.ReachedWith(second), events.ErrNotRecorded)
	require.ErrorIs(t, second.ReachedWith(fresh), events.ErrNotRecorded)
	require.ErrorIs(t, dead.ReachedWith(second), events.ErrDestroyed)
	require.ErrorIs(t, first.ReachedWith(dead), events.ErrDestroyed)
	require.ErrorIs(t, first.ReachedWith(nil), events.ErrInvalid)
	require.NoError(t, first.ReachedWith(second))
	done, err = first.Query()
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, asked, dev.CallCount(mock.OpEventQuery), "the device was asked")
	require.Equal(t, events.StateRecorded, third.State())

	// A record in between makes it another one.
	require.NoError(t, first.Record(s))
	require.ErrorIs(t, first.ReachedWith(second), events.ErrInvalid)
}

// Streams have no order between them: there the clamp answers, and is counted.
func TestEventsOfTwoStreamsAreNeverReversed(t *testing.T) {
	dev := device(t, mock.Manual(), mock.Ideal())
	first := recorded(t, dev, newStream(t, dev))
	dev.System().Advance(time.Millisecond)
	second := recorded(t, dev, newStream(t, dev))
	span, err := events.Elapsed(second, first)
	require.NoError(t, err)
	require.Zero(t, span)
	require.Equal(t, uint64(1), dev.EventStats().Clamped)
}

// Events and streams of two GPUs were mixed, unnoticed in release builds:
// rapidsai/rmm#1306, ROCm/hip#1992, ggml-org/llama.cpp#2503,
// pytorch/pytorch#52611. The owner of an event does not turn the mistake into
// another one.
func TestEventsOfTwoDevicesDoNotMatch(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance())
	t.Cleanup(sys.Close)
	a, b := sys.Device(0), sys.Device(1)
	first := completed(t, a, newStream(t, a))
	second := completed(t, b, newStream(t, b))
	for _, pair := range [][2]*mockEvent{{first, second}, {second, first}} {
		_, err := events.Elapsed(pair[0], pair[1])
		require.ErrorIs(t, err, events.ErrDeviceMismatch)
		require.ErrorContains(t, err, "device 0")
		require.ErrorContains(t, err, "device 1")
	}
	err := first.Record(newStream(t, b))
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.Equal(t, events.StateFresh, first.State())
}

// A backend is any value that has the methods, also one that cannot be compared.
func TestBackendsNeedNotBeComparable(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	api := plain{mockApi: dev, name: "plain"}
	s := newStream[mock.Event](t, api)
	first, second := completed(t, mockApi(api), s), completed(t, mockApi(api), s)
	_, err := events.Elapsed(first, second)
	require.NoError(t, err)
	_, err = events.Elapsed(second, first)
	require.ErrorIs(t, err, events.ErrReversed)
}

// An answer that a wait brings home belongs to the record that it waited for:
// torch/cutorch#222, ComputationalRadiationPhysics/picongpu#1189.
func TestRecordingAgainMakesAnOlderAnswerVoid(t *testing.T) {
	dev := &between{Device: device(t, mock.Manual())}
	busy, free := hung(t, dev.Device), newStream(t, dev)
	e := recorded(t, mockApi(dev), free)
	dev.System().Advance(time.Second)
	require.True(t, query(t, e))
	require.NoError(t, e.Record(busy))
	require.Equal(t, events.StateRecorded, e.State())
	require.False(t, query(t, e))

	require.NoError(t, e.Record(free))
	dev.System().Advance(time.Second)
	dev.wait = func(wait func() error) error {
		defer func() { require.NoError(t, e.Record(busy)) }() // while the answer is on its way
		return wait()
	}
	require.NoError(t, e.Wait())
	require.Equal(t, events.StateRecorded, e.State())
	require.False(t, query(t, e))
}

// The stamp of an earlier record must not be read as that of a failed one.
func TestFailedRecordMakesTheEventFresh(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	for name, fail := range map[string]func(*mockEvent) error{
		"refused by the device": func(e *mockEvent) error {
			dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Code: mock.CodeUnknown})
			defer dev.ClearScript()
			return e.Record(s)
		},
		"refused by the backend": func(e *mockEvent) error { return e.Record(mock.Stream{}) },
	} {
		start, e := completed(t, dev, s), completed(t, dev, s)
		require.Error(t, fail(e), name)
		require.Equal(t, events.StateFresh, e.State(), name)
		dev.ResetCalls()
		_, err := e.Query()
		require.ErrorIs(t, err, events.ErrNotRecorded, name)
		_, err = events.Elapsed(start, e)
		require.ErrorIs(t, err, events.ErrNotRecorded, name)
		require.Zero(t, dev.CallCount(mock.OpAny), name)
		require.NoError(t, e.Record(s), name)
		require.NoError(t, e.Wait(), name)
	}
}

// An event recorded into a capture was polled, which killed the capture, or its
// time was read, which gave nonsense: NVIDIA/warp#556, peak-team/peak#84,
// gwoltman/gpuowl#59.
func TestRecordIntoACaptureIsSaidAndNeverAskedAbout(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.CallLog(100))
	s, free := newStream(t, dev), newStream(t, dev)
	e, other := completed(t, dev, free), completed(t, dev, free)
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	require.NoError(t, dev.Work(s, us))
	dev.ResetCalls()

	require.ErrorIs(t, e.Record(s), events.ErrCapturing)
	require.Equal(t, events.StateCaptured, e.State())
	_, err := e.Query()
	require.ErrorIs(t, err, events.ErrCapturing)
	require.ErrorIs(t, e.Wait(), events.ErrCapturing)
	require.ErrorIs(t, e.WaitOn(free), events.ErrCapturing)
	_, err = events.Elapsed(e, other)
	require.ErrorIs(t, err, events.ErrCapturing)
	_, err = events.Elapsed(other, e)
	require.ErrorIs(t, err, events.ErrCapturing)
	// A wait for outside work would invalidate the capture.
	require.ErrorIs(t, other.WaitOn(s), events.ErrCapturing)
	for _, c := range dev.Calls() {
		require.Contains(t, []mock.Op{mock.OpEventRecord, mock.OpStreamCapturing}, c.Op)
	}

	graph, err := dev.EndCapture(s)
	require.NoError(t, err, "the capture is unharmed")
	require.NoError(t, graph.Launch(free))
	_, err = e.Query()
	require.ErrorIs(t, err, events.ErrCapturing, "also when it has ended")
	require.NoError(t, e.Record(free))
	require.NoError(t, e.Wait())
	require.NoError(t, e.Close())
	require.NoError(t, other.Close())
	noLiveEvents(t, dev)
}

// Between a record into a capture and the news that it went into one, a poller
// elsewhere must not get through to the device: pytorch/pytorch#148594.
func TestQueryDuringARecordDoesNotReachTheDevice(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s, free := newStream(t, dev), newStream(t, dev)
	e := recorded(t, dev, free)
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	asked := 0
	dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Hook: func() {
		asked++
		require.False(t, query(t, e), "not reached yet")
	}})
	require.ErrorIs(t, e.Record(s), events.ErrCapturing)
	require.Equal(t, 1, asked)
	require.Zero(t, dev.CallCount(mock.OpEventQuery))
	_, err := dev.EndCapture(s)
	require.NoError(t, err, "the capture is unharmed")
}

// An invalidated capture is still one: microsoft/onnxruntime#29584.
func TestRecordIntoAnInvalidatedCaptureIsRefused(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	e := newEvent(t, dev)
	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	require.True(t, dev.InvalidateCapture(s))
	require.ErrorIs(t, e.Record(s), events.ErrCapturing)
	dev.ResetCalls()
	_, err := e.Query()
	require.Error(t, err)
	require.Error(t, e.Wait())
	require.Zero(t, dev.CallCount(mock.OpAny))
}

// Not to know is taken for the worse of the two.
func TestUnansweredCaptureQuestionCountsAsCaptured(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	e := newEvent(t, dev)
	refused := errors.New("no answer")
	dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Count: 2, Err: refused})
	require.ErrorIs(t, e.Record(s), refused)
	require.Equal(t, events.StateCaptured, e.State())
	dev.ResetCalls()
	_, err := e.Query()
	require.ErrorIs(t, err, events.ErrCapturing)
	require.Zero(t, dev.CallCount(mock.OpEventQuery))

	done := newEvent(t, dev)
	dev.ClearScript()
	require.NoError(t, done.Record(s))
	dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Err: refused})
	require.ErrorIs(t, done.WaitOn(s), refused)
	require.Zero(t, dev.CallCount(mock.OpStreamWaitEvent))
}

// Error paths of the device reach the caller as they are.
func TestDeviceErrorsPassThroughAnEvent(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	e := recorded(t, dev, s)
	dev.Script(mock.Fault{Code: mock.CodeNotPermitted})
	var driver *events.DriverError
	_, err := e.Query()
	require.ErrorAs(t, err, &driver)
	require.ErrorAs(t, e.Wait(), &driver)
	require.ErrorAs(t, e.Record(s), &driver)
	_, err = events.New[mock.Event, mock.Stream](dev)
	require.ErrorAs(t, err, &driver)
	_, err = events.NewUntimed[mock.Event, mock.Stream](dev, true)
	require.ErrorAs(t, err, &driver)
	require.ErrorAs(t, e.Close(), &driver)
	dev.ClearScript()

	dev.Lose()
	require.NoError(t, e.Close(), "a second Close has nothing to report")
	_, err = events.New[mock.Event, mock.Stream](dev)
	require.ErrorIs(t, err, events.ErrDeviceFault)
}

func TestWithoutAbilitiesAnEventSaysWhatItCannot(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.Without(mock.FeatureQuerier, mock.FeatureCaptureAsker, mock.FeatureUntimedCreator))
	s := newStream(t, dev)
	e, err := events.NewUntimed[mock.Event, mock.Stream](dev, true)
	require.NoError(t, err)
	require.False(t, e.Untimed(), "an ordinary one in its place")
	require.NoError(t, e.Record(s))
	_, err = e.Query()
	require.ErrorIs(t, err, events.ErrUnsupported)
	require.ErrorContains(t, err, "mock")
	require.NoError(t, e.WaitOn(s))
	require.NoError(t, e.Wait())
	require.True(t, query(t, e), "known without asking")
	require.NoError(t, e.Close())
	noLiveEvents(t, dev)
}

// Destroying twice crashed in the driver, and so did a late query:
// taskflow/taskflow#546, harrism/cuda_event_benchmark#2,
// lupinemachines/lupine#526, PaddlePaddle/Paddle#34285.
func TestClosingTwiceDestroysOnce(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.CallLog(100))
	s := newStream(t, dev)
	e := recorded(t, dev, s)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.Equal(t, events.StateDestroyed, e.State())
	require.Equal(t, uint64(1), dev.CallCount(mock.OpEventDestroy))
	require.ErrorIs(t, e.Record(s), events.ErrDestroyed)
	require.ErrorIs(t, e.Hold(), events.ErrDestroyed)
	require.ErrorIs(t, e.Release(), events.ErrDestroyed)
	noLiveEvents(t, dev)
	noStaleHandle(t, dev)
}

func TestClosingAfterTheLastReleaseDestroysNothingTwice(t *testing.T) {
	dev := device(t)
	e := newEvent(t, dev)
	require.NoError(t, e.Release())
	require.NoError(t, e.Close())
	require.Equal(t, uint64(1), dev.CallCount(mock.OpEventDestroy))
	noLiveEvents(t, dev)
}

func TestHoldersAreCounted(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	e := newEvent(t, dev)
	require.NoError(t, e.Hold())
	require.NoError(t, e.Hold())
	for range 2 {
		require.NoError(t, e.Release())
		require.NoError(t, e.Record(s), "somebody still holds it")
	}
	require.Zero(t, dev.CallCount(mock.OpEventDestroy))
	require.NoError(t, e.Release())
	noLiveEvents(t, dev)

	dev.ResetCalls()
	require.ErrorIs(t, e.Release(), events.ErrDestroyed)
	require.ErrorIs(t, e.Hold(), events.ErrDestroyed)
	require.ErrorIs(t, e.Record(s), events.ErrDestroyed)
	require.ErrorIs(t, e.Wait(), events.ErrDestroyed)
	require.ErrorIs(t, e.WaitOn(s), events.ErrDestroyed)
	_, err := e.Query()
	require.ErrorIs(t, err, events.ErrDestroyed)
	_, err = events.Elapsed(e, e)
	require.ErrorIs(t, err, events.ErrDestroyed)
	require.Zero(t, dev.CallCount(mock.OpAny))
}

// Whoever closes while a call is in progress neither waits for it nor pulls the
// event from under it.
func TestCloseLeavesTheDestroyToTheCallInProgress(t *testing.T) {
	for name, giveUp := range map[string]func(*mockEvent) error{
		"close": (*mockEvent).Close, "release": (*mockEvent).Release,
	} {
		dev := device(t, mock.Manual(), mock.Ideal(), mock.CallLog(100))
		e := recorded(t, dev, hung(t, dev))
		waited := make(chan error)
		go func() { waited <- e.Wait() }()
		eventually(t, func() bool { return dev.System().Blocked() == 1 })
		require.NoError(t, giveUp(e), name)
		require.Zero(t, dev.CallCount(mock.OpEventDestroy), name)
		_, err := e.Query()
		require.ErrorIs(t, err, events.ErrDestroyed, name)
		dev.ReleaseHangs()
		require.NoError(t, <-waited, name)
		require.Equal(t, uint64(1), dev.CallCount(mock.OpEventDestroy), name)
		require.Equal(t, events.StateDestroyed, e.State(), name)
		noLiveEvents(t, dev)
		noStaleHandle(t, dev)
	}
}

// The zero value and nil are what a failed constructor leaves behind.
func TestNilAndZeroEventsAreRefused(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	s := newStream(t, dev)
	good := completed(t, dev, s)
	for _, e := range []*mockEvent{nil, {}} {
		dev.ResetCalls()
		_, queryErr := e.Query()
		_, startErr := events.Elapsed(e, good)
		_, endErr := events.Elapsed(good, e)
		for name, err := range map[string]error{
			"record": e.Record(s), "query": queryErr, "wait": e.Wait(), "stream wait": e.WaitOn(s),
			"elapsed: start": startErr, "elapsed: end": endErr, "hold": e.Hold(),
		} {
			require.ErrorIs(t, err, events.ErrInvalid, name)
			require.NotErrorIs(t, err, events.ErrDestroyed, name)
			require.ErrorContains(t, err, name+":")
			require.ErrorContains(t, err, "never made")
		}
		require.False(t, e.Untimed())
		require.Equal(t, events.StateDestroyed, e.State())
		require.NoError(t, e.Release())
		require.NoError(t, e.Close())
		require.Zero(t, dev.CallCount(mock.OpAny))
	}
}

func TestStatesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for s := events.StateFresh; s <= events.StateDestroyed+1; s++ {
		require.NotEmpty(t, s.String())
		names[s.String()] = true
	}
	require.Len(t, names, 6)
}
