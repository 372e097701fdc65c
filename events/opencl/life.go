package opencl

import "sync/atomic"

// shared counts the users of something that must not be given back to the
// library while a call is using it: its owner, and each call in progress. The
// owner leaves with kill and never comes back; the last one to leave frees.
type shared struct {
	users atomic.Int32
	dead  atomic.Bool
}

func (s *shared) init() { s.users.Store(1) }

// enter counts a call in. It fails once the owner has left.
func (s *shared) enter() bool {
	for n := s.users.Load(); n > 0 && !s.dead.Load(); n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// leave counts a call out, and says whether the caller has to free.
func (s *shared) leave() bool { return s.users.Add(-1) == 0 }

// kill is the owner's leaving. Only the first call counts.
func (s *shared) kill() (first, free bool) {
	if !s.dead.CompareAndSwap(false, true) {
		return false, false
	}
	return true, s.leave()
}
