package timeline

import (
	"cmp"
	"slices"
	"time"

	"example.com/devevents/profiler"
)

const (
	// maxHeld bounds the slices of one row that wait to be put in order; twice as many can
	// be there for a moment.
	maxHeld = 4096
	// maxWaiting bounds those of all rows together.
	maxWaiting = 1 << 16
	// held is how much older than the newest of its process a slice has to be to be written.
	held = time.Second
)

// slice is one interval of a row. Times are since the origin.
type slice struct {
	from, to   time.Duration
	name       string
	id, parent uint64
	arrow      uint64 // from the calls to the window; 0 for none
	bound      time.Duration
	depth      int32
	quality    profiler.Quality
}

// row is the slices of one stream, or those of the host, and the lanes they are written on.
type row struct {
	process *process
	of      uint64 // the stream
	waiting []slice
	written time.Duration // every slice that began before this is written
	lanes   []lane
}

// lane is one thread of the trace. Its slices lie in one another or apart.
type lane struct {
	open []time.Duration // the ends of the slices round what would come next, outermost first
	end  time.Duration   // of all its slices
}

// release writes what began before a moment, and more if too many wait, each on its lane.
func (r *row) release(before time.Duration, most int, write func(r *row, s *slice, lane int)) {
	if len(r.waiting) == 0 {
		return
	}
	slices.SortStableFunc(r.waiting, func(a, b slice) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.depth, b.depth))
	})
	n := 0
	for ; n < len(r.waiting) && (r.waiting[n].from < before || len(r.waiting)-n > most); n++ {
		write(r, &r.waiting[n], r.fit(&r.waiting[n]))
	}
	if n > 0 {
		r.written = max(r.written, r.waiting[n-1].from)
	}
	if r.waiting = slices.Delete(r.waiting, 0, n); len(r.waiting) == 0 {
		r.waiting = nil // a stream that is quiet, or gone, keeps nothing
	}
}

// fit finds the first lane that has room for a slice which begins no earlier than all before.
func (r *row) fit(s *slice) int {
	for i := range r.lanes {
		l := &r.lanes[i]
		for len(l.open) > 0 && l.open[len(l.open)-1] <= s.from {
			l.open = l.open[:len(l.open)-1]
		}
		if len(l.open) == 0 && l.end > s.from {
			continue // of a slice that came late
		}
		if len(l.open) > 0 && s.to > l.open[len(l.open)-1] {
			continue
		}
		l.open = append(l.open, s.to)
		l.end = max(l.end, s.to)
		return i
	}
	r.lanes = append(r.lanes, lane{open: []time.Duration{s.to}, end: s.to})
	return len(r.lanes) - 1
}

// late finds a lane that ends before a slice begins.
func (r *row) late(s *slice) int {
	for i := range r.lanes {
		if l := &r.lanes[i]; l.end <= s.from {
			l.open, l.end = l.open[:0], s.to
			return i
		}
	}
	r.lanes = append(r.lanes, lane{end: s.to})
	return len(r.lanes) - 1
}
