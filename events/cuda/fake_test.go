package cuda_test

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// rig is the backend opened on an imitation of the library, which aborts the
// process on a handle that it does not know.
type rig struct {
	rt     *cuda.Runtime
	dev    cuda.Device
	ctl    *fakert.Runtime
	path   string
	driver bool
	// What calls leaves for the test.
	graph events.Graph[cuda.Stream]
}

// build makes an imitation whose name is not the real one's, so that nothing else
// of this process takes it for it.
func build(t testing.TB, opts ...fakert.Option) (string, *fakert.Runtime) {
	t.Helper()
	path := fakert.Build(t, append([]fakert.Option{fakert.Name("fake-cudart.so")}, opts...)...)
	return path, fakert.Control(t, path)
}

func open(t testing.TB, devices int, driver bool, opts ...fakert.Option) *rig {
	t.Helper()
	r := &rig{driver: driver}
	r.path, r.ctl = build(t, opts...)
	r.ctl.Set("device_count", int64(devices))
	r.reopen(t)
	return r
}

// reopen opens the same library once more. It is another opening to the backend.
func (r *rig) reopen(t testing.TB) {
	t.Helper()
	var err error
	r.rt, err = cuda.Open(cuda.WithLibrary(r.path), cuda.WithDriver(r.path), cuda.WithDriverAPI(r.driver))
	require.NoError(t, err)
	r.dev = r.device(t, 0)
}

// in is the same opening for another test.
func (r *rig) in(t testing.TB) *rig {
	t.Helper()
	same := *r
	same.ctl = fakert.Control(t, r.path)
	return &same
}

func (r *rig) device(t testing.TB, i int) cuda.Device {
	t.Helper()
	dev, err := r.rt.Device(i)
	require.NoError(t, err)
	return dev
}

// onFakes runs a test through the runtime's functions and through the driver's.
func onFakes(t *testing.T, devices int, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("api=runtime", func(t *testing.T) { test(t, open(t, devices, false)) })
	t.Run("api=driver", func(t *testing.T) { test(t, open(t, devices, true)) })
}

// driverNames are the driver's names that differ by more than their beginning.
var driverNames = map[string]string{
	"EventCreateWithFlags": "cuEventCreate", "EventDestroy": "cuEventDestroy_v2",
	"StreamCreateWithFlags": "cuStreamCreate", "StreamDestroy": "cuStreamDestroy_v2",
	"StreamBeginCapture": "cuStreamBeginCapture_v2", "GetDeviceCount": "cuDeviceGetCount",
}

// fn is how the library in use names a function of the runtime.
func (r *rig) fn(name string) string {
	switch {
	case !r.driver:
		return "cuda" + name
	case driverNames[name] != "":
		return driverNames[name]
	}
	return "cu" + name
}

// fail makes a function refuse until the result is called.
func (r *rig) fail(name string, code int32) func() {
	r.ctl.Set("fail_"+r.fn(name), int64(code))
	return func() { r.ctl.Set("fail_"+r.fn(name), 0) }
}

// block makes calls of a function wait inside it until the result is called.
func (r *rig) block(t testing.TB, name string) (release func()) {
	t.Helper()
	key := "block_" + r.fn(name)
	r.ctl.Set(key, 1)
	release = sync.OnceFunc(func() { r.ctl.Set(key, 0) })
	t.Cleanup(release)
	return release
}

// blocked waits until n calls of a function wait inside it.
func (r *rig) blocked(t testing.TB, name string, n int64) {
	t.Helper()
	key := "blocked_" + r.fn(name)
	require.Eventually(t, func() bool { return r.ctl.Get(key) == n }, 30*time.Second, time.Millisecond)
}

func (r *rig) stream(t testing.TB) cuda.Stream {
	t.Helper()
	s, err := r.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	return s
}

func (r *rig) event(t testing.TB) cuda.Event {
	t.Helper()
	e, err := r.dev.EventCreate()
	require.NoError(t, err)
	return e
}

func (r *rig) recorded(t testing.TB, s cuda.Stream) cuda.Event {
	t.Helper()
	e := r.event(t)
	require.NoError(t, r.dev.EventRecord(e, s))
	return e
}

// complete is an event that its stream has reached.
func (r *rig) complete(t testing.TB, s cuda.Stream) cuda.Event {
	t.Helper()
	e := r.recorded(t, s)
	require.NoError(t, r.dev.EventWait(e))
	return e
}

// leavesNothing checks that the library has nothing left, and that the backend
// knows.
func (r *rig) leavesNothing(t testing.TB) {
	t.Helper()
	for _, key := range []string{"live_events", "live_streams", "live_graphs", "live_modules", "live_allocations", "bad_handles"} {
		require.Zero(t, r.ctl.Get(key), key)
	}
	stats := r.dev.EventStats()
	require.Zero(t, stats.LiveEvents)
	require.Zero(t, stats.LiveStreams)
	require.Zero(t, stats.DestroyFailed)
}

// quiet checks that calls do not reach the library.
func (r *rig) quiet(t testing.TB, calls func()) {
	t.Helper()
	before := r.ctl.Get("calls_total")
	calls()
	require.Equal(t, before, r.ctl.Get("calls_total"), "the library was called")
}

// call is some methods of a device and how to call them.
type call struct {
	methods string
	do      func() error
}

// calls is every method of a device that reaches the device, in an order in which
// all of them work. The goroutine must be locked to its thread, since captures are.
func (r *rig) calls(t testing.TB) []call {
	t.Helper()
	dev, s, other := r.dev, r.stream(t), r.stream(t)
	start, end := r.complete(t, s), r.complete(t, s)
	from, err := dev.ScratchAlloc(64)
	require.NoError(t, err)
	to, err := dev.ScratchAlloc(64)
	require.NoError(t, err)
	_, err = dev.ScratchSpin(time.Microsecond, s)
	require.NoError(t, err)
	_, err = dev.TimerAsk(s)
	require.NoError(t, err)
	require.NoError(t, dev.CaptureBegin(other, events.CaptureThreadLocal))
	r.graph, err = dev.CaptureEnd(other)
	require.NoError(t, err)
	return []call{
		{"EventCreate", func() error { _, err := dev.EventCreate(); return err }},
		{"EventCreateUntimed", func() error { _, err := dev.EventCreateUntimed(true); return err }},
		{"StreamCreateNonBlocking", func() error { _, err := dev.StreamCreateNonBlocking(); return err }},
		{"EventRecord", func() error { return dev.EventRecord(end, s) }},
		{"EventQuery", func() error { _, err := dev.EventQuery(end); return err }},
		{"EventWait", func() error { return dev.EventWait(end) }},
		{"EventElapsed", func() error { _, err := dev.EventElapsed(start, end); return err }},
		{"StreamWaitEvent", func() error { return dev.StreamWaitEvent(other, end) }},
		{"StreamSynchronize", func() error { return dev.StreamSynchronize(s) }},
		{"StreamCapturing", func() error { _, err := dev.StreamCapturing(s); return err }},
		{"RoundBegin RoundQuery RoundEnd", func() error {
			round, err := dev.RoundBegin()
			if err != nil {
				return err
			}
			if _, err := dev.RoundQuery(round, end); err != nil {
				return err
			}
			return dev.RoundEnd(round)
		}},
		{"ScratchAlloc", func() error { _, err := dev.ScratchAlloc(64); return err }},
		{"ScratchMemset", func() error { return dev.ScratchMemset(from, 1, 64, s) }},
		{"ScratchCopy", func() error { return dev.ScratchCopy(to, from, 64, s) }},
		{"ScratchSpin", func() error { _, err := dev.ScratchSpin(time.Microsecond, s); return err }},
		{"LaunchEmpty", func() error { return dev.LaunchEmpty(s) }},
		{"LaunchRead", func() error { return dev.LaunchRead(to, 64, s) }},
		{"CacheResetPersisting", func() error { return dev.CacheResetPersisting() }},
		{"DeviceSynchronize", func() error { return dev.DeviceSynchronize() }},
		{"TimerAsk", func() error {
			q, err := dev.TimerAsk(s)
			if err == nil {
				q.Ask()
				err = dev.StreamSynchronize(s)
			}
			return err
		}},
		{"GateClose", func() error {
			gate, err := dev.GateClose(s, time.Minute)
			if err != nil {
				return err
			}
			return gate.Open()
		}},
		{"ScratchFree", func() error { return dev.ScratchFree(from) }},
		{"ProfilerStart", dev.ProfilerStart},
		{"ProfilerStop", dev.ProfilerStop},
		{"CaptureBegin", func() error { return dev.CaptureBegin(other, events.CaptureThreadLocal) }},
		{"EventRecordExternal", func() error { return dev.EventRecordExternal(end, other) }},
		{"CaptureEnd", func() error { _, err := dev.CaptureEnd(other); return err }},
		{"Graph.Launch", func() error { return r.graph.Launch(other) }},
		{"StreamSynchronize", func() error { return dev.StreamSynchronize(s) }}, // nothing is left running
	}
}

// What holds for every method is tested on this list, so no method may be missing.
func TestListOfCallsIsComplete(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// These have tests of their own; CacheBytes does not reach the device.
	listed := map[string]bool{"EventDestroy": true, "StreamDestroy": true, "Close": true, "CacheBytes": true, "TelemetryRead": true}
	for _, c := range open(t, 1, false).calls(t) {
		require.NoError(t, c.do(), c.methods)
		for name := range strings.FieldsSeq(c.methods) {
			listed[name] = true
		}
	}
	device := reflect.TypeFor[cuda.Device]()
	failure := reflect.TypeFor[error]()
	for i := range device.NumMethod() {
		m := device.Method(i)
		if n := m.Type.NumOut(); n > 0 && m.Type.Out(n-1) == failure {
			require.Contains(t, listed, m.Name)
		}
	}
}

// together runs calls at the same time, each n times, and waits for them.
func together(n int, calls ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		for _, call := range calls {
			wg.Go(func() { <-start; call() })
		}
	}
	close(start)
	wg.Wait()
}

func unavailable(t testing.TB, err error) *events.UnavailableError {
	t.Helper()
	require.ErrorIs(t, err, events.ErrUnavailable)
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	return u
}
