package fakesuite

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/fakert"
)

// Vendor is what the suite must know of a vendor.
type Vendor[V cfamily.Vendor] struct {
	Fake   []fakert.Option                                // how to build the imitation of its library
	Open   func(path string) (*cfamily.Runtime[V], error) // opens it
	NoSpin bool                                           // it has no ScratchSpin, so the imitation queues the work
}

// api is the vendor's devices as the suite sees them.
type api[V cfamily.Vendor] = events.EventApi[cfamily.Event[V], cfamily.Stream[V]]

// Run runs the whole contract with one visible device and with two.
func (v Vendor[V]) Run(t *testing.T) {
	for devices := range 2 {
		t.Run(fmt.Sprintf("devices=%d", devices+1), func(t *testing.T) {
			eventstest.Run(t, v.backend(devices+1, func(testing.TB, string) {}))
		})
	}
}

// RunBesideStorm runs the whole contract while another opening of the same library
// is in use from many goroutines, and never an error there that the suite has not
// asked for. The rules about captures show that nothing of ours kills one, from
// whatever thread.
func (v Vendor[V]) RunBesideStorm(t *testing.T) {
	var asked *injected // of the library in use
	b := v.backend(2, func(tb testing.TB, path string) {
		now := &injected{}
		asked = now
		dev := device(tb, v.opened(tb, path), 0)
		goroutines, pause := 16, 50*time.Microsecond
		if testing.Short() { // with the race detector and few processors the storm would take all of them
			goroutines, pause = 4, 10*pause
		}
		stop := eventstest.Storm(dev, goroutines, pause, now.explains)
		tb.Cleanup(func() {
			if err := stop(); err != nil {
				tb.Error(err)
			}
			if left := dev.EventStats(); left.LiveEvents != 0 || left.LiveStreams != 0 {
				tb.Errorf("the storm left %d events and %d streams", left.LiveEvents, left.LiveStreams)
			}
		})
	})
	fail, fake, lose := b.FailRecord, b.FakeMilliseconds, b.LoseDevice
	b.FailRecord = func(d api[V]) func() {
		asked.records.Store(true)
		return fail(d)
	}
	b.FakeMilliseconds = func(d api[V], ms float32) func() {
		asked.readings.Store(true)
		return fake(d, ms)
	}
	b.LoseDevice = func(d api[V]) {
		asked.fault.Store(true)
		lose(d)
	}
	// The host may be kept from a core for some ms between two calls of the suite,
	// with the device idle and the first event reached.
	b.Overhead = 20 * time.Millisecond
	eventstest.Run(t, b)
}

// backend is the suite's view of imitations of the library, of which each rule gets
// one of its own. opened is called for each.
func (v Vendor[V]) backend(devices int, opened func(tb testing.TB, path string)) eventstest.Backend[cfamily.Event[V], cfamily.Stream[V]] {
	controls := map[string]*fakert.Runtime{}
	var rt *cfamily.Runtime[V]
	control := func(d api[V]) *fakert.Runtime { return controls[d.(cfamily.Device[V]).Library()] }
	b := eventstest.Backend[cfamily.Event[V], cfamily.Stream[V]]{
		Open: func(tb testing.TB) api[V] {
			path := fakert.Build(tb, v.Fake...)
			ctl := fakert.Control(tb, path)
			ctl.Set("device_count", int64(devices))
			rt = v.opened(tb, path)
			dev := device(tb, rt, 0)
			controls[dev.Library()] = ctl
			opened(tb, path)
			return dev
		},
		FailRecord: func(d api[V]) func() {
			control(d).Set("fail_EventRecord", 400)
			return func() { control(d).Set("fail_EventRecord", 0) }
		},
		FakeMilliseconds: func(d api[V], ms float32) func() {
			control(d).SetFloat("elapsed_bits", ms)
			return func() { control(d).Set("elapsed_bits", -1) }
		},
		LoseDevice: func(d api[V]) { control(d).Set("sticky_code", 700) },
	}
	if devices > 1 {
		b.Second = func(tb testing.TB) api[V] { return device(tb, rt, 1) }
	}
	if v.NoSpin {
		b.Work = func(d api[V], s cfamily.Stream[V], length time.Duration) error {
			control(d).Work(s.Handle(), length.Nanoseconds())
			return nil
		}
	}
	return b
}

func (v Vendor[V]) opened(tb testing.TB, path string) *cfamily.Runtime[V] {
	rt, err := v.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	return rt
}

// device is a device that the end of the rule closes.
func device[V cfamily.Vendor](tb testing.TB, rt *cfamily.Runtime[V], i int) cfamily.Device[V] {
	dev, err := rt.Device(i)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.Close(); err != nil {
			tb.Error(err)
		}
	})
	return dev
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
		return i.records.Load() && strings.HasSuffix(driver.Op, "EventRecord") && driver.Code == 400
	}
	return false
}
