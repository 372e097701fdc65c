package opencl

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
	"example.com/devevents/internal/alone"
)

// What a user sees is one sentence, and it must not send him after the wrong
// thing: a loader without a driver is not a missing loader.
func TestMissingPlatformsAndDevicesAreToldApart(t *testing.T) {
	old := func(p *platform) { p.version = "OpenCL 1.1 old" }
	for name, c := range map[string]struct {
		change func(f *driver)
		cause  events.Cause
		code   int32
		says   []string
	}{
		"no platform, by code": {func(f *driver) { f.platformsCode = clapi.PlatformNotFound }, events.CauseDriverMissing, clapi.PlatformNotFound,
			[]string{"CL_PLATFORM_NOT_FOUND_KHR (-1001)", "/etc/OpenCL/vendors", "pocl-opencl-icd"}},
		"no platform, by an empty list": {func(f *driver) { f.platforms = nil }, events.CauseDriverMissing, 0,
			[]string{"finds no platform"}},
		"platforms refused": {func(f *driver) { f.platformsCode = -6 }, events.CauseDriverError, -6, []string{"CL_OUT_OF_HOST_MEMORY (-6)"}},
		"no device": {func(f *driver) { f.platforms[0].devices, f.platforms[0].code = nil, clapi.DeviceNotFound }, events.CauseNoDevice, clapi.DeviceNotFound,
			[]string{"CL_DEVICE_NOT_FOUND (-1)", "Imitation"}},
		"devices refused": {func(f *driver) { f.platforms[0].devices, f.platforms[0].code = nil, -6 }, events.CauseDriverError, -6,
			[]string{"CL_OUT_OF_HOST_MEMORY (-6)", "Imitation"}},
		"devices refused by one of several": {func(f *driver) {
			f.platforms[0].devices, f.platforms[0].code = nil, clapi.DeviceNotFound
			f.platforms = append(f.platforms, platform{name: "Broken", version: "OpenCL 3.0 x", code: -2}, platform{name: "Empty", version: "OpenCL 3.0 x"})
		}, events.CauseDriverError, -2, []string{"CL_DEVICE_NOT_AVAILABLE (-2)", "Broken: it lists no devices: CL_DEVICE_NOT_AVAILABLE (-2)"}},
		"no device that is available": {func(f *driver) {
			f.platforms[0].devices = f.platforms[0].devices[:1]
			f.platforms[0].devices[0].unavailable = true
		}, events.CauseNoDevice, 0, []string{"tried first: it says that it is not available"}},
		"platform too old": {func(f *driver) { old(&f.platforms[0]) }, events.CauseDriverMissing, 0,
			[]string{`its version is "OpenCL 1.1 old", and 1.2 is needed`, "newer driver"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newDriver()
			c.change(f)
			_, u := enumerate(f)
			require.NotNil(t, u)
			require.ErrorIs(t, u, events.ErrUnavailable)
			require.Equal(t, c.cause, u.Cause)
			require.Equal(t, c.code, u.Code)
			require.NotEmpty(t, u.Advice)
			require.Equal(t, "imitation", u.Path)
			for _, says := range c.says {
				require.Contains(t, u.Error(), says)
			}
			if c.code == 0 {
				require.NotRegexp(t, `\(-\d+\)`, u.Error(), "a code that nobody returned")
			}
		})
	}
}

func TestMissingLoaderIsNoMissingPlatform(t *testing.T) {
	_, err := Open(WithLibrary(filepath.Join(t.TempDir(), "libOpenCL.so.1")))
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.NotEqual(t, events.CauseDriverMissing, u.Cause)
	require.NotEqual(t, events.CauseNoDevice, u.Cause)
	require.Equal(t, "opencl", u.Backend)
}

func TestEnvironmentNamesTheLibrary(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libOpenCL.so.1")
	t.Setenv(clapi.Env, missing)
	_, err := Open()
	require.ErrorIs(t, err, events.ErrUnavailable)
	if rt, found := opened(); found == nil {
		require.ErrorContains(t, err, missing)
		t.Setenv(clapi.Env, rt.Info().Library)
		_, err := Open()
		require.NoError(t, err)
	}
}

// withEnv runs one test in a process of its own with another environment, which
// the library of a process reads only once, and not from where Go keeps it.
func withEnv(t *testing.T, env ...string) (inside bool) {
	t.Helper()
	if !alone.Inside(t) {
		library(t)
	}
	return alone.Run(t, env...)
}

// A program that ignored Open's error must not crash for it.
func TestRuntimeThatWasNotOpenedHasNoDevices(t *testing.T) {
	for name, rt := range map[string]*Runtime{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, rt.DeviceCount())
			require.Equal(t, Info{Backend: "opencl"}, rt.Info())
			_, byNumber := rt.Device(0)
			_, byQueue := rt.DeviceOf(0x10)
			require.ErrorIs(t, byNumber, events.ErrUnavailable)
			require.ErrorIs(t, byQueue, events.ErrUnavailable)
		})
	}
}

func TestNilOptionIsRefused(t *testing.T) {
	_, err := Open(WithLibrary("libOpenCL.so.1"), nil)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorContains(t, err, "option 1 is nil")
}

func TestInstalledLoaderWithoutDriversSaysSo(t *testing.T) {
	empty := t.TempDir()
	if !withEnv(t, "OCL_ICD_VENDORS="+empty, "OPENCL_VENDOR_PATH="+empty, "OCL_ICD_FILENAMES=") {
		return
	}
	rt, err := Open()
	if err == nil {
		t.Skipf("the loader %s finds its drivers also where nothing that is set here points", rt.Info().Library)
	}
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseDriverMissing, u.Cause)
	require.Contains(t, []int32{0, clapi.PlatformNotFound}, u.Code)
	require.NotEmpty(t, u.Path, "the loader was there")
}

func TestDevicesAreNumberedInAFixedOrder(t *testing.T) {
	cpu := gadget{name: "cpu", version: "OpenCL 1.2 x", kind: clapi.TypeCPU}
	gpu := func(name string) gadget {
		return gadget{name: name, version: "OpenCL 3.0 x", kind: clapi.TypeGPU, extensions: cpuExtensions}
	}
	a := platform{name: "A", version: "OpenCL 3.0 x", devices: []gadget{cpu, gpu("a0"), gpu("a1")}}
	b := platform{name: "B", version: "OpenCL 2.1 x", devices: []gadget{gpu("b0"), {name: "fpga", version: "OpenCL 1.2 x", kind: clapi.TypeAccelerator}}}
	old := platform{name: "Old", version: "OpenCL 1.0 x", devices: []gadget{gpu("old")}}
	for _, order := range [][]platform{{a, b, old}, {old, b, a}} {
		f := newDriver()
		f.platforms = order
		rt, refused := enumerate(f)
		require.Nil(t, refused)
		info := rt.Info()
		var names []string
		for i, d := range info.Devices {
			require.Equal(t, i, d.Ordinal)
			names = append(names, info.Platforms[d.Platform].Name+" "+d.Name+" "+string(d.Kind))
		}
		require.Equal(t, []string{"A a0 gpu", "A a1 gpu", "B b0 gpu", "B fpga accelerator", "A cpu cpu"}, names)
		require.Len(t, info.Platforms, 3)
		require.Len(t, info.Skipped, 1)
		require.Equal(t, "Old", info.Skipped[0].Path)
		require.Equal(t, 5, rt.DeviceCount())
		require.Equal(t, "0001:4e:02.3", info.Devices[0].PCIBusID)
		require.Equal(t, "GPU-30313233-3435-3637-3839-616263646566", info.Devices[0].UUID)
		require.Empty(t, info.Devices[4].UUID)
	}
}

func TestDeviceThatDoesNotExistIsInvalid(t *testing.T) {
	rt := imitated(t).rt
	for _, i := range []int{-1, 2} {
		_, err := rt.Device(i)
		require.ErrorIs(t, err, events.ErrInvalid)
	}
	first, err := rt.Device(0)
	require.NoError(t, err)
	again, err := rt.Device(0)
	require.NoError(t, err)
	require.Equal(t, first, again, "asking twice gives the same device")
}

// A refusal while the device is opened leaves nothing behind.
func TestFailedOpeningLeavesNothing(t *testing.T) {
	for method, code := range map[string]int32{"CreateContext": -2, "CreateQueue": -6, "Marker": -5, "Flush": -5, "CreateBuffer": -4} {
		t.Run(method, func(t *testing.T) {
			f := newDriver()
			f.untimed["Marker"] = true
			f.refuse[method] = code
			b := over(t, f)
			_, err := b.rt.Device(0)
			require.ErrorContains(t, err, codes[code])
			b.balanced(t)
		})
	}
}

func TestDriverWithoutAnyTimesIsRefused(t *testing.T) {
	for _, zero := range []bool{false, true} {
		f := newDriver()
		f.untimed["Marker"], f.untimed["Fill"], f.zeroTimes = true, true, zero
		b := over(t, f)
		_, err := b.rt.Device(0)
		require.ErrorIs(t, err, events.ErrTimingDisabled)
		b.balanced(t)
	}
}

// The function of OpenCL 2.0 is not called where the platform or the device is
// older: the loader has it all the same, and jumps to nowhere.
func TestOldPlatformsGetTheOldCalls(t *testing.T) {
	for name, change := range map[string]func(f *driver){
		"platform": func(f *driver) { f.platforms[0].version = "OpenCL 1.2 x" },
		"device":   func(f *driver) { f.platforms[0].devices[0].version = "OpenCL 1.2 x" },
		"loader":   func(f *driver) { clear(f.optional) },
	} {
		t.Run(name, func(t *testing.T) {
			b := imitated(t, change)
			require.NotZero(t, b.driver.legacyQueues)
			_, offered := events.Ability[events.TimerReader](b.Device)
			require.False(t, offered)
			_, _, err := b.Device.DeviceAndHostTimer()
			require.ErrorIs(t, err, events.ErrUnsupported)
		})
	}
	require.Zero(t, imitated(t).driver.legacyQueues)
}

func TestInfoOfTheInstalledLibrary(t *testing.T) {
	info := library(t).Info()
	require.Equal(t, "opencl", info.Backend)
	require.FileExists(t, info.Library)
	require.NotEmpty(t, info.Platforms[0].Name)
	require.NotEmpty(t, info.Devices[0].Name)
	t.Logf("%+v", info)
}

func TestZeroDeviceIsAnErrorEverywhere(t *testing.T) {
	var d Device
	var e Event
	var s Stream
	_, created := d.EventCreate()
	_, stream := d.StreamCreateNonBlocking()
	_, asked := d.EventQuery(e)
	_, elapsed := d.EventElapsed(e, e)
	_, gate := d.GateClose(s, 1)
	_, noGate := d.GateClose(s, 0)
	_, alloc := d.ScratchAlloc(1)
	_, spin := d.ScratchSpin(1, s)
	_, noSpin := d.ScratchSpin(-1, s)
	_, _, timer := d.DeviceAndHostTimer()
	for _, err := range []error{
		created, stream, asked, elapsed, gate, noGate, alloc, spin, noSpin, timer,
		d.EventRecord(e, s), d.EventWait(e), d.EventDestroy(e), d.StreamWaitEvent(s, e), d.StreamSynchronize(s), d.StreamDestroy(s),
		d.ScratchFree(events.Buffer{}), d.ScratchMemset(events.Buffer{}, 0, 1, s), d.ScratchCopy(events.Buffer{}, events.Buffer{}, 1, s),
	} {
		require.ErrorIs(t, err, events.ErrUnavailable)
	}
	require.NoError(t, d.Close())
	require.False(t, d.Offers((*events.Querier[Event])(nil)))
	require.Equal(t, "opencl", d.Backend())
	require.Equal(t, "no device", d.String())
	require.Equal(t, -1, d.Identity().Ordinal)
	require.Zero(t, d.EventStats())
	require.Zero(t, d.Handle())
	require.Zero(t, d.Context())
	require.Empty(t, d.Library())
	require.False(t, d.StampsByFill())
	require.ErrorIs(t, d.StreamSynchronize(d.WrapStream(1)), events.ErrUnavailable)
}
