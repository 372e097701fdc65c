package fence

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/internal/alarm"
)

const (
	quickFor   = 20 * time.Microsecond // so long a new wait is polled without a pause
	quickTries = 64                    // or so often, where time stands still
	shortPause = 50 * time.Microsecond
	longPause  = time.Millisecond

	// A wait that nobody blocks for costs a wake-up for each pause, which is some 40us
	// of a core: once it has lasted so long, pauses are a hundredth of it, up to the
	// longest.
	oldAge       = 100 * time.Millisecond
	longestPause = 10 * time.Millisecond

	// roundQuestions keeps a round short: it holds an OS thread. It is also how much
	// one lane may ask before the others have their turn.
	roundQuestions = 256

	// Where one handle stands for many streams, as that of CUDA's per-thread default
	// stream does, one that hangs must not hide the others: once a wait is as slow as
	// the long pause, younger fences are asked about in turn.
	younger = 4
)

// poller is a waiter of one goroutine, which runs while somebody waits, and of some
// that block in the driver for waits that take long.
type poller struct {
	core  *core
	alarm *alarm.Alarm // made by the first run

	// Guarded by core.mu.
	lanes   []*lane // those watched
	runs    bool
	asleep  bool
	blocks  bool // a blocked wait of this backend sleeps, so it is worth a thread
	threads int  // blocked in the driver
}

func newPoller(c *core, blocks bool) *poller {
	return &poller{core: c, blocks: blocks && c.config.threads > 0}
}

func (p *poller) want(l *lane) {
	now := time.Now()
	if !l.watched {
		l.watched = true
		l.backoff = backoff{since: now}
		p.lanes = append(p.lanes, l)
	}
	if l.blocked != nil {
		return // the thread tells when there is something to ask
	}
	l.due = now
	p.again()
}

// wake ends the pause of the goroutine, and needs core.mu.
func (p *poller) wake() {
	if p.asleep {
		p.asleep = false
		p.alarm.Wake()
	}
}

func (p *poller) blocked() int { return p.threads }

func (p *poller) end() { p.wake() }

func (p *poller) release() {
	if p.alarm != nil {
		p.alarm.Close()
	}
}

func (p *poller) run() {
	switch {
	case p.alarm != nil:
	case p.core.config.coarse:
		p.alarm = alarm.NewCoarse()
	default:
		p.alarm = alarm.New()
	}
	var due []*lane
	var over []verdict
	for {
		var pause time.Duration
		if due, pause = p.plan(due[:0]); due == nil {
			return
		}
		if len(due) > 0 {
			p.core.turn <- struct{}{}
			over = p.core.poll(due, over[:0])
			<-p.core.turn
			p.core.giveBack(over)
			p.handOver(due)
			runtime.Gosched()
			continue
		}
		p.alarm.Sleep(pause)
	}
}

// plan gives the lanes to poll now, or how long to sleep. It gives nil when
// nobody waits any longer, and the goroutine must end.
func (p *poller) plan(due []*lane) (_ []*lane, pause time.Duration) {
	c := p.core
	c.mu.Lock()
	defer c.mu.Unlock()
	p.asleep = false
	p.lanes = slices.DeleteFunc(p.lanes, func(l *lane) bool {
		l.watched = l.wanted > 0
		return !l.watched
	})
	if len(p.lanes) == 0 {
		p.runs = false
		c.stopped()
		return nil, 0
	}
	now := time.Now()
	next := time.Duration(math.MaxInt64)
	for _, l := range p.lanes {
		wait := l.due.Sub(now)
		switch {
		case l.blocked != nil:
			continue // younger fences cannot be reached before that one
		case wait <= 0:
			due = append(due, l)
		case wait < next:
			next = wait
		}
	}
	if len(due) == 0 {
		p.asleep = true
		return []*lane{}, next
	}
	// One wake-up serves those too whose turn is near.
	for _, l := range p.lanes {
		if wait := l.due.Sub(now); wait > 0 && wait < l.pause/2 && l.blocked == nil {
			due = append(due, l)
		}
	}
	return due, 0
}

// handOver gives waits that take long to threads which block in the driver, as far as
// there are any left: those wake sooner than a poll, and cost nothing meanwhile.
func (p *poller) handOver(polled []*lane) {
	if !p.blocks {
		return
	}
	c := p.core
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, l := range polled {
		if p.threads >= c.config.threads {
			return
		}
		if l.blocked != nil || !l.ordered || len(l.fences) == 0 || l.wanted == 0 || now.Sub(l.since) < c.config.blockAfter {
			continue
		}
		f := l.fences[0]
		if f.event.Hold() != nil {
			continue // closed meanwhile
		}
		l.blocked = f
		p.threads++
		c.start(func() { p.block(f) })
	}
}

// block waits for a fence in the driver. Somebody else may decide it meanwhile: the
// hold keeps its event from being used for another.
func (p *poller) block(f *Fence) {
	c := p.core
	err := f.event.Wait()
	if left := f.event.Release(); !errors.Is(left, events.ErrDestroyed) { // the source was closed meanwhile
		c.note(left)
	}
	c.giveBack(c.decide(f, err, nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	p.threads--
	l := f.lane
	now := time.Now()
	l.blocked = nil
	l.backoff = backoff{since: now, due: now}
	if l.watched {
		p.again()
	}
	c.stopped()
}

// again has the lanes looked at, and needs core.mu.
func (p *poller) again() {
	if !p.runs {
		p.runs = true
		p.core.start(p.run)
		return
	}
	p.wake()
}

// polled sets when the lane's turn comes again.
func (b *backoff) polled(now time.Time, moved bool) {
	if moved {
		b.since, b.tries = now, 0
	}
	b.tries++
	switch age := now.Sub(b.since); {
	case age < quickFor && b.tries < quickTries:
		b.pause = 0
	case age < oldAge:
		b.pause = min(max(age/4, shortPause), longPause)
	default:
		b.pause = min(max(age/100, longPause), longestPause)
	}
	b.due = now.Add(b.pause)
}

// round asks the device questions.
type round struct {
	core  *core
	asked int
	open  bool
}

func (r *round) ask(f *Fence) (bool, error) {
	if !r.open {
		if err := r.core.rounds.beginRound(); err != nil {
			return false, err
		}
		r.open, r.asked = true, 0
	}
	r.core.polls.Add(1)
	reached, err := f.event.Query()
	if r.asked++; r.asked >= roundQuestions {
		r.end()
	}
	return reached, err
}

func (r *round) end() {
	if r.open {
		r.open = false
		r.core.note(r.core.rounds.endRound())
	}
}

// through asks about the fences of a lane, oldest first, until one is not reached, so
// many questions are asked or there is no room for more, and settles the others. In order, one that is reached
// answers for all before it, so that after each the next to ask about lies twice as far
// ahead. The first to ask about lies so far ahead of the oldest.
func (r *round) through(l *lane, ahead, most, room int, over []verdict) (_ []verdict, asked int) {
	if !l.ordered {
		ahead = 0
	}
	for room += len(over); asked < most && len(over) < room; asked++ {
		f, last := r.core.ahead(l, min(ahead, room-len(over)-1))
		if f == nil {
			break
		}
		reached, err := r.ask(f)
		switch {
		case reached && err == nil && l.ordered:
			over = r.core.decideThrough(f, over)
			ahead = 2*ahead + 1
		case reached || err != nil && ahead == 0:
			over = r.core.decide(f, err, over)
		case ahead == 0:
			return over, asked + 1
		default:
			ahead = 0 // too far, or for the oldest to say
			if last == 0 {
				return over, asked + 1
			}
		}
	}
	return over, asked
}

// poll asks about lanes that somebody waits for. The caller has the turn, and
// gives back what is over, which is added to over, when it has given up the turn.
func (c *core) poll(lanes []*lane, over []verdict) []verdict {
	r := round{core: c}
	defer r.end()
	for _, l := range lanes {
		before := len(over)
		over, _ = r.through(l, 0, roundQuestions, math.MaxInt32, over)
		now := time.Now()
		if len(over) == before && !l.ordered && c.age(l, now) > 4*longPause {
			over = c.pollYounger(&r, l, over)
		}
		c.mu.Lock()
		l.polled(now, len(over) > before)
		c.mu.Unlock()
	}
	return over
}

// age is how long the present wait lasts.
func (c *core) age(l *lane, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(l.since)
}

func (c *core) pollYounger(r *round, l *lane, over []verdict) []verdict {
	for range younger {
		f := c.nextYounger(l)
		if f == nil {
			break
		}
		if reached, err := r.ask(f); reached || err != nil {
			over = c.decide(f, err, over)
		}
	}
	return over
}

// nextYounger goes through the fences of a lane but the oldest, and gives nil at their
// end.
func (c *core) nextYounger(l *lane) *Fence {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.other++
	if l.other >= len(l.fences) {
		l.other = 0
		return nil
	}
	return l.fences[l.other]
}

// ahead is the fence so far behind the oldest of a lane, or the youngest, and its place;
// nil if there is none.
func (c *core) ahead(l *lane, place int) (*Fence, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place = min(place, len(l.fences)-1)
	if place < 0 {
		return nil, 0
	}
	return l.fences[place], place
}
