package hip_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/hip"
	"example.com/devevents/events/internal/fakert"
)

// fakeBackend is the suite's view of imitations of the library, of which each rule
// gets one of its own. opened is called for each; nil: nobody else uses it.
func fakeBackend(devices int, opened func(tb testing.TB, path string)) eventstest.Backend[hip.Event, hip.Stream] {
	controls := map[string]*fakert.Runtime{}
	var rt *hip.Runtime
	device := func(tb testing.TB, i int) hip.Device {
		dev, err := rt.Device(i)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
		return dev
	}
	fresh := func(tb testing.TB) hip.Device {
		path := fakert.Build(tb, fakert.Name("fake-hip.so"), fakert.Vendor("hip"))
		ctl := fakert.Control(tb, path)
		ctl.Set("device_count", int64(devices))
		var err error
		rt, err = hip.Open(hip.WithLibrary(path))
		require.NoError(tb, err)
		dev := device(tb, 0)
		controls[dev.Library()] = ctl
		if opened != nil {
			opened(tb, path)
		}
		return dev
	}
	second := func(tb testing.TB) events.EventApi[hip.Event, hip.Stream] { return device(tb, 1) }
	if devices == 1 {
		second = nil
	}
	control := func(api events.EventApi[hip.Event, hip.Stream]) *fakert.Runtime {
		return controls[api.(hip.Device).Library()]
	}
	return eventstest.Backend[hip.Event, hip.Stream]{
		Open:   func(tb testing.TB) events.EventApi[hip.Event, hip.Stream] { return fresh(tb) },
		Second: second,
		Work: func(api events.EventApi[hip.Event, hip.Stream], s hip.Stream, d time.Duration) error {
			control(api).Work(s.Handle(), d.Nanoseconds())
			return nil
		},
		FailRecord: func(api events.EventApi[hip.Event, hip.Stream]) func() {
			control(api).Set("fail_EventRecord", 400)
			return func() { control(api).Set("fail_EventRecord", 0) }
		},
		FakeMilliseconds: func(api events.EventApi[hip.Event, hip.Stream], ms float32) func() {
			control(api).SetFloat("elapsed_bits", ms)
			return func() { control(api).Set("elapsed_bits", -1) }
		},
		LoseDevice: func(api events.EventApi[hip.Event, hip.Stream]) { control(api).Set("sticky_code", 700) },
	}
}

// The whole contract on an imitation of the runtime.
func TestConformanceOnTheFake(t *testing.T) {
	for devices := range 2 {
		t.Run(fmt.Sprintf("devices=%d", devices+1), func(t *testing.T) { eventstest.Run(t, fakeBackend(devices+1, nil)) })
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
		return i.records.Load() && driver.Op == "hipEventRecord" && driver.Code == 400
	}
	return false
}

// The whole contract while another opening of the same library is in use from many
// goroutines, and never an error there that the suite has not asked for.
func TestConformanceBesideAStorm(t *testing.T) {
	var asked *injected // of the library in use
	b := fakeBackend(2, func(tb testing.TB, path string) {
		now := &injected{}
		asked = now
		rt, err := hip.Open(hip.WithLibrary(path))
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
	b.FailRecord = func(api events.EventApi[hip.Event, hip.Stream]) func() {
		asked.records.Store(true)
		return fail(api)
	}
	b.FakeMilliseconds = func(api events.EventApi[hip.Event, hip.Stream], ms float32) func() {
		asked.readings.Store(true)
		return fake(api, ms)
	}
	b.LoseDevice = func(api events.EventApi[hip.Event, hip.Stream]) {
		asked.fault.Store(true)
		lose(api)
	}
	eventstest.Run(t, b)
}
