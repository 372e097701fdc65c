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

	// recording spans a record and its entry below, so that the order of fences
	// is that of the stream. A record blocks while the stream's queue is full;
	// others of the same stream could not go on then either.
	recording sync.Mutex

	users     int      // calls of Record in progress
	fences    []*Fence // oldest first; each owns its event as long as it is here
	wanted    int      // how many of fences somebody waits for
	watched   bool     // the waiter has the lane on its list
	collected bool     // a thread serves it though nobody waited
	blocked   *Fence   // that a thread waits for, while a poller serves the others
	mixed     bool     // a younger fence was reached before an older one: no stream in order
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

// remove takes a fence out. It reports false if somebody else did before, who
// then has the event.
func (l *lane) remove(f *Fence) bool {
	if len(l.fences) > 0 && l.fences[0] == f {
		l.fences[0] = nil
		if len(l.fences) == 1 {
			l.fences = l.fences[:0] // there is room for the next
		} else {
			l.fences = l.fences[1:]
		}
		return true
	}
	i := slices.Index(l.fences, f)
	if i < 0 {
		return false
	}
	l.fences = slices.Delete(l.fences, i, i+1)
	return true
}

// idle reports whether nothing needs the lane.
func (l *lane) idle() bool {
	return l.users == 0 && len(l.fences) == 0 && !l.watched && l.blocked == nil
}
