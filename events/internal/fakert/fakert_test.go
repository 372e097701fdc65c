//go:build linux && (amd64 || arm64) && !android && !faketime

package fakert_test

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/events/internal/fakert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a library, called under its vendor's names from one OS thread.
type fake struct {
	*fakert.Runtime
	t      *testing.T
	prefix string
}

// open leaves the test's goroutine locked, so that each test has a fresh thread.
func open(t *testing.T, opts ...fakert.Option) *fake {
	t.Helper()
	return with(t, "cuda", opts...)
}

func with(t *testing.T, prefix string, opts ...fakert.Option) *fake {
	t.Helper()
	runtime.LockOSThread()
	path := fakert.Build(t, append(opts, fakert.Vendor(prefix))...)
	return &fake{fakert.Control(t, path), t, prefix}
}

// elsewhere runs do on another OS thread and waits for it.
func elsewhere(do func()) {
	var over sync.WaitGroup
	over.Add(1)
	go func() {
		defer over.Done()
		runtime.LockOSThread()
		do()
	}()
	over.Wait()
}

func (f *fake) code(name string, args ...uintptr) int {
	f.t.Helper()
	return int(f.Call(f.prefix+name, args...))
}

func (f *fake) ok(name string, args ...uintptr) {
	f.t.Helper()
	f.is(0, name, args...)
}

func (f *fake) is(want int, name string, args ...uintptr) {
	f.t.Helper()
	require.Equal(f.t, want, f.code(name, args...), name)
}

// out calls a function whose first argument is a result, and returns that.
func (f *fake) out(symbol string, args ...uintptr) uintptr {
	f.t.Helper()
	m := fakert.Bytes(8)
	require.EqualValues(f.t, 0, f.Call(symbol, append([]uintptr{m.Addr()}, args...)...), symbol)
	return m.Handle(0)
}

func (f *fake) event() uintptr { f.t.Helper(); return f.out(f.prefix+"EventCreateWithFlags", 0) }

func (f *fake) stream() uintptr { f.t.Helper(); return f.out(f.prefix+"StreamCreateWithFlags", 1) }

func (f *fake) recorded(stream uintptr) uintptr {
	f.t.Helper()
	e := f.event()
	f.ok("EventRecord", e, stream)
	return e
}

func (f *fake) elapsed(start, end uintptr) (float32, int) {
	f.t.Helper()
	m := fakert.Bytes(8)
	code := f.code("EventElapsedTime", m.Addr(), start, end)
	return m.Float32(0), code
}

func (f *fake) ms(start, end uintptr) float32 {
	f.t.Helper()
	ms, code := f.elapsed(start, end)
	require.Equal(f.t, 0, code)
	return ms
}

func (f *fake) elapsedIs(want int, start, end uintptr) {
	f.t.Helper()
	_, code := f.elapsed(start, end)
	require.Equal(f.t, want, code)
}

func (f *fake) get(want int64, key string) {
	f.t.Helper()
	require.Equal(f.t, want, f.Get(key), key)
}

// status is what StreamIsCapturing says.
func (f *fake) status(stream uintptr) int {
	f.t.Helper()
	m := fakert.Bytes(8)
	f.ok("StreamIsCapturing", stream, m.Addr())
	return int(m.Int32(0))
}

// mode exchanges the thread's capture mode and returns the old one.
func (f *fake) mode(mode byte) int {
	f.t.Helper()
	m := fakert.Bytes(8)
	m[0] = mode
	f.ok("ThreadExchangeStreamCaptureMode", m.Addr())
	return int(m.Int32(0))
}

func (f *fake) manual() { f.t.Helper(); f.Set("now_ns", 1<<40) }

// ---- states of an event ----

func TestNeverRecordedEventQueriesAsDone(t *testing.T) {
	f := open(t)
	e := f.event()
	f.ok("EventQuery", e)
	f.ok("EventSynchronize", e)
	f.ok("StreamWaitEvent", f.stream(), e, 0)
}

func TestStampIsWhereTheStreamReachesTheEvent(t *testing.T) {
	f := open(t)
	f.manual()
	s := f.stream()
	a := f.recorded(s)
	require.EqualValues(t, 0, f.Work(s, 1_000_000))
	b := f.recorded(s)
	f.ok("EventQuery", a)
	f.is(600, "EventQuery", b)
	f.is(600, "StreamQuery", s)
	f.elapsedIs(600, a, b)
	f.elapsedIs(600, b, a)
	f.Set("advance_ns", 999_999)
	f.is(600, "EventQuery", b)
	f.Set("advance_ns", 1)
	f.ok("EventQuery", b)
	f.ok("StreamQuery", s)
	f.Set("advance_ns", 5_000_000) // being late changes no stamp
	require.InDelta(t, 1.0, f.ms(a, b), 1e-6)
	require.InDelta(t, -1.0, f.ms(b, a), 1e-6)
	require.Zero(t, f.ms(a, a))
	f.get(0, "queued")
}

func TestStampsAreWholeTicks(t *testing.T) {
	f := open(t)
	f.Set("now_ns", 1<<20)
	a := f.recorded(0)
	f.Set("advance_ns", 31)
	require.Zero(t, f.ms(a, f.recorded(0)))
	f.Set("advance_ns", 1)
	require.InDelta(t, 32e-6, f.ms(a, f.recorded(0)), 1e-9)
}

func TestElapsedTellsMistakesByCode(t *testing.T) {
	f := open(t)
	done, untimed := f.recorded(0), f.out("cudaEventCreateWithFlags", 2)
	f.get(2, "last_create_flags")
	fresh := f.event()
	f.ok("EventRecord", untimed, 0)
	f.elapsedIs(400, done, fresh)
	f.elapsedIs(400, fresh, done)
	f.elapsedIs(400, done, untimed)
	f.elapsedIs(400, untimed, done)
	f.is(1, "EventElapsedTime", 0, done, done)
}

func TestNotReadyLeavesNoLastError(t *testing.T) {
	f := open(t)
	s := f.stream()
	f.Hold(s)
	e := f.recorded(s)
	f.is(600, "EventQuery", e)
	f.is(600, "StreamQuery", s)
	f.elapsedIs(600, e, e)
	f.get(0, "last_error")
	f.Release(s)
	f.ok("EventSynchronize", e)
}

func TestRecordingAgainKeepsTheEarlierWait(t *testing.T) {
	f := open(t)
	f.manual()
	s, other := f.stream(), f.stream()
	f.Work(s, 1000)
	e := f.recorded(s)
	f.ok("StreamWaitEvent", other, e, 0)
	f.Work(s, 1_000_000)
	f.ok("EventRecord", e, s)
	after := f.recorded(other)
	f.Set("advance_ns", 1000)
	f.ok("EventQuery", after)
	f.is(600, "EventQuery", e)
	f.Set("advance_ns", 1_000_000)
	f.ok("EventQuery", e)
}

func TestStreamWaitsForAnotherStreamsEvent(t *testing.T) {
	f := open(t)
	f.manual()
	s, other := f.stream(), f.stream()
	f.Work(s, 64_000)
	e := f.recorded(s)
	f.ok("StreamWaitEvent", other, e, 0)
	after := f.recorded(other)
	f.is(600, "EventQuery", after)
	f.Set("advance_ns", 100_000)
	f.ok("EventQuery", after)
	require.Zero(t, f.ms(e, after))
	f.get(0, "last_wait_flags")
}

func TestPendingEventMayBeDestroyed(t *testing.T) {
	f := open(t)
	s, other := f.stream(), f.stream()
	f.Hold(s)
	e := f.recorded(s)
	f.ok("StreamWaitEvent", other, e, 0)
	f.ok("EventDestroy", e)
	f.is(600, "StreamQuery", other)
	f.ok("StreamDestroy", s)
	f.get(1, "live_streams")
	f.get(0, "live_events")
	last := f.recorded(other)
	f.is(600, "EventQuery", last)
	require.EqualValues(t, 400, f.Release(s), "a destroyed stream has no handle")
}

func TestDestroyedStreamFinishesItsWork(t *testing.T) {
	f := open(t)
	f.manual()
	s := f.stream()
	a := f.recorded(s)
	f.Work(s, 3200)
	e := f.recorded(s)
	f.ok("StreamDestroy", s)
	f.is(600, "EventQuery", e)
	f.Set("advance_ns", 3200)
	f.ok("EventQuery", e)
	require.InDelta(t, 0.0032, f.ms(a, e), 1e-6)
}

func TestLegacyStreamAndBlockingStreamsWaitForEachOther(t *testing.T) {
	f := open(t)
	blocking, free := f.out("cudaStreamCreateWithFlags", 0), f.stream()
	f.Hold(blocking)
	legacy := f.recorded(0)
	f.is(600, "EventQuery", legacy)
	f.is(600, "EventQuery", f.recorded(2)) // behind the legacy stream's
	f.ok("EventQuery", f.recorded(free))
	f.Release(blocking)
	f.ok("EventQuery", legacy)
	f.ok("StreamQuery", 1)
}

func TestWaitsBlockUntilTheDeviceIsThere(t *testing.T) {
	f := open(t)
	for _, wait := range []string{"EventSynchronize", "StreamSynchronize", "DeviceSynchronize"} {
		s := f.stream()
		f.Hold(s)
		e := f.recorded(s)
		go func() {
			time.Sleep(5 * time.Millisecond)
			f.Release(s)
		}()
		switch wait {
		case "EventSynchronize":
			f.ok(wait, e)
		case "StreamSynchronize":
			f.ok(wait, s)
		default:
			f.ok(wait)
		}
		f.ok("EventQuery", e)
	}
}

func TestRealTimePassesWithoutPolling(t *testing.T) {
	f := open(t)
	s := f.stream()
	a := f.recorded(s)
	f.Work(s, 2_000_000)
	b := f.recorded(s)
	f.ok("EventSynchronize", b)
	require.GreaterOrEqual(t, f.ms(a, b), float32(2))
}

func TestCountedClockMovesOnAndJoinsRealTime(t *testing.T) {
	f := open(t)
	f.Set("fast_clock", 1)
	a, b := f.event(), f.event()
	f.ok("EventRecord", a, 0)
	for range 10 {
		f.ok("EventRecord", b, 0)
	}
	require.InDelta(t, 10*1280e-6, f.ms(a, b), 1e-6)
	s := f.stream()
	f.Work(s, 100_000)
	c := f.recorded(s)
	f.ok("EventSynchronize", c)
	require.GreaterOrEqual(t, f.ms(b, c), float32(0.1))
	f.Set("fast_clock", 0)
	require.GreaterOrEqual(t, f.ms(c, f.recorded(0)), float32(0))
}

func TestFullQueueBlocksItsCaller(t *testing.T) {
	f := open(t)
	f.Set("queue_depth", 4)
	s := f.stream()
	f.Hold(s)
	e := f.event()
	for range 3 {
		f.ok("EventRecord", e, s)
	}
	blocked := make(chan int, 1)
	go func() { blocked <- f.code("EventRecord", e, s) }()
	select {
	case code := <-blocked:
		t.Fatalf("record behind a full queue returned %d", code)
	case <-time.After(20 * time.Millisecond):
	}
	f.Release(s)
	require.Equal(t, 0, <-blocked)
}

// ---- handles ----

func TestNullHandles(t *testing.T) {
	f := open(t)
	f.is(400, "EventRecord", 0, 0)
	f.is(400, "EventQuery", 0)
	f.is(400, "EventSynchronize", 0)
	f.is(400, "EventDestroy", 0)
	f.is(400, "StreamWaitEvent", 0, 0, 0)
	for special := range uintptr(3) {
		f.is(400, "StreamDestroy", special)
		f.ok("EventRecord", f.event(), special)
		f.ok("StreamSynchronize", special)
	}
	f.is(1, "EventCreate", 0)
	f.is(1, "StreamCreate", 0)
	f.get(0, "bad_handles")
}

func TestUnknownHandlesAreFound(t *testing.T) {
	f := open(t)
	f.Set("abort_on_bad_handle", 0)
	e, s := f.event(), f.stream()
	f.ok("EventRecord", e, s)
	f.ok("EventDestroy", e)
	f.ok("StreamDestroy", s)
	own, junk := f.event(), fakert.Bytes(64)
	for _, stale := range []uintptr{e, s, junk.Addr(), own + 8, 3, ^uintptr(0)} {
		before := f.Get("bad_handles")
		f.is(400, "EventRecord", stale, 0)
		f.is(400, "EventRecord", own, stale)
		f.is(400, "EventQuery", stale)
		f.is(400, "EventSynchronize", stale)
		f.is(400, "EventDestroy", stale)
		f.is(400, "StreamWaitEvent", stale, own, 0)
		f.is(400, "StreamSynchronize", stale)
		f.is(400, "StreamDestroy", stale)
		f.elapsedIs(400, own, stale)
		f.get(before+9, "bad_handles")
	}
	f.get(1, "live_events")
	f.elapsedIs(400, 0, own) // the real one crashes
	f.get(1+9*6, "bad_handles")
	runtime.KeepAlive(junk)
}

func TestHandleOfAnotherCopyIsUnknown(t *testing.T) {
	f, other := open(t), open(t)
	f.Set("abort_on_bad_handle", 0)
	f.is(400, "EventQuery", other.event())
}

const childEnv = "DEVEVENTS_FAKERT_CHILD"

func TestStaleHandleAbortsTheProcess(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		f := open(t)
		e := f.event()
		f.ok("EventDestroy", e)
		f.code("EventRecord", e, 0)
		t.Fatal("still alive")
	}
	fakert.Build(t) // skips without a compiler
	child := exec.Command(os.Args[0], "-test.run=^TestStaleHandleAbortsTheProcess$")
	child.Env = append(os.Environ(), childEnv+"=1")
	said, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "cudaEventRecord was given the event 0x")
	require.NotContains(t, string(said), "still alive")
}

func TestHandlesAreReusedOnRequestOnly(t *testing.T) {
	f := open(t)
	e := f.event()
	f.ok("EventDestroy", e)
	require.NotEqual(t, e, f.event())
	f.Set("reuse_handles", 1)
	e = f.recorded(0)
	f.ok("EventDestroy", e)
	again := f.event()
	require.Equal(t, e, again)
	f.elapsedIs(400, again, again) // it knows nothing of its predecessor
}

// ---- threads, devices, contexts ----

func TestCurrentDeviceAndLastErrorBelongToTheThread(t *testing.T) {
	f := open(t)
	f.Set("device_count", 2)
	f.ok("SetDevice", 1)
	f.is(101, "SetDevice", 2)
	f.get(101, "last_error")
	elsewhere(func() {
		require.Zero(t, f.out("cudaGetDevice"))
		f.get(0, "last_error")
		f.is(0, "PeekAtLastError")
	})
	require.EqualValues(t, 1, int32(f.out("cudaGetDevice")))
	f.is(101, "PeekAtLastError")
	f.is(101, "GetLastError")
	f.is(0, "GetLastError")
}

func TestSuccessLeavesTheLastError(t *testing.T) {
	f := open(t)
	f.is(400, "EventQuery", 0)
	f.recorded(0)
	f.get(400, "last_error")
}

// HIP up to 6 stores the result of every call, success and not-ready included.
func TestOldHIPOverwritesTheLastErrorWithEveryCall(t *testing.T) {
	f := with(t, "hip")
	f.is(400, "EventQuery", 0)
	e := f.event()
	f.is(0, "PeekAtLastError")
	s := f.stream()
	f.Hold(s)
	f.ok("EventRecord", e, s)
	f.is(600, "EventQuery", e)
	f.is(600, "GetLastError")
	f.is(0, "GetLastError")
	f.Set("last_error_every_call", 0) // HIP 7
	f.is(600, "EventQuery", e)
	f.is(0, "PeekAtLastError")
}

func TestDevicesDoNotMix(t *testing.T) {
	f := open(t)
	f.Set("device_count", 2)
	e, s := f.recorded(0), f.stream()
	f.ok("SetDevice", 1)
	far, farStream := f.recorded(0), f.stream()
	f.is(400, "EventRecord", e, farStream)
	f.is(400, "EventRecord", e, 0) // the current device's default stream
	f.is(400, "EventRecord", far, s)
	f.ok("EventRecord", e, s) // whatever device is current
	f.ok("EventQuery", e)
	f.elapsedIs(400, e, far)
	f.ok("StreamWaitEvent", s, far, 0)
}

func TestOnlySomeCallsOpenAContext(t *testing.T) {
	f := open(t)
	f.Set("device_count", 2)
	m := fakert.Bytes(64)
	f.ok("GetDeviceCount", m.Addr())
	f.ok("GetDevice", m.Addr())
	f.ok("DeviceGetPCIBusId", m.Addr(), 64, 1)
	require.Equal(t, "0000:1B:00.0", m.String())
	f.ok("DeviceGetAttribute", m.Addr(), 38, 1)
	require.EqualValues(t, 62914560, m.Int32(0))
	f.ok("RuntimeGetVersion", m.Addr())
	f.ok("PeekAtLastError")
	require.EqualValues(t, 0, f.Call("cuInit", 0))
	m = fakert.Bytes(8)
	m[0] = 2
	require.EqualValues(t, 0, f.Call("cuThreadExchangeStreamCaptureMode", m.Addr()))
	f.get(0, "ctx_init_0")
	f.get(0, "ctx_init_1")

	for _, opens := range []func(f *fake){
		func(f *fake) { f.status(0) },
		func(f *fake) { f.mode(2) },
		func(f *fake) { f.event() },
		func(f *fake) { f.stream() },
		func(f *fake) { f.ok("StreamSynchronize", 0) },
		func(f *fake) { f.ok("SetDevice", 0) },
	} {
		f := open(t)
		opens(f)
		f.get(1, "ctx_init_0")
		f.get(1, "ctx_active_0")
		f.event()
		f.get(1, "ctx_init_0")
	}
}

func TestSetDeviceOpensAContextSinceCUDA12(t *testing.T) {
	for version, want := range map[int64]int64{11080: 0, 12000: 1, 13000: 1} {
		f := open(t)
		f.Set("runtime_version", version)
		f.ok("SetDevice", 0)
		f.get(want, "ctx_init_0")
	}
	f := with(t, "hip")
	f.ok("SetDevice", 0)
	f.get(0, "ctx_init_0")
}

func TestDriverWantsInitAndAContext(t *testing.T) {
	f := open(t)
	m := fakert.Bytes(64)
	call := func(name string, args ...uintptr) int { return int(f.Call(name, args...)) }
	require.Equal(t, 0, call("cuDriverGetVersion", m.Addr()))
	require.Equal(t, 3, call("cuDeviceGetCount", m.Addr()))
	require.Equal(t, 3, call("cuCtxGetCurrent", m.Addr()))
	require.Equal(t, 3, call("cuEventCreate", m.Addr(), 0))
	require.Equal(t, 0, call("cuInit", 0))
	require.Equal(t, 0, call("cuDeviceGetCount", m.Addr()))
	require.Equal(t, 201, call("cuEventCreate", m.Addr(), 0))
	require.Equal(t, 201, call("cuStreamIsCapturing", 0, m.Addr()))
	require.Zero(t, f.out("cuCtxGetCurrent"))

	state := func() (active int32) {
		require.Equal(t, 0, call("cuDevicePrimaryCtxGetState", 0, m.Addr(), m.Addr()+8))
		return m.Int32(2)
	}
	require.Zero(t, state())
	ctx := f.out("cuDevicePrimaryCtxRetain", 0)
	require.EqualValues(t, 1, state())
	require.Equal(t, 201, call("cuEventCreate", m.Addr(), 0), "retaining does not make it current")
	require.Equal(t, 0, call("cuCtxSetCurrent", ctx))
	require.Equal(t, ctx, f.out("cuCtxGetCurrent"))
	e, s := f.out("cuEventCreate", 0), f.out("cuStreamCreate", 1)
	require.Equal(t, 0, call("cuEventRecord", e, s))
	require.Equal(t, 0, call("cuEventQuery", e))
	require.Equal(t, 0, call("cuEventSynchronize", e))
	require.Equal(t, 0, call("cuEventElapsedTime", m.Addr(), e, e))
	require.Equal(t, 0, call("cuEventDestroy_v2", e))
	require.Equal(t, 0, call("cuStreamDestroy_v2", s))

	f.Set("abort_on_bad_handle", 0)
	e = f.out("cuEventCreate", 0)
	require.Equal(t, 0, call("cuDevicePrimaryCtxRelease_v2", 0))
	require.Zero(t, state())
	require.Equal(t, 201, call("cuDevicePrimaryCtxRelease_v2", 0))
	require.Equal(t, 709, call("cuEventCreate", m.Addr(), 0))
	require.Equal(t, 400, call("cuEventQuery", e), "events go with their context")
	require.Equal(t, 400, call("cuCtxSetCurrent", ctx))
	require.Equal(t, 400, call("cuCtxSetCurrent", 12345))
	require.Equal(t, 0, call("cuCtxSetCurrent", 0))
	f.get(0, "live_events")
}

func TestRuntimeAndDriverShareHandlesAndContexts(t *testing.T) {
	f := open(t)
	f.Set("device_count", 2)
	f.ok("SetDevice", 1)
	e := f.recorded(0)
	require.EqualValues(t, 0, f.Call("cuEventQuery", e))
	ctx := f.out("cuDevicePrimaryCtxRetain", 0)
	require.EqualValues(t, 0, f.Call("cuCtxSetCurrent", ctx))
	require.Zero(t, int32(f.out("cudaGetDevice")), "the runtime follows the current context")
	require.EqualValues(t, 0, f.Call("cuDevicePrimaryCtxRelease_v2", 0))
	f.ok("EventQuery", e)
	require.EqualValues(t, 0, f.Call("cuCtxSetCurrent", 0))
	f.get(-1, "current_context")
}

func TestNoDeviceAndNoDriver(t *testing.T) {
	f := open(t)
	m := fakert.Bytes(8)
	f.Set("device_count", 0)
	f.is(100, "GetDeviceCount", m.Addr())
	f.is(100, "EventCreate", m.Addr())
	require.EqualValues(t, 100, f.Call("cuInit", 0))
	f.Set("device_count", 1)
	f.Set("count_code", 35)
	f.is(35, "GetDeviceCount", m.Addr())
	f.is(35, "EventCreate", m.Addr())
	f.get(35, "last_error")
	f.Set("count_code", 0)
	f.ok("GetDeviceCount", m.Addr())
	require.EqualValues(t, 1, m.Int32(0))
}

func TestNamesAndVersions(t *testing.T) {
	f := open(t)
	m := fakert.Bytes(64)
	require.EqualValues(t, 0, f.Call("cuInit", 0))
	require.EqualValues(t, 0, f.Call("cuDeviceGetName", m.Addr(), 64, 0))
	require.Equal(t, "Fake cuda device 0", m.String())
	require.EqualValues(t, 0, f.Call("cuDeviceGetUuid_v2", m.Addr(), 0))
	require.Equal(t, byte(0xf1), m[1])
	require.EqualValues(t, 101, f.Call("cuDeviceGetName", m.Addr(), 64, 1))
	require.Zero(t, int32(f.out("cuDeviceGet", 0)))
	f.is(1, "DeviceGetPCIBusId", m.Addr(), 12, 0)
	f.Set("driver_version", 12040)
	require.EqualValues(t, 13000, int32(f.out("cudaRuntimeGetVersion")))
	require.EqualValues(t, 12040, int32(f.out("cudaDriverGetVersion")))
	require.EqualValues(t, 12040, int32(f.out("cuDriverGetVersion")))
	hip := with(t, "hip")
	hip.ok("DeviceGetName", m.Addr(), 64, 0)
	require.Equal(t, "Fake hip device 0", m.String())
	hip.ok("DeviceGetUuid", m.Addr(), 0)
	hip.ok("DeviceGetPCIBusId", m.Addr(), 64, 0)
	require.Equal(t, "0000:1a:00.0", m.String())
}

// ---- lies and refusals on order ----

func TestRefusalsByScript(t *testing.T) {
	f := open(t)
	e := f.event()
	record := func() int { return f.code("EventRecord", e, 0) }
	codes := func(n int) (all []int) {
		for range n {
			all = append(all, record())
		}
		return all
	}
	f.Set("fail_EventRecord", 719)
	require.Equal(t, []int{719, 719}, codes(2))
	f.get(719, "last_error")
	f.Set("fail_EventRecord", 0)
	require.Equal(t, 0, record())
	f.Set("fail_EventRecord", 2)
	f.Set("fail_count_EventRecord", 2)
	require.Equal(t, []int{2, 2, 0, 0}, codes(4))
	f.Set("fail_EventRecord", 0)
	f.Set("fail_nth_EventRecord", 3)
	f.Set("fail_EventRecord", 900)
	require.Equal(t, []int{0, 0, 900, 0}, codes(4))
	f.Set("fail_count_EventRecord", -1)
	require.Equal(t, []int{0, 0, 900, 900}, codes(4))
	f.Set("fail_EventRecord", 0)
	f.Set("fail_cuEventRecord", 999)
	require.Equal(t, 0, record(), "the driver's namesake is another function")
	require.EqualValues(t, 999, f.Call("cuEventRecord", e, 0))
}

func TestCallsAreCounted(t *testing.T) {
	f := open(t)
	e := f.event()
	for range 5 {
		f.ok("EventQuery", e)
	}
	elsewhere(func() { f.ok("EventQuery", e) })
	f.Call("cuEventQuery", e)
	f.get(7, "calls_EventQuery")
	f.get(6, "calls_cudaEventQuery")
	f.get(1, "calls_cuEventQuery")
	f.get(8, "calls_total")
	f.Set("calls_EventQuery", 0)
	f.ok("EventQuery", e)
	f.get(1, "calls_EventQuery")
	f.Set("fail_EventQuery", 1)
	f.is(1, "EventQuery", e)
	f.get(2, "calls_EventQuery")
}

func TestBlockedCallWaitsForItsRelease(t *testing.T) {
	f := open(t)
	e := f.event()
	f.Set("block_EventQuery", 1)
	done := make(chan int, 1)
	go func() { done <- f.code("EventQuery", e) }()
	require.Eventually(t, func() bool { return f.Get("blocked_EventQuery") == 1 }, 5*time.Second, time.Millisecond)
	f.ok("EventRecord", e, 0)
	require.Empty(t, done)
	f.Set("block_EventQuery", 0)
	require.Equal(t, 0, <-done)
	f.get(0, "blocked_EventQuery")
}

func TestSlowCallTakesAtLeastItsTime(t *testing.T) {
	f := open(t)
	e := f.event()
	f.Set("slow_us_EventDestroy", 3000)
	began := time.Now()
	f.ok("EventDestroy", e)
	require.GreaterOrEqual(t, time.Since(began), 3*time.Millisecond)
}

func TestDirtyUpperHalfOfResults(t *testing.T) {
	f := open(t)
	e := f.event()
	require.EqualValues(t, 0, f.Raw("cudaEventQuery", e))
	f.Set("dirty_upper", 1)
	require.NotZero(t, f.Raw("cudaEventQuery", e))
	f.ok("EventQuery", e)
	f.is(400, "EventQuery", 0)
	require.Equal(t, uintptr(0x7fff12345678), f.Echo(0x7fff12345678), "pointers are whole")
}

func TestElapsedLies(t *testing.T) {
	f := open(t)
	e := f.recorded(0)
	for _, lie := range []float32{float32(math.Inf(1)), -3.5, 1e30, 0} {
		f.SetFloat("elapsed_bits", lie)
		require.Equal(t, math.Float32bits(lie), math.Float32bits(f.ms(e, e)))
	}
	f.SetFloat("elapsed_bits", float32(math.NaN()))
	require.True(t, math.IsNaN(float64(f.ms(e, e))))
	f.elapsedIs(400, e, f.event()) // refusals stay refusals
	f.Set("elapsed_bits", -1)
	f.Set("elapsed_untouched", 1)
	m := fakert.Bytes(8)
	m[2] = 0x77
	f.ok("EventElapsedTime", m.Addr(), e, e)
	require.Equal(t, byte(0x77), m[2])
	f.Set("elapsed_untouched", 0)
	require.Zero(t, f.ms(e, e))
}

func (f *fake) text(symbol string, code int) (string, bool) {
	p := f.Raw(symbol, uintptr(code))
	if p == 0 {
		return "", false
	}
	m := fakert.Bytes(64)
	libc := fakert.Control(f.t, "libc.so.6")
	libc.Raw("strncpy", m.Addr(), p, 63)
	return m.String(), true
}

func TestErrorNames(t *testing.T) {
	f := open(t)
	for code, want := range map[int]string{
		0: "cudaSuccess", 400: "cudaErrorInvalidResourceHandle", 600: "cudaErrorNotReady", 12345: "unrecognized error code",
	} {
		name, ok := f.text("cudaGetErrorName", code)
		require.True(t, ok)
		require.Equal(t, want, name)
	}
	f.Set("named_code", 12345)
	name, _ := f.text("cudaGetErrorName", 12345)
	require.Equal(t, "cudaErrorFromTheFuture", name)
	m := fakert.Bytes(8)
	require.EqualValues(t, 1, f.Call("cuGetErrorName", 54321, m.Addr()))
	require.EqualValues(t, 0, f.Call("cuGetErrorName", 400, m.Addr()))
	f.Set("null_error_strings", 1)
	for _, symbol := range []string{"cudaGetErrorName", "cudaGetErrorString"} {
		_, ok := f.text(symbol, 400)
		require.False(t, ok)
	}
	hip := with(t, "hip")
	for code, want := range map[int]string{400: "hipErrorInvalidHandle", 12345: "hipErrorUnknown"} {
		name, _ := hip.text("hipGetErrorName", code)
		require.Equal(t, want, name)
	}
}

// After a fault every call on the context fails with it, destroy included.
func TestStickyFaultReachesEverything(t *testing.T) {
	f := open(t)
	s := f.stream()
	e, m := f.recorded(s), fakert.Bytes(8)
	f.Set("sticky_code", 700)
	f.is(700, "EventQuery", e)
	f.is(700, "EventSynchronize", e)
	f.is(700, "EventRecord", e, s)
	f.is(700, "EventCreate", m.Addr())
	f.is(700, "EventDestroy", e)
	f.is(700, "StreamDestroy", s)
	f.is(700, "StreamSynchronize", s)
	f.is(700, "DeviceSynchronize")
	f.elapsedIs(700, e, e)
	f.is(700, "GetLastError")
	f.is(700, "GetLastError") // it cannot be cleared
	f.ok("GetDeviceCount", m.Addr())
	f.get(1, "live_events")
}

func TestStickyFaultEndsWaits(t *testing.T) {
	f := open(t)
	s := f.stream()
	f.Hold(s)
	e := f.recorded(s)
	done := make(chan int, 1)
	go func() { done <- f.code("EventSynchronize", e) }()
	require.Eventually(t, func() bool { return f.Get("calls_EventSynchronize") == 1 }, 5*time.Second, time.Millisecond)
	f.Set("sticky_code", 719)
	require.Equal(t, 719, <-done)
}
