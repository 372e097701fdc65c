package fence

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

// event is what a fence needs of an *events.Event, whatever its types.
type event interface {
	Query() (bool, error)
	Wait() error
	Hold() error
	Release() error
	Close() error
}

// reachedWith notes that ev was reached because later was, on the same stream.
func (d *device[E, S]) reachedWith(ev, later event) error {
	return ev.(*events.Event[E, queue[E, S]]).ReachedWith(later.(*events.Event[E, queue[E, S]]))
}

// port is a device as a Source sees it. It hides the vendor's event type.
type port[S comparable] interface {
	rounds
	take() (event, error)
	made() int // events that exist, in use or not
	record(ev event, stream S) error
	knows(ev event) error // refuses another vendor's
	waitOn(stream S, ev event) error
	capturing(stream S) (bool, error)
	drain() error // destroys the events that are not in use
}

// rounds opens and ends the polling rounds inside which Query may be called on
// an event.
type rounds interface {
	canQuery() bool
	beginRound() error
	endRound() error
	reachedWith(ev, later event) error
}

// device is a backend as the events of its Source see it. Two things differ
// from the backend itself: a stream brings its device along, since a stream of
// one device may wait for an event of another; and a query belongs to the
// polling round that is open. Only whoever holds the turn of the Source
// queries: events go back to the pool when they are known to be complete, and
// the pool does not ask about those.
type device[E any, S comparable] struct {
	api     events.EventApi[E, S]
	querier events.Querier[E]
	rounder events.RoundQuerier[E]
	asker   events.CaptureAsker[S]
	untimed events.UntimedCreator[E]
	pool    *events.Pool[E, queue[E, S]]
	round   events.Round
}

// queue is a stream with its device.
type queue[E any, S comparable] struct {
	home   *device[E, S]
	stream S
}

func newDevice[E any, S comparable](api events.EventApi[E, S], limit int) *device[E, S] {
	d := &device[E, S]{api: api}
	d.querier, _ = events.Ability[events.Querier[E]](api)
	d.rounder, _ = events.Ability[events.RoundQuerier[E]](api)
	d.asker, _ = events.Ability[events.CaptureAsker[S]](api)
	d.untimed, _ = events.Ability[events.UntimedCreator[E]](api)
	d.pool = events.NewPool(d, limit, true)
	return d
}

// Offers implements events.Limiter.
func (d *device[E, S]) Offers(ability any) bool {
	switch ability.(type) {
	case *events.Querier[E]:
		return d.canQuery()
	case *events.CaptureAsker[queue[E, S]]:
		return d.asker != nil
	case *events.UntimedCreator[E]:
		return d.untimed != nil
	}
	return true
}

func (d *device[E, S]) canQuery() bool { return d.rounder != nil || d.querier != nil }

func (d *device[E, S]) beginRound() (err error) {
	if d.rounder != nil {
		d.round, err = d.rounder.RoundBegin()
	}
	return err
}

func (d *device[E, S]) endRound() error {
	if d.rounder != nil {
		return d.rounder.RoundEnd(d.round)
	}
	return nil
}

// EventQuery needs an open round.
func (d *device[E, S]) EventQuery(event E) (bool, error) {
	if d.rounder != nil {
		return d.rounder.RoundQuery(d.round, event)
	}
	return d.querier.EventQuery(event)
}

// StreamWaitEvent goes to the stream's device, not to the event's.
func (d *device[E, S]) StreamWaitEvent(q queue[E, S], event E) error {
	return q.home.api.StreamWaitEvent(q.stream, event)
}

// StreamCapturing asks the stream's device. One that cannot tell says no.
func (d *device[E, S]) StreamCapturing(q queue[E, S]) (bool, error) {
	return q.home.capturing(q.stream)
}

func (d *device[E, S]) capturing(stream S) (bool, error) {
	if d.asker == nil {
		return false, nil
	}
	return d.asker.StreamCapturing(stream)
}

func (d *device[E, S]) take() (event, error) {
	ev, err := d.pool.Get()
	if err != nil {
		return nil, err
	}
	return ev, nil
}

func (d *device[E, S]) made() int    { return d.pool.Len() }
func (d *device[E, S]) drain() error { return d.pool.Close() }

func (d *device[E, S]) record(ev event, stream S) error {
	return ev.(*events.Event[E, queue[E, S]]).Record(queue[E, S]{d, stream})
}

func (d *device[E, S]) knows(ev event) error {
	if _, ok := ev.(*events.Event[E, queue[E, S]]); !ok {
		return fmt.Errorf("%w: the fence is of another vendor than the stream, which is of %s", events.ErrDeviceMismatch, d.Backend())
	}
	return nil
}

func (d *device[E, S]) waitOn(stream S, ev event) error {
	return ev.(*events.Event[E, queue[E, S]]).WaitOn(queue[E, S]{d, stream})
}

// What follows is the backend unchanged.

func (d *device[E, S]) Backend() string         { return d.api.Backend() }
func (d *device[E, S]) EventCreate() (E, error) { return d.api.EventCreate() }
func (d *device[E, S]) EventCreateUntimed(blocking bool) (E, error) {
	return d.untimed.EventCreateUntimed(blocking)
}
func (d *device[E, S]) EventDestroy(event E) error { return d.api.EventDestroy(event) }
func (d *device[E, S]) EventRecord(event E, q queue[E, S]) error {
	return d.api.EventRecord(event, q.stream)
}
func (d *device[E, S]) EventWait(event E) error { return d.api.EventWait(event) }
func (d *device[E, S]) EventElapsed(start, end E) (time.Duration, error) {
	return d.api.EventElapsed(start, end)
}
func (d *device[E, S]) StreamSynchronize(q queue[E, S]) error {
	return d.api.StreamSynchronize(q.stream)
}
func (d *device[E, S]) StreamCreateNonBlocking() (queue[E, S], error) {
	s, err := d.api.StreamCreateNonBlocking()
	return queue[E, S]{d, s}, err
}
func (d *device[E, S]) StreamDestroy(q queue[E, S]) error { return d.api.StreamDestroy(q.stream) }
