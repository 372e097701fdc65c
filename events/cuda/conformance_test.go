package cuda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/gputest"
)

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
		t.Run(c.name, func(t *testing.T) {
			controls := map[string]*fakert.Runtime{}
			var opened *cuda.Runtime
			device := func(tb testing.TB, i int) cuda.Device {
				dev, err := opened.Device(i)
				require.NoError(tb, err)
				tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
				return dev
			}
			fresh := func(tb testing.TB) cuda.Device {
				path := fakert.Build(tb, fakert.Name("fake-cudart.so"))
				ctl := fakert.Control(tb, path)
				ctl.Set("device_count", int64(c.devices))
				var err error
				opened, err = cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(c.driver))
				require.NoError(tb, err)
				dev := device(tb, 0)
				controls[dev.Library()] = ctl
				return dev
			}
			second := func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return device(tb, 1) }
			if c.devices == 1 {
				second = nil
			}
			control := func(api events.EventApi[cuda.Event, cuda.Stream]) *fakert.Runtime {
				return controls[api.(cuda.Device).Library()]
			}
			eventstest.Run(t, eventstest.Backend[cuda.Event, cuda.Stream]{
				Open:   func(tb testing.TB) events.EventApi[cuda.Event, cuda.Stream] { return fresh(tb) },
				Second: second,
				FailRecord: func(api events.EventApi[cuda.Event, cuda.Stream]) func() {
					control(api).Set("fail_EventRecord", 400)
					return func() { control(api).Set("fail_EventRecord", 0) }
				},
				FakeReading: func(api events.EventApi[cuda.Event, cuda.Stream], ms float32) func() {
					control(api).SetFloat("elapsed_bits", ms)
					return func() { control(api).Set("elapsed_bits", -1) }
				},
				LoseDevice: func(api events.EventApi[cuda.Event, cuda.Stream]) { control(api).Set("sticky_code", 700) },
			})
		})
	}
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
