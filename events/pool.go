package events

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"example.com/devevents/internal/slab"
)

// Pool keeps the events of one device for reuse. It grows up to its limit and
// never hands out an event that the device has not reached yet, that somebody
// still holds, or whose last record went into a graph capture: such an event
// would complete for the wrong record, or break the capture.
//
// Each Get gives an Event of its own, so that whoever released one earlier cannot
// touch what it lends now. These Events are 16 bytes each and made up to 4096 at a
// time; such a slab lives as long as somebody keeps one of them.
//
// It is safe for concurrent use. Close it when its device is done. A nil or zero
// Pool lends nothing: Get is ErrInvalid.
type Pool[E any, S comparable] struct {
	api     EventApi[E, S]
	untimed bool
	limit   int

	mu      sync.Mutex
	free    []*body[E, S] // complete
	pending []*body[E, S] // released before the device reached them, in that order
	alive   atomic.Int64
	closed  bool
	lent    slab.Slab[Event[E, S]]

	retiring sync.Mutex      // held by whoever looks through pending
	slow     []lastRecord[S] // for retire alone
}

// NewPool makes a pool of at most limit events, timed or not (untimed events
// wait in the driver without burning a core, where the backend can). It panics
// if limit is not positive. Without a device, every Get is ErrInvalid.
func NewPool[E any, S comparable](api EventApi[E, S], limit int, untimed bool) *Pool[E, S] {
	if limit <= 0 {
		panic(fmt.Sprintf("events.NewPool: limit %d is not positive", limit))
	}
	return &Pool[E, S]{api: api, limit: limit, untimed: untimed}
}

// Get takes an event; the caller is its only holder and gives it back with
// Release. At the limit the error is ErrFull.
func (p *Pool[E, S]) Get() (*Event[E, S], error) {
	if p == nil || p.api == nil {
		return nil, fmt.Errorf("event pool: %w: nil or zero Pool, or one without a device", ErrInvalid)
	}
	if e, err := p.idle(); e != nil || err != nil {
		return e, err
	}
	if b := p.retire(); b != nil {
		return p.lend(b), nil
	}
	if e, err := p.idle(); e != nil || err != nil {
		return e, err // given back, or closed, meanwhile
	}
	if !p.reserve() {
		return nil, fmt.Errorf("event pool: %w: all %d events are held or still pending", ErrFull, p.limit)
	}
	return p.grow()
}

// idle takes an event that is known to be complete, if there is one.
func (p *Pool[E, S]) idle() (*Event[E, S], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("event pool: %w", ErrClosed)
	}
	n := len(p.free)
	if n == 0 {
		return nil, nil
	}
	b := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return p.lendLocked(b), nil
}

// retire looks through the pending events, first released first, until it finds
// one that has been reached. It does not ask about events that lie behind one
// that has not. Others that look wait for their turn, so that nobody takes a
// list that is being looked through for an empty one. The driver is called
// without the pool's lock.
func (p *Pool[E, S]) retire() *body[E, S] {
	p.retiring.Lock()
	defer p.retiring.Unlock()
	p.mu.Lock()
	waiting := p.pending
	p.pending = nil
	p.mu.Unlock()

	var reached *body[E, S]
	left := waiting[:0]
	p.slow = p.slow[:0]
	for _, b := range waiting {
		last := b.last()
		if reached != nil || slices.ContainsFunc(p.slow, last.after) {
			left = append(left, b)
			continue
		}
		done, err := b.ask()
		switch {
		case err != nil:
			_ = b.destroy() // counted by the backend if it fails
		case done:
			reached = b
		default:
			p.slow = append(p.slow, last)
			left = append(left, b)
		}
	}
	clear(waiting[len(left):])

	p.mu.Lock()
	p.pending = append(left, p.pending...) // what came meanwhile comes later
	closed := p.closed
	p.mu.Unlock()
	if closed {
		_ = p.Close() // it could not see what was in waiting
	}
	return reached
}

// reserve makes room for one more event, where the limit allows.
func (p *Pool[E, S]) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive.Load() >= int64(p.limit) {
		return false
	}
	p.alive.Add(1)
	return true
}

// grow makes the event that room was reserved for.
func (p *Pool[E, S]) grow() (*Event[E, S], error) {
	b, err := own(p.api, p.untimed, true)
	if err != nil {
		p.left()
		return nil, err
	}
	b.pool = p
	return p.lend(b), nil
}

func (p *Pool[E, S]) lend(b *body[E, S]) *Event[E, S] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lendLocked(b)
}

// lastSlab bounds how many Events are made at once.
const lastSlab = 4096

// lendLocked makes an event of the pool fresh for its next holder, who gets an
// Event of its own. It needs p.mu.
func (p *Pool[E, S]) lendLocked(b *body[E, S]) *Event[E, S] {
	e := p.lent.Next(lastSlab)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = StateFresh
	b.record++
	b.loan++
	b.holders = 1
	e.body, e.loan = b, b.loan
	return e
}

// take keeps an event that its last holder has released.
func (p *Pool[E, S]) take(b *body[E, S]) error {
	b.mu.Lock()
	state := b.state
	b.mu.Unlock()
	if state == StateRecorded && b.querier != nil {
		if done, err := b.ask(); err == nil && done {
			state = StateComplete
		} else if err != nil {
			return errors.Join(err, b.destroy())
		}
	}
	p.mu.Lock()
	if p.closed || state == StateCaptured || state == StateRecorded && b.querier == nil {
		p.mu.Unlock()
		return b.destroy()
	}
	if state == StateRecorded {
		p.pending = append(p.pending, b)
	} else {
		p.free = append(p.free, b)
	}
	p.mu.Unlock()
	return nil
}

func (p *Pool[E, S]) left() { p.alive.Add(-1) }

// Len is the number of events that the pool has made and not destroyed.
func (p *Pool[E, S]) Len() int {
	if p == nil {
		return 0
	}
	return int(p.alive.Load())
}

// Close destroys the events in the pool. Events still held are destroyed when
// their last holder releases them. It is idempotent. What a lost device says to
// each of them is reported once.
func (p *Pool[E, S]) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.closed = true
	all := append(p.free, p.pending...)
	p.free, p.pending = nil, nil
	p.mu.Unlock()
	var failed []error
	for _, b := range all {
		err := b.destroy()
		if err == nil || slices.ContainsFunc(failed, func(f error) bool { return f.Error() == err.Error() }) {
			continue
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
