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
	Event  struct{ p *event }
	Stream struct{ p *stream }
)

type event struct {
	toy *Toy

	mu   sync.Mutex
	dead bool
	last *stamp // of the last record, nil if there is none or it failed
}

// stamp is one record. Whoever waits for it keeps it, so recording the event
// again leaves them alone.
type stamp struct {
	reached chan struct{}
	at      time.Duration // to be read once reached is closed
}

type stream struct {
	toy *Toy

	mu      sync.Mutex
	dead    bool
	running bool
	queue   []func()
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

// lock checks an event and leaves it locked unless there is an error. Only
// EventDestroy takes a destroyed one.
func (t *Toy) lock(call, which string, e Event) error {
	switch {
	case e.p == nil:
		return refuse(call, which+" is the zero Event", events.ErrInvalid)
	case e.p.toy != t:
		return refuse(call, which+" is another device's", events.ErrDeviceMismatch)
	}
	e.p.mu.Lock()
	if e.p.dead {
		e.p.mu.Unlock()
		return refuse(call, which, events.ErrDestroyed)
	}
	return nil
}

// recorded gives the last record of an event.
func (t *Toy) recorded(call, which string, e Event) (*stamp, error) {
	if err := t.lock(call, which, e); err != nil {
		return nil, err
	}
	defer e.p.mu.Unlock()
	if e.p.last == nil {
		return nil, refuse(call, which+" has no record; record it first", events.ErrNotRecorded)
	}
	return e.p.last, nil
}

// enqueue puts work on a stream and sees to it that somebody does it.
func (t *Toy) enqueue(call string, s Stream, work func()) error {
	switch {
	case s.p == nil:
		return refuse(call, "the zero Stream", events.ErrInvalid)
	case s.p.toy != t:
		return refuse(call, "the stream is another device's", events.ErrDeviceMismatch)
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.dead {
		return refuse(call, "the stream", events.ErrDestroyed)
	}
	s.p.queue = append(s.p.queue, work)
	if !s.p.running {
		s.p.running = true
		go s.p.run()
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
	return Event{&event{toy: t}}, nil
}

// EventDestroy implements events.EventApi. Who waits for the event holds its
// stamp and not the event, so there is nothing to wait for.
func (t *Toy) EventDestroy(e Event) error {
	if e.p != nil && e.p.toy == t {
		e.p.mu.Lock()
		defer e.p.mu.Unlock()
		if !e.p.dead {
			e.p.dead = true
			t.liveEvents.Add(-1)
		}
		return nil
	}
	return t.lock("EventDestroy", "the event", e)
}

// EventRecord implements events.EventApi.
func (t *Toy) EventRecord(e Event, s Stream) error {
	if err := t.lock("EventRecord", "the event", e); err != nil {
		return err
	}
	defer e.p.mu.Unlock()
	e.p.last = nil // what fails below leaves no stale record
	next := &stamp{reached: make(chan struct{})}
	err := t.enqueue("EventRecord", s, func() {
		next.at = time.Since(t.epoch)
		close(next.reached)
	})
	if err == nil {
		e.p.last = next
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
	for i, side := range []struct {
		name  string
		event Event
	}{{"the start event", start}, {"the end event", end}} {
		last, err := t.recorded("EventElapsed", side.name, side.event)
		if err != nil {
			return 0, err
		}
		if !last.isReached() {
			return 0, refuse("EventElapsed", side.name+" is pending; wait for it first", events.ErrNotReady)
		}
		at[i] = last.at
	}
	span := at[1] - at[0]
	if span < 0 {
		t.clamped.Add(1)
		span = 0
	}
	return span, nil
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
	return Stream{&stream{toy: t}}, nil
}

// StreamDestroy implements events.EventApi. What is queued still runs.
func (t *Toy) StreamDestroy(s Stream) error {
	if s.p == nil || s.p.toy != t {
		return t.enqueue("StreamDestroy", s, nil) // which refuses it
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if !s.p.dead {
		s.p.dead = true
		t.liveStreams.Add(-1)
	}
	return nil
}
