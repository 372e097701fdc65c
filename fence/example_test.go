package fence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

func Example() {
	dev := mock.NewDevice(mock.Manual(), mock.Ideal())
	fences, _ := fence.New(dev)
	defer fences.Close()
	compute, _ := dev.StreamCreateNonBlocking()
	upload, _ := dev.StreamCreateNonBlocking()

	_ = dev.Work(compute, 250*time.Microsecond)
	done, _ := fences.Record(compute)

	// Another stream can wait, without the host.
	_ = fences.WaitOn(done, upload)

	// So can anybody who has the fence, as long as they like.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer cancel()
	err := done.Wait(ctx)
	fmt.Println("gave up:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println("result:", done.Err())

	dev.System().Advance(250 * time.Microsecond) // simulated time passes
	fmt.Println("waited:", done.Wait(context.Background()))

	var never fence.Fence
	fmt.Println("no fence:", errors.Is(never.Wait(context.Background()), events.ErrNotRecorded))
	// Output:
	// gave up: true
	// result: fence: not reached yet
	// waited: <nil>
	// no fence: true
}

// A program that picks its vendor at run time holds types that name none.
func ExampleSource_erased() {
	dev := events.Erase(mock.NewDevice())
	var fences *fence.AnySource
	fences, _ = fence.New(dev)
	defer fences.Close()
	stream, _ := dev.StreamCreateNonBlocking()

	f, _ := fences.Record(stream)
	select {
	case <-f.Done():
		fmt.Println("result:", f.Err())
	case <-time.After(time.Minute):
		fmt.Println("a very slow device")
	}
	// Output:
	// result: <nil>
}
