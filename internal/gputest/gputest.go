// Package gputest gives tests a real device, or a skip with the reason. With
// DEVEVENTS_REQUIRE_GPU=1 in the environment a missing device fails instead, and with
// DEVEVENTS_REQUIRE_OPENCL=1 a missing OpenCL device does.
package gputest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"example.com/devevents/events/cuda"
)

var opened = sync.OnceValues(func() (*cuda.Runtime, error) { return cuda.Open() })

// Required reports whether a missing device is a failure.
func Required() bool { return os.Getenv("DEVEVENTS_REQUIRE_GPU") == "1" }

// Runtime is the machine's CUDA runtime, opened once for the test binary.
func Runtime(tb testing.TB) *cuda.Runtime {
	tb.Helper()
	rt, err := opened()
	if err != nil {
		if Required() {
			tb.Fatalf("DEVEVENTS_REQUIRE_GPU is set and there is no usable GPU: %v", err)
		}
		reason, _, _ := strings.Cut(err.Error(), "\n") // the candidates are of interest only where a GPU should be
		tb.Skip("needs an NVIDIA GPU: " + reason)
	}
	return rt
}

// Device is the machine's first CUDA device.
func Device(tb testing.TB) cuda.Device {
	tb.Helper()
	dev, err := Runtime(tb).Device(0)
	if err != nil {
		tb.Fatal(err)
	}
	return dev
}

var openedDriver = sync.OnceValues(func() (*cuda.Runtime, error) { return cuda.Open(cuda.WithDriverAPI(true)) })

// DriverDevice is the machine's first CUDA device through the driver library
// alone.
func DriverDevice(tb testing.TB) cuda.Device {
	tb.Helper()
	Runtime(tb) // skips or fails where there is no GPU
	rt, err := openedDriver()
	if err != nil {
		tb.Fatal(err)
	}
	dev, err := rt.Device(0)
	if err != nil {
		tb.Fatal(err)
	}
	return dev
}

// Stream is a new stream that the end of the test destroys.
func Stream(tb testing.TB, dev cuda.Device) cuda.Stream {
	tb.Helper()
	s, err := dev.StreamCreateNonBlocking()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.StreamDestroy(s); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Event is a new event that the end of the test destroys.
func Event(tb testing.TB, dev cuda.Device) cuda.Event {
	tb.Helper()
	e, err := dev.EventCreate()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.EventDestroy(e); err != nil {
			tb.Error(err)
		}
	})
	return e
}
