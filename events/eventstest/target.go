package eventstest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/devevents/events"
)

// subject is a backend as the rules see it: itself, or erased.
type subject[E any, S comparable] struct {
	open   func(t testing.TB) *target[E, S]
	second func(t testing.TB) *target[E, S] // nil: none
	limits limits
}

type limits struct {
	resolution, overhead, patience, timeout time.Duration
}

func (b Backend[E, S]) limits() limits {
	or := func(d, fallback time.Duration) time.Duration {
		if d == 0 {
			return fallback
		}
		return d
	}
	return limits{
		resolution: or(b.Resolution, time.Microsecond),
		overhead:   or(b.Overhead, time.Millisecond),
		patience:   or(b.Patience, 5*time.Second),
		timeout:    or(b.Timeout, time.Minute),
	}
}

// target is one open device with its abilities and the backend's hooks, which
// are nil where there are none.
type target[E any, S comparable] struct {
	api       events.EventApi[E, S]
	newStream func() (S, error)
	work      func(stream S, d time.Duration) error
	advance   func(d time.Duration)
	stranger  func() *target[E, S] // the same device as another instance

	failRecord       func() (restore func())
	fakeMilliseconds func(ms float32) (restore func())
	loseDevice       func()

	querier  events.Querier[E]
	rounds   events.RoundQuerier[E]
	asker    events.CaptureAsker[S]
	stale    events.StaleReader
	host     events.HostClocker
	stamper  events.Stamper[E]
	timer    events.TimerReader
	untimed  events.UntimedCreator[E]
	identity events.Identifier
	wrapper  events.StreamWrapper[S]
	stats    events.StatsReader
	gate     events.Gate[S]
	scratch  events.Scratch[S]
	graphs   events.Graphs[E, S]
	cache    events.Cache
	syncer   events.DeviceSynchronizer
	versions events.Versioned
	empty    events.EmptyKernel[S]
	reader   events.ReadKernel[S]

	telemetry events.Telemetry
}

func newTarget[E any, S comparable](api events.EventApi[E, S]) *target[E, S] {
	x := &target[E, S]{api: api, newStream: api.StreamCreateNonBlocking}
	x.querier, _ = events.Ability[events.Querier[E]](api)
	x.rounds, _ = events.Ability[events.RoundQuerier[E]](api)
	x.asker, _ = events.Ability[events.CaptureAsker[S]](api)
	x.stale, _ = events.Ability[events.StaleReader](api)
	x.host, _ = events.Ability[events.HostClocker](api)
	x.stamper, _ = events.Ability[events.Stamper[E]](api)
	x.timer, _ = events.Ability[events.TimerReader](api)
	x.untimed, _ = events.Ability[events.UntimedCreator[E]](api)
	x.identity, _ = events.Ability[events.Identifier](api)
	x.wrapper, _ = events.Ability[events.StreamWrapper[S]](api)
	x.stats, _ = events.Ability[events.StatsReader](api)
	x.gate, _ = events.Ability[events.Gate[S]](api)
	x.scratch, _ = events.Ability[events.Scratch[S]](api)
	x.graphs, _ = events.Ability[events.Graphs[E, S]](api)
	x.cache, _ = events.Ability[events.Cache](api)
	x.syncer, _ = events.Ability[events.DeviceSynchronizer](api)
	x.versions, _ = events.Ability[events.Versioned](api)
	x.empty, _ = events.Ability[events.EmptyKernel[S]](api)
	x.reader, _ = events.Ability[events.ReadKernel[S]](api)
	x.telemetry, _ = events.Ability[events.Telemetry](api)
	return x
}

// hooks hands the backend's hooks to a target, whose own handles may be erased:
// they are about the device that was opened, api.
func hooks[E any, S comparable, F any, T comparable](b Backend[E, S], api events.EventApi[E, S], x *target[F, T]) {
	if b.Advance != nil {
		x.advance = func(d time.Duration) { b.Advance(api, d) }
	}
	if b.FailRecord != nil {
		x.failRecord = func() func() { return b.FailRecord(api) }
	}
	if b.FakeMilliseconds != nil {
		x.fakeMilliseconds = func(ms float32) func() { return b.FakeMilliseconds(api, ms) }
	}
	if b.LoseDevice != nil {
		x.loseDevice = func() { b.LoseDevice(api) }
	}
}

func direct[E any, S comparable](b Backend[E, S]) subject[E, S] {
	via := func(open func(testing.TB) events.EventApi[E, S]) func(testing.TB) *target[E, S] {
		if open == nil {
			return nil
		}
		return func(t testing.TB) *target[E, S] {
			api := open(t)
			x := newTarget(api)
			hooks(b, api, x)
			if b.Work != nil {
				x.work = func(stream S, d time.Duration) error { return b.Work(api, stream, d) }
			}
			return x
		}
	}
	return subject[E, S]{open: via(b.Open), second: via(b.Second), limits: b.limits()}
}

func erased[E any, S comparable](b Backend[E, S]) subject[events.AnyEvent, events.AnyStream] {
	via := func(open func(testing.TB) events.EventApi[E, S]) func(testing.TB) *target[events.AnyEvent, events.AnyStream] {
		if open == nil {
			return nil
		}
		return func(t testing.TB) *target[events.AnyEvent, events.AnyStream] {
			api := open(t)
			x := newTarget(events.Erase(api))
			hooks(b, api, x)
			if b.Work != nil {
				knowStreams(b, api, x)
			}
			if events.Erase(api) != x.api { // false for what is erased already
				x.stranger = func() *target[events.AnyEvent, events.AnyStream] { return newTarget(events.Erase(api)) }
			}
			return x
		}
	}
	return subject[events.AnyEvent, events.AnyStream]{open: via(b.Open), second: via(b.Second), limits: b.limits()}
}

// knowStreams remembers the backend's own handle of each stream that the rules
// use, because the backend's Work wants that.
func knowStreams[E any, S comparable](b Backend[E, S], api events.EventApi[E, S], x *target[events.AnyEvent, events.AnyStream]) {
	var known sync.Map
	x.newStream = func() (events.AnyStream, error) {
		s, err := api.StreamCreateNonBlocking()
		if err != nil {
			return events.AnyStream{}, err
		}
		hidden, err := events.EraseStream(x.api, s)
		known.Store(hidden, s)
		return hidden, err
	}
	x.work = func(stream events.AnyStream, d time.Duration) error {
		s, ok := known.Load(stream)
		if !ok {
			return fmt.Errorf("%w: the suite does not know this stream", events.ErrInvalid)
		}
		return b.Work(api, s.(S), d)
	}
}
