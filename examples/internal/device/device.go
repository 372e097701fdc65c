package device

import (
	"fmt"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/mock"
	"example.com/devevents/events/opencl"
)

// Backends is what Open takes, for a flag's usage.
const Backends = "mock, cuda or opencl"

// Open gives the first device of a backend, and how to give it back.
func Open(backend string) (dev events.AnyApi, giveBack func() error, err error) {
	switch backend {
	case "mock":
		sys := mock.New()
		return events.Erase(sys.Device(0)), func() error { sys.Close(); return nil }, nil
	case "cuda":
		return first[cuda.Event, cuda.Stream](cuda.Open())
	case "opencl":
		return first[opencl.Event, opencl.Stream](opencl.Open())
	}
	return nil, nil, fmt.Errorf("unknown backend %q: %s", backend, Backends)
}

// vendorDevice is a device of a vendor's loaded library.
type vendorDevice[E any, S comparable] interface {
	events.EventApi[E, S]
	Close() error
}

// first takes the first device of what a vendor's Open gave.
func first[E any, S comparable, D vendorDevice[E, S]](rt interface{ Device(i int) (D, error) }, err error) (events.AnyApi, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	dev, err := rt.Device(0)
	if err != nil {
		return nil, nil, err
	}
	return events.Erase[E, S](dev), dev.Close, nil
}
