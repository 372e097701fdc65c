package cuda_test

import (
	"fmt"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// Open says why there is no device, if there is none. What follows works on any
// backend, the simulated one included.
func Example() {
	rt, err := cuda.Open()
	if err != nil {
		fmt.Println(err) // errors.Is(err, events.ErrUnavailable)
		return
	}
	dev, err := rt.Device(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	start, err := events.New(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(start.State(), "on", dev)
	fmt.Println(start.Close())
}
