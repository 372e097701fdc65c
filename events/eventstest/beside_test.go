package eventstest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/gputest"
)

// beside runs the suite while other goroutines use the same device.
func beside[E any, S comparable](t *testing.T, b Backend[E, S], dev events.EventApi[E, S]) {
	t.Helper()
	b.Open = func(testing.TB) events.EventApi[E, S] { return dev }
	b.Skip = map[string]string{}
	for _, rule := range []string{"live-counts", "leaks", "leaks-after-errors", "concurrent-use", "concurrent-destroy", "goroutines"} {
		b.Skip[rule] = "others use the device at the same time, and count too"
	}
	stop := make(chan struct{})
	failed := make(chan error, 8)
	var others sync.WaitGroup
	for range cap(failed) {
		others.Go(func() { failed <- windowsUntil(stop, dev) })
	}
	Run(t, b)
	close(stop)
	others.Wait()
	for range cap(failed) {
		require.NoError(t, <-failed, "beside the suite")
	}
}

func windowsUntil[E any, S comparable](stop <-chan struct{}, dev events.EventApi[E, S]) error {
	g := gust[E, S]{api: dev}
	for g.failed == nil {
		select {
		case <-stop:
			return nil
		default:
		}
		s, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return err
		}
		for range 20 {
			g.window(s)
		}
		if err := dev.StreamDestroy(s); err != nil {
			return err
		}
	}
	return g.failed
}

func TestMockKeepsTheContractBesideAStorm(t *testing.T) {
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	beside(t, Backend[mock.Event, mock.Stream]{}, mockApi(dev))
}

func TestGPUKeepsTheContractBesideAStorm(t *testing.T) {
	dev := gputest.Device(t)
	beside(t, Backend[cuda.Event, cuda.Stream]{}, events.EventApi[cuda.Event, cuda.Stream](dev))
}
