package cfamily_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/fakert"
)

func openHIP(t *testing.T, devices int) (*hip.Runtime, hip.Device, *fakert.Runtime) {
	t.Helper()
	path := fakert.Build(t, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
	ctl := fakert.Control(t, path)
	ctl.Set("device_count", int64(devices))
	rt, err := hip.Open(hip.WithLibrary(path))
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	return rt, dev, ctl
}

// On HIP a span to a captured event reads the stamp from before, so that the answer
// may be that the other event is pending. Finding out which must not ask the
// captured one. ROCm/hip#3876, pytorch/pytorch#148594
func TestElapsedBesideACapturedEventLeavesTheCaptureAlone(t *testing.T) {
	_, dev, ctl := openHIP(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	held, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	captured, err := dev.EventCreate()
	require.NoError(t, err)
	pending, err := dev.EventCreate()
	require.NoError(t, err)
	require.NoError(t, dev.EventRecord(captured, s))
	require.NoError(t, dev.EventWait(captured))
	ctl.Hold(held.Handle())
	require.NoError(t, dev.EventRecord(pending, held))

	require.NoError(t, dev.CaptureBegin(s, events.CaptureGlobal))
	require.NoError(t, dev.EventRecord(captured, s))
	_, err = dev.EventElapsed(pending, captured)
	require.ErrorIs(t, err, events.ErrNotReady)
	require.ErrorContains(t, err, "start event pending")
	_, err = dev.EventElapsed(captured, pending)
	require.ErrorContains(t, err, "end event pending")
	require.Zero(t, ctl.Get("invalidated_captures"))
	graph, err := dev.CaptureEnd(s)
	require.NoError(t, err)
	require.NoError(t, graph.Close())
	ctl.Release(held.Handle())
}

// Where there are no contexts the device itself is switched, and switched back.
// openucx/ucx#9581, gorgonia/cu#14
func TestVendorWithoutContextsSwitchesTheDeviceAndBack(t *testing.T) {
	rt, dev, ctl := openHIP(t, 3)
	one, err := rt.Device(1)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, d := range []hip.Device{dev, one} {
		for range 4 {
			wg.Go(func() {
				for range 50 {
					if err := hipWindow(d); err != nil {
						t.Error(err) // 400 where an event was made on the wrong device
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, []int64{1, 1, 0}, []int64{ctl.Get("ctx_init_0"), ctl.Get("ctx_init_1"), ctl.Get("ctx_init_2")})
	for range 20 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if got := ctl.Get("current_device"); got != 0 {
				t.Errorf("a thread was left with device %d", got)
			}
		})
	}
	wg.Wait()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.Zero(t, ctl.Call("hipSetDevice", 2))
	require.NoError(t, hipWindow(dev))
	round, err := one.RoundBegin()
	require.NoError(t, err)
	require.Equal(t, int64(1), ctl.Get("current_device"))
	require.NoError(t, one.RoundEnd(round))
	require.Equal(t, int64(2), ctl.Get("current_device"))
	require.Zero(t, ctl.Get("live_events"))

	ctl.Set("fail_hipSetDevice", 101)
	_, err = one.RoundBegin()
	require.ErrorContains(t, err, "hipSetDevice: hipErrorInvalidDevice (101)")
	ctl.Set("fail_hipSetDevice", 0)
}

func hipWindow(dev hip.Device) error {
	s, err := dev.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	e, err := dev.EventCreate()
	if err != nil {
		return err
	}
	for _, call := range []func() error{
		func() error { return dev.EventRecord(e, s) },
		func() error { runtime.Gosched(); return dev.EventWait(e) },
		func() error { _, err := dev.EventQuery(e); return err },
		func() error { return dev.EventDestroy(e) },
		func() error { return dev.StreamDestroy(s) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// With several devices and no way to switch between them every call would go to
// whichever the thread has, so that is refused at Open.
func TestDevicesThatCannotBeSwitchedAreRefused(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-musa.so"), fakert.Vendor("musa"))
	ctl := fakert.Control(t, path)
	ctl.Set("device_count", 2)
	table := musaTable()
	delete(table.Symbols, cfamily.OpSetDevice)
	_, err := cfamily.Open[musa](table, nil, []cfamily.Option{cfamily.WithLibrary(path)})
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Equal(t, events.CauseSymbolMissing, u.Cause)
	require.Contains(t, u.Detail, "2 devices are visible")
	require.Contains(t, u.Detail, "one that the table does not name")
	require.Equal(t, "make one device visible", u.Advice)
	ctl.Set("device_count", 1)
	rt, err := cfamily.Open[musa](table, nil, []cfamily.Option{cfamily.WithLibrary(path)})
	require.NoError(t, err, "one needs no switching")
	require.Equal(t, 1, rt.DeviceCount())
	_, err = cfamily.Open[musa](table, nil, []cfamily.Option{cfamily.WithLibrary(path), cfamily.WithDriverAPI(true)})
	require.ErrorIs(t, err, events.ErrUnsupported, "there is no driver library to speak to")
}

// The version that an error tells is that of the library that it speaks of.
func TestLibraryWithoutAVersionHasNone(t *testing.T) {
	path := fakert.Build(t, fakert.Name("fake-musa.so"), fakert.Vendor("musa"))
	table := musaTable()
	table.Symbols[cfamily.OpRuntimeVersion] = cfamily.Symbol{Name: "musaNoSuchVersion"}
	_, err := cfamily.Open[musa](table, nil, []cfamily.Option{cfamily.WithLibrary(path)})
	var u *events.UnavailableError
	require.ErrorAs(t, err, &u)
	require.Zero(t, u.Version)
	require.ErrorContains(t, err, "version unknown")
	require.ErrorContains(t, err, "musaNoSuchVersion")
}
