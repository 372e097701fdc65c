package events_test

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func Example() {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal()) // or rt.Device(0) of cuda.Open
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	start, err := dev.EventCreate()
	if err != nil {
		fmt.Println(err)
		return
	}
	end, err := dev.EventCreate()
	if err != nil {
		fmt.Println(err)
		return
	}

	_ = dev.EventRecord(start, stream)
	_ = dev.Work(stream, 250*time.Microsecond) // what is being timed
	_ = dev.EventRecord(end, stream)

	_, err = dev.EventElapsed(start, end)
	fmt.Println("at once:", errors.Is(err, events.ErrNotReady))
	if err := dev.EventWait(end); err != nil {
		fmt.Println(err)
		return
	}
	took, err := dev.EventElapsed(start, end)
	fmt.Println("later:", took, err)
	// Output:
	// at once: true
	// later: 250µs <nil>
}

// A backend may lack an ability, so ask once and keep the answer.
func ExampleAbility() {
	for _, dev := range []*mock.Device{mock.NewDevice(), mock.NewDevice(mock.Without(mock.FeatureQuerier))} {
		_, ok := events.Ability[events.Querier[mock.Event]](dev)
		fmt.Println("can query:", ok)
	}
	// Output:
	// can query: true
	// can query: false
}

// An Event owns its handle and knows its history, so mistakes are named that a
// driver's code would hide.
func ExampleElapsed() {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	stream, _ := dev.StreamCreateNonBlocking()
	start, _ := events.New(dev)
	end, _ := events.New(dev)
	defer start.Close()
	defer end.Close()

	_, err := events.Elapsed(start, end)
	fmt.Println(err)

	_ = start.Record(stream)
	_ = dev.Work(stream, time.Millisecond)
	_ = end.Record(stream)
	_ = end.Wait()
	fmt.Println(events.Elapsed(start, end))
	fmt.Println(events.Elapsed(end, start))
	// Output:
	// elapsed: start event: event was never recorded
	// elapsed: end event: event was never recorded
	// 1ms <nil>
	// 0s elapsed: start and end are swapped: start was recorded after end
}

// A program that chooses its vendor at run time names none in its types.
func ExampleErase() {
	api := events.Erase(mock.NewDevice(mock.AutoAdvance())) // an events.AnyApi
	stream, _ := api.StreamCreateNonBlocking()
	event, _ := api.EventCreate()
	_ = api.EventRecord(event, stream)
	fmt.Println(api.Backend(), api.EventWait(event))

	other, _ := events.Erase(mock.NewDevice()).StreamCreateNonBlocking()
	fmt.Println(errors.Is(api.EventRecord(event, other), events.ErrDeviceMismatch))
	// Output:
	// mock <nil>
	// true
}

// A pool lends events and takes them back; it never lends one that the device
// has not reached.
func ExamplePool() {
	dev := mock.NewDevice(mock.Manual())
	stream, _ := dev.StreamCreateNonBlocking()
	pool := events.NewPool(dev, 1, true)
	defer pool.Close()

	event, _ := pool.Get()
	_ = event.Record(stream)
	_ = event.Release()
	_, err := pool.Get()
	fmt.Println("full:", errors.Is(err, events.ErrFull))

	dev.System().Advance(time.Second) // the device gets there
	_, err = pool.Get()
	fmt.Println(err, "of", pool.Len())
	fmt.Println("its first holder:", event.Record(stream))
	// Output:
	// full: true
	// <nil> of 1
	// its first holder: record: event was already destroyed or released
}
