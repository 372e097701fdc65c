package opencl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

// Close gives back what is the device's, and leaves to their owners what is not.
func TestCloseLeavesStreamsAndEventsToTheirOwners(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		dev := b.Device
		s, err := dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		e, err := dev.EventCreate()
		require.NoError(t, err)
		gate, err := dev.GateClose(s, patience)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		memory, err := dev.ScratchAlloc(64)
		require.NoError(t, err)
		spin, err := dev.ScratchSpin(time.Millisecond, s)
		if err != nil {
			require.ErrorIs(t, err, events.ErrUnsupported)
		}

		require.NoError(t, dev.Close())
		require.NoError(t, dev.Close())
		require.Zero(t, b.live("context"))
		require.Zero(t, b.live("mem"))
		require.Zero(t, b.live("program"))
		_, created := dev.EventCreate()
		_, stream := dev.StreamCreateNonBlocking()
		_, asked := dev.EventQuery(e)
		_, again := dev.GateClose(s, time.Second)
		_, alloc := dev.ScratchAlloc(1)
		_, spun := dev.ScratchSpin(time.Millisecond, s)
		_, stamp := dev.EventStamp(e)
		_, _, timer := dev.DeviceAndHostTimer()
		for _, err := range []error{created, stream, asked, again, alloc, spun, stamp, timer, dev.EventWait(e), dev.StreamSynchronize(s), dev.EventRecord(e, s), dev.ScratchFree(memory)} {
			require.ErrorIs(t, err, events.ErrClosed)
		}
		if spin != nil {
			_, err = spin.Measured()
			require.ErrorIs(t, err, events.ErrClosed)
		}
		require.NoError(t, gate.Open())
		require.NoError(t, dev.EventDestroy(e))
		require.NoError(t, dev.StreamDestroy(s))
		require.Zero(t, dev.EventStats().LiveEvents)
		b.balanced(t)

		reopened, err := b.rt.Device(0)
		require.NoError(t, err)
		require.NotEqual(t, dev, reopened)
		fresh, err := reopened.StreamCreateNonBlocking()
		require.NoError(t, err)
		err = dev.StreamSynchronize(fresh)
		require.ErrorIs(t, err, events.ErrDeviceMismatch)
		require.ErrorContains(t, err, "closed and opened again")
		require.NoError(t, reopened.StreamDestroy(fresh))
		require.NoError(t, reopened.Close())
	})
}

// Handles destroyed in a callback, by a second goroutine or before their work was
// done ended in crashes and double frees (lupinemachines/lupine#526,
// PaddlePaddle/Paddle#34285): whatever the order of calls, each reference is given
// back once and none is used afterwards.
func TestReferencesBalanceWhateverTheOrderOfCalls(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		rounds := 300
		if testing.Short() {
			rounds = 60
		}
		for seed := range uint64(4) {
			b.shuffle(t, seed, rounds)
		}
		stats := b.EventStats()
		require.Zero(t, stats.LiveEvents)
		require.Zero(t, stats.LiveStreams)
		require.Zero(t, stats.DestroyFailed)
		require.Zero(t, stats.AbandonedAtEnd)
		require.Zero(t, b.live("event"))
		require.Zero(t, b.live("queue"))
	})
}

// places are handles that goroutines share, and replace when they destroy one.
type places[T any] [6]atomic.Pointer[T]

func (p *places[T]) pick(rng *rand.Rand) (T, *atomic.Pointer[T]) {
	place := &p[rng.IntN(len(p))]
	return *place.Load(), place
}

func fresh[T any](t *testing.T, create func() (T, error)) *T {
	made, err := create()
	if err != nil {
		t.Error(err)
	}
	return &made
}

func filled[T any](t *testing.T, create func() (T, error)) *places[T] {
	p := new(places[T])
	for i := range p {
		p[i].Store(fresh(t, create))
	}
	return p
}

// shuffle makes calls in random order from several goroutines on shared handles.
func (b *bench) shuffle(t *testing.T, seed uint64, rounds int) {
	t.Helper()
	alloc := func() (events.Buffer, error) { return b.ScratchAlloc(64) }
	marks, streams, buffers := filled(t, b.EventCreate), filled(t, b.StreamCreateNonBlocking), filled(t, alloc)
	expected := []error{events.ErrDestroyed, events.ErrNotRecorded, events.ErrNotReady, events.ErrInvalid}
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, g))
			for range rounds {
				e, eventPlace := marks.pick(rng)
				f, _ := marks.pick(rng)
				s, streamPlace := streams.pick(rng)
				m, bufferPlace := buffers.pick(rng)
				var err error
				switch pick := rng.IntN(100); {
				case pick < 40:
					err = b.EventRecord(e, s)
				case pick < 50:
					err = b.StreamWaitEvent(s, e)
				case pick < 58:
					_, err = b.EventQuery(e)
				case pick < 66:
					_, err = b.EventElapsed(e, f)
				case pick < 70:
					err = b.EventWait(e)
				case pick < 74:
					err = b.StreamSynchronize(s)
				case pick < 80:
					err = b.ScratchMemset(m, 1, 64, s)
				case pick < 84:
					err = b.gateOnce(s, rng.IntN(2) == 0)
				case pick < 92:
					err = b.EventDestroy(*eventPlace.Swap(fresh(t, b.EventCreate)))
				case pick < 96:
					err = b.StreamDestroy(*streamPlace.Swap(fresh(t, b.StreamCreateNonBlocking)))
				default:
					err = b.ScratchFree(*bufferPlace.Swap(fresh(t, alloc)))
				}
				if err != nil && !slices.ContainsFunc(expected, func(kind error) bool { return errors.Is(err, kind) }) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range len(marks) {
		require.NoError(t, b.EventDestroy(*marks[i].Load()))
		require.NoError(t, b.StreamDestroy(*streams[i].Load()))
		require.NoError(t, b.ScratchFree(*buffers[i].Load()))
	}
	// Gates that were left are let go by their watchdogs.
	require.Eventually(t, func() bool { return b.live("event") == 0 }, patience, time.Millisecond)
}

// gateOnce closes a gate and opens it, or leaves that to its watchdog.
func (b *bench) gateOnce(s Stream, open bool) error {
	g, err := b.GateClose(s, time.Millisecond)
	if err != nil || !open {
		return err
	}
	if err = g.Open(); errors.Is(err, events.ErrExpired) {
		return nil
	}
	return err
}

// Calls in progress keep the context until they return.
func TestCloseBesideCalls(t *testing.T) {
	for round := range 20 {
		b := imitated(t, func(f *driver) { f.untimed["Marker"] = true })
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					s, err := b.StreamCreateNonBlocking()
					if err != nil {
						return
					}
					if e, err := b.EventCreate(); err == nil {
						_ = b.EventRecord(e, s)
						_ = b.EventDestroy(e)
					}
					if m, err := b.ScratchAlloc(8); err == nil {
						_ = b.ScratchMemset(m, 0, 8, s)
					}
					_ = b.StreamDestroy(s)
				}
			})
		}
		if round < 2 { // it measures its timer first, and Close comes meanwhile
			wg.Go(func() {
				s, err := b.StreamCreateNonBlocking()
				if err != nil {
					return
				}
				if spin, err := b.ScratchSpin(time.Second, s); err == nil {
					if _, err = spin.Measured(); !errors.Is(err, events.ErrClosed) {
						t.Errorf("a spin of a closed device: %v", err)
					}
				}
				_ = b.StreamDestroy(s)
			})
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, b.Close())
		wg.Wait()
		b.balanced(t)
	}
}
