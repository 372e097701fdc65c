package mock_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestCallLogSaysWhatHappened(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.CallLog(100))
	require.NoError(t, dev.Work(s, us))
	e := recorded(t, dev, s)
	require.False(t, done(t, dev, e))
	require.NoError(t, dev.EventWait(e))
	require.NoError(t, dev.StreamSynchronize(s))
	require.Error(t, dev.EventRecord(mock.Event{}, s))
	got := dev.Calls()
	want := []mock.Call{
		{Op: mock.OpStreamCreate, Stream: s.ID(), Reached: true},
		{Op: mock.OpWork, Stream: s.ID(), Reached: true},
		{Op: mock.OpEventCreate, Event: e.ID(), Reached: true},
		{Op: mock.OpEventRecord, Event: e.ID(), Stream: s.ID(), Reached: true},
		{Op: mock.OpEventQuery, Event: e.ID(), Reached: true},
		{Op: mock.OpEventWait, Event: e.ID(), Reached: true, Blocked: true, Took: us},
		{Op: mock.OpStreamSynchronize, Stream: s.ID(), Reached: true, At: us},
		{Op: mock.OpEventRecord, Stream: s.ID(), At: us, Err: got[7].Err},
	}
	require.Equal(t, want, got)
	require.ErrorIs(t, got[7].Err, events.ErrInvalid)
	var waiting []mock.Op
	for _, c := range got {
		if c.Waits() {
			waiting = append(waiting, c.Op)
		}
	}
	require.Equal(t, []mock.Op{mock.OpEventWait, mock.OpStreamSynchronize}, waiting)
	require.EqualValues(t, 2, dev.WaitCount())
	require.EqualValues(t, 2, dev.CallCount(mock.OpEventRecord))
	require.EqualValues(t, 8, dev.CallCount(mock.OpAny))
	require.Zero(t, dev.CallCount(mock.Op(200)))
	dev.ResetCalls()
	require.Empty(t, dev.Calls())
	require.Zero(t, dev.CallCount(mock.OpAny))
	require.Zero(t, dev.WaitCount())
}

func TestCallLogIsBounded(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.CallLog(5))
	for range 3 {
		recorded(t, dev, s)
	}
	last := recorded(t, dev, s)
	require.Len(t, dev.Calls(), 5)
	require.Equal(t, last.ID(), dev.Calls()[4].Event)
	silent, s := device(t)
	recorded(t, silent, s)
	require.Empty(t, silent.Calls())
	require.EqualValues(t, 1, silent.CallCount(mock.OpEventRecord), "counts need no log")
}

func TestOpsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for op := mock.OpAny; op <= mock.OpHostRead; op++ {
		require.NotEmpty(t, op.String())
		seen[op.String()] = true
	}
	require.Len(t, seen, int(mock.OpHostRead)+1)
	require.Equal(t, "Op(250)", mock.Op(250).String())
}

// "0 allocs/op" is truncated, so it is the difference of Mallocs that counts.
func TestHotCallsDoNotAllocate(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	start, end := event(t, dev), event(t, dev)
	r, err := dev.RoundBegin()
	require.NoError(t, err)
	window := func() {
		if dev.EventRecord(start, s) != nil || dev.EventRecord(end, s) != nil {
			t.Fatal("record failed")
		}
		if _, err := dev.EventQuery(end); err != nil {
			t.Fatal(err)
		}
		if err := dev.EventWait(end); err != nil {
			t.Fatal(err)
		}
		if ok, err := dev.RoundQuery(r, end); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := dev.EventElapsed(start, end); err != nil {
			t.Fatal(err)
		}
		if _, err := dev.StreamCapturing(s); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		window()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100_000 {
		window()
	}
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.Mallocs-before.Mallocs, uint64(100))
	require.NoError(t, dev.RoundEnd(r))
}

// Everything at once, for the race detector; at the end nothing is left.
func TestHammer(t *testing.T) {
	for name, opts := range map[string][]mock.Option{"real": {}, "auto": {mock.AutoAdvance()}} {
		t.Run(name, func(t *testing.T) {
			sys := mock.New(append(opts, mock.Devices(2), mock.CallLog(64), mock.Wander(3, 1), mock.QueueLimit(32))...)
			t.Cleanup(sys.Close)
			shared := []mock.Event{event(t, sys.Device(0)), event(t, sys.Device(1))}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					dev := sys.Device(i % 2)
					for n := range 100 {
						hammer(t, dev, shared, n)
					}
				})
			}
			wg.Go(func() {
				for range 100 {
					sys.Device(0).SetDrift(0, 10)
					sys.Device(1).JumpClock(0, us)
					sys.Device(0).Calls()
					sys.Device(1).DeviceNow()
					sys.Device(1).HostNow()
				}
			})
			wg.Wait()
			for i, e := range shared {
				require.NoError(t, sys.Device(i).EventDestroy(e))
				stats := sys.Device(i).EventStats()
				require.Zero(t, stats.LiveEvents)
				require.Zero(t, stats.LiveStreams)
				require.Zero(t, sys.Device(i).OpenRounds())
			}
		})
	}
}

func hammer(t *testing.T, dev *mock.Device, shared []mock.Event, n int) {
	ok := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	s, err := dev.StreamCreateNonBlocking()
	ok(err)
	start, err := dev.EventCreate()
	ok(err)
	end, err := dev.EventCreate()
	ok(err)
	g, err := dev.GateClose(s, time.Millisecond)
	ok(err)
	ok(dev.EventRecord(start, s))
	_ = dev.EventRecord(shared[n%2], s) // refused where it is the other device's
	ok(dev.Work(s, time.Duration(n)*us))
	for _, e := range shared {
		_ = dev.StreamWaitEvent(s, e)
	}
	ok(dev.EventRecord(end, s))
	_ = g.Open()
	r, err := dev.RoundBegin()
	ok(err)
	_, err = dev.RoundQuery(r, end)
	ok(err)
	ok(dev.RoundEnd(r))
	ok(dev.EventWait(end))
	_, err = dev.EventElapsed(start, end)
	ok(err)
	ok(dev.EventDestroy(start))
	ok(dev.StreamSynchronize(s))
	ok(dev.EventDestroy(end))
	ok(dev.StreamDestroy(s))
}
