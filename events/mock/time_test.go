package mock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestManualTimeStandsStill(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Ideal())
	sys := dev.System()
	require.NoError(t, dev.Work(s, time.Minute))
	e := recorded(t, dev, s)
	waits := make(chan error, 2)
	go func() { waits <- dev.EventWait(e) }()
	go func() { waits <- dev.StreamSynchronize(s) }()
	eventually(t, func() bool { return sys.Blocked() == 2 })
	sys.Advance(time.Minute - 1)
	sys.AdvanceTo(time.Second) // never back
	require.Equal(t, time.Minute-1, sys.Now())
	require.False(t, done(t, dev, e))
	eventually(t, func() bool { return sys.Blocked() == 2 })
	sys.AdvanceTo(time.Minute)
	require.NoError(t, <-waits)
	require.NoError(t, <-waits)
	require.EqualValues(t, time.Minute, sys.HostClock()())
	require.Equal(t, time.Minute, dev.HostNow())
}

func TestAutoAdvanceGoesExactlyAsFarAsNeeded(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.VisibleAfter(7))
	require.NoError(t, dev.Work(s, 10*us))
	e := recorded(t, dev, s)
	require.NoError(t, dev.Work(s, 10*us))
	require.NoError(t, dev.EventWait(e))
	require.Equal(t, 10*us+7, dev.System().Now())
	require.NoError(t, dev.StreamSynchronize(s))
	require.Equal(t, 20*us+7, dev.System().Now())
	require.NoError(t, dev.StreamSynchronize(s))
	require.Equal(t, 20*us+7, dev.System().Now())
}

// Real time is a bubble's fake time inside one, and blocked calls count as
// durably blocked there.
func TestRealTimeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, s := device(t, mock.Ideal())
		sys := dev.System()
		begin := time.Now()
		require.NoError(t, dev.Work(s, time.Hour))
		e := recorded(t, dev, s)
		require.False(t, done(t, dev, e))
		returned := make(chan error, 1)
		go func() { returned <- dev.EventWait(e) }()
		synctest.Wait()
		require.Equal(t, 1, sys.Blocked())
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		require.Empty(t, returned)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.NoError(t, <-returned)
		require.Equal(t, time.Hour, time.Since(begin))
		require.Equal(t, time.Hour, sys.Now())
		require.EqualValues(t, time.Hour, sys.HostClock()())
		sys.Advance(time.Hour)
		sys.AdvanceTo(9 * time.Hour)
		require.Equal(t, time.Hour, sys.Now(), "real time cannot be advanced")
	})
}

func TestGateInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, s := device(t, mock.Ideal())
		g, err := dev.GateClose(s, time.Second)
		require.NoError(t, err)
		e := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(e))
		require.Equal(t, time.Second, dev.System().Now())
		require.ErrorIs(t, g.Open(), events.ErrExpired)
	})
}

// Without a bubble: a wait lasts as long as the work, and costs no spinning.
func TestRealTime(t *testing.T) {
	dev, s := device(t)
	begin := time.Now()
	require.NoError(t, dev.Work(s, 5*time.Millisecond))
	e := recorded(t, dev, s)
	require.False(t, done(t, dev, e))
	require.NoError(t, dev.EventWait(e))
	require.GreaterOrEqual(t, time.Since(begin), 5*time.Millisecond)
	require.True(t, done(t, dev, e))
}

func TestHostCostsPass(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.HostCost(1000, 300, 50))
	e := event(t, dev)
	require.NoError(t, dev.EventRecord(e, s))
	require.Equal(t, us, dev.System().Now())
	done(t, dev, e)
	require.Equal(t, us+300, dev.System().Now())
	require.Equal(t, us+300, dev.HostNow())
	require.Equal(t, us+350, dev.System().Now())
	r, err := dev.RoundBegin()
	require.NoError(t, err)
	_, err = dev.RoundQuery(r, e)
	require.NoError(t, err)
	require.Equal(t, us+650, dev.System().Now())
	require.NoError(t, dev.RoundEnd(r))
	for !done(t, dev, e) { // polling alone gets there
	}
	at, _ := dev.TrueHostTime(e)
	require.EqualValues(t, 500+3680, at)
}
