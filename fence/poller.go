package fence

import (
	"runtime"
	"slices"
	"time"
)

const (
	quickFor   = 20 * time.Microsecond // so long a new wait is polled without a pause
	quickTries = 64                    // or so often, where time stands still
	shortPause = 50 * time.Microsecond
	longPause  = time.Millisecond

	// roundQuestions keeps a round short: it holds an OS thread. It is also how much
	// one lane may ask before the others have their turn.
	roundQuestions = 256

	// Once a wait is as slow as the longest pause, younger fences of its stream
	// are asked about in turn. On a stream in order that is in vain. But one
	// handle can stand for many streams, as that of CUDA's per-thread default
	// stream does, and a stream that hangs must not hide the others.
	younger = 4
)

// poller is a waiter of one goroutine, which runs while somebody waits.
type poller struct {
	core  *core
	wake  chan struct{} // holds one
	lanes []*lane       // those watched; guarded by core.mu
	runs  bool          // likewise
}

func newPoller(c *core) *poller { return &poller{core: c, wake: make(chan struct{}, 1)} }

func (p *poller) want(l *lane) {
	now := time.Now()
	l.due = now
	if !l.watched {
		l.watched = true
		l.backoff = backoff{since: now, due: now}
		p.lanes = append(p.lanes, l)
	}
	if !p.runs {
		p.runs = true
		p.core.start(p.run)
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) blocked() int { return 0 }

func (p *poller) run() {
	pause := time.NewTimer(longPause)
	defer pause.Stop()
	var due []*lane
	var over []verdict
	for {
		var next time.Time
		if due, next = p.plan(due[:0]); due == nil {
			return
		}
		if len(due) > 0 {
			p.core.turn <- struct{}{}
			over = p.core.poll(due, over[:0])
			<-p.core.turn
			p.core.giveBack(over)
			runtime.Gosched()
			continue
		}
		pause.Reset(time.Until(next))
		select {
		case <-pause.C:
		case <-p.wake:
		}
	}
}

// plan gives the lanes to poll now, or when to ask again. It gives nil when
// nobody waits any longer, and the goroutine must end.
func (p *poller) plan(due []*lane) (_ []*lane, next time.Time) {
	c := p.core
	c.mu.Lock()
	defer c.mu.Unlock()
	p.lanes = slices.DeleteFunc(p.lanes, func(l *lane) bool {
		l.watched = l.wanted > 0
		return !l.watched
	})
	if len(p.lanes) == 0 {
		p.runs = false
		c.stopped()
		return nil, next
	}
	now := time.Now()
	for _, l := range p.lanes {
		switch {
		case !l.due.After(now):
			due = append(due, l)
		case next.IsZero() || l.due.Before(next):
			next = l.due
		}
	}
	if due == nil {
		due = []*lane{}
	}
	return due, next
}

// polled sets when the lane's turn comes again.
func (b *backoff) polled(now time.Time, moved bool) {
	if moved {
		b.since, b.tries = now, 0
	}
	b.tries++
	age := now.Sub(b.since)
	b.due = now
	if age >= quickFor || b.tries >= quickTries {
		b.due = now.Add(min(max(age/4, shortPause), longPause))
	}
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

// through asks about the fences of a lane, oldest first, until one is not reached
// or so many questions are asked, and settles the others.
func (r *round) through(l *lane, most int, over []verdict) (_ []verdict, asked int) {
	for asked < most {
		f := r.core.fenceAt(l, 0)
		if f == nil {
			break
		}
		reached, err := r.ask(f)
		asked++
		if !reached && err == nil {
			break
		}
		over = r.core.decide(f, err, over)
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
		over, _ = r.through(l, roundQuestions, over)
		now := time.Now()
		if len(over) == before && now.Sub(l.since) > 4*longPause {
			over = c.pollYounger(&r, l, over)
		}
		c.mu.Lock()
		l.polled(now, len(over) > before)
		c.mu.Unlock()
	}
	return over
}

func (c *core) pollYounger(r *round, l *lane, over []verdict) []verdict {
	for range younger {
		l.other++
		f := c.fenceAt(l, l.other)
		if f == nil {
			l.other = 0
			break
		}
		if reached, err := r.ask(f); reached || err != nil {
			over = c.decide(f, err, over)
		}
	}
	return over
}

// fenceAt is the i-th oldest fence of a lane, or nil.
func (c *core) fenceAt(l *lane, i int) *Fence {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i >= len(l.fences) {
		return nil
	}
	return l.fences[i]
}
