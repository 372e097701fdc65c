package probe

import "time"

// stepLimit watches that steps change.
type stepLimit struct {
	limit time.Duration // 0 is none
	step  string
	since time.Time
}

// exceeded is told the step that is going on, and says whether it has been going on
// for longer than it may.
func (l *stepLimit) exceeded(step string, now time.Time) bool {
	if step != l.step || l.since.IsZero() {
		l.step, l.since = step, now
	}
	return l.limit > 0 && now.Sub(l.since) >= l.limit
}
