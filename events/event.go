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
// it to one, Hold adds one, and the last Release gives the backend's event back to
// its pool, or to the driver. A call in progress counts as a holder, so Close never
// pulls an event from under one.
//
// After the last Release an Event stands for nothing, also where its pool has
// lent the backend's event to somebody else: that one has an Event of its own.
// Calls with the old one are ErrDestroyed and reach neither the driver nor the new
// holder. A nil or zero Event was never made: it is ErrInvalid in every call but
// Release and Close, which have nothing to do.
type Event[E any, S comparable] struct {
	body *body[E, S]
	loan uint64 // for which loan of the body it was handed out
}

// body is a backend's event with all that is known of it. It outlives the Events
// that its pool hands out for it, one for each loan.
type body[E any, S comparable] struct {
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
	loan    uint64
	holders int  // of the loan
	closing bool // destroyed when the last call is out, never pooled again
}

// New makes an event with a timestamp. The caller is its only holder.
func New[E any, S comparable](api EventApi[E, S]) (*Event[E, S], error) {
	return hold(own(api, false, false))
}

// NewUntimed makes an event without a timestamp, for waiting only; with
// blocking, a host wait sleeps instead of burning a core. Where the backend has
// no such events it makes an ordinary one, and Untimed says false.
func NewUntimed[E any, S comparable](api EventApi[E, S], blocking bool) (*Event[E, S], error) {
	return hold(own(api, true, blocking))
}

// hold gives an event that is in no pool to its first holder.
func hold[E any, S comparable](b *body[E, S], err error) (*Event[E, S], error) {
	if err != nil {
		return nil, err
	}
	b.holders = 1
	return &Event[E, S]{body: b}, nil
}

// own makes an event of the backend, which nobody holds yet.
func own[E any, S comparable](api EventApi[E, S], untimed, blocking bool) (*body[E, S], error) {
	if api == nil {
		return nil, fmt.Errorf("new event: %w: no device", ErrInvalid)
	}
	b := &body[E, S]{api: api}
	create := api.EventCreate
	if untimed {
		var creator UntimedCreator[E]
		if creator, b.untimed = Ability[UntimedCreator[E]](api); b.untimed {
			create = func() (E, error) { return creator.EventCreateUntimed(blocking) }
		}
	}
	var err error
	if b.handle, err = create(); err != nil {
		return nil, err
	}
	b.querier, _ = Ability[Querier[E]](api)
	b.asker, _ = Ability[CaptureAsker[S]](api)
	return b, nil
}

func (e *Event[E, S]) made() bool { return e != nil && e.body != nil }

// Untimed reports whether the event carries no timestamp.
func (e *Event[E, S]) Untimed() bool { return e.made() && e.body.untimed }

// State is the state as far as it is known without asking the device. It is
// StateDestroyed once nobody holds the event, and of a nil or zero one.
func (e *Event[E, S]) State() State {
	if !e.made() {
		return StateDestroyed
	}
	b := e.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if !e.held() {
		return StateDestroyed
	}
	return b.state
}

// held reports whether somebody holds e, and needs body.mu.
func (e *Event[E, S]) held() bool { return e.body.holders > 0 && e.body.loan == e.loan }

// lock gives the body, locked, of an event that somebody holds.
func (e *Event[E, S]) lock(op string) (*body[E, S], error) {
	if !e.made() {
		return nil, fmt.Errorf("%s: %w: a nil or zero Event was never made; New and Pool.Get make events", op, ErrInvalid)
	}
	e.body.mu.Lock()
	if !e.held() {
		e.body.mu.Unlock()
		return nil, fmt.Errorf("%s: event was already %w or released", op, ErrDestroyed)
	}
	return e.body, nil
}

// begin counts a call in.
func (e *Event[E, S]) begin(op string) (*body[E, S], error) {
	b, err := e.lock(op)
	if err != nil {
		return nil, err
	}
	b.calls++
	b.mu.Unlock()
	return b, nil
}

// end counts a call out. The last one out of an event that nobody holds any more
// gives it back; an error there reaches nobody, and the backend counts it.
func (b *body[E, S]) end() {
	b.mu.Lock()
	last := b.out()
	b.mu.Unlock()
	if last {
		_ = b.giveBack()
	}
}

// out counts a call out, and reports whether it was the last of an event that nobody
// holds. It needs mu.
func (b *body[E, S]) out() (last bool) {
	b.calls--
	return b.holders == 0 && b.calls == 0
}

// giveBack is for the last user.
func (b *body[E, S]) giveBack() error {
	b.mu.Lock()
	pooled := b.pool != nil && !b.closing
	if !pooled {
		b.state = StateDestroyed
	}
	b.mu.Unlock()
	if pooled {
		return b.pool.take(b)
	}
	err := b.api.EventDestroy(b.handle)
	if b.pool != nil {
		b.pool.left()
	}
	return err
}

// Record queues a timestamp on stream. If it fails, the event counts as never
// recorded. If stream turns out to be captured into a graph the error is
// ErrCapturing: the capture is unharmed, and the event will never be asked about
// that record, since asking would break the capture. If it cannot be found out whether the
// stream is captured, the event is treated as if it were.
func (e *Event[E, S]) Record(stream S) error {
	b, err := e.begin("record")
	if err != nil {
		return err
	}
	last := false
	defer func() {
		if last {
			_ = b.giveBack() // as after any other call; see end
		}
	}()
	b.turn.Lock()
	defer b.turn.Unlock()
	began := recordOrder.Add(1)
	err = b.api.EventRecord(b.handle, stream)
	state := StateRecorded
	switch {
	case err != nil:
		state = StateFresh
	case b.asker != nil:
		// Asked after the record, and not before: a capture that begins in
		// between would otherwise go unseen.
		captured, askErr := b.asker.StreamCapturing(stream)
		if askErr != nil {
			state = StateCaptured // not known, so the safe side
			err = fmt.Errorf("record: whether the stream is being captured could not be found out: %w", askErr)
		} else if captured {
			state = StateCaptured
			err = fmt.Errorf("record: %w; record again when the capture has ended", ErrCapturing)
		}
	}
	ended := recordOrder.Add(1)
	b.mu.Lock()
	b.record++
	b.state, b.stream, b.began, b.ended = state, stream, began, ended
	last = b.out()
	b.mu.Unlock()
	return err
}

// settled is usable after a record in progress, for calls that may wait for it.
func (b *body[E, S]) settled(op string) (record uint64, complete bool, err error) {
	b.turn.RLock()
	defer b.turn.RUnlock()
	return b.usable(op)
}

// usable refuses what the driver must not be asked.
func (b *body[E, S]) usable(op string) (record uint64, complete bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case StateFresh:
		return 0, false, fmt.Errorf("%s: %w", op, ErrNotRecorded)
	case StateCaptured:
		return 0, false, fmt.Errorf("%s: the event's last record went into a graph: %w", op, ErrCapturing)
	}
	return b.record, b.state == StateComplete, nil
}

// completed notes that a record was reached, unless the event has been recorded
// again since.
func (b *body[E, S]) completed(record uint64) {
	b.mu.Lock()
	if b.record == record && b.state == StateRecorded {
		b.state = StateComplete
	}
	b.mu.Unlock()
}

// Query reports whether the last record was reached. It does not block; while a
// record is being queued the answer is no. On a backend that cannot query it is
// ErrUnsupported.
func (e *Event[E, S]) Query() (bool, error) {
	b, err := e.begin("query")
	if err != nil {
		return false, err
	}
	defer b.end()
	return b.ask()
}

// ask is Query for whoever has the event to itself.
func (b *body[E, S]) ask() (bool, error) {
	if !b.turn.TryRLock() {
		return false, nil
	}
	defer b.turn.RUnlock()
	record, complete, err := b.usable("query")
	if err != nil || complete {
		return complete, err
	}
	if b.querier == nil {
		return false, fmt.Errorf("query: %w by backend %s", ErrUnsupported, b.api.Backend())
	}
	complete, err = b.querier.EventQuery(b.handle)
	if complete {
		b.completed(record)
	}
	return complete, err
}

// ReachedWith notes that the event's last record was reached because that of later was,
// which was recorded on the same stream behind it, so that nobody asks the device again.
// It makes no call of the driver. It is ErrInvalid if the two are of different streams or
// in the other order, or if their records may have overlapped, ErrNotRecorded if one was
// never recorded, and ErrNotReady if later is not known to be reached. The stream must be InOrder.
func (e *Event[E, S]) ReachedWith(later *Event[E, S]) error {
	behind, err := later.lock("reached with: later event")
	if err != nil {
		return err
	}
	state, stream, began := behind.state, behind.stream, behind.began
	behind.mu.Unlock()
	b, err := e.lock("reached with")
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	switch {
	case state == StateFresh:
		return fmt.Errorf("reached with: the later event: %w", ErrNotRecorded)
	case b.state == StateFresh:
		return fmt.Errorf("reached with: %w", ErrNotRecorded)
	case state != StateComplete:
		return fmt.Errorf("reached with: the later event is %v: %w", state, ErrNotReady)
	case b.state != StateRecorded && b.state != StateComplete:
		return fmt.Errorf("reached with: the event is %v: %w", b.state, ErrInvalid)
	case b.stream != stream || b.ended >= began:
		return fmt.Errorf("reached with: %w: the two were not recorded on one stream, one after the other", ErrInvalid)
	}
	b.state = StateComplete
	return nil
}

// Wait blocks until the last record is reached. It cannot be cancelled; package
// fence waits with a context. Do not record an event into a capture while others
// begin to wait for it: a wait that is just entering the driver cannot be kept
// out, and would break the capture.
func (e *Event[E, S]) Wait() error {
	b, err := e.begin("wait")
	if err != nil {
		return err
	}
	defer b.end()
	record, complete, err := b.settled("wait")
	if err != nil || complete {
		return err
	}
	if err := b.api.EventWait(b.handle); err != nil {
		return err
	}
	b.completed(record)
	return nil
}

// WaitOn makes work queued on stream from now on wait for the last record. A
// stream that is being captured is refused: such a wait invalidates the capture.
func (e *Event[E, S]) WaitOn(stream S) error {
	b, err := e.begin("stream wait")
	if err != nil {
		return err
	}
	defer b.end()
	if _, _, err := b.settled("stream wait"); err != nil {
		return err
	}
	if b.asker != nil {
		captured, err := b.asker.StreamCapturing(stream)
		if err != nil {
			return err
		}
		if captured {
			return fmt.Errorf("stream wait: %w; a wait for outside work would invalidate it", ErrCapturing)
		}
	}
	return b.api.StreamWaitEvent(stream, b.handle)
}

// Elapsed is the span from start to end on the device's clock: EventElapsed of
// the backend, after the mistakes that only the events' histories show. Events
// recorded on one stream in the other order are ErrReversed.
func Elapsed[E any, S comparable](start, end *Event[E, S]) (time.Duration, error) {
	first, err := start.begin("elapsed: start")
	if err != nil {
		return 0, err
	}
	defer first.end()
	second, err := end.begin("elapsed: end")
	if err != nil {
		return 0, err
	}
	defer second.end()
	var mistakes []error
	for _, side := range [...]struct {
		name  string
		event *body[E, S]
	}{{"elapsed: start event", first}, {"elapsed: end event", second}} {
		if side.event.untimed {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", side.name, ErrTimingDisabled))
		} else if _, _, err := side.event.usable(side.name); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) > 0 {
		return 0, errors.Join(mistakes...)
	}
	if first.last().after(second.last()) && sameDevice(first.api, second.api) {
		return 0, fmt.Errorf("elapsed: %w: start was recorded after end", ErrReversed)
	}
	return first.api.EventElapsed(first.handle, second.handle)
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

func (b *body[E, S]) last() lastRecord[S] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return lastRecord[S]{b.stream, b.began, b.ended}
}

// Hold adds a holder. Each holder calls Release once.
func (e *Event[E, S]) Hold() error {
	b, err := e.lock("hold")
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	b.holders++
	return nil
}

// Release gives up one hold. The last one gives the event back to its pool,
// which hands it out again once the device is done with it; an event of its own
// is destroyed. A Release after the last one is ErrDestroyed and does nothing. One
// too many before it takes the hold of another who shares this Event, since holders
// of one Event are not told apart.
func (e *Event[E, S]) Release() error {
	if !e.made() {
		return nil
	}
	b, err := e.lock("release")
	if err != nil {
		return err
	}
	b.holders--
	last := b.holders == 0 && b.calls == 0
	b.mu.Unlock()
	if last {
		return b.giveBack()
	}
	return nil
}

// Close destroys the event whatever its state and holders; a call in progress
// finishes first, and the last one destroys. Further calls are ErrDestroyed. A
// second Close returns nil, and so does one after the last Release: there is
// nothing left to close. An event of a pool leaves the pool.
func (e *Event[E, S]) Close() error {
	if !e.made() {
		return nil
	}
	b := e.body
	b.mu.Lock()
	held, now := e.held(), b.calls == 0
	if held {
		b.holders, b.closing = 0, true
	}
	b.mu.Unlock()
	if held && now {
		return b.giveBack()
	}
	return nil
}

// destroy is Close for the pool, of an event that nobody holds.
func (b *body[E, S]) destroy() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	return b.giveBack()
}
