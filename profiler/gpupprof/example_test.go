package gpupprof_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
)

func Example() {
	dev := mock.NewDevice(mock.AutoAdvance())
	stream, _ := dev.StreamCreateNonBlocking()
	prof, _ := profiler.New(dev, profiler.WithStacks(true))
	defer prof.Close()

	profile := gpupprof.New()
	_, _ = prof.AddSink(profile)
	_ = profiler.Do(context.Background(), prof.Track(stream, "decode"), func(context.Context) error {
		return dev.Work(stream, time.Millisecond)
	})
	_ = dev.StreamSynchronize(stream)
	_ = prof.Flush(context.Background())

	var file bytes.Buffer // or profile.WriteFile("gpu.pb.gz"), then go tool pprof gpu.pb.gz
	_, err := profile.WriteTo(&file)
	fmt.Println(file.Len() > 0, err)
	// Output: true <nil>
}
