package events

import (
	"errors"
	"fmt"
	"sync"
)

// Pool keeps the events of one device for reuse. It grows up to its limit and
// never hands out an event that the device has not reached yet, that somebody
// still holds, or whose last record went into a graph capture: such an event
// would complete for the wrong record, or break the capture.
//
// It is safe for concurrent use. Close it when its device is done.
type Pool[E any, S comparable] struct {
	api     EventApi[E, S]
	untimed bool
	limit   int

	mu      sync.Mutex
	free    []*Event[E, S] // complete
	pending []*Event[E, S] // released before the device reached them, oldest first
	alive   int
	closed  bool
}

// NewPool makes a pool of at most limit events, timed or not (untimed events
// wait in the driver without burning a core, where the backend can). It panics
// if limit is not positive.
func NewPool[E any, S comparable](api EventApi[E, S], limit int, untimed bool) *Pool[E, S] {
	if limit <= 0 {
		panic(fmt.Sprintf("events.NewPool: limit %d is not positive", limit))
	}
	return &Pool[E, S]{api: api, limit: limit, untimed: untimed}
}

// Get takes an event; the caller is its only holder and gives it back with
// Release. At the limit the error is ErrFull.
func (p *Pool[E, S]) Get() (*Event[E, S], error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, fmt.Errorf("event pool: %w", ErrClosed)
	}
	if e := pop(&p.free); e != nil {
		p.mu.Unlock()
		return e.reuse(), nil
	}
	waiting := p.pending
	p.pending = nil
	room := p.alive < p.limit
	if room {
		p.alive++ // reserved; the driver is called without the lock
	}
	p.mu.Unlock()

	found := p.retire(waiting)
	if found == nil && room {
		return p.grow()
	}
	if room {
		p.left()
	}
	if found == nil {
		return nil, fmt.Errorf("event pool: %w: %d events are in use and none has been reached", ErrFull, p.limit)
	}
	return found.reuse(), nil
}

func pop[E any, S comparable](list *[]*Event[E, S]) *Event[E, S] {
	n := len(*list)
	if n == 0 {
		return nil
	}
	e := (*list)[n-1]
	(*list)[n-1] = nil
	*list = (*list)[:n-1]
	return e
}

// retire looks through events that were pending, oldest first, and keeps one
// that has been reached. It stops asking at the first that has not: the rest
// are younger.
func (p *Pool[E, S]) retire(waiting []*Event[E, S]) *Event[E, S] {
	var reached *Event[E, S]
	for i, e := range waiting {
		done, err := e.ask()
		if err != nil && !errors.Is(err, ErrUnsupported) {
			_ = e.Close() // counted by the backend if it fails
			continue
		}
		if done && reached == nil {
			reached = e
			continue
		}
		p.mu.Lock()
		if done {
			p.free = append(p.free, e)
		} else {
			p.pending = append(p.pending, waiting[i:]...)
		}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			_ = p.Close()
		}
		if !done {
			break
		}
	}
	return reached
}

func (p *Pool[E, S]) grow() (*Event[E, S], error) {
	make := New[E, S]
	if p.untimed {
		make = func(api EventApi[E, S]) (*Event[E, S], error) { return NewUntimed(api, true) }
	}
	e, err := make(p.api)
	if err != nil {
		p.left()
		return nil, err
	}
	e.pool = p
	return e, nil
}

// reuse makes an event of the pool fresh for its next holder.
func (e *Event[E, S]) reuse() *Event[E, S] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = StateFresh
	e.record++
	e.holders = 1
	return e
}

// take keeps an event that its last holder has released.
func (p *Pool[E, S]) take(e *Event[E, S]) error {
	state := e.State()
	if state == StateRecorded && e.querier != nil {
		if done, err := e.ask(); err == nil && done {
			state = StateComplete
		} else if err != nil {
			return errors.Join(err, e.Close())
		}
	}
	p.mu.Lock()
	if p.closed || state == StateCaptured || state == StateRecorded && e.querier == nil {
		p.mu.Unlock()
		return e.Close()
	}
	if state == StateRecorded {
		p.pending = append(p.pending, e)
	} else {
		p.free = append(p.free, e)
	}
	p.mu.Unlock()
	return nil
}

func (p *Pool[E, S]) left() {
	p.mu.Lock()
	p.alive--
	p.mu.Unlock()
}

// Len is the number of events that the pool has made and not destroyed.
func (p *Pool[E, S]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive
}

// Close destroys the events in the pool. Events still held are destroyed when
// their last holder releases them. It is idempotent.
func (p *Pool[E, S]) Close() error {
	p.mu.Lock()
	p.closed = true
	all := append(p.free, p.pending...)
	p.free, p.pending = nil, nil
	p.mu.Unlock()
	var failed []error
	for _, e := range all {
		failed = append(failed, e.Close())
	}
	return errors.Join(failed...)
}
