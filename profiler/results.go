package profiler

import (
	"fmt"
	"sync"
	"sync/atomic"

	"example.com/devevents/events"
)

// results keeps the outcomes of the windows stopped last on one stream. It grows
// with them, up to its limit.
type results struct {
	mu    sync.Mutex
	limit int
	ring  []result

	readers atomic.Int32 // who wait for one of these at this moment
	waiting int          // read back and looked at, not placed yet; the harvester's
}

type result struct {
	position uint64
	span     Span
	err      error
}

const resultsAtFirst = 16

func (r *results) put(position uint64, span Span, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) == 0 {
		r.ring = make([]result, min(resultsAtFirst, r.limit))
	}
	at := r.at(position)
	for at.position != 0 && len(r.ring) < r.limit {
		r.grow()
		at = r.at(position)
	}
	if at.position < position {
		*at = result{position: position, span: span, err: err}
	}
}

func (r *results) at(position uint64) *result { return &r.ring[position%uint64(len(r.ring))] }

func (r *results) grow() {
	old := r.ring
	r.ring = make([]result, min(2*len(old), r.limit))
	for _, x := range old {
		if at := r.at(x.position); x.position > at.position {
			*at = x
		}
	}
}

// get gives an outcome, if there is one yet.
func (r *results) get(position uint64) (out result, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) == 0 {
		return out, false
	}
	switch at := r.at(position); {
	case at.position == position:
		return *at, true
	case at.position > position && len(r.ring) == r.limit: // else the ring grows when it comes
		return result{err: fmt.Errorf("profiler: %w: results are kept for the %d windows stopped last on the stream", events.ErrExpired, r.limit)}, true
	}
	return out, false
}

// bell wakes the readers who wait for outcomes.
type bell struct {
	mu      sync.Mutex
	changed chan struct{}
	waiting bool
}

// wait gives a channel that closes at the next ring.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	b.waiting = true
	return b.changed
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting {
		close(b.changed)
		b.changed, b.waiting = make(chan struct{}), false
	}
}
