package mock_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestFaultHitsTheCallsThatItNames(t *testing.T) {
	pattern := func(f mock.Fault) string {
		dev, s := device(t, mock.Manual(), mock.QueueLimit(0))
		f.Op, f.Code = mock.OpEventRecord, mock.CodeUnknown
		dev.Script(f)
		e := event(t, dev)
		var hits []byte
		for range 10 {
			if dev.EventRecord(e, s) != nil {
				hits = append(hits, 'x')
			} else {
				hits = append(hits, '.')
			}
		}
		return string(hits)
	}
	require.Equal(t, "xxxxxxxxxx", pattern(mock.Fault{}))
	require.Equal(t, "xxx.......", pattern(mock.Fault{Count: 3}))
	require.Equal(t, "..x.......", pattern(mock.Fault{Nth: 3}))
	require.Equal(t, "..xx......", pattern(mock.Fault{Nth: 3, Count: 2}))
	require.Equal(t, "..x..x..x.", pattern(mock.Fault{Every: 3}))
	require.Equal(t, "..x..x....", pattern(mock.Fault{Every: 3, Count: 2}))
	random := pattern(mock.Fault{Chance: 0.5, Seed: 1})
	require.Contains(t, random, "x")
	require.Contains(t, random, ".")
	require.Equal(t, random, pattern(mock.Fault{Chance: 0.5, Seed: 1}))
}

func TestRefusalCarriesNumberNameAndKind(t *testing.T) {
	dev, s := device(t)
	e := event(t, dev)
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Code: 1234, Name: "strange", Kind: events.ErrFull})
	err := dev.EventRecord(e, s)
	var de *events.DriverError
	require.ErrorAs(t, err, &de)
	require.Equal(t, events.DriverError{Backend: "mock", Op: "mockEventRecord", Code: 1234, Name: "strange", Kind: events.ErrFull}, *de)
	own := errors.New("own")
	dev.ClearScript()
	dev.Script(mock.Fault{Op: mock.OpAny, Err: own})
	require.Equal(t, own, dev.EventWait(recordedAnyway(t, dev, s)))
}

func recordedAnyway(t *testing.T, dev *mock.Device, s mock.Stream) mock.Event {
	t.Helper()
	dev.ClearScript()
	e := recorded(t, dev, s)
	dev.Script(mock.Fault{Op: mock.OpAny, Err: errors.New("own")})
	return e
}

// Negative readings are clamped and counted: ROCm/rocm-systems#9375,
// CHIP-SPV/chipStar#116. Absurd ones are errors with the raw value:
// cpc/hipcl#5, gfx-rs/wgpu#9414.
func TestReadingsThatLie(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	a := recorded(t, dev, s)
	b := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(b))
	read := func(ms float32) (time.Duration, error) {
		dev.ClearScript()
		dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(ms)})
		return dev.EventElapsed(a, b)
	}
	for i, ms := range []float32{-0.0001, -1.78, -133} {
		d, err := read(ms)
		require.NoError(t, err)
		require.Zero(t, d)
		require.EqualValues(t, i+1, dev.EventStats().Clamped)
	}
	for _, ms := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30} {
		_, err := read(ms)
		var re *events.ReadingError
		require.ErrorAs(t, err, &re)
		require.ErrorIs(t, err, events.ErrBadReading)
		require.Equal(t, fmt.Sprint(ms, " ms"), re.Read)
	}
	d, err := read(0.0005)
	require.NoError(t, err)
	require.Equal(t, 500*time.Nanosecond, d)
	require.EqualValues(t, 3, dev.EventStats().Clamped)

	dev.ClearScript()
	for _, exact := range []bool{false, true} {
		opts := []mock.Option{mock.AutoAdvance()}
		if exact {
			opts = append(opts, mock.ExactReadings())
		}
		dev, s := device(t, opts...)
		a := recorded(t, dev, s)
		b := recorded(t, dev, s)
		require.NoError(t, dev.EventWait(b))
		d, err = dev.EventElapsed(b, a)
		require.NoError(t, err)
		require.Zero(t, d)
		require.EqualValues(t, 1, dev.EventStats().Clamped)
	}
}

// One crash is seen by every later call, destroys included: lattice/quda#693,
// NVIDIA/TensorRT#1469.
func TestLostDeviceRefusesEverything(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.AutoAdvance())
	t.Cleanup(sys.Close)
	dev := sys.Device(0)
	s := stream(t, dev)
	e := recorded(t, dev, s)
	kept := recorded(t, dev, s)
	g, err := dev.GateClose(s, time.Second)
	require.NoError(t, err)
	sp, err := dev.ScratchSpin(us, s)
	require.NoError(t, err)
	b, err := dev.ScratchAlloc(1)
	require.NoError(t, err)
	dev.Lose()
	all := func() map[string]error {
		got := map[string]error{
			"record":      dev.EventRecord(kept, s),
			"synchronize": dev.StreamSynchronize(s),
			"memset":      dev.ScratchMemset(b, 0, 1, s),
			"free":        dev.ScratchFree(b),
			"work":        dev.Work(s, us),
			"begin":       dev.CaptureBegin(s, events.CaptureGlobal),
			"open":        g.Open(),
		}
		_, got["create"] = dev.EventCreate()
		_, got["untimed"] = dev.EventCreateUntimed(true)
		_, got["stream create"] = dev.StreamCreateNonBlocking()
		_, got["capturing"] = dev.StreamCapturing(s)
		_, got["alloc"] = dev.ScratchAlloc(1)
		_, got["round"] = dev.RoundBegin()
		_, got["measured"] = sp.Measured()
		return got
	}
	// The failed record in all has made kept unrecorded; e still is.
	_, err = dev.EventQuery(e)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	_, err = dev.EventElapsed(e, e)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorIs(t, dev.EventWait(e), events.ErrDeviceFault)
	require.ErrorIs(t, dev.StreamWaitEvent(s, e), events.ErrDeviceFault)
	for name, err := range all() {
		require.ErrorIs(t, err, events.ErrDeviceFault, name)
		require.ErrorContains(t, err, "(700)", name)
	}
	require.ErrorIs(t, dev.EventDestroy(e), events.ErrDeviceFault)
	require.NoError(t, dev.EventDestroy(e))
	require.EqualValues(t, 1, dev.EventStats().AbandonedAtEnd)
	require.EqualValues(t, 1, dev.EventStats().LiveEvents)

	dev.Reset()
	for name, err := range all() {
		require.ErrorIs(t, err, events.ErrContextLost, name)
		require.ErrorContains(t, err, "(46)", name)
	}
	require.ErrorIs(t, dev.EventDestroy(kept), events.ErrContextLost)
	require.ErrorIs(t, dev.StreamDestroy(s), events.ErrContextLost)
	require.Equal(t, events.Stats{AbandonedAtEnd: 3}, dev.EventStats())

	_, err = sys.Device(1).EventCreate()
	require.NoError(t, err, "the other device lives")
}

// A poll loop that looks only for success spins for ever once the device has
// failed: ComputationalRadiationPhysics/picongpu#1485, vllm-project/vllm#52247.
func TestNotReadyTurnsIntoAFault(t *testing.T) {
	dev, s := device(t, mock.Manual())
	require.NoError(t, dev.Hang(s))
	e := recorded(t, dev, s)
	dev.Script(mock.Fault{Op: mock.OpEventQuery, Nth: 3, Lose: true, Code: mock.CodeLaunchFailure})
	require.False(t, done(t, dev, e))
	require.False(t, done(t, dev, e))
	_, err := dev.EventQuery(e)
	require.ErrorIs(t, err, events.ErrDeviceFault)
	require.ErrorContains(t, err, "(719)")
	require.ErrorIs(t, dev.EventWait(e), events.ErrDeviceFault)
}

func TestHungEventNeverCompletes(t *testing.T) {
	dev, s := device(t, mock.Manual(), mock.Ideal())
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Hang: true})
	hung := recorded(t, dev, s)
	behind := recorded(t, dev, s)
	dev.System().Advance(1000 * time.Hour)
	require.False(t, done(t, dev, hung))
	require.False(t, done(t, dev, behind))
	dev.ReleaseHangs()
	require.True(t, done(t, dev, hung))
	require.True(t, done(t, dev, behind))
	at, _ := dev.TrueHostTime(hung)
	require.EqualValues(t, 1000*time.Hour, at)
}

// Blocked calls end when nothing can come any more: a loss, a reset, a close.
func TestBlockedCallsEndWithTheDevice(t *testing.T) {
	ends := map[string]struct {
		do   func(*mock.Device)
		want error
	}{
		"loss":  {(*mock.Device).Lose, events.ErrDeviceFault},
		"reset": {(*mock.Device).Reset, events.ErrContextLost},
		"close": {func(d *mock.Device) { d.System().Close() }, events.ErrClosed},
	}
	for name, end := range ends {
		for _, opts := range [][]mock.Option{{}, {mock.Manual()}, {mock.AutoAdvance()}} {
			dev, s := device(t, append(opts, mock.QueueLimit(4))...)
			require.NoError(t, dev.Hang(s))
			e := recorded(t, dev, s)
			require.NoError(t, dev.Work(s, us))
			require.NoError(t, dev.Work(s, us))
			got := make(chan error, 3)
			go func() { got <- dev.EventWait(e) }()
			go func() { got <- dev.StreamSynchronize(s) }()
			go func() { got <- dev.Work(s, us) }() // the queue is full
			eventually(t, func() bool { return dev.System().Blocked() == 3 })
			end.do(dev)
			for range 3 {
				require.ErrorIs(t, <-got, end.want, name)
			}
		}
	}
}

// Enqueueing blocks behind a stall once the device's queue is full.
func TestFullQueueBlocksTheRecord(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal(), mock.CallLog(3000))
	require.NoError(t, dev.Work(s, time.Second))
	e := event(t, dev)
	for range 1019 {
		require.NoError(t, dev.EventRecord(e, s))
	}
	require.Zero(t, dev.WaitCount())
	require.Zero(t, dev.System().Now())
	require.NoError(t, dev.EventRecord(e, s))
	require.EqualValues(t, 1, dev.WaitCount())
	require.Equal(t, time.Second, dev.System().Now())
	log := dev.Calls()
	last := log[len(log)-1]
	require.True(t, last.Blocked)
	require.True(t, last.Waits())
	require.Equal(t, time.Second, last.Took)
}

// A destroy that sleeps, where the contract says that it never blocks.
func TestSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, s := device(t)
		dev.Script(
			mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Before: time.Second},
			mock.Fault{Op: mock.OpEventRecord, Nth: 1, After: time.Minute},
		)
		begin := time.Now()
		e := recorded(t, dev, s)
		require.Equal(t, time.Minute, time.Since(begin))
		at, ok := dev.TrueHostTime(e)
		require.True(t, ok)
		require.Less(t, at, int64(time.Second), "the record took effect before the delay")
		require.NoError(t, dev.EventDestroy(e))
		require.Equal(t, time.Minute+time.Second, time.Since(begin))
	})
	dev, s := device(t, mock.Manual())
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Before: time.Hour})
	recorded(t, dev, s)
	require.Equal(t, time.Hour, dev.System().Now())
}

// Two goroutines in a slow destroy of one event: it is freed once.
func TestSlowDestroysOfOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, s := device(t)
		e := event(t, dev)
		dev.Script(mock.Fault{Op: mock.OpAny, Before: time.Second})
		got := make(chan error)
		for range 4 {
			go func() { got <- errors.Join(dev.EventDestroy(e), dev.StreamDestroy(s)) }()
		}
		for range 4 {
			require.NoError(t, <-got)
		}
		require.Equal(t, events.Stats{}, dev.EventStats())
	})
}

func TestRefusedDestroyLeavesTheHandle(t *testing.T) {
	dev, s := device(t)
	e := event(t, dev)
	dev.Script(
		mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Code: mock.CodeNotPermitted},
		mock.Fault{Op: mock.OpStreamDestroy, Nth: 1, Code: mock.CodeNotPermitted},
	)
	require.ErrorContains(t, dev.EventDestroy(e), "(800)")
	require.ErrorContains(t, dev.StreamDestroy(s), "(800)")
	liveEvents, liveStreams := dev.Live()
	require.Equal(t, [2]int{1, 1}, [2]int{liveEvents, liveStreams})
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	liveEvents, liveStreams = dev.Live()
	require.Equal(t, [2]int{0, 0}, [2]int{liveEvents, liveStreams})
}

// A hook may call the device: it runs without locks.
func TestHookMayCallTheDevice(t *testing.T) {
	dev, s := device(t, mock.Manual())
	other := event(t, dev)
	ran := 0
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 1, Hook: func() {
		ran++
		require.NoError(t, dev.EventRecord(other, s))
	}})
	recorded(t, dev, s)
	require.Equal(t, 1, ran)
}

func TestClearScriptFreesTheHostClock(t *testing.T) {
	dev, _ := device(t, mock.Manual())
	dev.Script(mock.PreemptEvery(1, time.Second))
	require.Zero(t, dev.HostNow())
	require.Equal(t, time.Second, dev.HostNow())
	dev.ClearScript()
	require.Equal(t, 2*time.Second, dev.HostNow())
	require.Equal(t, 2*time.Second, dev.HostNow())
}

func TestSuspendedDeviceReadsBackwards(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	a := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(a))
	dev.JumpClock(0, -time.Hour)
	b := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(b))
	d, err := dev.EventElapsed(a, b)
	require.NoError(t, err)
	require.Zero(t, d)
	require.EqualValues(t, 1, dev.EventStats().Clamped)
}
