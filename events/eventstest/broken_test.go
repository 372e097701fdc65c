package eventstest

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// breaker is a backend that is wrong in one way, and the rule that says so.
type breaker struct {
	name string
	rule string
	flaw func(d *mock.Device, t testing.TB) flaws
	real bool          // in real time: a call that waits must not make time pass
	hang time.Duration // it hangs; only its own rule is run, with this timeout
	over bool          // Erase makes up for it: the erased backend is sound
	opts []mock.Option
}

// telemetry changes every reading.
func telemetry(change func(*events.TelemetryReading)) func(*mock.Device, testing.TB) flaws {
	return func(d *mock.Device, _ testing.TB) flaws {
		return flaws{telemetry: func() (events.TelemetryReading, error) {
			r, err := d.TelemetryRead()
			change(&r)
			return r, err
		}}
	}
}

// without makes nil of an error of one of these kinds.
func without(err error, kinds ...error) error {
	if oneOf(err, kinds) {
		return nil
	}
	return err
}

// untilEnd is closed at the end of the test.
func untilEnd(t testing.TB) <-chan struct{} {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return end
}

func breakers() []breaker {
	return append([]breaker{
		{name: "nothing to wait for", rule: "work", opts: []mock.Option{mock.Without(mock.FeatureGate, mock.FeatureScratch)}},
		{name: "name not fit for a file", rule: "backend-name", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{backend: func() string { return "Mock/" + d.Identity().PCIBusID }}
		}},
		{name: "one event for everyone", rule: "new-handles", flaw: func(d *mock.Device, _ testing.TB) flaws {
			once := sync.OnceValues(d.EventCreate)
			return flaws{create: once}
		}},
		{name: "one stream for everyone", rule: "new-handles", flaw: func(d *mock.Device, _ testing.TB) flaws {
			once := sync.OnceValues(d.StreamCreateNonBlocking)
			return flaws{streamCreate: once}
		}},
		{name: "always success", rule: "use-after-destroy", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{
				destroy:    func(e mock.Event) error { _ = d.EventDestroy(e); return nil },
				record:     func(e mock.Event, s mock.Stream) error { _ = d.EventRecord(e, s); return nil },
				wait:       func(e mock.Event) error { _ = d.EventWait(e); return nil },
				sync:       func(s mock.Stream) error { _ = d.StreamSynchronize(s); return nil },
				streamWait: func(s mock.Stream, e mock.Event) error { _ = d.StreamWaitEvent(s, e); return nil },
				elapsed: func(start, end mock.Event) (time.Duration, error) {
					span, _ := d.EventElapsed(start, end)
					return span, nil
				},
			}
		}},
		{name: "zero handle accepted", rule: "zero-handles", over: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{destroy: func(e mock.Event) error { return without(d.EventDestroy(e), events.ErrInvalid) }}
		}},
		{name: "zero handle panics", rule: "zero-handles", over: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{wait: func(e mock.Event) error {
				if e.ID() == 0 {
					panic("nil pointer")
				}
				return d.EventWait(e)
			}}
		}},

		{name: "record waits for the stream", rule: "record-returns-at-once", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				err := d.EventRecord(e, s)
				if captured, _ := d.StreamCapturing(s); err == nil && !captured {
					err = d.EventWait(e)
				}
				return err
			}}
		}},
		{name: "wait is a no-op", rule: "wait-waits", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{wait: func(e mock.Event) error { _, err := d.EventQuery(e); return err }}
		}},
		{name: "second wait refused", rule: "wait-again", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var waited sync.Map
			return flaws{wait: func(e mock.Event) error {
				err := d.EventWait(e)
				if _, again := waited.LoadOrStore(e, true); again && err == nil {
					err = fmt.Errorf("waited for already: %w", events.ErrInvalid)
				}
				return err
			}}
		}},
		{name: "never recorded is waited for", rule: "wait-never-recorded", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{wait: func(e mock.Event) error { return without(d.EventWait(e), events.ErrNotRecorded) }}
		}},
		{name: "wrong sentinel", rule: "wait-never-recorded", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{wait: func(e mock.Event) error {
				err := d.EventWait(e)
				if errors.Is(err, events.ErrNotRecorded) {
					return fmt.Errorf("event wait: %w", events.ErrInvalid)
				}
				return err
			}}
		}},
		{name: "wait for a first record", rule: "wait-never-recorded", hang: 200 * time.Millisecond, flaw: func(d *mock.Device, t testing.TB) flaws {
			end := untilEnd(t)
			return flaws{wait: func(e mock.Event) error {
				err := d.EventWait(e)
				if errors.Is(err, events.ErrNotRecorded) {
					<-end
				}
				return err
			}}
		}},
		{name: "synchronize is a no-op", rule: "synchronize-waits", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{sync: func(s mock.Stream) error { _, err := d.StreamCapturing(s); return err }}
		}},
		{name: "synchronize waits for all streams", rule: "synchronize-one-stream", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var all sync.Map
			return flaws{
				streamCreate: func() (mock.Stream, error) {
					s, err := d.StreamCreateNonBlocking()
					all.Store(s, true)
					return s, err
				},
				sync: func(s mock.Stream) error {
					err := d.StreamSynchronize(s)
					all.Range(func(other, _ any) bool { _ = d.StreamSynchronize(other.(mock.Stream)); return true })
					return err
				},
			}
		}},
		{name: "record ignores the stream", rule: "record-keeps-to-its-stream", flaw: func(d *mock.Device, _ testing.TB) flaws {
			own := sync.OnceValues(d.StreamCreateNonBlocking)
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				if _, err := d.StreamCapturing(s); err != nil {
					return d.EventRecord(e, s)
				}
				s, _ = own()
				return d.EventRecord(e, s)
			}}
		}},
		{name: "record waits for the stream used last", rule: "record-keeps-to-its-stream", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var last atomic.Value
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				if before, ok := last.Swap(e).(mock.Event); ok {
					_ = d.StreamWaitEvent(s, before)
				}
				return d.EventRecord(e, s)
			}}
		}},
		{name: "first record stays", rule: "rerecord-replaces", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var recorded sync.Map
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				if _, again := recorded.LoadOrStore(e, true); again {
					return nil
				}
				return d.EventRecord(e, s)
			}}
		}},
		{name: "re-recorded on the old stream", rule: "rerecord-replaces", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var first sync.Map
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				if old, again := first.LoadOrStore(e, s); again {
					s = old.(mock.Stream)
				}
				return d.EventRecord(e, s)
			}}
		}},

		{name: "always complete", rule: "query-pending", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{query: func(e mock.Event) (bool, error) { _, err := d.EventQuery(e); return err == nil, err }}
		}},
		{name: "never complete", rule: "query-reached", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{query: func(e mock.Event) (bool, error) { _, err := d.EventQuery(e); return false, err }}
		}},
		{name: "never recorded is complete", rule: "query-never-recorded", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{query: func(e mock.Event) (bool, error) {
				done, err := d.EventQuery(e)
				if errors.Is(err, events.ErrNotRecorded) {
					return true, nil
				}
				return done, err
			}}
		}},
		{name: "rounds always complete", rule: "round-like-query", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{roundQuery: func(r events.Round, e mock.Event) (bool, error) {
				_, err := d.RoundQuery(r, e)
				return err == nil, err
			}}
		}},

		{name: "elapsed never recorded is 0", rule: "elapsed-never-recorded", flaw: reads(events.ErrNotRecorded, 0)},
		{name: "elapsed pending is 0", rule: "elapsed-pending", flaw: reads(events.ErrNotReady, 0)},
		{name: "untimed is readable", rule: "elapsed-untimed", flaw: reads(events.ErrTimingDisabled, time.Microsecond)},
		{name: "elapsed does not say which", rule: "elapsed-says-which", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
				span, err := d.EventElapsed(start, end)
				for kind := range sentinels() {
					if errors.Is(err, kind) {
						err = fmt.Errorf("invalid resource handle: %w", kind)
					}
				}
				return span, err
			}}
		}},
		{name: "two mistakes make 0", rule: "elapsed-pairs", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
				_, a := d.EventElapsed(start, start)
				_, b := d.EventElapsed(end, end)
				if a != nil && b != nil && start != end {
					return 0, nil
				}
				return d.EventElapsed(start, end)
			}}
		}},
		{name: "an event costs time", rule: "elapsed-self", flaw: spans(func(span time.Duration) time.Duration { return span + 1280 })},
		{name: "readings grow", rule: "elapsed-stable", flaw: func(d *mock.Device, t testing.TB) flaws {
			var n atomic.Int64
			return spans(func(span time.Duration) time.Duration { return span + time.Duration(n.Add(1)) })(d, t)
		}},
		{name: "microseconds for milliseconds", rule: "elapsed-magnitude", flaw: spans(func(span time.Duration) time.Duration { return span / 1000 })},
		{name: "nanoseconds for microseconds", rule: "elapsed-magnitude", flaw: spans(func(span time.Duration) time.Duration { return span * 1000 })},
		{name: "elapsed is constant", rule: "elapsed-magnitude", flaw: spans(func(time.Duration) time.Duration { return time.Microsecond })},
		{name: "elapsed reversed", rule: "elapsed-magnitude", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) { return d.EventElapsed(end, start) }}
		}},
		{name: "host times of the records", rule: "elapsed-device-time", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var at sync.Map
			return flaws{
				record: func(e mock.Event, s mock.Stream) error { at.Store(e, d.HostNow()); return d.EventRecord(e, s) },
				elapsed: func(start, end mock.Event) (time.Duration, error) {
					span, err := d.EventElapsed(start, end)
					a, recorded := at.Load(start)
					b, both := at.Load(end)
					if err == nil && recorded && both {
						span = max(b.(time.Duration)-a.(time.Duration), 0)
					}
					return span, err
				},
			}
		}},
		{name: "a clock that runs fast", rule: "elapsed-device-timer", flaw: spans(func(span time.Duration) time.Duration { return span * 3 / 2 })},
		{name: "rounded up to milliseconds", rule: "elapsed-additive", flaw: spans(func(span time.Duration) time.Duration {
			return (span + time.Millisecond - 1).Truncate(time.Millisecond)
		})},
		{name: "stamps shuffled", rule: "elapsed-order", flaw: func(d *mock.Device, _ testing.TB) flaws {
			off := func(e mock.Event) time.Duration { return time.Duration(e.ID() * 7919 % 1000 * 1000) }
			return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
				span, err := d.EventElapsed(start, end)
				if err == nil {
					span = max(span+off(end)-off(start), 0)
				}
				return span, err
			}}
		}},
		{name: "never clamps", rule: "elapsed-clamped", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
				span, err := d.EventElapsed(start, end)
				if span == 0 && err == nil {
					back, _ := d.EventElapsed(end, start)
					span = -back
				}
				return span, err
			}}
		}},
		{name: "clamps in silence", rule: "elapsed-clamp-counted", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{stats: func() events.Stats { s := d.EventStats(); s.Clamped = 0; return s }}
		}},
		{name: "truncated to microseconds", rule: "reading-converted", flaw: spans(func(span time.Duration) time.Duration { return span.Truncate(time.Microsecond) })},
		{name: "NaN accepted", rule: "reading-refused", flaw: reads(events.ErrBadReading, -1<<63)},

		{name: "stream wait is a no-op", rule: "stream-wait-orders", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamWait: func(s mock.Stream, e mock.Event) error {
				_, err := d.StreamCapturing(s)
				_, asked := d.EventQuery(e)
				return errors.Join(err, asked)
			}}
		}},
		{name: "stream wait on the host", rule: "stream-wait-returns-at-once", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamWait: func(s mock.Stream, e mock.Event) error {
				return errors.Join(d.StreamWaitEvent(s, e), d.EventWait(e))
			}}
		}},
		{name: "stream wait for the past refused", rule: "stream-wait-reached", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamWait: func(s mock.Stream, e mock.Event) error {
				if done, _ := d.EventQuery(e); done {
					return fmt.Errorf("nothing to wait for: %w", events.ErrInvalid)
				}
				return d.StreamWaitEvent(s, e)
			}}
		}},
		{name: "stream wait looks late", rule: "stream-wait-keeps-its-record", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var late sync.Map
			return flaws{
				streamWait: func(s mock.Stream, e mock.Event) error {
					_, err := d.EventQuery(e)
					_, asked := d.StreamCapturing(s)
					late.Store(s, e)
					return errors.Join(err, asked)
				},
				record: func(e mock.Event, s mock.Stream) error {
					if waited, ok := late.LoadAndDelete(s); ok {
						_ = d.StreamWaitEvent(s, waited.(mock.Event))
					}
					return d.EventRecord(e, s)
				},
			}
		}},
		{name: "never recorded holds no stream", rule: "stream-wait-never-recorded", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamWait: func(s mock.Stream, e mock.Event) error {
				return without(d.StreamWaitEvent(s, e), events.ErrNotRecorded)
			}}
		}},

		{name: "untimed cannot be waited for", rule: "untimed-events", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var untimed sync.Map
			return flaws{
				untimed: func(blocking bool) (mock.Event, error) {
					e, err := d.EventCreateUntimed(blocking)
					untimed.Store(e, true)
					return e, err
				},
				wait: func(e mock.Event) error {
					if _, ok := untimed.Load(e); ok {
						return fmt.Errorf("event wait: %w", events.ErrTimingDisabled)
					}
					return d.EventWait(e)
				},
			}
		}},

		{name: "double destroy is an error", rule: "destroy-twice", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var dead sync.Map
			return flaws{destroy: func(e mock.Event) error {
				if _, again := dead.LoadOrStore(e, true); again {
					return fmt.Errorf("event destroy: %w", events.ErrDestroyed)
				}
				return d.EventDestroy(e)
			}}
		}},
		{name: "destroy blocks", rule: "destroy-pending", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{destroy: func(e mock.Event) error {
				if done, err := d.EventQuery(e); !done && err == nil {
					_ = d.EventWait(e)
				}
				return d.EventDestroy(e)
			}}
		}},
		{name: "destroy waits for waiters", rule: "destroy-while-waiting", real: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			var waiting sync.RWMutex
			return flaws{
				wait: func(e mock.Event) error {
					waiting.RLock()
					defer waiting.RUnlock()
					return d.EventWait(e)
				},
				destroy: func(e mock.Event) error {
					waiting.Lock()
					defer waiting.Unlock()
					return d.EventDestroy(e)
				},
			}
		}},
		{name: "use after destroy accepted", rule: "use-after-destroy", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				return without(d.EventRecord(e, s), events.ErrDestroyed)
			}}
		}},
		{name: "double stream destroy is an error", rule: "stream-destroy-twice", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var dead sync.Map
			return flaws{streamDestroy: func(s mock.Stream) error {
				if _, again := dead.LoadOrStore(s, true); again {
					return fmt.Errorf("stream destroy: %w", events.ErrDestroyed)
				}
				return d.StreamDestroy(s)
			}}
		}},
		{name: "stream destroy blocks", rule: "stream-destroy-pending", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamDestroy: func(s mock.Stream) error {
				_ = d.StreamSynchronize(s)
				return d.StreamDestroy(s)
			}}
		}},
		{name: "stream use after destroy accepted", rule: "stream-use-after-destroy", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{sync: func(s mock.Stream) error { return without(d.StreamSynchronize(s), events.ErrDestroyed) }}
		}},
		{name: "cross-device accepted", rule: "foreign-handles", over: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				return without(d.EventRecord(e, s), events.ErrDeviceMismatch)
			}}
		}},
		{name: "cross-device wait is a no-op", rule: "foreign-wait", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamWait: func(s mock.Stream, e mock.Event) error {
				if _, err := d.EventQuery(e); errors.Is(err, events.ErrDeviceMismatch) {
					return nil
				}
				return d.StreamWaitEvent(s, e)
			}}
		}},

		{name: "stale stamp after a failed record", rule: "failed-record", flaw: staleStamp},
		{name: "stale stamp after a dead stream", rule: "failed-record-dead-stream", flaw: staleStamp},
		{name: "failure without a number", rule: "errors-explain", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				err := d.EventRecord(e, s)
				if driver := (*events.DriverError)(nil); errors.As(err, &driver) {
					return fmt.Errorf("record failed: %w", driver.Kind)
				}
				return err
			}}
		}},
		{name: "failure without a function", rule: "errors-explain", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				err := d.EventRecord(e, s)
				if driver := (*events.DriverError)(nil); errors.As(err, &driver) {
					driver.Op = ""
				}
				return err
			}}
		}},
		{name: "errors of its own", rule: "errors-explain", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{sync: func(s mock.Stream) error {
				if err := d.StreamSynchronize(s); err != nil {
					return errors.New(err.Error())
				}
				return nil
			}}
		}},

		{name: "counters not safe for concurrent use", rule: "concurrent-use", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var made, freed atomic.Int64
			return flaws{
				create: func() (mock.Event, error) {
					was := made.Load() // no race that a detector sees, and counts get lost
					time.Sleep(time.Microsecond)
					made.Store(was + 1)
					return d.EventCreate()
				},
				destroy: func(e mock.Event) error { freed.Add(1); return d.EventDestroy(e) },
				stats:   func() events.Stats { s := d.EventStats(); s.LiveEvents = made.Load() - freed.Load(); return s },
			}
		}},
		{name: "one caller at a time", rule: "concurrent-use", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var inside atomic.Int32
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				defer inside.Add(-1)
				if inside.Add(1) > 1 {
					return fmt.Errorf("busy: %w", events.ErrFull)
				}
				runtime.Gosched()
				return d.EventRecord(e, s)
			}}
		}},
		{name: "freed once for each destroyer", rule: "concurrent-destroy", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var dead sync.Map
			var freedAgain atomic.Int64
			return flaws{
				destroy: func(e mock.Event) error {
					if _, known := dead.Load(e); known {
						return nil
					}
					time.Sleep(time.Millisecond)
					if _, again := dead.LoadOrStore(e, true); again {
						freedAgain.Add(1)
					}
					return d.EventDestroy(e)
				},
				stats: func() events.Stats { s := d.EventStats(); s.LiveEvents -= freedAgain.Load(); return s },
			}
		}},
		{name: "counts nothing", rule: "live-counts", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{stats: func() events.Stats { s := d.EventStats(); s.LiveEvents, s.LiveStreams = 0, 0; return s }}
		}},
		{name: "pending events leak", rule: "leaks", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var lost atomic.Int64
			return flaws{
				destroy: func(e mock.Event) error {
					if done, err := d.EventQuery(e); !done && err == nil {
						lost.Add(1)
					}
					return d.EventDestroy(e)
				},
				stats: func() events.Stats { s := d.EventStats(); s.LiveEvents += lost.Load(); return s },
			}
		}},
		{name: "streams leak", rule: "leaks", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamDestroy: func(s mock.Stream) error { _, err := d.StreamCapturing(s); return err }}
		}},
		{name: "failed records leak", rule: "leaks-after-errors", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var lost atomic.Int64
			return flaws{
				record: func(e mock.Event, s mock.Stream) error {
					err := d.EventRecord(e, s)
					if err != nil {
						lost.Add(1)
					}
					return err
				},
				stats: func() events.Stats { s := d.EventStats(); s.LiveEvents += lost.Load(); return s },
			}
		}},
		{name: "a goroutine for each stream", rule: "goroutines", flaw: func(d *mock.Device, t testing.TB) flaws {
			end := untilEnd(t)
			return flaws{streamCreate: func() (mock.Stream, error) {
				go func() { <-end }()
				return d.StreamCreateNonBlocking()
			}}
		}},

		{name: "not offered and answered", rule: "abilities-refused", over: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{offers: func(ability any) bool {
				_, query := ability.(*events.Querier[mock.Event])
				return !query && d.Offers(ability)
			}}
		}},
		{name: "offered and refused", rule: "abilities-work", flaw: func(*mock.Device, testing.TB) flaws {
			return flaws{untimed: func(bool) (mock.Event, error) {
				return mock.Event{}, fmt.Errorf("untimed events: %w", events.ErrUnsupported)
			}}
		}},
		{name: "abilities come and go", rule: "abilities-stable", over: true, flaw: func(d *mock.Device, _ testing.TB) flaws {
			var n atomic.Int64
			return flaws{offers: func(ability any) bool {
				if _, host := ability.(*events.HostClocker); host {
					return n.Add(1)%2 == 0
				}
				return d.Offers(ability)
			}}
		}},
		{name: "identity changes", rule: "identity-stable", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var n atomic.Int64
			return flaws{identity: func() events.Identity {
				id := d.Identity()
				id.Ordinal = int(n.Add(1))
				return id
			}}
		}},
		{name: "all devices are the same", rule: "identity-distinct", flaw: func(*mock.Device, testing.TB) flaws {
			return flaws{identity: func() events.Identity { return events.Identity{Name: "GPU"} }}
		}},
		{name: "each wrap is another stream", rule: "wrap-equal", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var n atomic.Uintptr
			return flaws{wrap: func(handle uintptr) mock.Stream { return d.WrapStream(handle + n.Add(1)) }}
		}},
		{name: "all wraps are one stream", rule: "wrap-equal", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{wrap: func(uintptr) mock.Stream { return d.WrapStream(0) }}
		}},
		{name: "wrapped streams are destroyed", rule: "wrap-not-destroyed", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{streamDestroy: func(s mock.Stream) error { return without(d.StreamDestroy(s), events.ErrInvalid) }}
		}},
		{name: "stamps of another clock", rule: "timer-brackets", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{stamp: func(e mock.Event) (uint64, error) {
				stamp, err := d.EventStamp(e)
				return stamp + uint64(time.Hour), err
			}}
		}},
		{name: "stamps in microseconds", rule: "stamps-as-elapsed", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{stamp: func(e mock.Event) (uint64, error) {
				stamp, err := d.EventStamp(e)
				return stamp / 1000, err
			}}
		}},
		{name: "a stamp of 0 for whatever has none", rule: "stamps-as-elapsed", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{stamp: func(e mock.Event) (uint64, error) {
				stamp, err := d.EventStamp(e)
				return stamp, without(without(err, events.ErrNotRecorded), events.ErrNotReady)
			}}
		}},
		{name: "host clock goes back", rule: "host-clock", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{hostClock: func() func() int64 {
				now := d.HostClock()
				return func() int64 { return -now() }
			}}
		}},

		{name: "telemetry of nothing", rule: "telemetry-fields", flaw: telemetry(func(r *events.TelemetryReading) { *r = events.TelemetryReading{} })},
		{name: "a field that it does not have", rule: "telemetry-fields", flaw: telemetry(func(r *events.TelemetryReading) { r.Has &^= events.TelemetryPower })},
		{name: "clocks in hertz", rule: "telemetry-fields", flaw: telemetry(func(r *events.TelemetryReading) { r.SMClock *= 1_000_000 })},
		{name: "energy falls", rule: "telemetry-grows", flaw: telemetry(func(r *events.TelemetryReading) { r.Energy = math.MaxInt64 - r.Energy })},
		{name: "telemetry waits for the device", rule: "telemetry-returns-at-once", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var last atomic.Value
			return flaws{
				record: func(e mock.Event, s mock.Stream) error {
					last.Store(e)
					return d.EventRecord(e, s)
				},
				telemetry: func() (events.TelemetryReading, error) {
					if e, ok := last.Load().(mock.Event); ok {
						_ = d.EventWait(e)
					}
					return d.TelemetryRead()
				},
			}
		}},

		{name: "gate does not hold", rule: "gate-holds", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{gate: func(s mock.Stream, watchdog time.Duration) (events.GateHandle, error) {
				g, err := d.GateClose(s, watchdog)
				if err == nil {
					err = g.Open()
				}
				return g, err
			}}
		}},
		{name: "gate opens once", rule: "gate-opens-again", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{gate: func(s mock.Stream, watchdog time.Duration) (events.GateHandle, error) {
				g, err := d.GateClose(s, watchdog)
				if err != nil {
					return nil, err
				}
				var opened atomic.Bool
				return gateFunc(func() error {
					if opened.Swap(true) {
						return fmt.Errorf("the gate is open: %w", events.ErrInvalid)
					}
					return g.Open()
				}), nil
			}}
		}},
		{name: "watchdog in silence", rule: "gate-watchdog", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{gate: func(s mock.Stream, watchdog time.Duration) (events.GateHandle, error) {
				g, err := d.GateClose(s, watchdog)
				if err != nil {
					return nil, err
				}
				return gateFunc(func() error { return without(g.Open(), events.ErrExpired) }), nil
			}}
		}},
		{name: "spin measured too early", rule: "spin-measured", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{spin: func(span time.Duration, s mock.Stream) (events.Spin, error) {
				sp, err := d.ScratchSpin(span, s)
				if err != nil {
					return nil, err
				}
				return spinFunc(func() (time.Duration, error) {
					took, err := sp.Measured()
					return took, without(err, events.ErrNotReady)
				}), nil
			}}
		}},
		{name: "spin of any length", rule: "spin-bounds", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{spin: func(span time.Duration, s mock.Stream) (events.Spin, error) {
				return d.ScratchSpin(min(max(span, 1), time.Second), s)
			}}
		}},
		{name: "fills beyond the buffer", rule: "scratch-memory", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{memset: func(b events.Buffer, bytes int64, s mock.Stream) error {
				return d.ScratchMemset(b, 0, min(bytes, b.Bytes), s)
			}}
		}},

		{name: "captures unseen", rule: "capture-seen", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{capturing: func(s mock.Stream) (bool, error) { _, err := d.StreamCapturing(s); return false, err }}
		}},
		{name: "query kills captures", rule: "capture-survives", opts: []mock.Option{mock.Unrelaxed(true)}},
		{name: "broken capture without its name", rule: "capture-broken", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{captureEnd: func(s mock.Stream) (events.Graph[mock.Stream], error) {
				g, err := d.CaptureEnd(s)
				if errors.Is(err, events.ErrCapturing) {
					return nil, fmt.Errorf("capture end: %w", events.ErrInvalid)
				}
				return g, err
			}}
		}},
		{name: "captured is complete", rule: "captured-event", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{query: func(e mock.Event) (bool, error) {
				done, err := d.EventQuery(e)
				if errors.Is(err, events.ErrCapturing) {
					return true, nil
				}
				return done, err
			}}
		}},
		{name: "captured once, captured for ever", rule: "captured-event-again", flaw: func(d *mock.Device, _ testing.TB) flaws {
			var captured sync.Map
			return flaws{record: func(e mock.Event, s mock.Stream) error {
				if _, ok := captured.Load(e); ok {
					return fmt.Errorf("event record: %w", events.ErrCapturing)
				}
				if inside, _ := d.StreamCapturing(s); inside {
					captured.Store(e, true)
				}
				return d.EventRecord(e, s)
			}}
		}},
		{name: "external records are plain", rule: "capture-external", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{external: d.EventRecord}
		}},
		{name: "refused external record keeps its time", rule: "external-outside-capture", flaw: outsideCapture(events.ErrInvalid)},
		{name: "external record outside is lost", rule: "external-outside-capture", flaw: outsideCapture(nil)},
		{name: "closed graphs launch", rule: "capture-misuse", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{captureEnd: func(s mock.Stream) (events.Graph[mock.Stream], error) {
				g, err := d.CaptureEnd(s)
				if err != nil {
					return nil, err
				}
				return graphFunc{launch: func(s mock.Stream) error { return without(g.Launch(s), events.ErrClosed) }, close: g.Close}, nil
			}}
		}},
		{name: "any capture mode", rule: "capture-misuse", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{captureBegin: func(s mock.Stream, mode events.CaptureMode) error {
				return d.CaptureBegin(s, min(mode, events.CaptureRelaxed))
			}}
		}},

		{name: "faults forgotten", rule: "fault-sticky", flaw: func(d *mock.Device, _ testing.TB) flaws {
			return flaws{query: func(e mock.Event) (bool, error) {
				done, err := d.EventQuery(e)
				return done, without(err, events.ErrDeviceFault)
			}}
		}},
		{name: "waits outlive the device", rule: "fault-ends-waits", real: true, flaw: func(d *mock.Device, t testing.TB) flaws {
			end := untilEnd(t)
			return flaws{wait: func(e mock.Event) error {
				err := d.EventWait(e)
				if errors.Is(err, events.ErrDeviceFault) {
					<-end
				}
				return err
			}}
		}},
	}, measuringBreakers()...)
}

// outsideCapture answers an external record outside a capture with err, and does
// nothing.
func outsideCapture(err error) func(*mock.Device, testing.TB) flaws {
	return func(d *mock.Device, _ testing.TB) flaws {
		return flaws{external: func(e mock.Event, s mock.Stream) error {
			if captured, asking := d.StreamCapturing(s); captured || asking != nil {
				return d.EventRecordExternal(e, s)
			}
			return err
		}}
	}
}

// reads gives a span where the device refuses with an error of some kind.
func reads(kind error, span time.Duration) func(*mock.Device, testing.TB) flaws {
	return func(d *mock.Device, _ testing.TB) flaws {
		return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
			got, err := d.EventElapsed(start, end)
			if errors.Is(err, kind) {
				return span, nil
			}
			return got, err
		}}
	}
}

// spans changes every reading.
func spans(change func(time.Duration) time.Duration) func(*mock.Device, testing.TB) flaws {
	return func(d *mock.Device, _ testing.TB) flaws {
		return flaws{elapsed: func(start, end mock.Event) (time.Duration, error) {
			span, err := d.EventElapsed(start, end)
			if err == nil {
				span = change(span)
			}
			return span, err
		}}
	}
}

// staleStamp leaves an event alone if its record would fail: the failure is
// tried on another event first.
func staleStamp(d *mock.Device, _ testing.TB) flaws {
	return flaws{record: func(e mock.Event, s mock.Stream) error {
		other, err := d.EventCreate()
		if err != nil {
			return err
		}
		defer func() { _ = d.EventDestroy(other) }()
		if err := d.EventRecord(other, s); err != nil {
			return err
		}
		return d.EventRecord(e, s)
	}}
}
