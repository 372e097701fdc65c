package opencl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/clapi"
)

type api = events.EventApi[Event, Stream]

const (
	integers = "the driver's times are integers, so there is no reading in milliseconds to convert"
	twoOpen  = "the machine has one device, and the second is the same one in another opening"
)

// onImitation is the contract's view of an imitated driver with two devices.
func onImitation(t *testing.T, change ...func(f *driver)) (*bench, eventstest.Backend[Event, Stream]) {
	b := imitated(t, change...)
	second, err := b.rt.Device(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	return b, eventstest.Backend[Event, Stream]{
		Open:   func(testing.TB) api { return b.Device },
		Second: func(testing.TB) api { return second },
		FailRecord: func(api) func() {
			b.driver.set(func() { b.driver.refuse["Marker"] = clapi.OutOfResources })
			return func() { b.driver.set(func() { delete(b.driver.refuse, "Marker") }) }
		},
		Skip: map[string]string{"reading-converted": integers, "reading-refused": integers},
	}
}

func TestImitatedDriverKeepsTheContract(t *testing.T) {
	_, b := onImitation(t)
	eventstest.Run(t, b)
}

// Some drivers give no times to markers: the same contract holds over fills.
func TestFillsKeepTheContract(t *testing.T) {
	dev, b := onImitation(t, func(f *driver) { f.untimed["Marker"] = true })
	require.True(t, dev.StampsByFill())
	eventstest.Run(t, b)
}

// A lost device keeps its handles, so these rules have an imitation of their own.
func TestLostDeviceKeepsTheContract(t *testing.T) {
	var b *bench
	suite := eventstest.Backend[Event, Stream]{
		Open: func(t testing.TB) api {
			f := newDriver()
			b = over(t, f)
			b.driver = f
			return b.open(t).Device
		},
		LoseDevice: func(dev api) {
			// What is known of an event is answered without the driver, so the
			// loss is seen when the device is asked for something.
			b.driver.set(func() { b.driver.lost = -9999 })
			_, err := dev.StreamCreateNonBlocking()
			require.ErrorIs(t, err, events.ErrDeviceFault)
		},
		Skip: map[string]string{},
	}
	for _, r := range eventstest.Rules() {
		if !strings.HasPrefix(r.Name, "fault-") {
			suite.Skip[r.Name] = "it is not about a lost device"
		}
	}
	eventstest.Run(t, suite)
	require.NoError(t, b.Close())
	require.Empty(t, b.wrong)
	require.NotZero(t, b.EventStats().AbandonedAtEnd)
}

func TestInstalledDriverKeepsTheContract(t *testing.T) {
	b := installed(t)
	other := installed(t)
	suite := eventstest.Backend[Event, Stream]{
		Open:   func(testing.TB) api { return b.Device },
		Second: func(testing.TB) api { return other.Device },
		Skip: map[string]string{
			"reading-converted": integers, "reading-refused": integers, "identity-distinct": twoOpen,
		},
	}
	if b.rt.DeviceCount() > 1 {
		second, err := b.rt.Device(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, second.Close()) })
		suite.Second = func(testing.TB) api { return second }
		delete(suite.Skip, "identity-distinct")
	}
	eventstest.Run(t, suite)
}
