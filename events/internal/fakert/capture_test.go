//go:build linux && (amd64 || arm64) && !android && !faketime

package fakert_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/fakert"
)

const (
	global, threadLocal, relaxed = 0, 1, 2
	inactive, active, invalid    = 0, 1, 2
)

func (f *fake) begin(stream uintptr, mode uintptr) {
	f.t.Helper()
	f.ok("StreamBeginCapture", stream, mode)
}

// end ends a capture and returns the graph, which must be null after a refusal.
func (f *fake) end(want int, stream uintptr) uintptr {
	f.t.Helper()
	m := fakert.Bytes(8)
	m[0] = 1
	f.is(want, "StreamEndCapture", stream, m.Addr())
	if want != 0 {
		require.Zero(f.t, m.Handle(0))
	}
	return m.Handle(0)
}

// A poll of an unrelated event kills captures of other threads, depending on the
// capture's mode and the polling thread's. Measured on hardware.
func TestPollsKillCapturesInTheirReach(t *testing.T) {
	for _, c := range []struct {
		name                 string
		capture, thread      int
		foreign, killed, own bool
	}{
		{name: "global, default thread", capture: global, thread: global, foreign: true, killed: true, own: true},
		{name: "global, thread-local thread", capture: global, thread: threadLocal, foreign: false, own: true},
		{name: "global, relaxed thread", capture: global, thread: relaxed},
		{name: "thread-local, default thread", capture: threadLocal, thread: global, own: true},
		{name: "thread-local, relaxed thread", capture: threadLocal, thread: relaxed},
		{name: "relaxed, default thread", capture: relaxed, thread: global},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			unrelated, other, s := f.recorded(0), f.stream(), f.stream()
			polls := map[string]func() int{
				"event query":        func() int { return f.code("EventQuery", unrelated) },
				"event synchronize":  func() int { return f.code("EventSynchronize", unrelated) },
				"stream query":       func() int { return f.code("StreamQuery", other) },
				"stream synchronize": func() int { return f.code("StreamSynchronize", other) },
				"allocation":         func() int { return f.code("Malloc", fakert.Bytes(8).Addr(), 64) },
			}
			for name, poll := range polls {
				for _, here := range []bool{false, true} {
					f.begin(s, uintptr(c.capture))
					kills := c.foreign
					call := func() {
						require.Equal(t, global, f.mode(byte(c.thread)))
						want := 0
						if kills {
							want = 900
						}
						require.Equal(t, want, poll(), "%s, capturing thread: %v", name, here)
						require.Equal(t, c.thread, f.mode(global))
					}
					if here {
						kills = c.own
						call()
					} else {
						elsewhere(call)
					}
					if kills {
						require.Equal(t, invalid, f.status(s))
						f.end(901, s)
					} else {
						require.Equal(t, active, f.status(s))
						f.ok("GraphDestroy", f.end(0, s))
					}
					require.Equal(t, inactive, f.status(s))
				}
			}
		})
	}
}

func TestHarmlessCallsLeaveACaptureAlive(t *testing.T) {
	f := open(t)
	s, other := f.stream(), f.stream()
	a, b := f.recorded(other), f.recorded(other)
	f.begin(s, global)
	calls := func() {
		e, extra := f.recorded(other), f.stream()
		f.ms(a, b)
		f.ok("StreamWaitEvent", other, e, 0)
		f.ok("EventDestroy", e)
		f.ok("StreamDestroy", extra)
		require.Equal(t, inactive, f.status(other))
	}
	calls()
	elsewhere(calls)
	require.Equal(t, active, f.status(s))
	f.end(0, s)
	f.get(0, "invalidated_captures")
}

func TestCapturedEventIsPoison(t *testing.T) {
	for _, call := range []string{"EventQuery", "EventSynchronize"} {
		f := open(t)
		s := f.stream()
		e := f.recorded(s)
		f.begin(s, relaxed)
		f.ok("EventRecord", e, s)
		f.mode(relaxed)
		f.elapsedIs(1, e, e)
		require.Equal(t, active, f.status(s))
		f.is(907, call, e)
		require.Equal(t, invalid, f.status(s), "even on a relaxed thread")
		f.is(901, "EventRecord", e, s)
		f.end(901, s)
		f.is(1, call, e)
		f.elapsedIs(1, e, e)
		f.ok("EventRecord", e, s)
		f.ok(call, e)
		f.ms(e, e)
	}
}

func TestCapturedEventMayBeDestroyed(t *testing.T) {
	f := open(t)
	s := f.stream()
	f.begin(s, global)
	f.ok("EventDestroy", f.recorded(s))
	require.Equal(t, active, f.status(s))
	f.ok("GraphDestroy", f.end(0, s))
	f.get(0, "live_graphs")
}

// HIP keeps the marker of the record before the capture, and reads it back
// without a word.
func TestHIPReadsStampsFromBeforeTheCapture(t *testing.T) {
	f := with(t, "hip")
	f.manual()
	s := f.stream()
	a := f.recorded(s)
	f.Set("advance_ns", 3200)
	b, fresh := f.recorded(s), f.event()
	f.begin(s, global)
	f.Set("advance_ns", 1_000_000)
	f.ok("EventRecord", b, s)
	f.ok("EventRecord", fresh, s)
	require.InDelta(t, 0.0032, f.ms(a, b), 1e-6)
	f.elapsedIs(400, a, fresh)
	f.end(0, s)
	f.ok("EventQuery", b)
	require.InDelta(t, 0.0032, f.ms(a, b), 1e-6)
}

func TestAskingTheCapturingStreamKillsItsCapture(t *testing.T) {
	for _, call := range []string{"StreamQuery", "StreamSynchronize"} {
		f := open(t)
		s := f.stream()
		f.begin(s, relaxed)
		f.mode(relaxed)
		f.is(900, call, s)
		f.end(901, s)
	}
	f := open(t)
	s := f.stream()
	f.begin(s, relaxed)
	f.mode(relaxed)
	f.is(900, "DeviceSynchronize")
	f.end(901, s)
}

func TestCaptureIsolationForksAndJoins(t *testing.T) {
	f := open(t)
	s, other := f.stream(), f.stream()
	outside := f.recorded(other)

	f.begin(s, global)
	f.is(905, "StreamWaitEvent", s, outside, 0)
	f.end(901, s)

	f.begin(s, global)
	e := f.recorded(s)
	f.ok("StreamWaitEvent", other, e, 0)
	require.Equal(t, active, f.status(other), "drawn in without a word")
	f.end(904, s)
	require.Equal(t, inactive, f.status(other))

	f.begin(s, global)
	f.ok("EventRecord", e, s)
	f.ok("StreamWaitEvent", other, e, 0)
	f.Work(other, 100)
	f.ok("EventRecord", outside, other)
	f.ok("StreamWaitEvent", s, outside, 0)
	f.end(0, s)

	f.begin(s, global)
	f.begin(other, global)
	f.ok("EventRecord", e, s)
	f.is(902, "StreamWaitEvent", other, e, 0)
	f.end(901, s)
	f.end(901, other)
}

func TestBeginAndEndOfACaptureInTheWrongPlace(t *testing.T) {
	f := open(t)
	s, other := f.stream(), f.stream()
	f.is(900, "StreamBeginCapture", 0, global)
	f.is(1, "StreamBeginCapture", s, 3)
	f.end(401, s)
	f.begin(s, global)
	f.is(401, "StreamBeginCapture", s, global)
	f.is(900, "StreamDestroy", s)
	f.end(901, s)
	f.begin(s, global)
	elsewhere(func() { f.end(908, s) })
	f.ok("StreamWaitEvent", other, f.recorded(s), 0)
	f.end(903, other)
	f.end(904, s)
	f.begin(s, relaxed)
	elsewhere(func() { f.end(0, s) })
	f.get(0, "live_captures")
}

func TestLegacyStreamBesideABlockingCapture(t *testing.T) {
	f := open(t)
	blocking, e, m := f.out("cudaStreamCreate"), f.recorded(0), fakert.Bytes(8)
	f.begin(blocking, relaxed)
	f.is(906, "StreamIsCapturing", 0, m.Addr())
	require.Equal(t, active, f.status(blocking), "asking does no harm")
	f.is(906, "EventRecord", e, 0)
	f.end(901, blocking)
	f.begin(blocking, relaxed)
	f.mode(relaxed)
	f.is(906, "StreamSynchronize", 0)
	f.end(901, blocking)
	free := f.stream()
	f.begin(free, relaxed)
	require.Equal(t, inactive, f.status(0))
	f.ok("EventRecord", e, 0)
	f.end(0, free)
}

func TestExternalRecordsRunWithTheGraph(t *testing.T) {
	f := open(t)
	f.manual()
	s := f.stream()
	a, b, plain, gone := f.event(), f.event(), f.event(), f.event()
	f.begin(s, global)
	f.ok("EventRecordWithFlags", a, s, 1)
	f.ok("EventRecord", plain, s)
	f.Work(s, 64_000)
	f.ok("EventRecordWithFlags", b, s, 1)
	f.ok("EventRecordWithFlags", gone, s, 1)
	f.get(1, "last_record_flags")
	f.elapsedIs(400, a, b) // nothing has run
	g := f.end(0, s)
	exec := f.out("cudaGraphInstantiateWithFlags", g, 0)
	f.ok("GraphDestroy", g)
	f.ok("EventDestroy", gone)
	for range 2 {
		f.ok("GraphLaunch", exec, s)
		f.is(600, "EventQuery", b)
		f.Set("advance_ns", 100_000)
		f.ok("EventQuery", b)
		require.InDelta(t, 0.064, f.ms(a, b), 1e-6)
	}
	f.is(1, "EventQuery", plain)
	f.ok("GraphExecDestroy", exec)
	f.get(0, "live_graphs")
	f.is(1, "EventRecordWithFlags", a, s, 2)
}

// Measured on hardware for CUDA; HIP's source makes a plain record of it.
func TestExternalRecordOutsideACaptureIsRefusedByCUDAAlone(t *testing.T) {
	for _, vendor := range []string{"cuda", "musa"} {
		f := with(t, vendor)
		start, e, s, busy := f.recorded(0), f.recorded(0), f.stream(), f.stream()
		f.manual()
		before := f.ms(start, e)
		refused := func() {
			t.Helper()
			f.is(401, "EventRecordWithFlags", e, s, 1)
			require.InDelta(t, before, f.ms(start, e), 0, "the event keeps the record that it had")
		}
		refused()
		f.Work(busy, 64_000) // not on the short way either
		refused()
		f.Set("advance_ns", 100_000)
		f.begin(busy, relaxed)
		refused()
		f.end(0, busy)
		f.ok("EventRecordWithFlags", e, s, 0)
	}
	f := open(t)
	s := f.stream() // opens the context that the driver wants
	require.Equal(t, int32(401), f.Call("cuEventRecordWithFlags", f.out("cuEventCreate", 0), s, 1))

	hip := with(t, "hip")
	e, s := hip.event(), hip.stream()
	hip.ok("EventRecordWithFlags", e, s, 1)
	hip.ok("EventQuery", e)
	require.Zero(t, hip.ms(e, e))
}

func TestHIPOfSixCanLetForeignCapturesLive(t *testing.T) {
	f := with(t, "hip")
	e, s := f.recorded(0), f.stream()
	f.Set("strict_captures", 0)
	f.begin(s, global)
	elsewhere(func() { f.ok("EventQuery", e) })
	f.end(0, s)
}

func TestCaptureModeBelongsToTheThread(t *testing.T) {
	f := open(t)
	require.Equal(t, global, f.mode(relaxed))
	f.get(relaxed, "capture_mode")
	elsewhere(func() { f.get(global, "capture_mode") })
	m := fakert.Bytes(8)
	m[0] = 3
	f.is(1, "ThreadExchangeStreamCaptureMode", m.Addr())
	f.get(relaxed, "capture_mode")
}

func TestDriverCapturesUnderItsOwnNames(t *testing.T) {
	f := open(t)
	s, m := f.stream(), fakert.Bytes(8)
	call := func(name string, args ...uintptr) {
		require.EqualValues(t, 0, f.Call(name, args...), name)
	}
	call("cuStreamBeginCapture_v2", s, global)
	call("cuStreamIsCapturing", s, m.Addr())
	require.EqualValues(t, active, m.Int32(0))
	call("cuEventRecordWithFlags", f.event(), s, 1)
	call("cuStreamEndCapture", s, m.Addr())
	g := m.Handle(0)
	exec := f.out("cuGraphInstantiateWithFlags", g, 0)
	call("cuGraphLaunch", exec, s)
	call("cuStreamSynchronize", s)
	call("cuStreamQuery", s)
	call("cuStreamWaitEvent", s, f.recorded(s), 0)
	call("cuGraphExecDestroy", exec)
	call("cuGraphDestroy", g)
	f.Set("abort_on_bad_handle", 0)
	f.is(400, "GraphLaunch", exec, s)
	f.is(400, "GraphDestroy", g)
}
