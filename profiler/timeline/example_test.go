package timeline_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/timeline"
)

func Example() {
	dev := mock.NewDevice(mock.AutoAdvance())
	stream, _ := dev.StreamCreateNonBlocking()
	prof, _ := profiler.New(dev)

	var file bytes.Buffer // or an os.File
	trace := timeline.NewWriter(&file, prof.Origin())
	_, _ = prof.AddSink(trace)
	_ = profiler.Do(context.Background(), prof.Track(stream, "decode"), func(context.Context) error {
		return dev.Work(stream, time.Millisecond)
	})
	_ = dev.StreamSynchronize(stream)
	_ = prof.Close() // the sink has everything now
	fmt.Println(trace.Close(), bytes.Contains(file.Bytes(), []byte(`"name":"decode"`)))
	// Output: <nil> true
}
