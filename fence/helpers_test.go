package fence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

const us = time.Microsecond

type source = *fence.Source[mock.Stream]

// device is a simulated device with a source of fences. At the end of the test
// the source must close without an error and leave no event behind.
func device(t testing.TB, opts ...mock.Option) (*mock.Device, source) {
	t.Helper()
	return deviceWith(t, nil, opts...)
}

// inBubble is device for a bubble of fake time, with its waits polled or not.
func inBubble(t testing.TB, opts ...fence.Option) (*mock.Device, source) {
	t.Helper()
	return deviceWith(t, append(opts, fence.Coarse()))
}

func deviceWith(t testing.TB, settings []fence.Option, opts ...mock.Option) (*mock.Device, source) {
	t.Helper()
	dev := mock.NewDevice(opts...)
	t.Cleanup(dev.System().Close)
	fences := sourceOf(t, dev, settings...)
	t.Cleanup(func() {
		require.NoError(t, fences.Close())
		require.Zero(t, dev.EventStats().LiveEvents)
		require.Zero(t, dev.OpenRounds())
	})
	return dev, fences
}

func sourceOf(t testing.TB, dev *mock.Device, opts ...fence.Option) source {
	t.Helper()
	fences, err := fence.New(dev, opts...)
	require.NoError(t, err)
	return fences
}

func stream(t testing.TB, dev *mock.Device) mock.Stream {
	t.Helper()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	return s
}

func record(t testing.TB, fences source, s mock.Stream) *fence.Fence {
	t.Helper()
	f, err := fences.Record(s)
	require.NoError(t, err)
	return f
}

// hung is a stream whose work never ends, until ReleaseHangs.
func hung(t testing.TB, dev *mock.Device) mock.Stream {
	t.Helper()
	s := stream(t, dev)
	require.NoError(t, dev.Hang(s))
	return s
}

// wait is Wait for what must come, with a limit that only a hang reaches.
func wait(f *fence.Fence) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return f.Wait(ctx)
}

// waiting starts n goroutines that wait for f and gives their errors.
func waiting(ctx context.Context, f *fence.Fence, n int) <-chan error {
	results := make(chan error, n)
	for range n {
		go func() { results <- f.Wait(ctx) }()
	}
	return results
}

// within takes an element that must come, with a limit that only a hang reaches.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came within 30 s")
		panic("not reached")
	}
}

// eventually waits for a state that another goroutine brings about.
func eventually(t testing.TB, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 30*time.Second, time.Millisecond)
}

// polling waits until the device has been polled n more times, or a thread waits in
// the driver.
func polling(t testing.TB, dev *mock.Device, n uint64) {
	t.Helper()
	from := dev.CallCount(mock.OpRoundQuery)
	eventually(t, func() bool { return dev.CallCount(mock.OpRoundQuery) >= from+n || dev.System().Blocked() > 0 })
}

func pending(t testing.TB, f *fence.Fence) {
	t.Helper()
	require.ErrorIs(t, f.Err(), events.ErrNotReady)
}

// perThread is a device whose stream handles each stand for one of two streams, as that
// of CUDA's per-thread default stream does.
type perThread struct {
	*mock.Device
	hung    mock.Stream
	useHung *atomic.Bool
}

// threadStream says so of itself.
type threadStream struct{ mock.Stream }

func (threadStream) InOrder() bool { return false }

func (d perThread) EventRecord(e mock.Event, s threadStream) error {
	if d.useHung.Load() {
		return d.Device.EventRecord(e, d.hung)
	}
	return d.Device.EventRecord(e, s.Stream)
}

func (d perThread) StreamWaitEvent(s threadStream, e mock.Event) error {
	return d.Device.StreamWaitEvent(s.Stream, e)
}

func (d perThread) StreamSynchronize(s threadStream) error {
	return d.Device.StreamSynchronize(s.Stream)
}

func (d perThread) StreamCreateNonBlocking() (threadStream, error) {
	s, err := d.Device.StreamCreateNonBlocking()
	return threadStream{s}, err
}

func (d perThread) StreamDestroy(s threadStream) error { return d.Device.StreamDestroy(s.Stream) }
