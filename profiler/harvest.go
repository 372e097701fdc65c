package profiler

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/profiler/internal/clock"
)

// harvest reads windows back. Its lock is held by whoever does so: the
// harvester's goroutine, a reader or Flush. No stream's lock is held across a
// call to the device.
type harvest[E any, S comparable] struct {
	engine *engine[E, S]
	placer placer[E, S]

	mu       sync.Mutex
	streams  []*stream[E, S]
	complete []reached[E, S]
	look     []*window[E]
	waiting  []entry // read back, to be placed when the clocks have been compared again
	looked   int     // of those, how many were found not to be settled
	batch    []Span
	stacks   stacks
	names    names
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
	results  *results
	position uint64
	span     Span
	placement
}

const (
	// placementLimit bounds the windows that wait to be placed.
	placementLimit = 1 << 15
	// placementPatience is for how many anchor intervals a window waits for the anchors
	// behind it, which are one more than clock.Links and may be missed on a busy device.
	placementPatience = 2*clock.Links + 2
)

// once looks at every stream, reads back what is done, and places what can be
// placed well, or is waited for; everything for a flush, or for Close.
func (h *harvest[E, S]) once() {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.engine
	e.flushing.Lock()
	now := e.closed.Load() || len(e.flushing.all) > 0
	e.flushing.Unlock()
	h.work(now)
	e.flushing.Lock()
	defer e.flushing.Unlock()
	e.flushing.all = slices.DeleteFunc(e.flushing.all, func(f *flush[E, S]) bool {
		over := h.settled(f.tails)
		if over {
			close(f.done)
		}
		return over
	})
}

// try is once for a caller who does not wait for somebody else doing it.
func (h *harvest[E, S]) try() {
	if h.mu.TryLock() {
		defer h.mu.Unlock()
		h.work(false)
	}
}

// last is once for Close, which ends every stream: readers may still come, and
// find nothing to do. Everything has its outcome before the first destroy, which may
// hang.
func (h *harvest[E, S]) last() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.work(true)
	var left []*window[E]
	for _, s := range h.engine.snapshot() {
		left = append(left, h.engine.end(s)...)
	}
	for _, w := range left {
		h.engine.destroyStamps(w)
	}
	h.placer.close()
}

// work makes one pass; with now set everything is placed that is read back.
func (h *harvest[E, S]) work(now bool) {
	e := h.engine
	if fault := e.fault.Load(); fault != nil {
		h.failAll(fault.err)
		now = true // no anchor comes any more
	} else {
		unread, open := h.collect()
		if n := len(h.complete) + len(h.waiting); n > 0 || unread || open {
			h.placer.refresh(now && n > 0 || h.wanted())
		}
		for i := range h.complete {
			h.read(&h.complete[i])
		}
		h.giveBack()
	}
	h.placeAll(now || len(h.waiting) > placementLimit)
	h.deliver()
}

// wanted reports whether somebody waits for a window that is done.
func (h *harvest[E, S]) wanted() bool {
	if h.engine.eager.Load() == 0 {
		return false
	}
	for i := range h.complete {
		if h.complete[i].stream.results.readers.Load() > 0 {
			return true
		}
	}
	return slices.ContainsFunc(h.waiting, func(w entry) bool { return w.results.readers.Load() > 0 })
}

// finished is settled for a caller who does not wait for the lock.
func (h *harvest[E, S]) finished(tails map[*stream[E, S]]uint64) bool {
	if !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	return h.settled(tails)
}

// settled reports whether every window has an outcome that was stopped at or before
// the given position of its stream. It calls no driver.
func (h *harvest[E, S]) settled(tails map[*stream[E, S]]uint64) bool {
	for s, tail := range tails {
		s.mu.Lock()
		unread := len(s.pending) > 0 && s.pending[0].position <= tail
		s.mu.Unlock()
		if unread || slices.ContainsFunc(h.waiting, func(w entry) bool { return w.results == &s.results && w.position <= tail }) {
			return false
		}
	}
	return true
}

// collect finds the windows that the device has reached, and reports whether any
// are stopped at all, and whether any are open.
func (h *harvest[E, S]) collect() (unread, open bool) {
	e := h.engine
	h.streams = e.appendStreams(h.streams[:0])
	var round events.Round
	opened, refused := false, false
	defer func() {
		if opened {
			e.noteFault(e.rounds.RoundEnd(round))
		}
	}()
	for _, s := range h.streams {
		h.look = h.look[:0]
		s.mu.Lock()
		open = open || s.count.open > 0
		for _, w := range s.pending {
			if w.ready.Load() {
				h.look = append(h.look, w)
			}
		}
		s.mu.Unlock()
		if len(h.look) == 0 {
			continue
		}
		unread = true
		if e.rounds != nil && !opened && !refused {
			var err error
			if round, err = e.rounds.RoundBegin(); e.noteFault(err) {
				return unread, open
			}
			opened, refused = err == nil, err != nil
		}
		before := len(h.complete)
		h.collectStream(s, round, opened)
		if len(h.complete) > before {
			s.compact()
		}
	}
	clear(h.look)
	clear(h.streams)
	return unread, open
}

// compact takes the windows out of the stopped ones that were found reached.
func (s *stream[E, S]) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.pending[:0]
	settled := 0
	for i, w := range s.pending {
		if w.taken {
			continue
		}
		kept = append(kept, w)
		if i < s.settled {
			settled++
		}
	}
	clear(s.pending[len(kept):])
	s.pending, s.settled = kept, settled
}

// collectStream asks about one stream's stopped windows, oldest first and in
// growing steps. The device passes a stream in order, so a window that has been
// reached settles every window whose stop was over before its own stop began.
func (h *harvest[E, S]) collectStream(s *stream[E, S], round events.Round, opened bool) {
	todo := h.look
	step := 1
	for len(todo) > 0 {
		i := min(step, len(todo)) - 1
		if h.engine.canAsk() {
			step = 2 * (i + 1)
		}
		done, err := h.ask(todo[i], round, opened)
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
				h.take(s, w, seen, err)
			case err == nil && w.position < note:
				h.take(s, w, seen, nil)
			default:
				kept = append(kept, w)
			}
		}
		todo = kept
	}
}

func (h *harvest[E, S]) take(s *stream[E, S], w *window[E], seen int64, err error) {
	w.taken = true
	h.complete = append(h.complete, reached[E, S]{s, w, seen, err})
}

// ask reports whether the device has reached a window's end.
func (h *harvest[E, S]) ask(w *window[E], round events.Round, opened bool) (bool, error) {
	if opened {
		return h.engine.rounds.RoundQuery(round, w.end.event)
	}
	return h.engine.reached(w.end)
}

// read turns a reached window into an entry.
func (h *harvest[E, S]) read(r *reached[E, S]) {
	e, w := h.engine, r.window
	err := r.err
	var took time.Duration
	if err == nil {
		took, err = e.api.EventElapsed(w.start.event, w.end.event)
	}
	next := entry{
		results: &r.stream.results, position: w.position,
		span: Span{
			ID: w.id, Parent: w.place.parent, Root: w.place.root, Depth: int(w.place.depth), Within: h.names.within(&w.place),
			Name: w.track.name, Duration: took, Device: e.device,
			Called: e.at(w.began), Context: w.ctx, Stack: h.stacks.shared(w.stack),
		},
	}
	if w.stopped != 0 {
		next.span.Stopped = e.at(w.stopped)
	}
	if err == nil {
		next.placement, err = h.placer.locate(w.start.event, w.began, r.seen, took)
	}
	if err == nil {
		e.count.placing.Add(1)
		h.waiting = append(h.waiting, next)
		return
	}
	e.noteFault(err)
	r.err = err
	if fault := e.fault.Load(); fault != nil {
		err = fault.err
	}
	if err != errTorn { //nolint:errorlint // our own value, and nothing to add to it
		err = fmt.Errorf("profiler: reading window %d back: %w", next.span.ID, err)
	}
	e.settle(next.results, next.position, err)
	e.changes.ring()
}

// giveBack frees the windows that were read, taking each stream's lock once for
// those that follow each other.
func (h *harvest[E, S]) giveBack() {
	var held *stream[E, S]
	for i := range h.complete {
		r := &h.complete[i]
		if r.stream != held {
			if held != nil {
				held.mu.Unlock()
			}
			held = r.stream
			held.mu.Lock()
		}
		if errors.Is(r.err, events.ErrCapturing) {
			r.window.start.spoilt, r.window.end.spoilt = true, true
		}
		held.count.unread--
		held.done(r.window)
	}
	if held != nil {
		held.mu.Unlock()
	}
	clear(h.complete)
	h.complete = h.complete[:0]
}

// placeAll places the windows that will not be placed better, that somebody waits for
// or that have waited long enough, or all of them; of each stream in the order of their
// stops, so that sinks get a window after those in it. Without a new anchor, and with
// nobody who waits, those that were looked at before are as they were.
func (h *harvest[E, S]) placeAll(all bool) {
	if len(h.waiting) == 0 {
		return
	}
	e := h.engine
	patience := e.now() - placementPatience*int64(e.cfg.anchorEvery)
	from := 0
	if !all && !h.placer.news && e.eager.Load() == 0 && h.waiting[0].seen > patience {
		from = h.looked
	}
	h.placer.news = false
	for _, w := range h.waiting[from:h.looked] { // they are looked at again
		w.results.waiting--
	}
	kept := h.waiting[:from]
	for _, w := range h.waiting[from:] {
		if !all && (w.results.waiting > 0 || w.seen > patience && w.results.readers.Load() == 0 && !h.placer.settles(w.placement)) {
			w.results.waiting++
			kept = append(kept, w)
			continue
		}
		at, err := h.placer.place(w.placement)
		e.count.placing.Add(-1)
		if err != nil {
			e.settle(w.results, w.position, err)
			continue
		}
		w.span.Start, w.span.Bound, w.span.Epoch = e.at(at.At), time.Duration(at.Bound)+e.slack, w.epoch
		w.span.Quality = Quality(at.Quality)
		e.count.finished.Add(1)
		if e.sinks.some() {
			if h.batch == nil {
				h.batch = make([]Span, 0, len(h.waiting))
			}
			h.batch = append(h.batch, w.span)
		}
		w.span.Context = nil // a result is kept for long
		w.results.put(w.position, w.span, nil)
	}
	if len(kept) < len(h.waiting) {
		e.changes.ring()
	}
	clear(h.waiting[len(kept):]) // they would keep their streams
	h.waiting = kept
	h.looked = len(kept)
}

// deliver hands what was placed to the sinks' queues.
func (h *harvest[E, S]) deliver() {
	if len(h.batch) == 0 {
		return
	}
	h.engine.sinks.push(h.batch)
	h.batch = nil // the sinks may keep it
}

// failAll resolves every stopped window and marks every open one: the device
// will not answer for any of them. One whose end is being recorded is left to
// whoever does so.
func (h *harvest[E, S]) failAll(fault error) {
	e := h.engine
	for _, s := range e.snapshot() {
		s.failOpen(fault)
		s.mu.Lock()
		s.pending = slices.DeleteFunc(s.pending, func(w *window[E]) bool {
			if !w.ready.Load() {
				return false
			}
			e.settle(&s.results, w.position, fault)
			s.count.unread--
			s.done(w)
			return true
		})
		s.settled = 0
		s.mu.Unlock()
	}
	e.changes.ring()
}
