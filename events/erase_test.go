package events_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// named is a vendor of its own over the simulated device's types, as two vendors
// that both use a plain number for their handles would be.
type named struct {
	*mock.Device
	name string
}

func (n named) Backend() string { return n.name }

func TestErasedDeviceDoesWhatTheDeviceDoes(t *testing.T) {
	dev := device(t, mock.AutoAdvance(), mock.Ideal())
	api := events.Erase(dev)
	require.Equal(t, "mock", api.Backend())
	require.Equal(t, "mock device 0", fmt.Sprint(api))
	s := newStream(t, api)
	start, err := api.EventCreate()
	require.NoError(t, err)
	end, err := api.EventCreate()
	require.NoError(t, err)
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](api)
	require.True(t, ok)

	require.NoError(t, api.EventRecord(start, s))
	spin, err := scratch.ScratchSpin(250*us, s)
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(end, s))
	_, err = api.EventElapsed(start, end)
	require.ErrorIs(t, err, events.ErrNotReady)
	require.NoError(t, api.EventWait(end))
	span, err := api.EventElapsed(start, end)
	require.NoError(t, err)
	require.Equal(t, 250*us, span)
	measured, err := spin.Measured()
	require.NoError(t, err)
	require.Equal(t, span, measured)
	require.NoError(t, api.StreamWaitEvent(s, end))
	require.NoError(t, api.StreamSynchronize(s))

	for range 2 {
		require.NoError(t, api.EventDestroy(start))
		require.NoError(t, api.StreamDestroy(s))
	}
	require.ErrorIs(t, api.EventRecord(end, s), events.ErrDestroyed)
	require.NoError(t, api.EventDestroy(end))
	noLiveEvents(t, dev)
	identity, ok := events.Ability[events.Identifier](api)
	require.True(t, ok)
	require.Equal(t, dev.Identity(), identity.Identity())
	stats, ok := events.Ability[events.StatsReader](api)
	require.True(t, ok)
	require.Equal(t, dev.EventStats(), stats.EventStats())
}

func TestFailedCreateGivesNoErasedHandle(t *testing.T) {
	dev := device(t)
	api := events.Erase(dev)
	dev.Script(mock.Fault{Code: mock.CodeUnknown})
	e, err := api.EventCreate()
	require.Error(t, err)
	require.Zero(t, e)
	s, err := api.StreamCreateNonBlocking()
	require.Error(t, err)
	require.Zero(t, s)
}

func TestErasedGraphsStayWithTheirDevice(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance())
	t.Cleanup(sys.Close)
	a, b := events.Erase(sys.Device(0)), events.Erase(sys.Device(1))
	graphs, ok := events.Ability[events.Graphs[events.AnyEvent, events.AnyStream]](a)
	require.True(t, ok)
	s := newStream(t, a)
	e, err := a.EventCreate()
	require.NoError(t, err)
	require.NoError(t, graphs.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, graphs.EventRecordExternal(e, s))
	graph, err := graphs.CaptureEnd(s)
	require.NoError(t, err)
	require.ErrorIs(t, graph.Launch(events.AnyStream{}), events.ErrInvalid)
	require.ErrorIs(t, graph.Launch(newStream(t, b)), events.ErrDeviceMismatch)
	require.NoError(t, graph.Launch(s))
	require.NoError(t, a.EventWait(e))
	require.NoError(t, graph.Close())
	require.ErrorIs(t, graph.Launch(s), events.ErrClosed)
	_, err = graphs.CaptureEnd(s)
	require.Error(t, err)
}

func TestErasingTwiceIsErasingOnce(t *testing.T) {
	api := events.Erase(device(t))
	require.Same(t, api, events.Erase(api))
}

// everyUse is each method that takes a handle: what it answers to the given one
// beside good ones.
func everyUse(t *testing.T, api events.AnyApi, e events.AnyEvent, s events.AnyStream) map[string]error {
	t.Helper()
	goodStream := newStream(t, api)
	good, err := api.EventCreate()
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(good, goodStream))
	got := map[string]error{}
	query, _ := events.Ability[events.Querier[events.AnyEvent]](api)
	rounds, _ := events.Ability[events.RoundQuerier[events.AnyEvent]](api)
	asker, _ := events.Ability[events.CaptureAsker[events.AnyStream]](api)
	gate, _ := events.Ability[events.Gate[events.AnyStream]](api)
	scratch, _ := events.Ability[events.Scratch[events.AnyStream]](api)
	graphs, _ := events.Ability[events.Graphs[events.AnyEvent, events.AnyStream]](api)
	round, err := rounds.RoundBegin()
	require.NoError(t, err)
	buffer, err := scratch.ScratchAlloc(1)
	require.NoError(t, err)

	got["destroy"] = api.EventDestroy(e)
	got["record event"] = api.EventRecord(e, goodStream)
	got["record stream"] = api.EventRecord(good, s)
	got["wait"] = api.EventWait(e)
	_, got["elapsed start"] = api.EventElapsed(e, good)
	_, got["elapsed end"] = api.EventElapsed(good, e)
	got["stream wait event"] = api.StreamWaitEvent(goodStream, e)
	got["stream wait stream"] = api.StreamWaitEvent(s, good)
	got["synchronize"] = api.StreamSynchronize(s)
	got["stream destroy"] = api.StreamDestroy(s)
	_, got["query"] = query.EventQuery(e)
	_, got["round query"] = rounds.RoundQuery(round, e)
	_, got["capturing"] = asker.StreamCapturing(s)
	_, got["gate"] = gate.GateClose(s, time.Second)
	got["memset"] = scratch.ScratchMemset(buffer, 0, 1, s)
	got["copy"] = scratch.ScratchCopy(buffer, buffer, 1, s)
	_, got["spin"] = scratch.ScratchSpin(us, s)
	got["capture begin"] = graphs.CaptureBegin(s, events.CaptureGlobal)
	_, got["capture end"] = graphs.CaptureEnd(s)
	got["record external event"] = graphs.EventRecordExternal(e, goodStream)
	got["record external stream"] = graphs.EventRecordExternal(good, s)
	require.ErrorContains(t, got["elapsed start"], "start")
	require.ErrorContains(t, got["elapsed end"], "end")
	require.NoError(t, rounds.RoundEnd(round))
	return got
}

// A handle of another GPU, of another vendor or of nobody crashed or went
// unnoticed: rapidsai/rmm#1306, ROCm/hip#1992, taskflow/taskflow#546.
func TestErasedHandlesThatWereMixedUpAreRefusedBeforeTheBackend(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance(), mock.CallLog(100))
	t.Cleanup(sys.Close)
	api := events.Erase(sys.Device(0))
	for name, other := range map[string]events.AnyApi{
		"zero value":          nil,
		"other device":        events.Erase(sys.Device(1)),
		"other system":        events.Erase(device(t)),
		"same device, erased": events.Erase(sys.Device(0)),
		"other vendor":        events.Erase[mock.Event, mock.Stream](named{device(t), "other"}),
	} {
		var e events.AnyEvent
		var s events.AnyStream
		want, text := events.ErrInvalid, "zero"
		if other != nil {
			want, text = events.ErrDeviceMismatch, fmt.Sprint(other)
			var err error
			e, err = other.EventCreate()
			require.NoError(t, err)
			s = newStream(t, other)
			require.NoError(t, other.EventRecord(e, s))
		}
		tried := 0
		for dev := range 2 {
			sys.Device(dev).ResetCalls()
		}
		for use, err := range everyUse(t, api, e, s) {
			if use == "stream wait event" && other != nil && name != "other vendor" {
				continue // legal, or for the vendor to refuse: see below
			}
			require.ErrorIs(t, err, want, "%s, %s", name, use)
			require.ErrorContains(t, err, text, "%s, %s", name, use)
			tried++
		}
		require.GreaterOrEqual(t, tried, 20, name)
		for _, c := range sys.Device(0).Calls() {
			if c.Op != mock.OpStreamWaitEvent {
				require.NoError(t, c.Err, "%s: %v was left to the backend", name, c.Op)
			}
		}
		require.Zero(t, sys.Device(1).CallCount(mock.OpAny), name)
	}
}

// The legal case of mixing devices, and what only the vendor can tell from it:
// NVIDIA/cuCascade#189, c3sr/comm_scope#25.
func TestErasedStreamWaitsForAnotherDeviceOfItsVendor(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.Manual(), mock.Ideal())
	t.Cleanup(sys.Close)
	a, b := events.Erase(sys.Device(0)), events.Erase(sys.Device(1))
	sa, sb := newStream(t, a), newStream(t, b)
	scratch, _ := events.Ability[events.Scratch[events.AnyStream]](a)
	_, err := scratch.ScratchSpin(10*us, sa)
	require.NoError(t, err)
	first := recorded(t, a, sa)
	raw, err := a.EventCreate()
	require.NoError(t, err)
	require.NoError(t, a.EventRecord(raw, sa))
	require.NoError(t, b.StreamWaitEvent(sb, raw))
	second := recorded(t, b, sb)
	sys.Advance(10*us - 1)
	require.False(t, query(t, second))
	sys.Advance(1)
	require.True(t, query(t, first))
	require.True(t, query(t, second))

	elsewhere := events.Erase(device(t, mock.Manual()))
	foreign, err := elsewhere.EventCreate()
	require.NoError(t, err)
	require.NoError(t, elsewhere.EventRecord(foreign, newStream(t, elsewhere)))
	require.ErrorIs(t, b.StreamWaitEvent(sb, foreign), events.ErrDeviceMismatch)
	fresh, err := a.EventCreate()
	require.NoError(t, err)
	require.ErrorIs(t, b.StreamWaitEvent(sb, fresh), events.ErrNotRecorded)
}

// Two vendors may use the same plain type for their handles; the type alone
// then says nothing, and a number of one would reach the other's library.
func TestErasedStreamNeverWaitsForAnotherVendor(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance())
	t.Cleanup(sys.Close)
	a := events.Erase[mock.Event, mock.Stream](named{sys.Device(0), "one"})
	b := events.Erase[mock.Event, mock.Stream](named{sys.Device(1), "two"})
	e, err := b.EventCreate()
	require.NoError(t, err)
	require.NoError(t, b.EventRecord(e, newStream(t, b)))
	err = a.StreamWaitEvent(newStream(t, a), e)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.ErrorContains(t, err, "one device 0")
	require.ErrorContains(t, err, "two device 1")
	require.Zero(t, sys.Device(0).CallCount(mock.OpStreamWaitEvent))
}

func TestErasedStreamsOfOneHandleAreEqual(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance())
	t.Cleanup(sys.Close)
	dev := sys.Device(0)
	api, other := events.Erase(dev), events.Erase(sys.Device(1))
	wrap := func(api events.AnyApi, handle uintptr) events.AnyStream {
		w, ok := events.Ability[events.StreamWrapper[events.AnyStream]](api)
		require.True(t, ok)
		return w.WrapStream(handle)
	}
	erased, err := events.EraseStream(api, dev.WrapStream(7))
	require.NoError(t, err)
	// As keys of a map, since require.Equal looks deeper than == does.
	names := map[events.AnyStream]string{
		wrap(api, 7):               "seven",
		wrap(api, 8):               "eight",
		wrap(other, 7):             "seven of another device",
		wrap(events.Erase(dev), 7): "seven of another erased api",
		wrap(api, 0):               "the default stream",
		{}:                         "none",
	}
	require.Len(t, names, 6)
	require.Equal(t, "seven", names[wrap(api, 7)])
	require.Equal(t, "seven", names[erased])
	require.ErrorIs(t, api.StreamDestroy(erased), events.ErrInvalid, "it belongs to its maker")
}

func TestEraseStreamTakesItsVendorsStreamsOnly(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	api := events.Erase(dev)
	_, err := events.EraseStream(api, 42)
	require.ErrorIs(t, err, events.ErrDeviceMismatch)
	require.ErrorContains(t, err, "int")
	_, err = events.EraseStream(nil, newStream(t, dev))
	require.ErrorIs(t, err, events.ErrInvalid)
	e := newEvent(t, api)
	for want, raw := range map[error]mock.Stream{
		events.ErrInvalid:        {},
		events.ErrDeviceMismatch: newStream(t, device(t)),
	} {
		s, err := events.EraseStream(api, raw)
		require.NoError(t, err)
		require.ErrorIs(t, e.Record(s), want, "the vendor knows its own")
	}
}

// Events, pools and erased devices go together.
func TestPoolOfAnErasedDevice(t *testing.T) {
	dev := device(t, mock.AutoAdvance())
	api := events.Erase(dev)
	p := events.NewPool(api, 2, true)
	e := get(t, p)
	require.True(t, e.Untimed())
	require.NoError(t, e.Record(newStream(t, api)))
	require.NoError(t, e.Wait())
	require.NoError(t, e.Release())
	require.NoError(t, p.Close())
	noLiveEvents(t, dev)
}

func TestErasedDeviceHammer(t *testing.T) {
	dev := device(t, mock.EventCost(0), mock.LaunchLatency(0))
	api := events.Erase(dev)
	var all sync.WaitGroup
	failed := make(chan error, 8)
	for range cap(failed) {
		all.Go(func() { failed <- erasedRounds(api) })
	}
	all.Wait()
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	noLiveEvents(t, dev)
}

func erasedRounds(api events.AnyApi) error {
	s, err := api.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	for range hammerRounds() {
		start, err := api.EventCreate()
		if err != nil {
			return err
		}
		if err := api.EventRecord(start, s); err != nil {
			return err
		}
		if err := api.EventWait(start); err != nil {
			return err
		}
		if _, err := api.EventElapsed(start, start); err != nil {
			return err
		}
		if err := api.EventDestroy(start); err != nil {
			return err
		}
	}
	return api.StreamDestroy(s)
}

// A handle that stands for many streams does so through Erase, too.
func TestErasedStreamSaysWhetherItIsInOrder(t *testing.T) {
	api := events.Erase(severalStreams{device(t)})
	s, err := api.StreamCreateNonBlocking()
	require.NoError(t, err)
	require.False(t, s.InOrder())
	s, err = events.Erase(device(t)).StreamCreateNonBlocking()
	require.NoError(t, err)
	require.True(t, s.InOrder(), "of a type that does not say")
	require.True(t, events.AnyStream{}.InOrder())
}

type severalStream struct{ mock.Stream }

func (severalStream) InOrder() bool { return false }

// severalStreams makes such streams and does nothing else with them.
type severalStreams struct{ *mock.Device }

func (d severalStreams) EventRecord(mock.Event, severalStream) error { return events.ErrUnsupported }
func (d severalStreams) StreamWaitEvent(severalStream, mock.Event) error {
	return events.ErrUnsupported
}
func (d severalStreams) StreamSynchronize(severalStream) error { return events.ErrUnsupported }
func (d severalStreams) StreamDestroy(severalStream) error     { return events.ErrUnsupported }
func (d severalStreams) StreamCreateNonBlocking() (severalStream, error) {
	s, err := d.Device.StreamCreateNonBlocking()
	return severalStream{s}, err
}
