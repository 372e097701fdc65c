package cfamily

import (
	"sync"
	"sync/atomic"
)

// life is what an event or a stream that we made knows of itself, so that no
// stale handle reaches C: a crash there cannot be recovered from.
//
// A short call announces the handles that it is about to use in a slot, and
// only then looks whether they are dead. A destroy marks the handle dead, and
// only then looks at the slots. Whichever comes second sees the other: either
// the call refuses, or the destroy leaves the handle to the last call that
// uses it. A slot costs two atomic operations whatever the number of handles,
// where a count in each handle costs two per handle.
//
// Calls that may block for long, and calls that find no free slot, count
// themselves in the handle instead.
type life struct {
	dev    *dev
	handle uintptr
	kind   lifeKind
	id     uint32
	dead   atomic.Bool
	users  atomic.Int32
	// recorded is for events: the last record succeeded.
	recorded atomic.Bool
	untimed  bool
}

type lifeKind uint8

const (
	kindEvent lifeKind = iota
	kindStream
)

const slotCount = 32

// slot announces the handles of one call in progress, and lends it one word
// that C may write to.
type slot struct {
	key atomic.Uint64 // 0: free; else the ids of one or two handles
	out uint64
	_   [48]byte // its own cache line
}

type slotTable [slotCount]slot

// lifeIDs numbers lives. After four billion of them two may share a number,
// which can only make a destroy wait for a call that it need not wait for.
var lifeIDs atomic.Uint32

func newLife(d *dev, handle uintptr, kind lifeKind) *life {
	id := lifeIDs.Add(1)
	for id == 0 {
		id = lifeIDs.Add(1)
	}
	return &life{dev: d, handle: handle, kind: kind, id: id}
}

// pairKey is the key of a call on one handle, or on two (b may be nil).
func pairKey(a, b *life) uint64 {
	if b == nil {
		return uint64(a.id)
	}
	return uint64(a.id) | uint64(b.id)<<32
}

// hold announces one or two handles (b may be nil). It returns nil where every
// slot that it tried was busy; the handles are then counted instead.
func (r *lib) hold(a, b *life) *slot {
	i := stackShard() % slotCount
	if s := &r.slots[i]; s.key.CompareAndSwap(0, pairKey(a, b)) {
		return s
	}
	return r.holdElsewhere(i, a, b)
}

func (r *lib) holdElsewhere(i uint32, a, b *life) *slot {
	for n := range uint32(3) {
		s := &r.slots[(i+1+n)%slotCount]
		if s.key.Load() == 0 && s.key.CompareAndSwap(0, pairKey(a, b)) {
			return s
		}
	}
	count(a, b)
	return nil
}

// release ends what hold began, and frees what was destroyed meanwhile.
func (r *lib) release(s *slot, a, b *life) {
	if s != nil {
		s.key.Store(0)
	} else {
		uncount(a, b)
	}
	if r.limbo.waiting.Load() != 0 {
		r.sweep()
	}
}

func count(a, b *life) {
	a.users.Add(1)
	if b != nil {
		b.users.Add(1)
	}
}

func uncount(a, b *life) {
	a.users.Add(-1)
	if b != nil {
		b.users.Add(-1)
	}
}

// releaseCounted ends what count began.
func (r *lib) releaseCounted(a, b *life) {
	uncount(a, b)
	if r.limbo.waiting.Load() != 0 {
		r.sweep()
	}
}

func (r *lib) inUse(l *life) bool {
	if l.users.Load() != 0 {
		return true
	}
	for i := range r.slots {
		if key := r.slots[i].key.Load(); uint32(key) == l.id || uint32(key>>32) == l.id {
			return true
		}
	}
	return false
}

// limbo keeps dead handles that a call is still using.
type limbo struct {
	mu      sync.Mutex
	handles []*life
	waiting atomic.Int32
}

// retire frees a dead handle at once if no call uses it. Otherwise the last
// call that does frees it, and an error there is counted.
func (r *lib) retire(l *life) error {
	if !r.inUse(l) {
		return l.dev.free(l)
	}
	r.limbo.mu.Lock()
	r.limbo.handles = append(r.limbo.handles, l)
	r.limbo.waiting.Store(int32(len(r.limbo.handles)))
	r.limbo.mu.Unlock()
	// The last user may have left between the look and the note.
	r.sweep()
	return nil
}

// sweep frees the dead handles that nobody uses any more. No lock is held
// across the driver's calls.
func (r *lib) sweep() {
	var idle []*life
	r.limbo.mu.Lock()
	kept := r.limbo.handles[:0]
	for _, l := range r.limbo.handles {
		if r.inUse(l) {
			kept = append(kept, l)
		} else {
			idle = append(idle, l)
		}
	}
	clear(r.limbo.handles[len(kept):])
	r.limbo.handles = kept
	r.limbo.waiting.Store(int32(len(kept)))
	r.limbo.mu.Unlock()
	for _, l := range idle {
		if err := l.dev.free(l); err != nil {
			l.dev.stats.destroyFailed.Add(1)
		}
	}
}
