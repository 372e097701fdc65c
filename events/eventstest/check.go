package eventstest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"example.com/devevents/events"
)

// rule is a Rule with the code that checks it.
type rule[E any, S comparable] struct {
	Rule
	check func(c *check[E, S])
}

// result is what came of a rule: nothing wrong if both are empty.
type result struct {
	failure string // what was seen
	skipped string // why it could not be looked at
}

// check is one run of one rule. Its methods end the run by a panic with a
// failure or an inapplicable, which the runner takes; they are called on the
// rule's own goroutine.
type check[E any, S comparable] struct {
	*target[E, S]
	limits
	second *target[E, S]
	quit   chan struct{} // closed when the rule is given up
	undo   *[]func()
	lost   bool // the rule has lost the device
	spins  bool
}

type (
	failure      string
	inapplicable string
)

// crash is a panic that came out of the backend.
type crash struct {
	value any
	stack []byte
}

func (c crash) Error() string { return fmt.Sprintf("panic: %v\n%s", c.value, c.stack) }

// run runs a rule on a goroutine of its own, so that a call that never returns
// ends in a failure too.
func (s subject[E, S]) run(t testing.TB, r rule[E, S]) result {
	t.Helper()
	c := &check[E, S]{target: s.open(t), limits: s.limits, quit: make(chan struct{}), undo: new([]func())}
	if s.second != nil {
		c.second = s.second(t)
	}
	done := make(chan result, 1)
	go func() { done <- c.whole(r) }()
	limit := time.NewTimer(s.limits.timeout)
	defer limit.Stop()
	select {
	case got := <-done:
		return got
	case <-limit.C:
		close(c.quit)
		return result{failure: fmt.Sprintf("Not finished after %v: a call seems to wait for ever.", s.limits.timeout)}
	}
}

func (c *check[E, S]) whole(r rule[E, S]) (got result) {
	problem := catch(func() {
		c.warm()
		r.check(c)
	})
	for _, undo := range backwards(*c.undo) {
		if p := catch(undo); p != nil && problem == nil {
			problem = p
		}
	}
	switch p := problem.(type) {
	case nil:
		return result{}
	case failure:
		return result{failure: string(p)}
	case inapplicable:
		return result{skipped: string(p)}
	case error:
		return result{failure: p.Error()}
	}
	return result{failure: fmt.Sprint(problem)}
}

func backwards(list []func()) []func() {
	out := make([]func(), 0, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		out = append(out, list[i])
	}
	return out
}

// catch runs f and gives what it panicked with.
func catch(f func()) (problem any) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure, inapplicable, crash:
			problem = p
		default:
			problem = crash{p, debug.Stack()}
		}
	}()
	f()
	return nil
}

// guard makes an error of a panic, for calls on other goroutines.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = crash{p, debug.Stack()}
		}
	}()
	return call()
}

// warm runs the shortest work once: drivers load code when it is first used, and
// loading may wait for a stream that a rule holds back.
func (c *check[E, S]) warm() {
	if c.scratch != nil {
		s := c.stream()
		_, err := c.scratch.ScratchSpin(time.Microsecond, s)
		if c.spins = err == nil; c.spins {
			c.must(c.sync(s), "StreamSynchronize after ScratchSpin")
		} else if !errors.Is(err, events.ErrUnsupported) {
			c.failf("ScratchSpin failed: %v", err)
		}
	}
	switch {
	case c.work != nil:
	case c.spins:
		c.work = func(stream S, d time.Duration) error {
			_, err := c.scratch.ScratchSpin(d, stream)
			return err
		}
	case c.gate != nil: // the gate's watchdog ends the work
		c.work = func(stream S, d time.Duration) error {
			gate, err := c.gate.GateClose(stream, d)
			if err == nil {
				c.later(func() { _ = gate.Open() })
			}
			return err
		}
	}
}

// on gives a check of another device that shares everything else.
func (c *check[E, S]) on(x *target[E, S]) *check[E, S] {
	other := *c
	other.target = x
	other.warm()
	return &other
}

func (c *check[E, S]) later(undo func()) { *c.undo = append(*c.undo, undo) }

func (c *check[E, S]) failf(format string, args ...any) {
	panic(failure(fmt.Sprintf(format, args...)))
}

func (c *check[E, S]) skipf(format string, args ...any) {
	panic(inapplicable(fmt.Sprintf(format, args...)))
}

// need skips the rule where the backend lacks what it is about.
func (c *check[E, S]) need(has bool, what string) {
	if !has {
		c.skipf("the backend has no %s", what)
	}
}

// must fails the rule if a call that has to work did not.
func (c *check[E, S]) must(err error, call string) {
	if err != nil {
		c.failf("%s failed: %v", call, err)
	}
}

// want fails the rule unless err is of one of these kinds.
func (c *check[E, S]) want(err error, call string, kinds ...error) {
	if !oneOf(err, kinds) {
		c.failf("%s: want %s; got %s.", call, names(kinds), said(err))
	}
}

func oneOf(err error, kinds []error) bool {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// sentinels names the kinds of errors.
func sentinels() map[error]string {
	return map[error]string{
		events.ErrUnavailable:    "ErrUnavailable",
		events.ErrUnsupported:    "ErrUnsupported",
		events.ErrInvalid:        "ErrInvalid",
		events.ErrNotReady:       "ErrNotReady",
		events.ErrNotRecorded:    "ErrNotRecorded",
		events.ErrTimingDisabled: "ErrTimingDisabled",
		events.ErrReversed:       "ErrReversed",
		events.ErrCapturing:      "ErrCapturing",
		events.ErrDeviceMismatch: "ErrDeviceMismatch",
		events.ErrDeviceFault:    "ErrDeviceFault",
		events.ErrContextLost:    "ErrContextLost",
		events.ErrClosed:         "ErrClosed",
		events.ErrDestroyed:      "ErrDestroyed",
		events.ErrExpired:        "ErrExpired",
		events.ErrFull:           "ErrFull",
		events.ErrBadReading:     "ErrBadReading",
	}
}

func names(kinds []error) string {
	known := sentinels()
	var list []string
	for _, kind := range kinds {
		if kind == nil {
			list = append(list, "no error")
		} else {
			list = append(list, known[kind])
		}
	}
	return strings.Join(list, " or ")
}

func said(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%q", err.Error())
}

// Handles that the end of the rule gives back. Whether that works is not asked
// here: rules of their own do.

func (c *check[E, S]) stream() S {
	s, err := c.newStream()
	c.must(err, "StreamCreateNonBlocking")
	c.later(func() { _ = c.api.StreamDestroy(s) })
	return s
}

func (c *check[E, S]) event() E {
	e, err := c.api.EventCreate()
	c.must(err, "EventCreate")
	c.later(func() { _ = c.api.EventDestroy(e) })
	return e
}

func (c *check[E, S]) untimedEvent() E {
	e, err := c.untimed.EventCreateUntimed(true)
	c.must(err, "EventCreateUntimed")
	c.later(func() { _ = c.api.EventDestroy(e) })
	return e
}

func (c *check[E, S]) record(e E, s S) { c.must(c.api.EventRecord(e, s), "EventRecord") }

func (c *check[E, S]) recorded(s S) E {
	e := c.event()
	c.record(e, s)
	return e
}

// complete gives an event that has been reached.
func (c *check[E, S]) complete() E {
	e := c.recorded(c.stream())
	c.await(e)
	return e
}

func (c *check[E, S]) dead() E {
	e := c.complete()
	c.must(c.api.EventDestroy(e), "EventDestroy")
	return e
}

func (c *check[E, S]) deadStream() S {
	s := c.stream()
	c.must(c.api.StreamDestroy(s), "StreamDestroy")
	return s
}

func (c *check[E, S]) busy(s S, d time.Duration) {
	c.need(c.work != nil, "way to keep a stream busy")
	c.must(c.work(s, d), "queueing work")
}

func (c *check[E, S]) elapsed(start, end E) time.Duration {
	span, err := c.api.EventElapsed(start, end)
	c.must(err, "EventElapsed")
	return span
}

// Time.

// reached asks without waiting. Where the backend cannot query, a reading of an
// event against itself tells.
func (c *check[E, S]) reached(e E) (bool, error) {
	if c.querier != nil {
		return c.querier.EventQuery(e)
	}
	_, err := c.api.EventElapsed(e, e)
	if errors.Is(err, events.ErrNotReady) {
		return false, nil
	}
	return err == nil, err
}

func (c *check[E, S]) isReached(e E) bool {
	done, err := c.reached(e)
	c.must(err, "asking for an event that was recorded")
	return done
}

// block makes a call that may wait for the device. Where time is manual it
// passes meanwhile, in growing steps.
func (c *check[E, S]) block(call func() error) error {
	if c.advance == nil {
		return call()
	}
	done := make(chan error, 1)
	go func() { done <- guard(call) }()
	for step := firstStep; ; step = min(2*step, lastStep) {
		select {
		case err := <-done:
			return err
		case <-c.quit:
			return fmt.Errorf("the rule was given up: %w", events.ErrExpired)
		case <-time.After(time.Millisecond):
			c.advance(step)
		}
	}
}

const (
	firstStep = 10 * time.Microsecond
	lastStep  = time.Second
)

func (c *check[E, S]) wait(e E) error { return c.block(func() error { return c.api.EventWait(e) }) }

func (c *check[E, S]) sync(s S) error {
	return c.block(func() error { return c.api.StreamSynchronize(s) })
}

func (c *check[E, S]) await(e E) { c.must(c.wait(e), "EventWait") }

// until lets time pass until something holds, and reports whether it came so
// far within the backend's patience.
func (c *check[E, S]) until(holds func() bool) bool {
	if c.advance != nil {
		for step := firstStep; !holds(); step *= 2 {
			if step > lastStep {
				return false
			}
			c.advance(step)
			time.Sleep(time.Microsecond) // goroutines of the backend take real time
		}
		return true
	}
	deadline := time.Now().Add(c.patience)
	for pause := 20 * time.Microsecond; !holds(); pause = min(2*pause, 2*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// settle gives the device the time to do what it must not do.
func (c *check[E, S]) settle() {
	if c.advance != nil {
		c.advance(time.Millisecond)
		return
	}
	time.Sleep(5 * time.Millisecond)
}

// hold is a stream that the device does not get to the end of.
type hold[E any, S comparable] struct {
	stream  S
	marker  E // recorded behind what holds the stream
	release func()
	began   time.Time
	lasted  time.Duration // until the release
}

// held runs body while a stream is held back: by a gate where the backend has
// one, else by work, which ends on its own. If the host was too slow for the
// work, body runs again behind longer work.
func (c *check[E, S]) held(body func(h *hold[E, S])) { c.heldFrom(50*time.Millisecond, body) }

// heldFrom is held with how long to hold the stream first, where it takes work to do
// so. Nothing is tried again on a device that the body has lost.
func (c *check[E, S]) heldFrom(first time.Duration, body func(h *hold[E, S])) {
	if c.gate != nil {
		if _, problem := c.heldOnce(0, body); problem != nil {
			panic(problem)
		}
		return
	}
	if c.advance != nil {
		if _, problem := c.heldOnce(10*time.Second, body); problem != nil {
			panic(problem)
		}
		return
	}
	for d := first; ; d *= 4 {
		lasted, problem := c.heldOnce(d, body)
		if problem == nil {
			return
		}
		if c.lost || lasted < d*8/10 || d > 3*time.Second {
			panic(problem)
		}
	}
}

func (c *check[E, S]) heldOnce(d time.Duration, body func(h *hold[E, S])) (lasted time.Duration, problem any) {
	h := &hold[E, S]{stream: c.stream(), began: time.Now()}
	var gate events.GateHandle
	if d == 0 {
		var err error
		gate, err = c.gate.GateClose(h.stream, 2*c.timeout)
		c.must(err, "GateClose")
	} else {
		c.busy(h.stream, d)
	}
	h.release = func() {
		if h.lasted == 0 {
			h.lasted = time.Since(h.began)
			if gate != nil {
				_ = gate.Open()
			}
		}
	}
	defer h.release()
	problem = catch(func() {
		h.marker = c.recorded(h.stream)
		body(h)
	})
	h.release()
	return h.lasted, problem
}

// still fails the rule if the held stream has gone on, which only a call that
// waited for it can have brought about.
func (c *check[E, S]) still(h *hold[E, S], call string) {
	if c.isReached(h.marker) {
		c.failf("%s returned only after the device had gone on: it waited.", call)
	}
}

// prompt makes a call that must not wait for the device while a stream is held.
func (c *check[E, S]) prompt(h *hold[E, S], name string, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- guard(call) }()
	limit := time.NewTimer(c.patience)
	defer limit.Stop()
	select {
	case err := <-done:
		c.still(h, name)
		return err
	case <-limit.C:
		h.release()
		c.failf("%s had not returned after %v while a stream was held back.", name, c.patience)
	}
	return nil
}
