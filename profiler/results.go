package profiler

import (
	"fmt"
	"sync"

	"example.com/devevents/events"
)

// results keeps the outcomes of the windows stopped last.
type results struct {
	mu   sync.Mutex
	ring []result
	// changed is closed and replaced when outcomes are added while somebody waits.
	changed chan struct{}
	waiting bool
}

type result struct {
	seq  uint64
	span Span
	err  error
}

func newResults(n int) *results {
	return &results{ring: make([]result, n), changed: make(chan struct{})}
}

func (r *results) put(seq uint64, span Span, err error) {
	r.mu.Lock()
	if at := &r.ring[seq%uint64(len(r.ring))]; at.seq < seq {
		*at = result{seq: seq, span: span, err: err}
	}
	r.mu.Unlock()
}

// wake lets waiting readers look again.
func (r *results) wake() {
	r.mu.Lock()
	if r.waiting {
		close(r.changed)
		r.changed, r.waiting = make(chan struct{}), false
	}
	r.mu.Unlock()
}

// get gives an outcome, or a channel that closes at the next change.
func (r *results) get(seq uint64) (out result, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.ring[seq%uint64(len(r.ring))]
	switch {
	case at.seq == seq:
		return at, nil
	case at.seq > seq:
		return result{err: fmt.Errorf("profiler: %w: results are kept for the %d windows stopped last", events.ErrExpired, len(r.ring))}, nil
	}
	r.waiting = true
	return out, r.changed
}
