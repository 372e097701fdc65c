package eventstest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/eventstest"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/gputest"
)

type cudaApi = events.EventApi[cuda.Event, cuda.Stream] //revive:disable-line:var-naming // the seam's own spelling

const deadStream = "a destroyed stream is refused before the library is called, and the event keeps its record"

// The tests on a GPU come first: those below map an imitation of the library
// into the process, and Open prefers a library that is mapped.

func onGPU(dev cuda.Device) eventstest.Backend[cuda.Event, cuda.Stream] {
	return eventstest.Backend[cuda.Event, cuda.Stream]{
		Open: func(testing.TB) cudaApi { return dev },
		Skip: map[string]string{"failed-record-dead-stream": deadStream},
	}
}

func TestGPUCUDAKeepsTheContract(t *testing.T) {
	eventstest.Run(t, onGPU(gputest.Device(t)))
}

func TestGPUCUDADriverKeepsTheContract(t *testing.T) {
	eventstest.Run(t, onGPU(gputest.DriverDevice(t)))
}

func TestGPUCUDAKeepsTheContractBesideAStorm(t *testing.T) {
	dev := gputest.Device(t)
	beside(t, onGPU(dev), dev)
}

// imitated is the CUDA backend over the imitation of NVIDIA's library at path.
// prefix is what that calls its functions.
func imitated(t *testing.T, path, prefix string, options ...cuda.Option) eventstest.Backend[cuda.Event, cuda.Stream] {
	control := fakert.Control(t, path)
	control.Set("device_count", 2)
	var rt *cuda.Runtime
	lost := false
	device := func(t testing.TB, i int) cudaApi {
		dev, err := rt.Device(i)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		return dev
	}
	return eventstest.Backend[cuda.Event, cuda.Stream]{
		Open: func(t testing.TB) cudaApi {
			if lost { // only in this process is a lost device lost for good
				control.Set("sticky_code", 0)
				lost = false
			}
			var err error
			rt, err = cuda.Open(options...)
			require.NoError(t, err)
			return device(t, 0)
		},
		Second: func(t testing.TB) cudaApi { return device(t, 1) },
		FailRecord: func(cudaApi) func() {
			control.Set("fail_"+prefix+"EventRecord", 400)
			return func() { control.Set("fail_"+prefix+"EventRecord", 0) }
		},
		FakeReading: func(_ cudaApi, ms float32) func() {
			control.SetFloat("elapsed_bits", ms)
			return func() { control.Set("elapsed_bits", -1) }
		},
		LoseDevice: func(cudaApi) {
			control.Set("sticky_code", 700)
			lost = true
		},
		Skip: map[string]string{"failed-record-dead-stream": deadStream},
	}
}

func TestCUDAKeepsTheContract(t *testing.T) {
	path := fakert.Build(t)
	eventstest.Run(t, imitated(t, path, "cuda", cuda.WithLibrary(path), cuda.WithDriver(path)))
}

func TestCUDADriverKeepsTheContract(t *testing.T) {
	path := fakert.Build(t)
	eventstest.Run(t, imitated(t, path, "cu", cuda.WithDriverAPI(true), cuda.WithDriver(path)))
}

func TestCUDAWithoutTheDriverKeepsTheContract(t *testing.T) {
	path := fakert.Build(t, fakert.RuntimeOnly())
	control := fakert.Control(t, path)
	b := imitated(t, path, "cuda", cuda.WithLibrary(path), cuda.WithDriver(path))
	control.Set("device_count", 1) // with more, the driver is what switches between them
	b.Second = nil
	b.Skip["capture-survives"] = "only the driver can exempt a thread from captures"
	b.Work = func(_ cudaApi, s cuda.Stream, d time.Duration) error {
		if code := control.Work(s.Handle(), d.Nanoseconds()); code != 0 {
			return fmt.Errorf("fake_work: %d", code)
		}
		return nil
	}
	eventstest.Run(t, b)
}

// beside runs the suite while other goroutines use the same device.
func beside(t *testing.T, b eventstest.Backend[cuda.Event, cuda.Stream], dev cuda.Device) {
	b.Open = func(testing.TB) cudaApi { return dev }
	for _, rule := range []string{"live-counts", "leaks", "leaks-after-errors", "concurrent-use", "concurrent-destroy", "goroutines"} {
		b.Skip[rule] = "others use the device at the same time, and count too"
	}
	stop := make(chan struct{})
	var storm sync.WaitGroup
	for range 8 {
		storm.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := dev.StreamCreateNonBlocking()
				if err == nil {
					err = windows(dev, s)
					err = errors.Join(err, dev.StreamDestroy(s))
				}
				if err != nil {
					t.Errorf("in the storm: %v", err)
					return
				}
			}
		})
	}
	eventstest.Run(t, b)
	close(stop)
	storm.Wait()
}

func windows(dev cuda.Device, s cuda.Stream) error {
	for range 20 {
		a, err := dev.EventCreate()
		if err != nil {
			return err
		}
		e, err := dev.EventCreate()
		if err != nil {
			return err
		}
		err = errors.Join(dev.EventRecord(a, s), dev.EventRecord(e, s), dev.EventWait(e))
		if _, failed := dev.EventElapsed(a, e); failed != nil {
			err = errors.Join(err, failed)
		}
		if err = errors.Join(err, dev.EventDestroy(a), dev.EventDestroy(e)); err != nil {
			return err
		}
	}
	return nil
}

func TestCUDAKeepsTheContractBesideAStorm(t *testing.T) {
	path := fakert.Build(t)
	b := imitated(t, path, "cuda", cuda.WithLibrary(path), cuda.WithDriver(path))
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	b.Second = nil
	b.FailRecord, b.FakeReading, b.LoseDevice = nil, nil, nil // the storm would meet them too
	beside(t, b, dev)
}
