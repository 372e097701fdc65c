package cuda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/events/internal/fakesuite"
	"example.com/devevents/internal/gputest"
)

// imitated is an imitation of the runtime and of the driver in one.
func imitated(driver bool) fakesuite.Vendor[cuda.Vendor] {
	return fakesuite.Vendor[cuda.Vendor]{
		Fake: []fakert.Option{fakert.Name("fake-cudart.so")},
		Open: func(path string) (*cuda.Runtime, error) {
			return cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path), cuda.WithDriverAPI(driver))
		},
	}
}

// The whole contract on an imitation of the runtime, through the runtime's
// functions and through the driver's.
func TestConformanceOnTheFake(t *testing.T) {
	t.Run("api=runtime", func(t *testing.T) { imitated(false).Run(t) })
	t.Run("api=driver", func(t *testing.T) { imitated(true).Run(t) })
}

func TestConformanceBesideAStorm(t *testing.T) { imitated(false).RunBesideStorm(t) }

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
