package profiler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// A stream whose windows are being freed must not spare any to others: their events
// would be used after they were destroyed.
func TestStreamThatIsFreedSparesNothing(t *testing.T) {
	dev := mock.NewDevice(mock.Ideal())
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	p, err := New(dev)
	require.NoError(t, err)
	e := p.core.(*engine[mock.Event, mock.Stream])
	tr := p.Track(s, "w")
	lane := tr.lane.(*stream[mock.Event, mock.Stream])
	given := make(chan int, 1)
	dev.Script(mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Hook: func() { given <- len(lane.giveUp(8)) }})
	tr.Close()
	require.Zero(t, <-given)
	require.NoError(t, p.Close())
	require.Zero(t, e.prepared.Load())
	live, _ := dev.Live()
	require.Zero(t, live)
}
