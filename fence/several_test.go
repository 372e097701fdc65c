package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAllIsReachedWhenTheLastIs(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	slow, quick := stream(t, dev), hung(t, dev)
	require.NoError(t, dev.Work(slow, 5*time.Millisecond))
	a, b := record(t, fences, slow), record(t, fences, quick)
	all := make(chan error, 1)
	go func() { all <- fence.All(limited(t), a, b, a) }()
	require.NoError(t, wait(a))
	select {
	case err := <-all:
		t.Fatalf("ended with %v before the second fence", err)
	case <-time.After(10 * time.Millisecond):
	}
	dev.ReleaseHangs()
	require.NoError(t, within(t, all))
	require.NoError(t, fence.All(limited(t)))
}

// A buffer may be reused when nothing uses it any more, not when the first has failed.
func TestAllWaitsForTheRestAfterAFailure(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	s := hung(t, dev)
	closed, pends := record(t, fences, s), record(t, fences, s)
	require.NoError(t, closed.Close())
	all := make(chan error, 1)
	go func() { all <- fence.All(limited(t), nil, closed, pends) }()
	select {
	case err := <-all:
		t.Fatalf("ended with %v before the last fence", err)
	case <-time.After(10 * time.Millisecond):
	}
	dev.ReleaseHangs()
	err := within(t, all)
	require.ErrorIs(t, err, events.ErrClosed)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.ErrorContains(t, err, "fence 1 of 3")
	require.ErrorContains(t, err, "fence 2 of 3")
}

// Whoever gives up learns of every fence that may still be in use, also behind one that
// ended by itself.
func TestAllNamesWhatIsPendingWhenItsContextIsOver(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	s := hung(t, dev)
	closed, pends := record(t, fences, s), record(t, fences, s)
	require.NoError(t, closed.Close())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, all := range [][]*fence.Fence{{closed, pends}, {pends, closed}} {
		err := fence.All(over, all...)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, events.ErrClosed)
	}
	_, err := fence.Any(nil, pends) //nolint:staticcheck // nil is what is tested
	require.ErrorContains(t, err, "nil context")
	dev.ReleaseHangs()
}

func TestAnyIsTheFirstWithAResult(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	never, soon := hung(t, dev), stream(t, dev)
	a, b := record(t, fences, never), record(t, fences, never)
	require.NoError(t, dev.Work(soon, 3*time.Millisecond))
	c := record(t, fences, soon)
	i, err := fence.Any(limited(t), a, b, c, c)
	require.NoError(t, err)
	require.Equal(t, 2, i)
	i, err = fence.Any(limited(t), a, c, b)
	require.NoError(t, err, "known already")
	require.Equal(t, 1, i)

	ended := make(chan error, 1)
	go func() {
		_, err := fence.Any(limited(t), a, b)
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	require.NoError(t, b.Close())
	require.ErrorIs(t, within(t, ended), events.ErrClosed, "a failure is a result")
	dev.ReleaseHangs()
	require.NoError(t, wait(a))
}

func TestAnyIsGivenUpAtOnceAndLeavesNothing(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	s := hung(t, dev)
	a, b := record(t, fences, s), record(t, fences, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client went away")
	time.AfterFunc(2*time.Millisecond, func() { cancel(why) })
	i, err := fence.Any(ctx, a, b)
	require.Equal(t, -1, i)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	eventually(t, func() bool { // nobody waits, so nobody polls
		n := dev.CallCount(mock.OpRoundQuery)
		time.Sleep(5 * time.Millisecond)
		return n == dev.CallCount(mock.OpRoundQuery)
	})
	pending(t, a)
	dev.ReleaseHangs()
	require.NoError(t, fence.All(limited(t), a, b))
}

func TestAnyOfNothingIsAnError(t *testing.T) {
	dev, fences := device(t, mock.Ideal())
	f := record(t, fences, stream(t, dev))
	_, err := fence.Any(limited(t))
	require.ErrorIs(t, err, events.ErrInvalid)
	_, err = fence.Any(nil, f) //nolint:staticcheck // that is the mistake
	require.ErrorIs(t, err, events.ErrInvalid)
	i, err := fence.Any(limited(t), f, nil)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.Equal(t, 1, i)
	i, err = fence.Any(limited(t), f, new(fence.Fence))
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.Equal(t, 1, i)
	require.NoError(t, wait(f))
}

func TestAnyOverSeveralDevices(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.Ideal())
	t.Cleanup(sys.Close)
	var fs []*fence.Fence
	for i := range 2 {
		dev := sys.Device(i)
		fences := sourceOf(t, dev)
		t.Cleanup(func() { require.NoError(t, fences.Close()) })
		s := stream(t, dev)
		if i == 0 {
			require.NoError(t, dev.Hang(s))
			t.Cleanup(dev.ReleaseHangs)
		}
		fs = append(fs, record(t, fences, s))
	}
	i, err := fence.Any(limited(t), fs...)
	require.NoError(t, err)
	require.Equal(t, 1, i)
}
