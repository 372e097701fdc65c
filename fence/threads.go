package fence

// threads is a waiter for backends that cannot query: a bounded number of
// goroutines, each of which blocks its OS thread in the driver. One serves the
// oldest fence of one lane at a time, so a lane that hangs takes one of them.
type threads struct {
	core       *core
	lanes      []*lane // those that somebody waits for, without a thread; guarded by core.mu
	runs       int     // likewise
	collecting int     // of runs, those that serve a lane nobody waited for; likewise
}

// crowd is how many events in use are enough to wait also for fences that nobody
// waits for. With fewer it is not worth a thread in the driver.
const crowd = 1024

func (t *threads) want(l *lane) {
	if l.watched {
		return
	}
	l.watched = true
	t.lanes = append(t.lanes, l)
	if t.runs < t.core.config.threads {
		t.runs++
		t.core.start(func() { t.run(t.next(nil)) })
	}
}

func (t *threads) blocked() int { return t.runs }

func (t *threads) end()     {} // they see it when the driver lets them go
func (t *threads) release() {}

func (t *threads) collect(*lane, urgency) (coming bool) {
	t.core.mu.Lock()
	defer t.core.mu.Unlock()
	if t.runs < t.core.config.threads {
		if f := t.unwanted(); f != nil {
			t.runs++
			t.core.start(func() { t.run(f) })
		}
	}
	return t.runs > 0
}

func (t *threads) run(f *Fence) {
	for ; f != nil; f = t.next(f.lane) {
		t.core.giveBack(t.core.decide(f, f.event.Wait(), nil))
	}
}

// next hands out a fence to wait for, after putting the lane that the caller
// has served at the end. It gives nil when the goroutine must end.
func (t *threads) next(served *lane) *Fence {
	c := t.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if served != nil {
		if served.collected {
			served.collected = false
			t.collecting--
		}
		t.lanes = append(t.lanes, served)
	}
	for len(t.lanes) > 0 {
		l := t.lanes[0]
		t.lanes = t.lanes[1:]
		if l.wanted > 0 && len(l.fences) > 0 {
			return l.fences[0]
		}
		l.watched = false
	}
	if f := t.unwanted(); f != nil {
		return f
	}
	t.runs--
	c.stopped()
	return nil
}

// unwanted hands out a fence that nobody waits for, while too many events are in
// use. Such fences get half of the threads, since their streams may hang. It needs
// core.mu.
func (t *threads) unwanted() *Fence {
	c := t.core
	if c.inUse <= min(crowd, c.config.limit/2) || 2*t.collecting >= c.config.threads {
		return nil
	}
	steps := len(c.lanes)
	l := c.inTurn(&steps, func(l *lane) bool { return !l.watched })
	if l == nil {
		return nil
	}
	l.watched, l.collected = true, true
	t.collecting++
	return l.fences[0]
}
