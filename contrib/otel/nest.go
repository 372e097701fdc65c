package gpuotel

import (
	"container/list"
	"time"

	"go.opentelemetry.io/otel/trace"

	"example.com/devevents/profiler"
)

const (
	mostHeld   = 4096 // windows that wait for the one they lie in
	mostRecent = 4096 // windows whose spans are known to those that end after them
)

// key is a window. Numbers are unique in one profiler.
type key struct {
	device *profiler.Device
	id     uint64
}

// made is the span that a window became.
type made struct {
	span  trace.SpanContext
	under trace.SpanContext // the program's own span that it is part of
}

// held is a window that waits for the one that it lies in.
type held struct {
	span   profiler.Span
	self   key
	parent key
	until  time.Time
	place  *list.Element // nil once its time is over and it waits for a held one's
}

// nest brings windows into the order in which spans can be made of them: a span names its
// parent when it begins, and outer windows end last. It is not safe for concurrent use.
type nest struct {
	hold time.Duration
	emit func(span profiler.Span, in *made) made

	held    map[key]*held
	waiting map[key][]*held // by the window that they wait for
	queue   *list.List      // as they came

	recent map[key]made
	ring   [mostRecent]key
	next   int
}

func newNest(hold time.Duration, emit func(profiler.Span, *made) made) *nest {
	return &nest{hold: hold, emit: emit, held: map[key]*held{}, waiting: map[key][]*held{}, queue: list.New(), recent: map[key]made{}}
}

// add takes a window, which becomes a span now or is held.
func (n *nest) add(span profiler.Span, now time.Time) {
	h := &held{span: span, self: key{span.Device, span.ID}, parent: key{span.Device, span.Parent}, until: now.Add(n.hold)}
	in, known := n.recent[h.parent]
	switch {
	case span.Parent == 0 || n.circular(h):
		n.make(h, nil)
	case known:
		n.make(h, &in)
	case n.hold == 0:
		n.make(h, nil)
	default:
		n.held[h.self] = h
		n.waiting[h.parent] = append(n.waiting[h.parent], h)
		h.place = n.queue.PushBack(h)
		for len(n.held) > mostHeld {
			n.release()
		}
	}
}

// circular reports whether a window would wait for itself, which no profiler asks for.
func (n *nest) circular(h *held) bool {
	at := h.parent
	for at != h.self {
		outer := n.held[at]
		if outer == nil {
			return false
		}
		at = outer.parent
	}
	return true
}

// expire lets those go that were held for long enough.
func (n *nest) expire(now time.Time) {
	for at, some := n.due(); some && !at.After(now); at, some = n.due() {
		n.release()
	}
}

// due is when the next one will have been held for long enough.
func (n *nest) due() (at time.Time, some bool) {
	if first := n.queue.Front(); first != nil {
		return first.Value.(*held).until, true
	}
	return at, false
}

// release ends the wait of the one that is held for the longest time. If the window that
// it lies in is held too, it goes with that one.
func (n *nest) release() {
	h := n.queue.Remove(n.queue.Front()).(*held)
	h.place = nil
	if n.held[h.parent] != nil {
		return
	}
	siblings := n.waiting[h.parent]
	for i, other := range siblings {
		if other == h {
			siblings = append(siblings[:i], siblings[i+1:]...)
			break
		}
	}
	if n.waiting[h.parent] = siblings; len(siblings) == 0 {
		delete(n.waiting, h.parent)
	}
	n.make(h, nil)
}

// make turns a window into a span, and then those that waited for it.
func (n *nest) make(h *held, in *made) {
	if h.place != nil {
		n.queue.Remove(h.place)
		h.place = nil
	}
	inner := n.waiting[h.self]
	delete(n.waiting, h.self)
	delete(n.held, h.self)
	for _, h := range inner {
		if h.place == nil {
			h.place = n.queue.PushFront(h) // should emit panic, it is not forgotten
		}
	}
	became := n.emit(h.span, in)
	delete(n.recent, n.ring[n.next])
	n.ring[n.next], n.recent[h.self] = h.self, became
	n.next = (n.next + 1) % mostRecent
	for _, h := range inner {
		n.make(h, &became)
	}
}
