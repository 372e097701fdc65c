package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/internal/ctxerr"
)

// Fence stands for all work that was queued on a stream when Source.Record was
// called. It has been recorded already: there is no fence to be recorded later,
// which a wait would take for one that is reached. A nil or zero Fence is
// ErrNotRecorded in every wait.
//
// Any number of goroutines may wait for it, at any time. Its result never
// changes once there is one, and stays after Close and after Source.Close.
type Fence struct {
	core   *core
	event  event
	lane   *lane
	number uint64
	at     time.Time // of the record

	// Guarded by core.mu.
	settled bool
	err     error         // once settled; written before done is closed
	done    chan struct{} // made for the first who waits
	waiters int
	asked   bool // Done was called
	// listeners are told of the result without waiting for it: those of Any.
	listeners []chan struct{}
}

// Wait blocks the goroutine until the device has reached the fence, ctx is done
// or the fence is closed. It makes no call of the driver itself, so that a ctx
// that is done ends it at once, whatever the driver does. The wait of others
// goes on then, and the event outlives them until the device has reached it.
//
// A result that is known counts more than a ctx that is done. Without one the
// error wraps ctx.Err and its cause. Any answer of the device but "reached" and
// "not yet" ends the wait with that error: a device that fails never leaves
// waiters behind.
func (f *Fence) Wait(ctx context.Context) error {
	if !f.recorded() {
		return notRecorded("wait")
	}
	if ctx == nil {
		return fmt.Errorf("fence wait: %w: nil context", events.ErrInvalid)
	}
	c := f.core
	c.mu.Lock()
	if f.settled {
		c.mu.Unlock()
		return f.result("fence wait")
	}
	if ctx.Err() != nil {
		c.gaveUp++
		c.mu.Unlock()
		return f.gaveUp(ctx, 0)
	}
	done := f.attend()
	c.mu.Unlock()

	began := time.Now()
	select {
	case <-done:
	case <-ctx.Done():
		if !f.leave() {
			c.countGivenUp()
			return f.gaveUp(ctx, time.Since(began))
		}
	}
	if f.err == nil {
		return nil
	}
	return f.result(fmt.Sprintf("fence wait: after %v", time.Since(began).Round(time.Microsecond)))
}

// wanted reports whether somebody waits for f, and needs core.mu.
func (f *Fence) wanted() bool { return f.waiters > 0 || f.asked }

// attend counts a wait in, and gives the channel to wait on. It needs core.mu.
func (f *Fence) attend() <-chan struct{} {
	wanted := f.wanted()
	f.waiters++
	f.core.waiting++
	return f.watch(wanted)
}

// watch gives the channel to wait on, and has the device watched for f unless
// it is already. It needs core.mu.
func (f *Fence) watch(already bool) <-chan struct{} {
	if f.done == nil {
		f.done = make(chan struct{})
	}
	if !already {
		f.lane.wanted++
		f.core.waiter.want(f.lane)
	}
	return f.done
}

// leave takes a waiter away and reports whether the result has come by now.
func (f *Fence) leave() bool {
	f.core.mu.Lock()
	defer f.core.mu.Unlock()
	if f.settled {
		return true
	}
	f.waiters--
	f.core.waiting--
	if !f.wanted() {
		f.lane.wanted--
	}
	return false
}

// settle gives f its result, the first time, and needs core.mu.
func (f *Fence) settle(err error) {
	if f.settled {
		return
	}
	f.settled, f.err = true, err
	f.core.fates.count(err)
	if f.wanted() {
		f.lane.wanted--
	}
	f.core.waiting -= f.waiters
	f.waiters = 0
	if f.done != nil {
		close(f.done)
	}
	for _, l := range f.listeners {
		select {
		case l <- struct{}{}:
		default: // told by another fence
		}
	}
	f.listeners = nil
}

// Done gives a channel that is closed when the fence has a result; Err says
// which. Watching the device for it begins with the first call and goes on
// until there is a result, whether the channel is read or not: on a stream that hangs it
// costs a thread, or a question each 10 ms. Close a fence whose channel nobody reads any longer.
// The channel of a nil or zero Fence is closed.
func (f *Fence) Done() <-chan struct{} {
	if f.recorded() {
		f.core.mu.Lock()
		defer f.core.mu.Unlock()
		if !f.settled {
			wanted := f.wanted()
			f.asked = true
			return f.watch(wanted)
		}
		if f.done != nil {
			return f.done
		}
	}
	over := make(chan struct{})
	close(over)
	return over
}

// Err is the result as far as it is known, without asking the device: nil once
// the device has reached the fence, ErrNotReady while nothing is known, else
// the error that ended the fence. It is no way to poll: unless somebody waits, or
// has called Done, it may stay ErrNotReady for ever.
func (f *Fence) Err() error {
	if !f.recorded() {
		return notRecorded("result")
	}
	f.core.mu.Lock()
	settled := f.settled
	f.core.mu.Unlock()
	if !settled {
		return errPending
	}
	return f.result("fence")
}

// Close says that nobody should wait for the fence any longer: those who do,
// and those who come later, get ErrClosed, unless the result is known already.
// The device is not disturbed; the event goes back once it has reached it. Close
// never waits. It is idempotent, and a nil or zero Fence may be closed.
//
// It need not be called: see the package's documentation.
func (f *Fence) Close() error {
	if !f.recorded() {
		return nil
	}
	f.core.mu.Lock()
	if f.settled {
		f.core.mu.Unlock()
		return nil
	}
	f.settle(errFenceClosed)
	// Without queries nobody would find out when the event can be used again.
	owned := f.core.rounds == nil && f.lane.remove(f)
	f.core.mu.Unlock()
	if owned {
		if err := f.core.discard(f); err != nil {
			return fmt.Errorf("fence close: %s: %w", f.where(), err)
		}
	}
	return nil
}

// String names the fence, its device and stream, its state, and how long ago it was
// recorded while it is pending: for the log line of a request that is stuck.
func (f *Fence) String() string {
	if !f.recorded() {
		return "fence, never recorded"
	}
	f.core.mu.Lock()
	settled := f.settled
	f.core.mu.Unlock()
	state := "pending for " + time.Since(f.at).Round(time.Millisecond).String()
	switch {
	case settled && f.err == nil:
		state = "reached"
	case settled && errors.Is(f.err, events.ErrClosed):
		state = "closed"
	case settled:
		state = "failed: " + f.err.Error()
	}
	return "fence " + strconv.FormatUint(f.number, 10) + " of " + f.where() + ", " + state
}

func (f *Fence) recorded() bool { return f != nil && f.core != nil }

func (f *Fence) where() string { return f.core.where + ", " + f.lane.String() }

// result is the error to hand out once f is settled.
func (f *Fence) result(what string) error {
	if f.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", what, f.where(), f.err)
}

func (f *Fence) gaveUp(ctx context.Context, after time.Duration) error {
	return fmt.Errorf("fence wait: %s: gave up after %v: %w", f.where(), after.Round(time.Microsecond), ctxerr.Of(ctx))
}

var (
	errPending      = fmt.Errorf("fence: %w", events.ErrNotReady)
	errFenceClosed  = fmt.Errorf("the fence was %w before the device was seen to reach it", events.ErrClosed)
	errSourceClosed = fmt.Errorf("its source was %w before the device was seen to reach it", events.ErrClosed)
)

func notRecorded(what string) error {
	return fmt.Errorf("fence %s: %w: a nil or zero fence; Source.Record makes one", what, events.ErrNotRecorded)
}
