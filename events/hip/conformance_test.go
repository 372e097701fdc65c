package hip_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
)

// The whole contract on an imitation of the runtime.
func TestConformanceOnTheFake(t *testing.T) {
	controls := map[string]*fakert.Runtime{}
	var opened *hip.Runtime
	device := func(tb testing.TB, i int) hip.Device {
		dev, err := opened.Device(i)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
		return dev
	}
	fresh := func(tb testing.TB) hip.Device {
		path := fakert.Build(tb, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
		ctl := fakert.Control(tb, path)
		ctl.Set("device_count", 2)
		var err error
		opened, err = hip.Open(hip.WithLibrary(path))
		require.NoError(tb, err)
		dev := device(tb, 0)
		controls[dev.Library()] = ctl
		return dev
	}
	control := func(api events.EventApi[hip.Event, hip.Stream]) *fakert.Runtime {
		return controls[api.(hip.Device).Library()]
	}
	eventstest.Run(t, eventstest.Backend[hip.Event, hip.Stream]{
		Open:   func(tb testing.TB) events.EventApi[hip.Event, hip.Stream] { return fresh(tb) },
		Second: func(tb testing.TB) events.EventApi[hip.Event, hip.Stream] { return device(tb, 1) },
		Work: func(api events.EventApi[hip.Event, hip.Stream], s hip.Stream, d time.Duration) error {
			control(api).Work(s.Handle(), d.Nanoseconds())
			return nil
		},
		FailRecord: func(api events.EventApi[hip.Event, hip.Stream]) func() {
			control(api).Set("fail_EventRecord", 400)
			return func() { control(api).Set("fail_EventRecord", 0) }
		},
		FakeReading: func(api events.EventApi[hip.Event, hip.Stream], ms float32) func() {
			control(api).SetFloat("elapsed_bits", ms)
			return func() { control(api).Set("elapsed_bits", -1) }
		},
		LoseDevice: func(api events.EventApi[hip.Event, hip.Stream]) { control(api).Set("sticky_code", 700) },
	})
}
