package mock_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// A million windows that nobody reads in between: records must stay cheap and
// the queue must not keep what is over.
func TestMillionWindowsInBoundedMemory(t *testing.T) {
	windows := 1_000_000
	if testing.Short() {
		windows = 100_000
	}
	dev := mock.NewDevice(mock.Ideal())
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	start, err := dev.EventCreate()
	require.NoError(t, err)
	end, err := dev.EventCreate()
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range windows {
		if dev.EventRecord(start, s) != nil || dev.EventRecord(end, s) != nil {
			t.Fatal("record failed")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
}

func BenchmarkWindow(b *testing.B) {
	dev := mock.NewDevice(mock.Ideal())
	s, _ := dev.StreamCreateNonBlocking()
	start, _ := dev.EventCreate()
	end, _ := dev.EventCreate()
	b.ReportAllocs()
	for b.Loop() {
		_ = dev.EventRecord(start, s)
		_ = dev.EventRecord(end, s)
		if done, err := dev.EventQuery(end); !done || err != nil {
			b.Fatal(done, err)
		}
	}
}
