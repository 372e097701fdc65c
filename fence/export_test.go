package fence

// Lanes is how many streams a source remembers.
func Lanes[S comparable](s *Source[S]) int {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return len(s.lanes)
}

// Coarse makes pauses keep the time of Go's timers, which is all that a test in a
// bubble of fake time can tell.
func Coarse() Option { return optionFunc(func(c *config) { c.coarse = true }) }
