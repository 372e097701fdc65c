package mock_test

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func Example() {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	stream, _ := dev.StreamCreateNonBlocking()
	start, _ := dev.EventCreate()
	end, _ := dev.EventCreate()

	_ = dev.EventRecord(start, stream)
	_ = dev.Work(stream, 250*time.Microsecond)
	_ = dev.EventRecord(end, stream)

	_, err := dev.EventElapsed(start, end)
	fmt.Println("too early:", errors.Is(err, events.ErrNotReady))
	_ = dev.EventWait(end)
	span, _ := dev.EventElapsed(start, end)
	fmt.Println("measured:", span)

	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Code: mock.CodeInvalidHandle})
	fmt.Println("refused:", dev.EventRecord(start, stream))
	// Output:
	// too early: true
	// measured: 250µs
	// refused: mockEventRecord: mockErrorInvalidResourceHandle (400)
}
