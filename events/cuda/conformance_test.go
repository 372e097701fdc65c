package cuda_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/gputest"
)

// fakeBackend is the suite's view of imitations of the library, of which each rule
// gets one of its own. opened is called for each; nil: nobody else uses it.
func fakeBackend(driver bool, devices int, opened func(tb testing.TB, path string)) eventstest.Backend[cuda.Event, cuda.Stream] {
	controls := map[string]*fakert.Runtime{}
	var rt *cuda.Runtime
	device := func(tb testing.TB, i int) cuda.Device {
		dev, err := rt.Device(i)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
		return dev
	}
	fresh := func(tb testing.TB) cuda.Device {
		path := fakert.Build(tb, fakert.Name("fake-cudart.so"))
		ctl := fakert.Control(tb, path)
		ctl.Set("device_count", int64(devices))
		var err error
		rt, err = cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(driver))
		require.NoError(tb, err)
		dev := device(tb, 0)
		controls[dev.Library()] = ctl
		if opened != nil {
			opened(tb, path)
		}
		return dev
	}
	second := func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return device(tb, 1) }
	if devices == 1 {
		second = nil
	}
	control := func(api events.EventApi[cuda.Event, cuda.Stream]) *fakert.Runtime {
		return controls[api.(cuda.Device).Library()]
	}
	return eventstest.Backend[cuda.Event, cuda.Stream]{
		Open:   func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return fresh(tb) },
		Second: second,
		FailRecord: func(api events.EventApi[cuda.Event, cuda.Stream]) func() {
			control(api).Set("fail_EventRecord", 400)
			return func() { control(api).Set("fail_EventRecord", 0) }
		},
		FakeMilliseconds: func(api events.EventApi[cuda.Event, cuda.Stream], ms float32) func() {
			control(api).SetFloat("elapsed_bits", ms)
			return func() { control(api).Set("elapsed_bits", -1) }
		},
		LoseDevice: func(api events.EventApi[cuda.Event, cuda.Stream]) { control(api).Set("sticky_code", 700) },
	}
}

// The whole contract on an imitation of the runtime, through the runtime's
// functions and through the driver's.
func TestConformanceOnTheFake(t *testing.T) {
	for _, c := range []struct {
		name    string
		driver  bool
		devices int
	}{
		{"api=runtime/devices=1", false, 1},
		{"api=runtime/devices=2", false, 2},
		{"api=driver/devices=1", true, 1},
		{"api=driver/devices=2", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) { eventstest.Run(t, fakeBackend(c.driver, c.devices, nil)) })
	}
}

// injected is what the suite has made the library do, which then also happens to
// whoever else uses that library.
type injected struct{ records, readings, fault atomic.Bool }

func (i *injected) explains(err error) bool {
	var driver *events.DriverError
	switch {
	case errors.Is(err, events.ErrDeviceFault):
		return i.fault.Load()
	case errors.Is(err, events.ErrBadReading):
		return i.readings.Load()
	case errors.As(err, &driver):
		return i.records.Load() && driver.Op == "cudaEventRecord" && driver.Code == 400
	}
	return false
}

// The whole contract while another opening of the same library is in use from many
// goroutines, and never an error there that the suite has not asked for. The rules
// about captures show that nothing of ours kills one, from whatever thread.
func TestConformanceBesideAStorm(t *testing.T) {
	var asked *injected // of the library in use
	b := fakeBackend(false, 2, func(tb testing.TB, path string) {
		now := &injected{}
		asked = now
		rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
		require.NoError(tb, err)
		dev, err := rt.Device(0)
		require.NoError(tb, err)
		stop := eventstest.Storm(dev, 16, 50*time.Microsecond, now.explains)
		tb.Cleanup(func() {
			require.NoError(tb, stop())
			require.Zero(tb, dev.EventStats().LiveEvents)
			require.Zero(tb, dev.EventStats().LiveStreams)
		})
	})
	fail, fake, lose := b.FailRecord, b.FakeMilliseconds, b.LoseDevice
	b.FailRecord = func(api events.EventApi[cuda.Event, cuda.Stream]) func() {
		asked.records.Store(true)
		return fail(api)
	}
	b.FakeMilliseconds = func(api events.EventApi[cuda.Event, cuda.Stream], ms float32) func() {
		asked.readings.Store(true)
		return fake(api, ms)
	}
	b.LoseDevice = func(api events.EventApi[cuda.Event, cuda.Stream]) {
		asked.fault.Store(true)
		lose(api)
	}
	// The host may be kept from a core for some ms between two calls of the suite,
	// with the device idle and the first event reached.
	b.Overhead = 20 * time.Millisecond
	eventstest.Run(t, b)
}

// The whole contract on a real device, through the runtime and through the driver
// library alone.
func TestGPUConformance(t *testing.T) {
	gputest.Device(t)
	for name, pair := range map[string][2]func(testing.TB) cuda.Device{
		"api=runtime": {gputest.Device, gputest.DriverDevice},
		"api=driver":  {gputest.DriverDevice, gputest.Device},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Run(t, eventstest.Backend[cuda.Event, cuda.Stream]{
				Open:     func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return pair[0](tb) },
				Second:   func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return pair[1](tb) },
				Overhead: 200 * time.Microsecond,
				Skip:     map[string]string{"identity-distinct": "the second is the same device through the other library"},
			})
		})
	}
}

// The same beside 32 goroutines that use another opening of the library without a
// pause. No error is expected there: the suite makes nothing fail.
func TestGPUConformanceBesideAStorm(t *testing.T) {
	gputest.Device(t)
	rt, err := cuda.Open()
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	stop := eventstest.Storm(dev, 32, 0, nil)
	t.Cleanup(func() {
		require.NoError(t, stop())
		require.Zero(t, dev.EventStats().LiveEvents)
		require.Zero(t, dev.EventStats().LiveStreams)
	})
	eventstest.Run(t, eventstest.Backend[cuda.Event, cuda.Stream]{
		Open:   func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return gputest.Device(tb) },
		Second: func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return gputest.DriverDevice(tb) },
		// A call waits for the driver's locks behind 32 others, and a record on the
		// device for its turn to be stamped among 64, at 1.3 us each.
		Overhead: 5 * time.Millisecond,
		Skip:     map[string]string{"identity-distinct": "the second is the same device through the other library"},
	})
}
