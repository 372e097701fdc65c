package profiler

import "context"

// maxNest is of how many windows round one the names are kept.
const maxNest = 8

// place is where a window lies among others.
type place struct {
	parent, root uint64
	depth        int32
	kept         int8
	outer        [maxNest]*Track // of the windows round it, outermost first
}

// alone makes p the place of a window in none. What is left in outer is not looked at.
func (p *place) alone(id uint64) { p.parent, p.root, p.depth, p.kept = 0, id, 0, 0 }

// inside makes p the place of a window in the given one.
func (p *place) inside(id uint64, t *Track, at *place) {
	p.parent, p.root, p.depth, p.kept = id, at.root, at.depth+1, at.kept
	outer := at.outer[:at.kept]
	if int(at.kept) == maxNest {
		outer = outer[1:]
		p.kept--
	}
	copy(p.outer[:], outer)
	p.outer[p.kept] = t
	p.kept++
}

// nested is what a context carries of the window that its holder is in.
type nested struct {
	engine any // windows of another profiler count for nothing here
	place  place
}

type nestedKey struct{}

// openedIn finds the window of this profiler that ctx lies in, nil for none.
func (e *engine[E, S]) openedIn(ctx context.Context) *nested {
	if ctx == nil {
		return nil
	}
	if n, ok := ctx.Value(nestedKey{}).(*nested); ok && n.engine == any(e) {
		return n
	}
	return nil
}

// inside implements lane.
func (s *stream[E, S]) inside(t Window) *nested {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.opened(t)
	if w == nil {
		return nil
	}
	n := &nested{engine: s.engine}
	n.place.inside(w.id, w.track, &w.place)
	return n
}

// Begin opens a window as StartContext does and gives the context for what happens in it:
// a window that is opened with that context, on any stream of the same profiler, has this one
// as its Parent, whatever else is open on its stream. Stop ends the window. Unlike StartContext
// it allocates. A nil ctx is context.Background().
func (t *Track) Begin(ctx context.Context) (context.Context, Window) {
	if ctx == nil {
		ctx = context.Background()
	}
	w := t.StartContext(ctx)
	if w.lane == nil {
		return ctx, w
	}
	if n := w.lane.inside(w); n != nil {
		ctx = context.WithValue(ctx, nestedKey{}, n)
	}
	return ctx, w
}

// Do runs fn in a window of the track, with a context as Begin gives one, and returns what it
// returns. The window is closed when fn returns, which is when it has queued its work. If fn
// fails, panics or ends its goroutine the window is abandoned: work that broke off must
// not look fast. fn runs in any case, also where no window can be opened (t is nil, the
// profiler is full). A nil ctx is context.Background().
func Do(ctx context.Context, t *Track, fn func(ctx context.Context) error) error {
	ctx, w := t.Begin(ctx)
	done := false
	defer func() {
		if done {
			t.Stop(w)
		} else {
			_ = t.Abandon(w)
		}
	}()
	err := fn(ctx)
	done = err == nil
	return err
}

// names keeps each nest of names once. It is the harvester's.
type names struct{ known map[place][]string }

// within gives the names of the windows round one, outermost first; nil for none.
func (n *names) within(p *place) []string {
	if p.kept == 0 {
		return nil
	}
	key := place{kept: p.kept}
	copy(key.outer[:], p.outer[:p.kept])
	list, ok := n.known[key]
	if !ok {
		for _, t := range key.outer[:key.kept] {
			list = append(list, t.name)
		}
		if n.known == nil || len(n.known) >= knownStacks { // tracks come and go
			n.known = map[place][]string{}
		}
		n.known[key] = list
	}
	return list
}
