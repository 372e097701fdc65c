package profiler

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/devevents/events"
)

// harvest reads windows back. Its lock is held by whoever does so: the
// harvester's goroutine, a reader or Flush. No stream's lock is held across a
// call to the device.
type harvest[E any, S comparable] struct {
	engine *engine[E, S]
	placer placer[E, S]

	mu       sync.Mutex
	complete []reached[E, S]
	look     []*window[E]
	waiting  []entry // read back, to be placed when the clocks have been compared again
	batch    []Span
}

// reached is a window whose end the device has reached.
type reached[E any, S comparable] struct {
	stream *stream[E, S]
	window *window[E]
	seen   int64 // host clock after the first query that said so
	err    error
}

// entry is a window that has been read back.
type entry struct {
	seq  uint64
	span Span
	placement
}

// placementLimit bounds the windows that wait to be placed.
const placementLimit = 4096

// once looks at every stream, reads back what is done, and places what can be
// placed well; with now set, everything.
func (h *harvest[E, S]) once(now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.work(now)
}

// try is once for a reader, who does not wait for somebody else doing it.
func (h *harvest[E, S]) try(now bool) {
	if h.mu.TryLock() {
		defer h.mu.Unlock()
		h.work(now)
	}
}

// last is once for Close, unless a call into the driver hangs beyond deadline.
func (h *harvest[E, S]) last(deadline time.Time) bool {
	for !h.mu.TryLock() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	defer h.mu.Unlock()
	h.work(true)
	return true
}

func (h *harvest[E, S]) work(now bool) {
	e := h.engine
	if fault := e.fault.Load(); fault != nil {
		h.failAll(*fault)
	} else {
		h.collect()
		if len(h.complete) > 0 || len(h.waiting) > 0 {
			h.placer.refresh(now)
		}
		for i := range h.complete {
			h.read(&h.complete[i])
		}
		clear(h.complete)
		h.complete = h.complete[:0]
	}
	h.placeAll(now || len(h.waiting) > placementLimit)
	h.deliver()
}

// holds reports whether a window stopped at or before seq waits to be placed.
func (h *harvest[E, S]) holds(seq uint64) bool {
	if !h.mu.TryLock() {
		return true // being worked on: look again
	}
	defer h.mu.Unlock()
	for i := range h.waiting {
		if h.waiting[i].seq <= seq {
			return true
		}
	}
	return false
}

// collect finds the windows that the device has reached.
func (h *harvest[E, S]) collect() {
	e := h.engine
	streams := e.snapshot()
	var round events.Round
	opened := false
	defer func() {
		if opened {
			e.noteFault(e.rounds.RoundEnd(round))
		}
	}()
	for _, s := range streams {
		s.mu.Lock()
		h.look = append(h.look[:0], s.pending...)
		s.mu.Unlock()
		if len(h.look) == 0 {
			continue
		}
		if e.rounds != nil && !opened {
			var err error
			if round, err = e.rounds.RoundBegin(); err != nil {
				e.noteFault(err)
				return
			}
			opened = true
		}
		before := len(h.complete)
		h.collectStream(s, round)
		if n := len(h.complete) - before; n > 0 {
			s.mu.Lock()
			kept := s.pending[:0]
			for _, w := range s.pending {
				if w.state == windowPending {
					kept = append(kept, w)
				}
			}
			clear(s.pending[len(kept):])
			s.pending = kept
			s.mu.Unlock()
		}
	}
	clear(h.look)
}

// collectStream asks about one stream's stopped windows, oldest first and in
// growing steps. The device passes a stream in order, so a window that has been
// reached settles every window whose stop was over before its own stop began.
func (h *harvest[E, S]) collectStream(s *stream[E, S], round events.Round) {
	todo := h.look
	step := 1
	for len(todo) > 0 {
		i := min(step, len(todo)) - 1
		if h.engine.canAsk() {
			step *= 2
		}
		done, err := h.ask(todo[i], round)
		seen := h.engine.now()
		if !done && err == nil {
			if i == 0 {
				return
			}
			step = 1
			continue
		}
		note := todo[i].note
		kept := todo[:0]
		for j, w := range todo {
			switch {
			case j == i:
				h.settle(s, w, seen, err)
			case err == nil && w.position < note:
				h.settle(s, w, seen, nil)
			default:
				kept = append(kept, w)
			}
		}
		todo = kept
	}
}

func (h *harvest[E, S]) settle(s *stream[E, S], w *window[E], seen int64, err error) {
	s.mu.Lock()
	w.state = windowClosing
	s.mu.Unlock()
	h.complete = append(h.complete, reached[E, S]{s, w, seen, err})
}

// ask reports whether the device has reached a window's end.
func (h *harvest[E, S]) ask(w *window[E], round events.Round) (bool, error) {
	if e := h.engine; e.rounds != nil {
		return e.rounds.RoundQuery(round, w.end.event)
	}
	return h.engine.reached(w.end)
}

// read turns a reached window into an entry, and gives its events back.
func (h *harvest[E, S]) read(r *reached[E, S]) {
	e, w := h.engine, r.window
	err := r.err
	var took time.Duration
	if err == nil {
		took, err = e.api.EventElapsed(w.start.event, w.end.event)
	}
	next := entry{seq: w.seq, span: Span{ID: w.id, Parent: w.parent, Depth: w.depth, Name: w.track.name, Duration: took}}
	if err == nil {
		next.placement, err = h.placer.locate(w.start.event, w.began, r.seen, took)
	}
	if err != nil {
		e.noteFault(err)
		if errors.Is(err, events.ErrCapturing) {
			w.start.spoilt, w.end.spoilt = true, true
		}
	}
	r.stream.give(w)
	if err != nil {
		if fault := e.fault.Load(); fault != nil {
			err = *fault
		}
		e.settle(next.seq, fmt.Errorf("profiler: reading window %d back: %w", next.span.ID, err))
		return
	}
	h.waiting = append(h.waiting, next)
}

// placeAll places the windows that an anchor follows, or all of them.
func (h *harvest[E, S]) placeAll(all bool) {
	if len(h.waiting) == 0 {
		return
	}
	e := h.engine
	kept := h.waiting[:0]
	for _, w := range h.waiting {
		if !all && !h.placer.followed(w.placement) {
			kept = append(kept, w)
			continue
		}
		at, bound, epoch := h.placer.place(w.placement)
		w.span.Start, w.span.Bound, w.span.Epoch = e.base.Add(time.Duration(at)), bound, epoch
		e.count.pending.Add(-1)
		e.count.finished.Add(1)
		e.results.put(w.seq, w.span, nil)
		if len(e.sinks) > 0 {
			h.batch = append(h.batch, w.span)
		}
	}
	if len(kept) < len(h.waiting) {
		e.results.wake()
	}
	h.waiting = kept
}

// deliver hands what was placed to the sinks' queues.
func (h *harvest[E, S]) deliver() {
	if len(h.batch) == 0 {
		return
	}
	for _, sink := range h.engine.sinks {
		sink.push(h.batch)
	}
	h.batch = nil // the sinks may keep it
}

// failAll resolves every stopped window and marks every open one: the device
// will not answer for any of them.
func (h *harvest[E, S]) failAll(fault error) {
	e := h.engine
	for _, s := range e.snapshot() {
		s.failOpen(fault)
		s.mu.Lock()
		pending := s.pending
		s.pending = nil
		for _, w := range pending {
			w.state = windowClosing
		}
		s.mu.Unlock()
		for _, w := range pending {
			seq := w.seq
			s.give(w)
			e.settle(seq, fault)
		}
	}
}
