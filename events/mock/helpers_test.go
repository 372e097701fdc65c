package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

const us = time.Microsecond

func device(t *testing.T, opts ...mock.Option) (*mock.Device, mock.Stream) {
	t.Helper()
	dev := mock.NewDevice(opts...)
	t.Cleanup(dev.System().Close)
	return dev, stream(t, dev)
}

func stream(t *testing.T, dev *mock.Device) mock.Stream {
	t.Helper()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	return s
}

func event(t *testing.T, dev *mock.Device) mock.Event {
	t.Helper()
	e, err := dev.EventCreate()
	require.NoError(t, err)
	return e
}

func recorded(t *testing.T, dev *mock.Device, s mock.Stream) mock.Event {
	t.Helper()
	e := event(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	return e
}

func done(t *testing.T, dev *mock.Device, e mock.Event) bool {
	t.Helper()
	ok, err := dev.EventQuery(e)
	require.NoError(t, err)
	return ok
}

// eventually waits for a state that another goroutine brings about.
func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 20*time.Second, time.Millisecond)
}
