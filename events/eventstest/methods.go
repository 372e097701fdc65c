package eventstest

import (
	"time"

	"example.com/devevents/events"
)

// call is one method with its arguments.
type call struct {
	name string
	do   func() error
}

// eventCalls are all methods that take an event, EventDestroy excepted, with e
// as the event and what is right for the rest. Stream waits come last.
func (c *check[E, S]) eventCalls(e E) []call {
	s, good := c.stream(), c.complete()
	list := []call{
		{"EventRecord", func() error { return c.api.EventRecord(e, s) }},
		{"EventWait", func() error { return c.wait(e) }},
		{"EventElapsed (start)", func() error { _, err := c.api.EventElapsed(e, good); return err }},
		{"EventElapsed (end)", func() error { _, err := c.api.EventElapsed(good, e); return err }},
	}
	if c.querier != nil {
		list = append(list, call{"EventQuery", func() error { _, err := c.querier.EventQuery(e); return err }})
	}
	if c.stamper != nil {
		list = append(list, call{"EventStamp", func() error { _, err := c.stamper.EventStamp(e); return err }})
	}
	if c.rounds != nil {
		list = append(list, call{"RoundQuery", func() error { _, err := c.roundQuery(e); return err }})
	}
	if c.graphs != nil {
		list = append(list, call{"EventRecordExternal", func() error { return c.graphs.EventRecordExternal(e, s) }})
	}
	return append(list, call{"StreamWaitEvent", func() error { return c.api.StreamWaitEvent(s, e) }})
}

// streamCalls are all methods that take a stream, StreamDestroy excepted.
func (c *check[E, S]) streamCalls(s S) []call {
	e, good := c.event(), c.complete()
	list := []call{
		{"EventRecord", func() error { return c.api.EventRecord(e, s) }},
		{"StreamWaitEvent", func() error { return c.api.StreamWaitEvent(s, good) }},
		{"StreamSynchronize", func() error { return c.sync(s) }},
	}
	if c.asker != nil {
		list = append(list, call{"StreamCapturing", func() error { _, err := c.asker.StreamCapturing(s); return err }})
	}
	if c.gate != nil {
		list = append(list, call{"GateClose", func() error { _, err := c.gate.GateClose(s, time.Millisecond); return err }})
	}
	if c.spins {
		list = append(list, call{"ScratchSpin", func() error { _, err := c.scratch.ScratchSpin(time.Microsecond, s); return err }})
	}
	if c.scratch != nil {
		b, err := c.scratch.ScratchAlloc(4096)
		c.must(err, "ScratchAlloc")
		c.later(func() { _ = c.scratch.ScratchFree(b) })
		list = append(list,
			call{"ScratchMemset", func() error { return c.scratch.ScratchMemset(b, 1, 64, s) }},
			call{"ScratchCopy", func() error { return c.scratch.ScratchCopy(b, b, 64, s) }})
		if c.reader != nil {
			list = append(list, call{"LaunchRead", func() error { return c.reader.LaunchRead(b, 64, s) }})
		}
	}
	if c.empty != nil {
		list = append(list, call{"LaunchEmpty", func() error { return c.empty.LaunchEmpty(s) }})
	}
	if c.graphs != nil {
		list = append(list,
			call{"EventRecordExternal", func() error { return c.graphs.EventRecordExternal(e, s) }},
			call{"CaptureBegin", func() error { return c.graphs.CaptureBegin(s, events.CaptureRelaxed) }},
			call{"CaptureEnd", func() error { _, err := c.graphs.CaptureEnd(s); return err }})
	}
	return list
}

// roundQuery is one query in a round of its own.
func (c *check[E, S]) roundQuery(e E) (bool, error) {
	round, err := c.rounds.RoundBegin()
	c.must(err, "RoundBegin")
	done, err := c.rounds.RoundQuery(round, e)
	c.must(c.rounds.RoundEnd(round), "RoundEnd")
	return done, err
}

// all makes every call and wants the same kind of error from each.
func (c *check[E, S]) all(what string, kind error, calls []call) {
	for _, m := range calls {
		c.want(m.do(), m.name+" with "+what, kind)
	}
}
