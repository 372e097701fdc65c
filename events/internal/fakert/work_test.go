//go:build linux && (amd64 || arm64) && !android && !faketime

package fakert_test

import (
	_ "embed"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/fakert"
)

const program = ".version 6.0\n.visible .entry devevents_spin(.param .u64 ns, .param .u64 out)\n.visible .entry nothing()\n"

// pinned is host memory that the device reaches, as the host and the device see it.
func (f *fake) pinned(bytes uintptr) (host, device uintptr) {
	f.t.Helper()
	f.event() // a context
	host = f.out("cuMemHostAlloc", bytes, 2)
	return host, f.out("cuMemHostGetDevicePointer_v2", host, 0)
}

// word reads host memory that is not Go's.
func (f *fake) word(address uintptr) uint64 {
	f.t.Helper()
	m := fakert.Bytes(8)
	fakert.Control(f.t, "libc.so.6").Raw("memcpy", m.Addr(), address, 8)
	return m.Uint64(0)
}

func (f *fake) fill(address uintptr, value byte, n uintptr) {
	f.t.Helper()
	fakert.Control(f.t, "libc.so.6").Raw("memset", address, uintptr(value), n)
}

func (f *fake) kernel(name string) (module, kernel uintptr) {
	f.t.Helper()
	image, symbol := fakert.Text(program), fakert.Text(name)
	module = f.out("cuModuleLoadData", image.Addr())
	kernel = f.out("cuModuleGetFunction", module, symbol.Addr())
	runtime.KeepAlive(image)
	runtime.KeepAlive(symbol)
	return module, kernel
}

func (f *fake) launch(kernel, stream uintptr, ns, out uint64) int32 {
	f.t.Helper()
	values := [2]fakert.Memory{fakert.Bytes(8), fakert.Bytes(8)}
	params := fakert.Bytes(16)
	for i, v := range []uint64{ns, out} {
		put(values[i], 0, v)
		put(params, i, uint64(values[i].Addr()))
	}
	code := f.Call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, params.Addr(), 0)
	runtime.KeepAlive(values)
	runtime.KeepAlive(params)
	return code
}

func put(m fakert.Memory, i int, v uint64) {
	for b := range 8 {
		m[8*i+b] = byte(v >> (8 * b))
	}
}

func TestSpinKernelWritesItsReadings(t *testing.T) {
	f := open(t)
	f.manual()
	host, device := f.pinned(64)
	module, kernel := f.kernel("devevents_spin")
	f.fill(host, 0, 64)
	s := f.stream()
	a := f.recorded(s)
	require.Zero(t, f.launch(kernel, s, 10_016, uint64(device)+16))
	b := f.recorded(s)
	require.Zero(t, f.word(host+24))
	f.Set("advance_ns", 20_000)
	f.ok("EventQuery", b)
	require.EqualValues(t, 1<<40, f.word(host+16))
	require.EqualValues(t, 10_016, f.word(host+24)-f.word(host+16))
	require.InDelta(t, 0.010016, f.ms(a, b), 1e-6)

	m := fakert.Bytes(8)
	for text, want := range map[string]int32{"absent": 500, "": 500} {
		name := fakert.Text(text)
		require.Equal(t, want, f.Call("cuModuleGetFunction", m.Addr(), module, name.Addr()))
	}
	junk := fakert.Text("no program")
	require.EqualValues(t, 218, f.Call("cuModuleLoadData", m.Addr(), junk.Addr()))
	require.EqualValues(t, 0, f.Call("cuModuleUnload", module))
	f.Set("abort_on_bad_handle", 0)
	require.EqualValues(t, 400, f.launch(kernel, s, 1, uint64(device)))
	f.get(0, "live_modules")
}

func TestReadingsAppearWithoutAPoll(t *testing.T) {
	f := open(t)
	host, device := f.pinned(16)
	_, kernel := f.kernel("devevents_spin")
	f.fill(host, 0, 16)
	require.Zero(t, f.launch(kernel, f.stream(), 1000, uint64(device)))
	require.Eventually(t, func() bool { return f.word(host+8) != 0 }, 5*time.Second, time.Millisecond)
	require.WithinDuration(t, time.Now(), time.Unix(0, int64(f.word(host))), time.Minute, "the device's timer reads as Unix time")
}

func TestHostAddressIsNoDeviceAddress(t *testing.T) {
	f := open(t)
	host, device := f.pinned(64)
	require.NotEqual(t, host, device)
	_, kernel := f.kernel("devevents_spin")
	s := f.stream()
	require.EqualValues(t, 1, f.Call("cuStreamWaitValue32_v2", s, host, 1, 0))
	require.EqualValues(t, 0, f.launch(kernel, s, 1, uint64(host)), "a fault shows at the next call")
	f.is(700, "StreamSynchronize", s)
}

func TestGateHoldsAStreamUntilTheHostWrites(t *testing.T) {
	for _, manual := range []bool{false, true} {
		f := open(t)
		if manual {
			f.manual()
		}
		host, device := f.pinned(64)
		f.fill(host, 0, 64)
		s := f.stream()
		require.EqualValues(t, 0, f.Call("cuStreamWaitValue32_v2", s, device+4, 1, 0))
		e := f.recorded(s)
		require.EqualValues(t, 0, f.Call("cuStreamWriteValue32_v2", s, device+32, 7, 0))
		f.is(600, "EventQuery", e)
		f.fill(host+4, 1, 1)
		f.ok("EventSynchronize", e)
		f.ok("StreamSynchronize", s)
		require.EqualValues(t, 7, f.word(host+32))
	}
}

func TestGateOpensWithoutAPoll(t *testing.T) {
	f := open(t)
	host, device := f.pinned(64)
	f.fill(host, 0, 64)
	s := f.stream()
	require.EqualValues(t, 0, f.Call("cuStreamWaitValue32_v2", s, device, 1, 0))
	require.EqualValues(t, 0, f.Call("cuStreamWriteValue32_v2", s, device+32, 7, 0))
	f.fill(host, 1, 1)
	require.Eventually(t, func() bool { return f.word(host+32) == 7 }, 5*time.Second, time.Millisecond)
}

func TestMemsetAndCopyAreWorkOnTheStream(t *testing.T) {
	f := open(t)
	f.manual()
	host, device := f.pinned(64)
	mem := f.out("cuMemAlloc_v2", 1<<30)
	s := f.stream()
	a := f.recorded(s)
	require.EqualValues(t, 0, f.Call("cuMemsetD8Async", mem, 0x5a, 64, s))
	require.EqualValues(t, 0, f.Call("cuMemcpyDtoDAsync_v2", device, mem, 64, s))
	require.EqualValues(t, 0, f.Call("cuMemsetD8Async", mem, 0, 1<<30, s)) // 1 GiB is only pretended
	b := f.recorded(s)
	f.is(600, "EventQuery", b)
	f.Set("advance_ns", 1_000_000)
	f.ok("EventQuery", b)
	require.Equal(t, byte(0x5a), byte(f.word(host)))
	require.InDelta(t, 0.24, f.ms(a, b), 0.01)
	require.EqualValues(t, 0, f.Call("cuMemFree_v2", mem))
	require.EqualValues(t, 1, f.Call("cuMemFree_v2", mem))
	require.EqualValues(t, 1, f.Call("cuMemFreeHost", device))
	require.EqualValues(t, 0, f.Call("cuMemFreeHost", host))
	f.get(0, "live_allocations")
	require.EqualValues(t, 1, f.Call("cuMemAlloc_v2", fakert.Bytes(8).Addr(), 0))
	require.EqualValues(t, 2, f.Call("cuMemAlloc_v2", fakert.Bytes(8).Addr(), 1<<40))
	require.EqualValues(t, 0, f.Call("cuMemsetD8Async", mem, 0, 64, s))
	f.is(700, "StreamQuery", s)
}

func TestFreeWaitsForTheDevice(t *testing.T) {
	f := open(t)
	f.event()
	mem, s := f.out("cuMemAlloc_v2", 64), f.stream()
	f.Hold(s)
	freed := make(chan int32, 1)
	go func() { freed <- f.Call("cuMemFree_v2", mem) }()
	select {
	case code := <-freed:
		t.Fatalf("free beside pending work returned %d", code)
	case <-time.After(20 * time.Millisecond):
	}
	f.Release(s)
	require.Zero(t, <-freed)
}

func TestHIPWorksUnderItsOwnNames(t *testing.T) {
	f := with(t, "hip")
	host := f.out("hipHostMalloc", 64, 2)
	device, mem, s := f.out("hipHostGetDevicePointer", host, 0), f.out("hipMalloc", 64), f.stream()
	f.ok("MemsetAsync", mem, 3, 64, s)
	f.ok("MemcpyDtoDAsync", device, mem, 64, s)
	f.ok("StreamWriteValue32", s, device+8, 9, 0)
	f.ok("StreamWaitValue32", s, device+8, 9, 0, 0xffffffff)
	f.ok("StreamSynchronize", s)
	require.Equal(t, byte(3), byte(f.word(host)))
	require.Equal(t, byte(9), byte(f.word(host+8)))
	f.ok("Free", mem)
	f.ok("HostFree", host)
	require.Zero(t, f.Symbol("cuInit"))
	require.Zero(t, f.Symbol("cudaEventCreate"))
}

// ---- building ----

func TestThirdVendorHasTheRuntimesFunctions(t *testing.T) {
	f := with(t, "musa")
	e := f.recorded(f.stream())
	f.ok("EventQuery", e)
	host := f.out("musaHostAlloc", 64, 2)
	mem := f.out("musaMalloc", 64)
	f.ok("MemsetAsync", f.out("musaHostGetDevicePointer", host, 0), 4, 64, 0)
	f.ok("MemsetAsync", mem, 4, 64, 0)
	f.ok("DeviceSynchronize")
	require.Equal(t, byte(4), byte(f.word(host)))
	f.ok("FreeHost", host)
	f.ok("Free", mem)
	name, _ := f.text("musaGetErrorName", 600)
	require.Equal(t, "musaErrorNotReady", name)
	require.Zero(t, f.Symbol("cuInit"))
}

func TestOmittedSymbolsAreNotThere(t *testing.T) {
	f := open(t, fakert.Omit("cudaEventRecordWithFlags", "cuInit"))
	require.Zero(t, f.Symbol("cudaEventRecordWithFlags"))
	require.Zero(t, f.Symbol("cuInit"))
	require.NotZero(t, f.Symbol("cuEventRecordWithFlags"))
	f.recorded(0)
}

func TestHalvesOfTheCUDALibrary(t *testing.T) {
	f := open(t, fakert.RuntimeOnly())
	require.Zero(t, f.Symbol("cuInit"))
	f.recorded(0)
	path := fakert.Build(t, fakert.DriverOnly())
	require.Equal(t, "libcuda.so.1", filepath.Base(path))
	driver := fakert.Control(t, path)
	require.Zero(t, driver.Symbol("cudaEventCreate"))
	require.Zero(t, driver.Call("cuInit", 0))
}

// The suffixed twin must never be called: its answer gives it away.
func TestElapsedV2ExistsOnRequestOnly(t *testing.T) {
	require.Zero(t, open(t).Symbol("cudaEventElapsedTime_v2"))
	f := open(t, fakert.ElapsedV2())
	e, m := f.recorded(0), fakert.Bytes(8)
	require.Zero(t, f.ms(e, e))
	for _, name := range []string{"cudaEventElapsedTime_v2", "cuEventElapsedTime_v2"} {
		require.Zero(t, f.Call(name, m.Addr(), e, e))
		require.Equal(t, math.Float32bits(7000), uint32(m.Int32(0)))
	}
}

func TestEachBuildHasItsOwnState(t *testing.T) {
	path := fakert.Build(t)
	require.Equal(t, "libcudart.so.13", filepath.Base(path))
	a, b := fakert.Control(t, path), fakert.Control(t, path)
	a.Set("runtime_version", 12080)
	require.EqualValues(t, 12080, b.Get("runtime_version"))
	require.EqualValues(t, 13000, fakert.Control(t, fakert.Build(t)).Get("runtime_version"))
	require.Equal(t, "libother.so", filepath.Base(fakert.Build(t, fakert.Name("libother.so"), fakert.Vendor("hip"))))
}

// verdict is what a test's framework was told.
type verdict struct {
	testing.TB
	said string
}

func (v *verdict) Helper()                        {}
func (v *verdict) Skipf(format string, _ ...any)  { v.said = "skip: " + format; runtime.Goexit() }
func (v *verdict) Fatalf(format string, _ ...any) { v.said = "fail: " + format; runtime.Goexit() }

func TestWithoutACompilerTheTestSkipsOrFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct{ ci, require, want string }{{"", "", "skip"}, {"true", "", "fail"}, {"", "1", "fail"}} {
		t.Setenv("CI", c.ci)
		t.Setenv("DEVEVENTS_REQUIRE_CC", c.require)
		v := &verdict{TB: t}
		elsewhere(func() { fakert.Build(v) })
		require.Equal(t, c.want, v.said[:4])
	}
}

// Control of a library that is not ours.
func TestCallsReachAnyLibrary(t *testing.T) {
	libc := fakert.Control(t, "libc.so.6")
	require.EqualValues(t, os.Getpid(), libc.Call("getpid"))
	require.Zero(t, libc.Symbol("fake_get"))
}

func TestUnknownKeysFailTheTest(t *testing.T) {
	path := fakert.Build(t)
	for _, use := range []func(r *fakert.Runtime){
		func(r *fakert.Runtime) { r.Get("no_such_key") },
		func(r *fakert.Runtime) { r.Set("no_such_key", 1) },
		func(r *fakert.Runtime) { r.Get("calls_NoSuchFunction") },
		func(r *fakert.Runtime) { r.Set("fail_NoSuchFunction", 1) },
		func(r *fakert.Runtime) { r.Set("device_count", 99) },
		func(r *fakert.Runtime) { r.Call("noSuchFunction") },
	} {
		v := &verdict{TB: t}
		elsewhere(func() { use(fakert.Control(v, path)) })
		require.Equal(t, "fail", v.said[:4])
	}
}

//go:embed doc.go
var doc string

//go:embed testdata/fake_runtime.c
var source string

// Every key that the fake knows is in the package's documentation.
func TestKeysAreDocumented(t *testing.T) {
	var keys []string
	_, list, found := strings.Cut(source, "#define S(x)")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "#undef S")
	for _, part := range strings.Split(list, "S(")[1:] {
		key, _, _ := strings.Cut(part, ")")
		keys = append(keys, key)
	}
	require.Greater(t, len(keys), 20)
	for _, part := range strings.Split(source, `strcmp(key, "`)[1:] {
		key, _, _ := strings.Cut(part, `"`)
		keys = append(keys, key)
	}
	for _, part := range strings.Split(source, "#ifdef ")[1:] {
		flag, _, _ := strings.Cut(part, "\n")
		keys = append(keys, strings.Fields(flag)[0])
	}
	keys = append(keys, "ctx_init_", "ctx_active_", "ctx_retained_", "calls_", "fail_", "fail_count_", "fail_nth_", "slow_us_", "block_", "blocked_")
	for _, key := range keys {
		require.Contains(t, doc, key)
	}
}

// ---- many threads ----

func TestHammerManyThreads(t *testing.T) {
	f := open(t)
	f.Set("reuse_handles", 1)
	shared := f.stream()
	f.event() // device 0's context
	var threads sync.WaitGroup
	for range 6 {
		threads.Go(func() {
			runtime.LockOSThread()
			own := f.stream()
			for i := range 300 {
				a := f.recorded(own)
				f.Work(own, int64(i%7)*1000)
				if i%5 == 0 {
					f.Work(shared, 500)
				}
				b := f.event()
				f.ok("EventRecord", b, shared)
				f.ok("StreamWaitEvent", own, b, 0)
				c := f.recorded(own)
				f.ok("EventSynchronize", c)
				f.ok("EventSynchronize", b)
				if ms := f.ms(a, c); ms < 0 {
					t.Errorf("a stream went back by %v ms", ms)
				}
				f.ok("EventDestroy", a)
				f.ok("EventDestroy", b)
				f.ok("EventDestroy", c)
			}
			f.ok("StreamDestroy", own)
		})
	}
	threads.Wait()
	f.ok("DeviceSynchronize")
	f.get(1, "live_events")
	f.get(1, "live_streams")
	f.get(0, "queued")
	f.get(0, "bad_handles")
}
