package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// Toy is a whole backend. Its device is the Go scheduler: a stream is a queue
// of functions that one goroutine at a time works off, an event is a note of
// when its queue got there. Everything that the seam asks of a backend is here,
// and nothing else.
type Toy struct {
	ordinal  int
	canQuery bool
	epoch    time.Time // 0 of the device's clock

	clamped                 atomic.Uint64
	liveEvents, liveStreams atomic.Int64
}

// Event and Stream are handles: small values, the zero value invalid.
type (
	Event  struct{ *event }
	Stream struct{ *stream }
)

// life is what both kinds know of themselves.
type life struct {
	toy  *Toy
	live *atomic.Int64
	mu   sync.Mutex
	dead bool
}

type event struct {
	life
	last *stamp // of the last record, nil if there is none or it failed
}

// stamp is one record. Whoever waits for it keeps it, so recording the event
// again leaves them alone.
type stamp struct {
	reached chan struct{}
	at      time.Duration // to be read once reached is closed
}

type stream struct {
	life
	running bool
	queue   []func()
}

func (e Event) handle() *life {
	if e.event == nil {
		return nil
	}
	return &e.life
}

func (s Stream) handle() *life {
	if s.stream == nil {
		return nil
	}
	return &s.life
}

// Open gives toy device number ordinal. Version 1 of the imagined library has
// no function to query events with.
func Open(ordinal, version int) *Toy {
	return &Toy{ordinal: ordinal, canQuery: version > 1, epoch: time.Now()}
}

// What the type has: the contract, and those abilities that it can have.
var (
	_ events.EventApi[Event, Stream] = (*Toy)(nil)
	_ events.Querier[Event]          = (*Toy)(nil)
	_ events.StatsReader             = (*Toy)(nil)
	_ events.Identifier              = (*Toy)(nil)
	_ events.Limiter                 = (*Toy)(nil)
)

// Offers says which abilities this very device has.
func (t *Toy) Offers(ability any) bool {
	if _, query := ability.(*events.Querier[Event]); query {
		return t.canQuery
	}
	return true
}

// Backend is fit for a log field or a file name.
func (t *Toy) Backend() string { return "toy" }

// Identity implements events.Identifier.
func (t *Toy) Identity() events.Identity {
	return events.Identity{Ordinal: t.ordinal, Name: "Go scheduler"}
}

// EventStats implements events.StatsReader.
func (t *Toy) EventStats() events.Stats {
	return events.Stats{Clamped: t.clamped.Load(), LiveEvents: t.liveEvents.Load(), LiveStreams: t.liveStreams.Load()}
}

// refuse makes every error: the call, what is wrong, and a sentinel to tell it
// by.
func refuse(call, what string, kind error) error {
	return fmt.Errorf("toy: %s: %s: %w", call, what, kind)
}

// own checks that a handle is one of this device.
func (t *Toy) own(call, what string, h *life) error {
	switch {
	case h == nil:
		return refuse(call, what+" is a zero handle", events.ErrInvalid)
	case h.toy != t:
		return refuse(call, what+" is another device's", events.ErrDeviceMismatch)
	}
	return nil
}

// lock checks that a handle can be used, and leaves it locked if so.
func (t *Toy) lock(call, what string, h *life) error {
	if err := t.own(call, what, h); err != nil {
		return err
	}
	h.mu.Lock()
	if h.dead {
		h.mu.Unlock()
		return refuse(call, what, events.ErrDestroyed)
	}
	return nil
}

// destroy needs to wait for nobody: who waits for an event holds its stamp, and
// what is queued on a stream still runs.
func (t *Toy) destroy(call, what string, h *life) error {
	if err := t.own(call, what, h); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dead {
		h.dead = true
		h.live.Add(-1)
	}
	return nil
}

// recorded gives the last record of an event.
func (t *Toy) recorded(call, what string, e Event) (*stamp, error) {
	if err := t.lock(call, what, e.handle()); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	if e.last == nil {
		return nil, refuse(call, what+" has no record; record it first", events.ErrNotRecorded)
	}
	return e.last, nil
}

// enqueue puts work on a stream and sees to it that somebody does it.
func (t *Toy) enqueue(call string, s Stream, work func()) error {
	if err := t.lock(call, "the stream", s.handle()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.queue = append(s.queue, work)
	if !s.running {
		s.running = true
		go s.run()
	}
	return nil
}

// run works off the queue and ends with it, so that an idle stream has no
// goroutine.
func (s *stream) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		work := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		work()
	}
}

// Sleep queues work that takes d. The seam has no such method: a backend's
// users bring work of their own.
func (t *Toy) Sleep(s Stream, d time.Duration) error {
	return t.enqueue("Sleep", s, func() { time.Sleep(d) })
}

// EventCreate implements events.EventApi.
func (t *Toy) EventCreate() (Event, error) {
	t.liveEvents.Add(1)
	return Event{&event{life: life{toy: t, live: &t.liveEvents}}}, nil
}

// EventDestroy implements events.EventApi.
func (t *Toy) EventDestroy(e Event) error { return t.destroy("EventDestroy", "the event", e.handle()) }

// EventRecord implements events.EventApi.
func (t *Toy) EventRecord(e Event, s Stream) error {
	if err := t.lock("EventRecord", "the event", e.handle()); err != nil {
		return err
	}
	defer e.mu.Unlock()
	e.last = nil // what fails below leaves no stale record
	next := &stamp{reached: make(chan struct{})}
	err := t.enqueue("EventRecord", s, func() {
		next.at = time.Since(t.epoch)
		close(next.reached)
	})
	if err == nil {
		e.last = next
	}
	return err
}

// EventWait implements events.EventApi.
func (t *Toy) EventWait(e Event) error {
	last, err := t.recorded("EventWait", "the event", e)
	if err == nil {
		<-last.reached
	}
	return err
}

// EventQuery implements events.Querier.
func (t *Toy) EventQuery(e Event) (bool, error) {
	if !t.canQuery {
		return false, refuse("EventQuery", "version 1 has no such function", events.ErrUnsupported)
	}
	last, err := t.recorded("EventQuery", "the event", e)
	return err == nil && last.isReached(), err
}

func (s *stamp) isReached() bool {
	select {
	case <-s.reached:
		return true
	default:
		return false
	}
}

// EventElapsed implements events.EventApi.
func (t *Toy) EventElapsed(start, end Event) (time.Duration, error) {
	var at [2]time.Duration
	for i, e := range []Event{start, end} {
		what := []string{"the start event", "the end event"}[i]
		last, err := t.recorded("EventElapsed", what, e)
		if err != nil {
			return 0, err
		}
		if !last.isReached() {
			return 0, refuse("EventElapsed", what+" is pending; wait for it first", events.ErrNotReady)
		}
		at[i] = last.at
	}
	if at[1] < at[0] {
		t.clamped.Add(1)
		return 0, nil
	}
	return at[1] - at[0], nil
}

// StreamWaitEvent implements events.EventApi. The seam would allow an event of
// another device here; this one refuses it.
func (t *Toy) StreamWaitEvent(s Stream, e Event) error {
	last, err := t.recorded("StreamWaitEvent", "the event", e)
	if err != nil {
		return err
	}
	return t.enqueue("StreamWaitEvent", s, func() { <-last.reached })
}

// StreamSynchronize implements events.EventApi.
func (t *Toy) StreamSynchronize(s Stream) error {
	done := make(chan struct{})
	err := t.enqueue("StreamSynchronize", s, func() { close(done) })
	if err == nil {
		<-done
	}
	return err
}

// StreamCreateNonBlocking implements events.EventApi.
func (t *Toy) StreamCreateNonBlocking() (Stream, error) {
	t.liveStreams.Add(1)
	return Stream{&stream{life: life{toy: t, live: &t.liveStreams}}}, nil
}

// StreamDestroy implements events.EventApi.
func (t *Toy) StreamDestroy(s Stream) error {
	return t.destroy("StreamDestroy", "the stream", s.handle())
}
