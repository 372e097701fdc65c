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
		rt, err := cuda.Open()
		if err != nil {
			return nil, nil, err
		}
		dev, err := rt.Device(0)
		if err != nil {
			return nil, nil, err
		}
		return events.Erase(dev), dev.Close, nil
	case "opencl":
		rt, err := opencl.Open()
		if err != nil {
			return nil, nil, err
		}
		dev, err := rt.Device(0)
		if err != nil {
			return nil, nil, err
		}
		return events.Erase(dev), dev.Close, nil
	}
	return nil, nil, fmt.Errorf("unknown backend %q: %s", backend, Backends)
}
