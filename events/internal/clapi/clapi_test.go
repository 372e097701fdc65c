package clapi

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// library is the machine's OpenCL, or a skip with the reason; with
// DEVEVENTS_REQUIRE_OPENCL=1 in the environment there has to be one.
func library(t *testing.T) API {
	t.Helper()
	var found API
	err := Open("", func(api API) error {
		if _, code := api.Platforms(); code != Success {
			return &events.UnavailableError{Backend: "opencl", Cause: events.CauseDriverMissing, Code: code}
		}
		found = api
		return nil
	})
	if err == nil {
		return found
	}
	require.ErrorIs(t, err, events.ErrUnavailable)
	if os.Getenv("DEVEVENTS_REQUIRE_OPENCL") == "1" {
		t.Fatalf("DEVEVENTS_REQUIRE_OPENCL is set and there is no OpenCL: %v", err)
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	t.Skip("needs an OpenCL driver: " + reason)
	return nil
}

// fixture is a queue on the first device.
type fixture struct {
	API
	platform Platform
	device   Device
	context  Context
	queue    Queue
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{API: library(t)}
	platforms, code := f.Platforms()
	ok(t, code)
	f.platform = platforms[0]
	devices, code := f.Devices(f.platform)
	ok(t, code)
	f.device = devices[0]
	f.context, code = f.CreateContext(f.device)
	ok(t, code)
	f.queue, code = f.CreateQueue(f.context, f.device, QueueProfiling, false)
	ok(t, code)
	t.Cleanup(func() {
		ok(t, f.ReleaseQueue(f.queue))
		ok(t, f.ReleaseContext(f.context))
	})
	return f
}

func ok(t *testing.T, code int32) {
	t.Helper()
	require.Equal(t, int32(Success), code)
}

// Go grows a stack by moving it, and C would write to where a result was. A fresh
// goroutine has the smallest stack.
func TestResultsSurviveAGrowingStack(t *testing.T) {
	f := newFixture(t)
	e, code := f.Marker(f.queue, false)
	ok(t, code)
	ok(t, f.WaitEvent(e))
	want, code := f.EventTime(e, ProfilingEnd)
	ok(t, code)
	require.NotZero(t, want)
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			got, code := f.EventTime(e, ProfilingEnd)
			status, asked := f.EventStatus(e)
			context, of := f.QueueContext(f.queue)
			if got != want || status != Complete || context != f.context || code != 0 || asked != 0 || of != 0 {
				t.Errorf("got %d (%d), status %d (%d), context %#x (%d)", got, code, status, asked, context, of)
			}
		})
	}
	wg.Wait()
	ok(t, f.ReleaseEvent(e))
}

// Every call once, so that a slip in the order of arguments is seen.
func TestEveryCallReachesItsFunction(t *testing.T) {
	f := newFixture(t)
	require.FileExists(t, f.Path())
	name, code := f.PlatformText(f.platform, PlatformName)
	ok(t, code)
	require.NotEmpty(t, name)
	name, code = f.DeviceText(f.device, DeviceName)
	ok(t, code)
	require.NotEmpty(t, name)
	kind, code := f.DeviceWord(f.device, DeviceType)
	ok(t, code)
	require.NotZero(t, kind)
	require.Equal(t, int32(InvalidValue), f.DeviceBytes(f.device, DeviceType, make([]byte, 4)), "an answer of another length")
	ok(t, f.DeviceBytes(f.device, DeviceType, make([]byte, 8)))
	_, code = f.DeviceText(f.device, 0xFFFF)
	require.Equal(t, int32(InvalidValue), code)

	d, code := f.QueueDevice(f.queue)
	ok(t, code)
	require.Equal(t, f.device, d)
	properties, code := f.QueueProperties(f.queue)
	ok(t, code)
	require.EqualValues(t, QueueProfiling, properties)
	if f.Has(QueueWithProperties) {
		q, code := f.CreateQueue(f.context, f.device, QueueProfiling, true)
		ok(t, code)
		e, code := f.Marker(q, true)
		ok(t, code)
		ok(t, f.WaitEvent(e))
		_, code = f.EventTime(e, ProfilingEnd)
		ok(t, code)
		ok(t, f.ReleaseEvent(e))
		ok(t, f.ReleaseQueue(q))
	}
	require.False(t, f.Has(Optional(99)))
	if f.Has(Timers) {
		device, host, code := f.DeviceAndHostTimer(f.device)
		if code == Success {
			require.NotZero(t, device)
			require.NotZero(t, host)
		} else {
			require.Equal(t, int32(-59), code, "CL_INVALID_OPERATION")
		}
	}

	gate, code := f.CreateUserEvent(f.context)
	ok(t, code)
	ok(t, f.Barrier(f.queue, gate))
	a, code := f.CreateBuffer(f.context, 64)
	ok(t, code)
	b, code := f.CreateBuffer(f.context, 64)
	ok(t, code)
	fill, code := f.Fill(f.queue, a, 7, 64, gate)
	ok(t, code)
	plain, code := f.Fill(f.queue, a, 7, 64, 0)
	ok(t, code)
	ok(t, f.Copy(f.queue, b, a, 64))
	ok(t, f.RetainEvent(fill))
	ok(t, f.Flush(f.queue))
	status, code := f.EventStatus(fill)
	ok(t, code)
	require.Positive(t, status, "it is held back")
	ok(t, f.SetUserEvent(gate, Complete))
	ok(t, f.Finish(f.queue))
	status, code = f.EventStatus(fill)
	ok(t, code)
	require.EqualValues(t, Complete, status)
	start, code := f.EventTime(fill, ProfilingStart)
	ok(t, code)
	end, code := f.EventTime(fill, ProfilingEnd)
	ok(t, code)
	require.LessOrEqual(t, start, end)
	for _, e := range []Event{gate, fill, fill, plain} {
		ok(t, f.ReleaseEvent(e))
	}
	ok(t, f.ReleaseMem(a))
	ok(t, f.ReleaseMem(b))
}

func TestKernelsRun(t *testing.T) {
	f := newFixture(t)
	const source = "__kernel void store(__global ulong *out, ulong a, ulong b) { out[2] = a; out[3] = b; }"
	p, code := f.CreateProgram(f.context, source)
	ok(t, code)
	if code := f.BuildProgram(p, f.device, "-DUNUSED=1"); code != Success {
		ok(t, f.ReleaseProgram(p))
		t.Skipf("needs a compiler for OpenCL C: %d, %s", code, f.BuildLog(p, f.device))
	}
	k, code := f.CreateKernel(p, "store")
	ok(t, code)
	m, code := f.CreateBuffer(f.context, 32)
	ok(t, code)
	ok(t, f.SetArgs(k, m, 5, 1<<63))
	e, code := f.Task(f.queue, k)
	ok(t, code)
	reader, code := f.CreateQueue(f.context, f.device, QueueProfiling, false)
	ok(t, code)
	words := make([]uint64, 2)
	ok(t, f.ReadWords(reader, m, 16, words, []Event{e, e}))
	require.Equal(t, []uint64{5, 1 << 63}, words)
	ok(t, f.ReleaseQueue(reader))
	ok(t, f.ReleaseEvent(e))
	_, code = f.CreateKernel(p, "nothing")
	require.NotEqual(t, int32(Success), code)
	ok(t, f.ReleaseMem(m))
	ok(t, f.ReleaseKernel(k))
	ok(t, f.ReleaseProgram(p))

	bad, code := f.CreateProgram(f.context, "__kernel void broken( {")
	ok(t, code)
	require.NotEqual(t, int32(Success), f.BuildProgram(bad, f.device, ""))
	require.NotEmpty(t, f.BuildLog(bad, f.device))
	ok(t, f.ReleaseProgram(bad))
}

// system is a library that is in every glibc process, and no OpenCL.
func system(t *testing.T, name string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("looks for " + name + " where Linux has it")
	}
	for _, pattern := range []string{"/lib/*/", "/lib64/", "/usr/lib/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[0]
		}
	}
	t.Skip("there is no " + name + " where it usually lies")
	return ""
}

func refusedLibrary(t *testing.T, override string) *events.UnavailableError {
	t.Helper()
	err := Open(override, func(API) error { return errors.New("must not be asked") })
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseSymbolMissing, u.Cause)
	return u
}

// A name from the start and how many more there are is enough to see that a
// library is another one.
func TestLibraryWithoutTheFunctionsSaysWhich(t *testing.T) {
	u := refusedLibrary(t, system(t, "libm.so.6"))
	require.Contains(t, u.Detail, " lacks clGetPlatformIDs, clGetPlatformInfo, clGetDeviceIDs and ")
	require.Equal(t, 3, strings.Count(u.Detail, " cl"), "%s", u.Detail)
	require.NotContains(t, u.Error(), Env, "it has no say beside a path that the program gives")
}

func TestAdviceDoesNotSetWhatIsSet(t *testing.T) {
	loader := library(t).Path()
	t.Setenv(Env, system(t, "libm.so.6"))
	u := refusedLibrary(t, "")
	require.NotContains(t, u.Advice, "or set "+Env)
	require.Contains(t, u.Advice, "unset "+Env)

	t.Setenv(Env, loader)
	err := Open("", func(API) error {
		return &events.UnavailableError{Backend: "opencl", Cause: events.CauseDriverMissing, Advice: "install a driver"}
	})
	require.ErrorAs(t, err, &u)
	require.NotContains(t, u.Advice, "or set "+Env)
	require.Contains(t, u.Advice, "install a driver, or unset "+Env)
}

// A driver's file lies beside the loader's, and has other functions.
func TestDriverIsNoLoader(t *testing.T) {
	u := refusedLibrary(t, system(t, "libpocl.so.2"))
	require.Contains(t, u.Detail, "is a driver")
	require.Contains(t, u.Advice, "name the loader, libOpenCL.so.1")
}

func TestLibrariesAreLookedForByPlatform(t *testing.T) {
	require.Equal(t, []string{"libOpenCL.so.1", "libOpenCL.so"}, fileNames("linux"))
	require.Equal(t, []string{"OpenCL.dll"}, fileNames("windows"))
	require.Contains(t, dirs("linux", "arm64"), "/usr/lib/aarch64-linux-gnu")
	require.Contains(t, dirs("linux", "amd64"), "/opt/rocm/opencl/lib")
	require.NotEmpty(t, dirs("windows", "amd64"))
	require.Empty(t, dirs("darwin", "arm64"))
	seen := map[string]bool{}
	for _, name := range names() {
		require.Regexp(t, "^cl[A-Z]", name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
}
