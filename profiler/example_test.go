package profiler_test

import (
	"context"
	"fmt"
	"time"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

func Example() {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	prof, err := profiler.New(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	decode := prof.Track(stream, "decode")
	w := decode.Start()
	if err := dev.Work(stream, 3*time.Millisecond); err != nil { // what the service does
		fmt.Println(err)
	}
	m := decode.Stop(w)

	if err := dev.StreamSynchronize(stream); err != nil {
		fmt.Println(err)
	}
	span, err := m.Wait(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(span.Name, "took", span.Duration)
	fmt.Println("placed:", span.Bound < time.Millisecond)
	if err := prof.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// decode took 3ms
	// placed: true
}
