package fence

import (
	"errors"
	"time"

	"example.com/devevents/events"
)

// urgency is how much a record wants an event of a fence that is over.
type urgency int

const (
	none urgency = iota
	// early is while there are free ones, and not many: the fences that were dropped
	// on streams out of use are passed by in time, and their number stays in
	// proportion to that of the fences that are really pending.
	early
	needed // a new one would have to be made
	full   // and cannot
)

// Each question costs the caller of Record a driver call, so they are few.
const (
	enough       = 8  // events at a time, of streams other than the record's
	enoughOwn    = 64 // and of the record's own, where one question can answer for many
	ownQuestions = 8

	// A question is worth the more the more fences it can answer for: while there are
	// few events altogether, a new one is made rather than asked for among so few.
	few            = 32
	roomy          = 1024
	otherQuestions = 8  // about streams other than the record's
	earlyAgain     = 4  // records until the next early look, twice as many events as they need
	earlyPause     = 16 // the same after one in vain
	fullQuestions  = roundQuestions - ownQuestions

	// lanesPerQuestion bounds how many lanes without a fence are passed over.
	lanesPerQuestion = 16
)

// take gets an event for a record on l.
func (s *Source[S]) take(l *lane, want urgency) (event, error) {
	if want != none {
		s.core.waiter.collect(l, want)
	}
	ev, err := s.port.take()
	if errors.Is(err, events.ErrFull) {
		ev, err = s.takeFull(l)
	}
	if err != nil {
		s.core.outOfUse(1)
	}
	return ev, err
}

// takeFull is take when there is no event. It waits for one no longer than the
// longest pause.
func (s *Source[S]) takeFull(l *lane) (event, error) {
	late := time.NewTimer(longPause)
	defer late.Stop()
	for {
		freed := s.core.nextFreed() // asked for first, so that none is missed
		coming := s.core.waiter.collect(l, full)
		ev, err := s.port.take()
		if !coming || !errors.Is(err, events.ErrFull) {
			return ev, err
		}
		select {
		case <-freed:
		case <-late.C:
			return nil, err
		}
	}
}

// nextFreed gives a channel that is closed when an event is out of use.
func (c *core) nextFreed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed == nil {
		c.freed = make(chan struct{})
	}
	return c.freed
}

// outOfUse counts n events out.
func (c *core) outOfUse(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse -= n
	if c.freed != nil {
		close(c.freed)
		c.freed = nil
	}
}

// inTurn gives the next lane that fits and has fences, and goes on from there the
// next time. It passes over so many lanes at most, and needs core.mu.
func (c *core) inTurn(steps *int, fits func(*lane) bool) *lane {
	for ; *steps > 0; *steps-- {
		if c.place >= len(c.lanes) {
			c.place = 0
		}
		l := c.lanes[c.place]
		c.place++
		if len(l.fences) > 0 && fits(l) {
			*steps--
			return l
		}
	}
	return nil
}

// takeTurn waits at most so long for the right to poll.
func (c *core) takeTurn(patience time.Duration) bool {
	select {
	case c.turn <- struct{}{}:
		return true
	default:
	}
	if patience == 0 {
		return false
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case c.turn <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

func (p *poller) collect(own *lane, want urgency) (coming bool) {
	patience := time.Duration(0)
	if want == full {
		patience = longPause
	}
	if p.core.takeTurn(patience) {
		var found [enoughOwn]verdict
		over := p.core.sweep(own, want, found[:0])
		<-p.core.turn
		p.core.giveBack(over)
	}
	return false
}

// sweep asks about fences that nobody waits for until there are enough events or
// too many questions: of the record's own stream first, where the next event is
// most likely, then of others in turn. The caller has the turn.
func (c *core) sweep(own *lane, want urgency, over []verdict) []verdict {
	r := round{core: c}
	defer r.end()
	if want > early {
		over, _ = r.through(own, few-1, ownQuestions, enoughOwn, over)
	}
	left := otherQuestions
	if want == full {
		left = fullQuestions
	} else if len(over) > 0 {
		return over
	}
	fits := func(l *lane) bool { return l != own && (want == full || !l.watched) }
	c.mu.Lock()
	defer c.mu.Unlock()
	for steps := min(lanesPerQuestion*left, len(c.lanes)); left > 0 && len(over) < enough; {
		l := c.inTurn(&steps, fits)
		if l == nil {
			break
		}
		c.mu.Unlock()
		most, before := enough-len(over), len(over)
		var asked int
		over, asked = r.through(l, 0, min(left, most), most, over)
		left -= asked
		c.mu.Lock()
		if len(over)-before == most {
			c.place-- // it may have more: the next sweep begins here
		}
	}
	if len(over) > 0 {
		c.nextEarly = c.records + earlyAgain
	}
	return over
}
