package opencl

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// spun runs a spin and gives what it measured.
func (b *bench) spun(t testing.TB, s Stream, length time.Duration) time.Duration {
	t.Helper()
	spin, err := b.ScratchSpin(length, s)
	if err != nil {
		require.ErrorIs(t, err, events.ErrUnsupported)
		t.Skip("the driver cannot spin: " + err.Error())
	}
	require.NoError(t, b.StreamSynchronize(s))
	took, err := spin.Measured()
	require.NoError(t, err)
	again, err := spin.Measured()
	require.NoError(t, err)
	require.Equal(t, took, again)
	return took
}

// What the kernel counted is the witness against the driver's times, so the
// driver's times must have no part in it.
func TestSpinIsMeasuredByItsOwnTimer(t *testing.T) {
	b := imitated(t, func(f *driver) { f.late = 3 * time.Millisecond })
	const length = time.Millisecond
	took := b.spun(t, b.stream(t), length)
	require.GreaterOrEqual(t, took, length)
	require.Less(t, took, length+length/50)
}

// One run that the system interrupted, and every length from then on was wrong.
func TestInterruptedKernelsDoNotSpoilTheRate(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := imitated(t, func(f *driver) {
			f.overrun = func() time.Duration {
				if rng.IntN(4) == 0 {
					return 0
				}
				return time.Duration(rng.IntN(int(3 * time.Millisecond)))
			}
		})
		s := b.stream(t)
		b.spun(t, s, time.Microsecond)
		b.driver.set(func() { b.driver.overrun = nil })
		const length = 20 * time.Millisecond
		start := b.recorded(t, s)
		took := b.spun(t, s, length)
		end := b.recorded(t, s)
		b.mustWait(t, end)
		span, err := b.EventElapsed(start, end)
		require.NoError(t, err)
		require.GreaterOrEqual(t, span, length)
		require.InDelta(t, float64(length), float64(took), float64(length/50))
	}
}

// Each spin has words of its own, also once they have been used before.
func TestSpinsDoNotSeeEachOthersTimes(t *testing.T) {
	b := imitated(t)
	streams := []Stream{b.stream(t), b.stream(t)}
	var spins []events.Spin
	length := func(i int) time.Duration { return time.Duration(1+i%7) * 20 * time.Microsecond }
	for i := range maxSpins + 40 {
		spin, err := b.ScratchSpin(length(i), streams[i%2])
		require.NoError(t, err)
		spins = append(spins, spin)
		if i%50 == 0 {
			require.NoError(t, b.StreamSynchronize(streams[0]))
			require.NoError(t, b.StreamSynchronize(streams[1]))
		}
	}
	for _, s := range streams {
		require.NoError(t, b.StreamSynchronize(s))
	}
	for i, spin := range spins {
		took, err := spin.Measured()
		require.NoError(t, err)
		require.InEpsilon(t, length(i), took, 0.02, "spin %d", i)
	}
}

// A read waits for the device, and whoever queues work must not: what is measured
// would have a pause in it.
func TestQueueingSpinsSeldomReads(t *testing.T) {
	b := imitated(t)
	s := b.stream(t)
	b.spun(t, s, time.Microsecond)
	before := b.driver.reads
	const spins = 4 * maxSpins
	for i := range spins {
		_, err := b.ScratchSpin(time.Microsecond, s)
		require.NoError(t, err)
		if i%50 == 0 {
			require.NoError(t, b.StreamSynchronize(s))
		}
	}
	require.LessOrEqual(t, b.driver.reads-before, 2*spins/spinsAtOnce)
	require.NoError(t, b.StreamSynchronize(s))
}

// Measured reads memory, and so must not be able to wait for work.
func TestMeasuredDoesNotWaitForOtherWork(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		s, held := b.stream(t), b.stream(t)
		b.spun(t, s, time.Microsecond)
		gate := b.shut(t, held)
		pending, err := b.ScratchSpin(time.Millisecond, held)
		require.NoError(t, err)
		b.spun(t, s, time.Millisecond)
		_, err = pending.Measured()
		require.ErrorIs(t, err, events.ErrNotReady)
		require.NoError(t, gate.Open())
		require.NoError(t, b.StreamSynchronize(held))
		took, err := pending.Measured()
		require.NoError(t, err)
		require.GreaterOrEqual(t, took, time.Millisecond)
	})
}

// The host's clock, which nobody here had a part in, agrees.
func TestSpinIsAsLongAsItSaysByTheHostsClock(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		s := b.stream(t)
		b.spun(t, s, time.Microsecond)
		for _, length := range []time.Duration{10 * time.Microsecond, time.Millisecond, 30 * time.Millisecond} {
			began := time.Now()
			took := b.spun(t, s, length)
			host := time.Since(began)
			require.GreaterOrEqual(t, took, length)
			require.GreaterOrEqual(t, host+host/100, took)
			require.GreaterOrEqual(t, host, length)
		}
	})
}

// What a kernel that never ran, or a timer that went back, leaves in memory is no
// duration.
func TestCountThatIsTooSmallIsNoDuration(t *testing.T) {
	for name, words := range map[string][2]uint64{"nothing": {}, "too little": {1 << 40, 1<<40 + 5}, "backwards": {1 << 40, 1<<40 - 5}} {
		t.Run(name, func(t *testing.T) {
			f := newDriver()
			api := &miscounting{API: f}
			b := over(t, api)
			t.Cleanup(func() { b.balanced(t) })
			b.open(t)
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			s := b.stream(t)
			b.spun(t, s, time.Microsecond)
			api.words = &words
			spin, err := b.ScratchSpin(time.Millisecond, s)
			require.NoError(t, err)
			require.NoError(t, b.StreamSynchronize(s))
			_, err = spin.Measured()
			require.ErrorIs(t, err, events.ErrBadReading)
		})
	}
}

// miscounting gives other words than the kernel's, once there are any.
type miscounting struct {
	clapi.API
	words *[2]uint64
}

func (m *miscounting) ReadWords(q clapi.Queue, mem clapi.Mem, offset int64, out []uint64, after []clapi.Event) int32 {
	code := m.API.ReadWords(q, mem, offset, out, after)
	if m.words != nil {
		copy(out, m.words[:])
	}
	return code
}

// A timer that stands still would keep a kernel busy for ever.
func TestTimerThatStandsStillIsNotUsed(t *testing.T) {
	api := &miscounting{API: newDriver(), words: &[2]uint64{7, 7}}
	b := over(t, api)
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	_, err := b.ScratchSpin(time.Millisecond, b.stream(t))
	require.ErrorIs(t, err, events.ErrUnsupported)
}
