package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/fence"
)

// Everything that can happen to fences, in all orders: recorded, waited for, given up,
// closed, passed to other streams, their streams destroyed with work pending, their
// source closed under waiters, their device lost. Each fence must come to one end, which
// all who ask are told, each wait must return, and nothing must be left.
//
// 10,000,000 operations; with -short as many as fit in a few seconds, or with the race detector in a minute, and each ending once.
func TestSoakAccountsForEveryFence(t *testing.T) {
	operations, limit := int64(10_000_000), 30*time.Minute
	if testing.Short() {
		limit = 3 * time.Second
		if raceEnabled {
			limit = time.Minute
		}
	}
	began := time.Now()
	var done int64
	rounds, fates := 0, map[string]uint64{}
	for ; rounds < int(endings) || done < operations && time.Since(began) < limit; rounds++ {
		c := chaos{ends: ending(rounds % int(endings))}
		done += c.run(t, uint64(rounds))
		for name, n := range c.fates() {
			fates[name] += n
		}
		if t.Failed() {
			t.Fatalf("round %d", rounds)
		}
	}
	t.Logf("%d operations in %d rounds and %v: fences %v", done, rounds, time.Since(began).Round(time.Second), fates)
	for _, fate := range []string{"reached", "failed", "closed"} {
		require.NotZero(t, fates[fate], fate)
	}
}

// ending is how a round ends.
type ending int

const (
	quietly ending = iota // with every fence reached
	closed                // the source is closed under those who wait
	lost                  // the device is lost while a stream hangs, and then the source closed
	hanging               // a stream hangs when the source is closed
	endings
)

// chaos is a round: a device with some streams that come and go, and goroutines that do
// whatever they like with their fences.
type chaos struct {
	ends   ending
	dev    *mock.Device
	fences source
	over   atomic.Bool // what ends the round has begun, so errors are expected

	mu      sync.Mutex
	streams []mock.Stream

	late       []<-chan error // of those who wait without a limit when the round ends
	operations atomic.Int64
	stats      fence.Stats
	told       sync.Map // of *fence.Fence: the class of the result that somebody was told
}

const (
	chaosWorkers = 8
	chaosEach    = 1500
)

func (c *chaos) run(t *testing.T, seed uint64) int64 {
	opts := []mock.Option{mock.Ideal()}
	settings := []fence.Option{fence.WithCloseTimeout(time.Minute), fence.WithBlockingAfter(time.Duration(seed%3) * 200 * us)}
	if seed%5 == 4 {
		opts = append(opts, mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))
	}
	c.dev = mock.NewDevice(opts...)
	defer c.dev.System().Close()
	c.fences = sourceOf(t, c.dev, settings...)
	for range 4 {
		c.streams = append(c.streams, stream(t, c.dev))
	}
	if c.ends == hanging || c.ends == lost {
		require.NoError(t, c.dev.Hang(c.streams[0]))
	}
	var workers sync.WaitGroup
	for w := range chaosWorkers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			var mine []*fence.Fence
			for range chaosEach {
				if err := c.step(r, &mine); err != nil && !c.expected(err) {
					t.Errorf("round %d: %v", seed, err)
					return
				}
			}
		})
	}
	if c.ends != quietly {
		for range 4 { // who waits without a limit when it ends
			f, err := c.fences.Record(c.streams[0])
			require.NoError(t, err)
			c.late = append(c.late, waiting(context.Background(), f, 2))
		}
		time.Sleep(time.Duration(seed%20) * time.Millisecond)
		c.end(t)
	}
	workers.Wait()
	if c.ends == quietly {
		c.end(t)
	}
	for _, r := range c.late {
		for range 2 {
			err := within(t, r)
			require.True(t, err == nil || c.expected(err), "%v", err)
		}
	}
	c.account(t)
	return c.operations.Load()
}

// end ends the round.
func (c *chaos) end(t *testing.T) {
	c.over.Store(true)
	if c.ends == lost {
		c.dev.Lose()
		for _, r := range c.late {
			require.ErrorIs(t, within(t, r), events.ErrDeviceFault)
			require.ErrorIs(t, within(t, r), events.ErrDeviceFault)
		}
		c.late = nil
	}
	closing := make(chan error, 1)
	if c.ends == quietly { // let all that is pending come to its end first
		c.mu.Lock()
		for _, s := range c.streams {
			require.NoError(t, c.dev.StreamSynchronize(s))
		}
		c.mu.Unlock()
	}
	go func() { closing <- c.fences.Close() }()
	if c.ends == hanging {
		time.Sleep(2 * time.Millisecond)
		c.dev.ReleaseHangs() // or the threads that wait for it would stay
	}
	err := within(t, closing)
	if c.ends != lost {
		require.NoError(t, err)
	}
}

// account requires that everything has come to its end.
func (c *chaos) account(t *testing.T) {
	c.stats = c.fences.Stats()
	require.Zero(t, c.stats.Pending)
	require.Zero(t, c.stats.Waiting)
	require.Zero(t, c.stats.Threads)
	require.Equal(t, c.stats.Recorded, c.stats.Reached+c.stats.Failed+c.stats.Closed)
	require.Zero(t, c.dev.EventStats().LiveEvents)
	require.Zero(t, c.dev.OpenRounds())
	require.Zero(t, c.dev.System().Blocked())
	if c.ends != lost {
		require.Zero(t, c.stats.Failed)
	}
	c.told.Range(func(f, class any) bool {
		require.Equal(t, class, classOf(f.(*fence.Fence).Err()), "%v", f)
		return true
	})
}

func (c *chaos) fates() map[string]uint64 {
	return map[string]uint64{"reached": c.stats.Reached, "failed": c.stats.Failed, "closed": c.stats.Closed, "waits given up": c.stats.GivenUp}
}

// expected reports whether an error follows from how the round ends.
func (c *chaos) expected(err error) bool {
	switch {
	case !c.over.Load():
		return false
	case errors.Is(err, events.ErrClosed):
		return true
	}
	return c.ends == lost && errors.Is(err, events.ErrDeviceFault)
}

// classOf is what kind of result an error is.
func classOf(err error) string {
	switch {
	case err == nil:
		return "reached"
	case errors.Is(err, events.ErrDeviceFault):
		return "failed"
	case errors.Is(err, events.ErrClosed):
		return "closed"
	}
	return err.Error()
}

// tell notes a result, and complains if somebody was told another one.
func (c *chaos) tell(f *fence.Fence, err error) error {
	class := classOf(err)
	if before, known := c.told.LoadOrStore(f, class); known && before != class {
		return fmt.Errorf("%v: told %q before, and now %q", f, before, class)
	}
	if class == "closed" {
		return nil // by one of us, or with the source
	}
	return err
}

// step is one operation or two.
func (c *chaos) step(r *rand.Rand, mine *[]*fence.Fence) error {
	c.operations.Add(1)
	if len(*mine) == 0 || r.IntN(3) == 0 {
		return c.record(r, mine)
	}
	i := r.IntN(len(*mine))
	f := (*mine)[i]
	switch r.IntN(12) {
	case 0: // for what it takes; a wake-up that is lost is an error here
		if c.ends == lost || c.ends == hanging {
			return nil // there is a stream that hangs
		}
		return c.tell(f, wait(f))
	case 1, 2:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(2000))*us)
		defer cancel()
		if err := f.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return c.tell(f, err)
		}
	case 3: // give up at once
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
			return c.tell(f, err)
		}
	case 4:
		select {
		case <-f.Done():
			return c.tell(f, f.Err())
		case <-time.After(time.Duration(r.IntN(300)) * us):
		}
	case 5:
		if err := f.Close(); err != nil {
			return err
		}
		return c.tell(f, f.Err())
	case 6:
		if err := f.Err(); !errors.Is(err, events.ErrNotReady) {
			return c.tell(f, err)
		}
	case 7:
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.fences.WaitOn(f, c.streams[1+r.IntN(len(c.streams)-1)]); !errors.Is(err, events.ErrClosed) {
			return err
		}
	case 8:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(500))*us)
		defer cancel()
		i, err := fence.Any(ctx, *mine...)
		if i >= 0 {
			return c.tell((*mine)[i], err)
		}
	case 9: // a stream goes with whatever is pending on it
		if r.IntN(20) == 0 {
			return c.replaceStream(r)
		}
	default: // let go
		*mine = append((*mine)[:i], (*mine)[i+1:]...)
	}
	return nil
}

func (c *chaos) record(r *rand.Rand, mine *[]*fence.Fence) error {
	c.mu.Lock()
	defer c.mu.Unlock() // of the streams, as their owner would
	s := c.streams[r.IntN(len(c.streams))]
	if r.IntN(2) == 0 {
		if err := c.dev.Work(s, time.Duration(r.IntN(200))*us); err != nil {
			return err
		}
	}
	f, err := c.fences.Record(s)
	if err == nil {
		*mine = append(*mine, f)
	}
	return err
}

// replaceStream destroys one of the streams that do not hang.
func (c *chaos) replaceStream(r *rand.Rand) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := 1 + r.IntN(len(c.streams)-1)
	s, err := c.dev.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	old := c.streams[i]
	c.streams[i] = s
	return c.dev.StreamDestroy(old)
}
