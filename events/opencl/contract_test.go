package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/clapi"
)

type api = events.EventApi[Event, Stream]

func TestImitatedDriverKeepsTheContract(t *testing.T) {
	var b, lost *bench
	t.Cleanup(func() { b.balanced(t) })
	eventstest.Run(t, eventstest.Backend[Event, Stream]{
		Open: func(t testing.TB) api {
			if b == nil || b == lost {
				b = over(t, newDriver())
				b.driver = b.API.(*driver)
				b.open(t)
			}
			return b.Device
		},
		Second: func(t testing.TB) api {
			d, err := b.rt.Device(1)
			require.NoError(t, err)
			return d
		},
		FailRecord: func(api) func() {
			b.driver.set(func() { b.driver.refuse["Marker"] = clapi.OutOfResources })
			return func() { b.driver.set(func() { delete(b.driver.refuse, "Marker") }) }
		},
		LoseDevice: func(dev api) {
			// What is known already is answered without the driver, so the device
			// has to be asked something before its loss is seen.
			lost = b
			b.driver.set(func() { b.driver.lost = -9999 })
			_, err := dev.StreamCreateNonBlocking()
			require.ErrorIs(t, err, events.ErrDeviceFault)
		},
	})
	require.NoError(t, b.Close())
	second, err := b.rt.Device(1)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

func TestInstalledDriverKeepsTheContract(t *testing.T) {
	b := installed(t)
	other := installed(t)
	eventstest.Run(t, eventstest.Backend[Event, Stream]{
		Open:   func(testing.TB) api { return b.Device },
		Second: func(testing.TB) api { return other.Device },
	})
}
