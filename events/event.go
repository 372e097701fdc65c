package events

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// State is where an Event is in its life.
type State int

// The states.
const (
	StateFresh     State = iota // never recorded, or the last record failed
	StateRecorded               // queued; the device may or may not have reached it
	StateComplete               // known to have been reached
	StateCaptured               // the last record went into a graph capture: there is nothing to wait for or to read
	StateDestroyed              // given back
)

// String names the state.
func (s State) String() string {
	switch s {
	case StateFresh:
		return "fresh"
	case StateRecorded:
		return "recorded"
	case StateComplete:
		return "complete"
	case StateCaptured:
		return "captured"
	case StateDestroyed:
		return "destroyed"
	}
	return "unknown state"
}

// recordOrder numbers the beginnings and ends of records in this process, so
// that two records on one stream can be told to be in order.
var recordOrder atomic.Uint64

// Event owns a backend's event and knows its state, which the driver's codes do
// not tell: a never-recorded event queries as complete, and one code stands for
// never recorded and for made without timing.
//
// It is safe for concurrent use. It is shared by holders: New and Pool.Get give
// it to one, Hold adds one, and the last Release gives the event back to its
// pool, or to the driver. A call in progress counts as a holder, so Close never
// pulls an event from under one.
type Event[E any, S comparable] struct {
	api     EventApi[E, S]
	querier Querier[E]
	asker   CaptureAsker[S]
	pool    *Pool[E, S] // nil for an event of its own
	handle  E
	untimed bool

	// turn is held by a record, and shared by a query, until each knows what it
	// has done: a query between the record and the news that it went into a
	// capture would break the capture.
	turn sync.RWMutex

	mu      sync.Mutex
	state   State
	record  uint64 // counts records, so that an answer about an older one is not believed
	began   uint64 // recordOrder around the last successful record
	ended   uint64
	stream  S
	calls   int // calls in progress
	holders int
	closing bool // destroyed when the last call is out, never pooled again
}

// New makes an event with a timestamp. The caller is its only holder.
func New[E any, S comparable](api EventApi[E, S]) (*Event[E, S], error) {
	handle, err := api.EventCreate()
	if err != nil {
		return nil, err
	}
	return own(api, handle, false), nil
}

// NewUntimed makes an event without a timestamp, for waiting only; with
// blocking, a host wait sleeps instead of burning a core. Where the backend has
// no such events it makes an ordinary one, and Untimed says false.
func NewUntimed[E any, S comparable](api EventApi[E, S], blocking bool) (*Event[E, S], error) {
	creator, ok := Ability[UntimedCreator[E]](api)
	if !ok {
		return New(api)
	}
	handle, err := creator.EventCreateUntimed(blocking)
	if err != nil {
		return nil, err
	}
	return own(api, handle, true), nil
}

func own[E any, S comparable](api EventApi[E, S], handle E, untimed bool) *Event[E, S] {
	e := &Event[E, S]{api: api, handle: handle, untimed: untimed, holders: 1}
	e.querier, _ = Ability[Querier[E]](api)
	e.asker, _ = Ability[CaptureAsker[S]](api)
	return e
}

// Untimed reports whether the event carries no timestamp.
func (e *Event[E, S]) Untimed() bool { return e != nil && e.untimed }

// State is the state as far as it is known without asking the device. Of a nil
// event it is StateDestroyed.
func (e *Event[E, S]) State() State {
	if e == nil {
		return StateDestroyed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// begin counts a call in.
func (e *Event[E, S]) begin(op string) error {
	if e == nil {
		return fmt.Errorf("%s: %w: nil event", op, ErrInvalid)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holders == 0 {
		return fmt.Errorf("%s: event was already %w or released", op, ErrDestroyed)
	}
	e.calls++
	return nil
}

// end counts a call out. The last one out of an event that nobody holds any more
// gives it back; an error there reaches nobody, and the backend counts it.
func (e *Event[E, S]) end() {
	e.mu.Lock()
	e.calls--
	last := e.holders == 0 && e.calls == 0
	e.mu.Unlock()
	if last {
		_ = e.giveBack()
	}
}

// giveBack is for the last user.
func (e *Event[E, S]) giveBack() error {
	e.mu.Lock()
	pooled := e.pool != nil && !e.closing
	if !pooled {
		e.state = StateDestroyed
	}
	e.mu.Unlock()
	if pooled {
		return e.pool.take(e)
	}
	err := e.api.EventDestroy(e.handle)
	if e.pool != nil {
		e.pool.left()
	}
	return err
}

// Record queues a timestamp on stream. If it fails, the event counts as never
// recorded. If stream turns out to be captured into a graph the error is
// ErrCapturing: the capture is unharmed, and the event will never be asked about
// that record, since asking would break the capture.
func (e *Event[E, S]) Record(stream S) error {
	if err := e.begin("record"); err != nil {
		return err
	}
	defer e.end()
	e.turn.Lock()
	defer e.turn.Unlock()
	began := recordOrder.Add(1)
	err := e.api.EventRecord(e.handle, stream)
	state := StateRecorded
	switch {
	case err != nil:
		state = StateFresh
	case e.asker != nil:
		// Asked after the record, and not before: a capture that begins in
		// between would otherwise go unseen.
		captured, askErr := e.asker.StreamCapturing(stream)
		if askErr != nil {
			state = StateCaptured // not known, so the safe side
			err = fmt.Errorf("record: whether the stream is being captured could not be found out: %w", askErr)
		} else if captured {
			state = StateCaptured
			err = fmt.Errorf("record: %w; record again when the capture has ended", ErrCapturing)
		}
	}
	ended := recordOrder.Add(1)
	e.mu.Lock()
	e.record++
	e.state, e.stream, e.began, e.ended = state, stream, began, ended
	e.mu.Unlock()
	return err
}

// settled is usable after a record in progress, for calls that may wait for it.
func (e *Event[E, S]) settled(op string) (record uint64, complete bool, err error) {
	e.turn.RLock()
	defer e.turn.RUnlock()
	return e.usable(op)
}

// usable refuses what the driver must not be asked.
func (e *Event[E, S]) usable(op string) (record uint64, complete bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.state {
	case StateFresh:
		return 0, false, fmt.Errorf("%s: %w", op, ErrNotRecorded)
	case StateCaptured:
		return 0, false, fmt.Errorf("%s: the event's last record went into a graph: %w", op, ErrCapturing)
	}
	return e.record, e.state == StateComplete, nil
}

// completed notes that a record was reached, unless the event has been recorded
// again since.
func (e *Event[E, S]) completed(record uint64) {
	e.mu.Lock()
	if e.record == record && e.state == StateRecorded {
		e.state = StateComplete
	}
	e.mu.Unlock()
}

// Query reports whether the last record was reached. It does not block; while a
// record is being queued the answer is no. On a backend that cannot query it is
// ErrUnsupported.
func (e *Event[E, S]) Query() (bool, error) {
	if err := e.begin("query"); err != nil {
		return false, err
	}
	defer e.end()
	return e.ask()
}

// ask is Query for whoever has the event to itself.
func (e *Event[E, S]) ask() (bool, error) {
	if !e.turn.TryRLock() {
		return false, nil
	}
	defer e.turn.RUnlock()
	record, complete, err := e.usable("query")
	if err != nil || complete {
		return complete, err
	}
	if e.querier == nil {
		return false, fmt.Errorf("query: %w by backend %s", ErrUnsupported, e.api.Backend())
	}
	complete, err = e.querier.EventQuery(e.handle)
	if complete {
		e.completed(record)
	}
	return complete, err
}

// Wait blocks until the last record is reached. It cannot be cancelled; package
// fence waits with a context. Do not record an event into a capture while others
// begin to wait for it: a wait that is just entering the driver cannot be kept
// out, and would break the capture.
func (e *Event[E, S]) Wait() error {
	if err := e.begin("wait"); err != nil {
		return err
	}
	defer e.end()
	record, complete, err := e.settled("wait")
	if err != nil || complete {
		return err
	}
	if err := e.api.EventWait(e.handle); err != nil {
		return err
	}
	e.completed(record)
	return nil
}

// WaitOn makes work queued on stream from now on wait for the last record. A
// stream that is being captured is refused: such a wait invalidates the capture.
func (e *Event[E, S]) WaitOn(stream S) error {
	if err := e.begin("stream wait"); err != nil {
		return err
	}
	defer e.end()
	if _, _, err := e.settled("stream wait"); err != nil {
		return err
	}
	if e.asker != nil {
		captured, err := e.asker.StreamCapturing(stream)
		if err != nil {
			return err
		}
		if captured {
			return fmt.Errorf("stream wait: %w; a wait for outside work would invalidate it", ErrCapturing)
		}
	}
	return e.api.StreamWaitEvent(stream, e.handle)
}

// Elapsed is the span from start to end on the device's clock: EventElapsed of
// the backend, after the mistakes that only the events' histories show. Events
// recorded on one stream in the other order are ErrReversed.
func Elapsed[E any, S comparable](start, end *Event[E, S]) (time.Duration, error) {
	if err := start.begin("elapsed: start"); err != nil {
		return 0, err
	}
	defer start.end()
	if err := end.begin("elapsed: end"); err != nil {
		return 0, err
	}
	defer end.end()
	var mistakes []error
	for _, side := range [...]struct {
		name  string
		event *Event[E, S]
	}{{"elapsed: start event", start}, {"elapsed: end event", end}} {
		if side.event.untimed {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", side.name, ErrTimingDisabled))
		} else if _, _, err := side.event.usable(side.name); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) > 0 {
		return 0, errors.Join(mistakes...)
	}
	if start.last().after(end.last()) && sameDevice(start.api, end.api) {
		return 0, fmt.Errorf("elapsed: %w: start was recorded after end", ErrReversed)
	}
	return start.api.EventElapsed(start.handle, end.handle)
}

// sameDevice believes in one device where the backend is of a type whose values
// cannot be compared.
func sameDevice(a, b any) bool {
	return !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() || a == b
}

type lastRecord[S comparable] struct {
	stream       S
	began, ended uint64
}

// after reports whether r is certain to be behind o in the same queue.
func (r lastRecord[S]) after(o lastRecord[S]) bool { return r.stream == o.stream && r.began > o.ended }

func (e *Event[E, S]) last() lastRecord[S] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return lastRecord[S]{e.stream, e.began, e.ended}
}

// Hold adds a holder. Each holder calls Release once.
func (e *Event[E, S]) Hold() error {
	if e == nil {
		return fmt.Errorf("hold: %w: nil event", ErrInvalid)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holders == 0 {
		return fmt.Errorf("hold: event was already %w", ErrDestroyed)
	}
	e.holders++
	return nil
}

// Release gives up one hold. The last one gives the event back to its pool,
// which hands it out again once the device is done with it; an event of its own
// is destroyed. A Release too many is ErrDestroyed and does nothing, unless the
// pool has handed the event out again meanwhile: then it takes the new holder's.
func (e *Event[E, S]) Release() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	if e.holders == 0 {
		e.mu.Unlock()
		return fmt.Errorf("release: event was already %w", ErrDestroyed)
	}
	e.holders--
	last := e.holders == 0 && e.calls == 0
	e.mu.Unlock()
	if last {
		return e.giveBack()
	}
	return nil
}

// Close destroys the event whatever its state and holders; a call in progress
// finishes first, and the last one destroys. Further calls are ErrDestroyed. A
// second Close returns nil, and so does one after the last Release: there is
// nothing left to close. An event of a pool leaves the pool.
func (e *Event[E, S]) Close() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	held, now := e.holders > 0, e.calls == 0
	if held {
		e.holders, e.closing = 0, true
	}
	e.mu.Unlock()
	if held && now {
		return e.giveBack()
	}
	return nil
}

// destroy is Close for the pool, of an event that nobody holds.
func (e *Event[E, S]) destroy() error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	return e.giveBack()
}
