package fence

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// latePort lets something happen between the decision to queue a stream's wait and
// the call that queues it.
type latePort struct {
	port[mock.Stream]
	meanwhile func()
}

func (p latePort) waitOn(stream mock.Stream, ev event) error {
	p.meanwhile()
	return p.port.waitOn(stream, ev)
}

// The event of a fence that is reached goes to the next record, and a wait that was
// just being queued for it would wait for that one.
// ComputationalRadiationPhysics/picongpu#1189, torch/cutorch#222
func TestEventIsKeptForAStreamWaitThatIsBeingQueued(t *testing.T) {
	dev := mock.NewDevice(mock.Manual(), mock.Ideal())
	t.Cleanup(dev.System().Close)
	fences, err := New(dev)
	require.NoError(t, err)
	stream := func() mock.Stream {
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, b, hung := stream(), stream(), stream()
	require.NoError(t, dev.Hang(hung))
	require.NoError(t, dev.Work(a, time.Microsecond))
	f, err := fences.Record(a)
	require.NoError(t, err)
	usual := fences.port
	fences.port = latePort{usual, func() {
		dev.System().Advance(time.Microsecond)
		require.NoError(t, f.Wait(ctx))
		for range 5 {
			_, err := fences.Record(hung)
			require.NoError(t, err)
		}
	}}
	require.NoError(t, fences.WaitOn(f, b))
	fences.port = usual
	behind, err := fences.Record(b)
	require.NoError(t, err)
	require.NoError(t, behind.Wait(ctx), "the stream waits for a later record than the one that it was made to wait for")
	dev.ReleaseHangs()
	require.NoError(t, fences.Close())
	require.Zero(t, dev.EventStats().LiveEvents)
}
