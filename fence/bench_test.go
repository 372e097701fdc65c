package fence_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

func BenchmarkRecord(b *testing.B) {
	dev, fences := device(b, mock.Manual(), mock.Ideal())
	s := stream(b, dev)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fences.Record(s); err != nil {
			b.Fatal(err)
		}
	}
}

// The same as BenchmarkRecord without the fence.
func BenchmarkBareRecord(b *testing.B) {
	dev, _ := device(b, mock.Manual(), mock.Ideal())
	s := stream(b, dev)
	e, err := dev.EventCreateUntimed(true)
	require.NoError(b, err)
	for b.Loop() {
		if dev.EventRecord(e, s) != nil {
			b.Fatal("record failed")
		}
		if _, err := dev.StreamCapturing(s); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, dev.EventDestroy(e))
}

// Known to be done: nothing is asked.
func BenchmarkWaitKnown(b *testing.B) {
	dev, fences := device(b)
	f := record(b, fences, stream(b, dev))
	require.NoError(b, wait(f))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if f.Wait(ctx) != nil {
			b.Fatal("wait failed")
		}
	}
}

// Done on the device, and not known yet: the polling goroutine starts, asks and
// ends.
func BenchmarkRecordAndWaitReached(b *testing.B) {
	dev, fences := device(b, mock.Manual(), mock.Ideal())
	s := stream(b, dev)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		f, err := fences.Record(s)
		if err != nil || f.Wait(ctx) != nil {
			b.Fatal("record or wait failed")
		}
	}
}
