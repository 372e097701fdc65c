package opencl_test

import (
	"fmt"

	"example.com/devevents/events"
	"example.com/devevents/events/opencl"
)

// Open says why there is no device, if there is none. What follows works on any
// backend, the simulated one included.
func Example() {
	rt, err := opencl.Open()
	if err != nil {
		fmt.Println(err) // errors.Is(err, events.ErrUnavailable)
		return
	}
	dev, err := rt.Device(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dev.Close() }()
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	start, err := events.New(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(start.Record(stream), start.Wait(), start.State(), "on", dev)
	fmt.Println(start.Close(), dev.StreamDestroy(stream))
}
