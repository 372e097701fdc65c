package eventstest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"example.com/devevents/events"
)

// Storm makes n goroutines use a device as profilers do, each on a stream of its
// own, until stop is called: make two events, record, query, wait, read the
// elapsed time, destroy, pause, and again. With a pause of 0 they only yield.
//
// Run the suite beside it to see that other users of a device take nothing from
// the contract, and the suite nothing from them. The suite counts handles: give
// the storm another opening of the library than the suite has, whose counts are
// its own.
//
// expected says which errors are none of the storm's concern, because the suite
// made the library fail; nil: none are. Any other error ends the goroutine that
// it came to. stop waits until all of them are gone and gives their errors.
func Storm[E any, S comparable](api events.EventApi[E, S], n int, pause time.Duration, expected func(error) bool) (stop func() error) {
	querier, _ := events.Ability[events.Querier[E]](api)
	ended := make(chan struct{})
	n = max(n, 0)
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			g := gust[E, S]{api: api, querier: querier, expected: expected}
			err := guard(func() error { g.blow(pause, ended); return g.failed })
			if err != nil {
				failed[i] = fmt.Errorf("goroutine %d of the storm: %w", i, err)
			}
		})
	}
	return sync.OnceValue(func() error {
		close(ended)
		all.Wait()
		return errors.Join(failed...)
	})
}

// gust is one goroutine of a storm.
type gust[E any, S comparable] struct {
	api      events.EventApi[E, S]
	querier  events.Querier[E] // nil if the backend has none
	expected func(error) bool
	failed   error
}

// ok reports whether a call worked, and notes an error that nobody expected.
func (g *gust[E, S]) ok(call string, err error) bool {
	if err != nil && (g.expected == nil || !g.expected(err)) {
		g.failed = errors.Join(g.failed, fmt.Errorf("%s: %w", call, err))
	}
	return err == nil
}

func (g *gust[E, S]) blow(pause time.Duration, ended <-chan struct{}) {
	s, err := g.api.StreamCreateNonBlocking()
	if !g.ok("StreamCreateNonBlocking", err) {
		return
	}
	for over := false; !over && g.failed == nil; {
		g.window(s)
		if pause > 0 {
			time.Sleep(pause)
		} else {
			runtime.Gosched()
		}
		select {
		case <-ended:
			over = true
		default:
		}
	}
	g.ok("StreamDestroy", g.api.StreamDestroy(s))
}

func (g *gust[E, S]) window(s S) {
	start, err := g.api.EventCreate()
	if !g.ok("EventCreate", err) {
		return
	}
	if end, err := g.api.EventCreate(); g.ok("EventCreate", err) {
		g.span(s, start, end)
		g.ok("EventDestroy", g.api.EventDestroy(end))
	}
	g.ok("EventDestroy", g.api.EventDestroy(start))
}

func (g *gust[E, S]) span(s S, start, end E) {
	if !g.ok("EventRecord", g.api.EventRecord(start, s)) || !g.ok("EventRecord", g.api.EventRecord(end, s)) {
		return
	}
	if g.querier != nil {
		if _, err := g.querier.EventQuery(end); !g.ok("EventQuery", err) {
			return
		}
	}
	if !g.ok("EventWait", g.api.EventWait(end)) {
		return
	}
	if g.querier != nil {
		done, err := g.querier.EventQuery(end)
		if g.ok("EventQuery after EventWait", err) && !done {
			g.ok("EventQuery after EventWait", errors.New("not reached"))
		}
	}
	span, err := g.api.EventElapsed(start, end)
	if g.ok("EventElapsed", err) && span < 0 {
		g.ok("EventElapsed", fmt.Errorf("a span of %v", span))
	}
}
