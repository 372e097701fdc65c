package eventstest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// stormOn runs a storm on a simulated device with some methods replaced. Each
// goroutine has finished a window before it can be stopped.
func stormOn(t *testing.T, flaw flaws, expected func(error) bool, until func() bool) (*mock.Device, error) {
	t.Helper()
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	stop := Storm(mockApi(&broken{dev, flaw}), 4, 10*time.Microsecond, expected)
	require.Eventually(t, until, time.Minute, time.Millisecond)
	err := stop()
	require.Equal(t, err, stop(), "a second stop")
	return dev, err
}

func atOnce() bool { return true }

// A storm that has died down shows nothing of what it should show.
func TestStormGoesOnUntilItIsStopped(t *testing.T) {
	dev := mock.NewDevice()
	t.Cleanup(dev.System().Close)
	for _, pause := range []time.Duration{0, 50 * time.Microsecond} {
		var records atomic.Int64
		stop := Storm(mockApi(&broken{dev, flaws{record: func(e mock.Event, s mock.Stream) error {
			records.Add(1)
			return dev.EventRecord(e, s)
		}}}), 4, pause, nil)
		require.Eventually(t, func() bool { return records.Load() > 100 && dev.EventStats().LiveStreams == 4 },
			time.Minute, time.Millisecond, "each goroutine has a stream of its own")
		require.NoError(t, stop())
		last := records.Load()
		require.Zero(t, last%2, "windows are finished")
		time.Sleep(5 * time.Millisecond)
		require.Equal(t, last, records.Load(), "nobody goes on")
		require.Zero(t, dev.EventStats().LiveEvents)
		require.Zero(t, dev.EventStats().LiveStreams)
	}
}

func TestStormSaysWhatWentWrong(t *testing.T) {
	broke := errors.New("broke")
	for _, c := range []struct {
		want string
		flaw flaws
	}{
		{"StreamCreateNonBlocking: broke", flaws{streamCreate: func() (mock.Stream, error) { return mock.Stream{}, broke }}},
		{"EventCreate: broke", flaws{create: func() (mock.Event, error) { return mock.Event{}, broke }}},
		{"EventRecord: broke", flaws{record: func(mock.Event, mock.Stream) error { return broke }}},
		{"EventQuery: broke", flaws{query: func(mock.Event) (bool, error) { return false, broke }}},
		{"EventWait: broke", flaws{wait: func(mock.Event) error { return broke }}},
		{"EventQuery after EventWait: not reached", flaws{query: func(mock.Event) (bool, error) { return false, nil }}},
		{"EventElapsed: broke", flaws{elapsed: func(_, _ mock.Event) (time.Duration, error) { return 0, broke }}},
		{"EventElapsed: a span of -1ns", flaws{elapsed: func(_, _ mock.Event) (time.Duration, error) { return -1, nil }}},
		{"EventDestroy: broke", flaws{destroy: func(mock.Event) error { return broke }}},
		{"StreamDestroy: broke", flaws{streamDestroy: func(mock.Stream) error { return broke }}},
		{"panic: out of order", flaws{wait: func(mock.Event) error { panic("out of order") }}},
	} {
		_, err := stormOn(t, c.flaw, nil, atOnce)
		for _, want := range []string{"goroutine 0 of the storm: ", "goroutine 3 of the storm: ", c.want} {
			require.ErrorContains(t, err, want)
		}
	}
}

// What the suite makes fail must not end a storm, nor hide what else goes wrong.
func TestStormPassesOverExpectedErrorsAlone(t *testing.T) {
	expected := func(err error) bool { return errors.Is(err, events.ErrBadReading) }
	var readings atomic.Int64
	unreadable := func(_, _ mock.Event) (time.Duration, error) {
		readings.Add(1)
		return 0, events.ErrBadReading
	}
	dev, err := stormOn(t, flaws{elapsed: unreadable}, expected, func() bool { return readings.Load() > 100 })
	require.NoError(t, err)
	require.Zero(t, dev.EventStats().LiveEvents)
	_, err = stormOn(t, flaws{elapsed: unreadable, destroy: func(mock.Event) error { return events.ErrInvalid }}, expected, atOnce)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.NotErrorIs(t, err, events.ErrBadReading)
}
