package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

const us = time.Microsecond

type (
	mockEvent = events.Event[mock.Event, mock.Stream]
	mockApi   = events.EventApi[mock.Event, mock.Stream] //revive:disable-line:var-naming // the seam's own spelling
)

func device(t testing.TB, opts ...mock.Option) *mock.Device {
	t.Helper()
	dev := mock.NewDevice(opts...)
	t.Cleanup(dev.System().Close)
	return dev
}

func newStream[E any, S comparable](t testing.TB, api events.EventApi[E, S]) S {
	t.Helper()
	s, err := api.StreamCreateNonBlocking()
	require.NoError(t, err)
	return s
}

// hung gives a stream on which nothing is reached before ReleaseHangs.
func hung(t testing.TB, dev *mock.Device) mock.Stream {
	t.Helper()
	s := newStream(t, dev)
	require.NoError(t, dev.Hang(s))
	return s
}

func newEvent[E any, S comparable](t testing.TB, api events.EventApi[E, S]) *events.Event[E, S] {
	t.Helper()
	e, err := events.New(api)
	require.NoError(t, err)
	return e
}

func recorded[E any, S comparable](t testing.TB, api events.EventApi[E, S], stream S) *events.Event[E, S] {
	t.Helper()
	e := newEvent(t, api)
	require.NoError(t, e.Record(stream))
	return e
}

// completed gives an event that is known to have been reached.
func completed[E any, S comparable](t testing.TB, api events.EventApi[E, S], stream S) *events.Event[E, S] {
	t.Helper()
	e := recorded(t, api, stream)
	require.NoError(t, e.Wait())
	require.Equal(t, events.StateComplete, e.State())
	return e
}

func query[E any, S comparable](t testing.TB, e *events.Event[E, S]) bool {
	t.Helper()
	done, err := e.Query()
	require.NoError(t, err)
	return done
}

func get[E any, S comparable](t testing.TB, p *events.Pool[E, S]) *events.Event[E, S] {
	t.Helper()
	e, err := p.Get()
	require.NoError(t, err)
	require.Equal(t, events.StateFresh, e.State())
	return e
}

func noLiveEvents(t testing.TB, dev *mock.Device) {
	t.Helper()
	live, _ := dev.Live()
	require.Zero(t, live, "events left behind")
}

// noStaleHandle looks for calls that the device had to refuse because their
// event was destroyed already: an owner must not even try.
func noStaleHandle(t testing.TB, dev *mock.Device) {
	t.Helper()
	for _, c := range dev.Calls() {
		require.NotErrorIs(t, c.Err, events.ErrDestroyed, "%v of event %d", c.Op, c.Event)
	}
}

// eventually waits for a state that another goroutine brings about.
func eventually(t testing.TB, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 20*time.Second, time.Millisecond)
}

// between is a device with a script of its own round the calls that pollers make.
type between struct {
	*mock.Device
	query func(ask func() (bool, error)) (bool, error) // nil for none
	wait  func(wait func() error) error                // nil for none
}

func (b *between) EventQuery(e mock.Event) (bool, error) {
	ask := func() (bool, error) { return b.Device.EventQuery(e) }
	if b.query == nil {
		return ask()
	}
	return b.query(ask)
}

func (b *between) EventWait(e mock.Event) error {
	wait := func() error { return b.Device.EventWait(e) }
	if b.wait == nil {
		return wait()
	}
	return b.wait(wait)
}

// plain is a backend with no ability at all, passed by value and not comparable.
type plain struct {
	mockApi
	name string
	_    []int
}

func (p plain) Backend() string { return p.name }
