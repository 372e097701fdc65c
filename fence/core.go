package fence

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/internal/slab"
)

// waiter finds out for those who wait. There is one for each core.
type waiter interface {
	// want says that somebody began to wait for a fence of l. It is called with
	// core.mu held. The waiter looks after l as long as l.wanted is not 0, and
	// runs what it starts through core.start and core.stopped.
	want(l *lane)
	// collect looks for events to use again, also of fences that nobody waits for,
	// on behalf of a record on l. It reports whether some may come back later.
	collect(l *lane, want urgency) (coming bool)
	// blocked is how many goroutines wait in the driver. It needs core.mu.
	blocked() int
	// end is called with core.mu held when the source closes and no fence is left.
	end()
	// release comes after that, when nothing that was started runs any longer.
	release()
}

// core is a Source without its vendor's types.
type core struct {
	where  string // the device, for texts
	config config
	rounds rounds // nil where the backend cannot query
	waiter waiter

	// turn is held, by sending, while a polling round is open.
	turn  chan struct{}
	polls atomic.Uint64

	mu        sync.Mutex
	lanes     []*lane
	place     int    // in lanes, for inTurn
	nextEarly uint64 // at which count of records to look for events early
	blank     slab.Slab[Fence]
	records   uint64 // fences made
	fates     fates
	waiting   int // waits in progress
	gaveUp    uint64
	inUse     int           // events out of the pool
	freed     chan struct{} // made by a record that needs an event, closed by the next one out of use
	busy      int           // goroutines and calls of ours that may be in the driver
	closing   chan struct{} // made by close, closed when it is over
	quiet     chan struct{} // made by close, closed when busy is 0
	closed    error         // the result of close
	trouble   trouble
}

// fates counts the results that fences got.
type fates struct{ reached, failed, closed uint64 }

func (n *fates) count(err error) {
	switch {
	case err == nil:
		n.reached++
	case errors.Is(err, events.ErrClosed):
		n.closed++
	default:
		n.failed++
	}
}

// trouble collects errors that nobody could be told when they happened.
type trouble struct {
	count int
	first []error
}

const troubleKept = 4

// note keeps err for close.
func (c *core) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(err)
}

// noteLocked is note with core.mu held.
func (c *core) noteLocked(err error) {
	c.trouble.count++
	if len(c.trouble.first) < troubleKept {
		c.trouble.first = append(c.trouble.first, err)
	}
}

// enter counts a call in, and refuses it once the source is closed. It needs
// core.mu.
func (c *core) enter() error {
	if c.closing != nil {
		return fmt.Errorf("the source for %s is %w", c.where, events.ErrClosed)
	}
	c.busy++
	return nil
}

// start runs a goroutine of a waiter, and needs core.mu. The goroutine calls
// stopped as its last thing.
func (c *core) start(run func()) {
	c.busy++
	go run()
}

// stopped counts a call or a goroutine out, and needs core.mu.
func (c *core) stopped() {
	if c.busy--; c.busy == 0 && c.quiet != nil {
		close(c.quiet)
	}
}

// add enters a recorded fence, and counts its call of Record out.
func (c *core) add(f *Fence) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing != nil {
		return fmt.Errorf("the source was %w meanwhile", events.ErrClosed)
	}
	c.records++
	f.number = c.records
	f.lane.add(f)
	f.lane.users--
	c.stopped()
	return nil
}

// verdict is what the device said about a fence.
type verdict struct {
	fence *Fence
	err   error
}

// decide gives f the device's answer. Unless somebody else has taken f's event,
// it adds to over, whose events await giveBack.
func (c *core) decide(f *Fence, err error, over []verdict) []verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.settle(err)
	if f.lane.remove(f) {
		over = append(over, verdict{f, err})
	}
	return over
}

// decideThrough settles the oldest fences of a lane up to f, which the device was just
// seen to reach, and with it all before it.
func (c *core) decideThrough(f *Fence, over []verdict) []verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := f.lane
	n := slices.Index(l.fences, f) + 1
	for _, older := range l.fences[:n] {
		older.settle(nil)
		if older != f {
			// The pool asks the device about what is not known to be reached.
			if err := c.rounds.reachedWith(older.event, f.event); err != nil {
				c.noteLocked(err)
			}
		}
		over = append(over, verdict{older, nil})
	}
	l.drop(n)
	return over
}

// giveBack returns events to the pool; one that failed is destroyed.
func (c *core) giveBack(over []verdict) {
	back := 0
	for _, v := range over {
		if v.err != nil {
			c.note(c.discard(v.fence))
			continue
		}
		c.note(v.fence.event.Release())
		back++
	}
	if back > 0 {
		c.outOfUse(back)
	}
}

// discard destroys a fence's event. The device may not have reached it yet.
func (c *core) discard(f *Fence) error {
	defer c.outOfUse(1)
	return f.event.Close()
}

// close ends everything. It is not held up by a driver that does not return.
func (c *core) close(drain func() error) error {
	c.mu.Lock()
	if c.closing != nil {
		over := c.closing
		c.mu.Unlock()
		<-over
		return c.closed
	}
	c.closing, c.quiet = make(chan struct{}), make(chan struct{})
	var left []*Fence
	for _, l := range c.lanes {
		for _, f := range l.fences {
			f.settle(errSourceClosed)
			left = append(left, f)
		}
		l.fences, l.room = nil, nil
	}
	c.waiter.end()
	if c.busy == 0 {
		close(c.quiet)
	}
	c.mu.Unlock()

	freed := make(chan struct{})
	go func() {
		defer close(freed)
		for _, f := range left {
			c.note(c.discard(f))
		}
		failed := drain()
		if joined, ok := failed.(interface{ Unwrap() []error }); ok { // one for each event
			for _, err := range joined.Unwrap() {
				c.note(err)
			}
		} else {
			c.note(failed)
		}
	}()

	deadline := time.NewTimer(c.config.closeTimeout)
	defer deadline.Stop()
	late := false
	for _, over := range []<-chan struct{}{c.quiet, freed} {
		select {
		case <-over:
		case <-deadline.C:
			late = true
			deadline.Reset(0) // one time for both
		}
	}

	c.mu.Lock()
	all := c.trouble.first
	if more := c.trouble.count - len(all); more > 0 {
		all = append(all, fmt.Errorf("and %d more like these", more))
	}
	if late {
		all = append(all, fmt.Errorf("%w: after %v the driver still holds %d calls, and %d events of unfinished fences are not destroyed; that follows if it lets go",
			events.ErrExpired, c.config.closeTimeout, c.busy, c.inUse+c.waiter.blocked()))
	}
	if c.busy == 0 {
		c.waiter.release()
	}
	if err := errors.Join(all...); err != nil {
		c.closed = fmt.Errorf("fence: close of the source for %s: %w", c.where, err)
	}
	c.mu.Unlock()
	close(c.closing)
	return c.closed
}
