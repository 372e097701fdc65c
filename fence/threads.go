package fence

// threads is a waiter for backends that cannot query: a bounded number of
// goroutines, each of which blocks its OS thread in the driver. One serves the
// oldest fence of one lane at a time, so a lane that hangs takes one of them.
type threads struct {
	core  *core
	lanes []*lane // those without a thread; guarded by core.mu
	runs  int     // likewise
}

func (t *threads) want(l *lane) {
	if l.watched {
		return
	}
	l.watched = true
	t.lanes = append(t.lanes, l)
	if t.runs < t.core.config.threads {
		t.runs++
		t.core.start(t.run)
	}
}

func (t *threads) blocked() int { return t.runs }

func (t *threads) run() {
	for f := t.next(nil); f != nil; f = t.next(f.lane) {
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
	t.runs--
	c.stopped()
	return nil
}
