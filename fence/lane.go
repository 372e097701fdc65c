package fence

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// lane is the unfinished fences of one stream. Fields without a note are
// guarded by core.mu.
type lane struct {
	number  int     // among the lanes of the source, for a stream without a handle
	handle  uintptr // the vendor's own, for texts only
	handled bool    // handle counts
	ordered bool    // what is reached was reached in the order of fences

	// recording spans a record and its entry below, so that the order of fences
	// is that of the stream. A record blocks while the stream's queue is full;
	// others of the same stream could not go on then either.
	recording sync.Mutex

	users     int      // calls of Record in progress
	fences    []*Fence // oldest first; each owns its event as long as it is here
	room      []*Fence // what fences is a part of, from its beginning
	wanted    int      // how many of fences somebody waits for
	watched   bool     // the waiter has the lane on its list
	collected bool     // a thread serves it though nobody waited
	blocked   *Fence   // that a thread waits for, while a poller serves the others
	backoff            // of the poller
}

// backoff is how often a lane is polled.
type backoff struct {
	since time.Time // when the current wait began
	due   time.Time
	pause time.Duration // that ends there
	tries int           // polls since then
	other int           // the younger fence that was asked about last
}

// String names the stream in texts.
func (l *lane) String() string {
	if l.handled {
		return fmt.Sprintf("stream %#x", l.handle)
	}
	return fmt.Sprintf("stream no. %d", l.number)
}

// add puts a fence behind the others.
func (l *lane) add(f *Fence) {
	if n := len(l.fences); n == cap(l.fences) && n <= cap(l.room)/2 {
		// As many again have gone from the beginning.
		copy(l.room[:n], l.fences)
		clear(l.fences)
		l.fences = l.room[:n]
	}
	l.fences = append(l.fences, f)
	if cap(l.fences) > cap(l.room) {
		l.room = l.fences
	}
}

// remove takes a fence out. It reports false if somebody else did before, who
// then has the event.
func (l *lane) remove(f *Fence) bool {
	i := slices.Index(l.fences, f)
	switch {
	case i < 0:
		return false
	case i == 0:
		l.drop(1)
	default:
		l.fences = slices.Delete(l.fences, i, i+1)
	}
	return true
}

// drop takes the n oldest fences out.
func (l *lane) drop(n int) {
	clear(l.fences[:n])
	if n == len(l.fences) {
		l.fences = l.room[:0]
	} else {
		l.fences = l.fences[n:]
	}
}

// idle reports whether nothing needs the lane.
func (l *lane) idle() bool {
	return l.users == 0 && len(l.fences) == 0 && !l.watched && l.blocked == nil
}
