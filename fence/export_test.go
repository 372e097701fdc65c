package fence

// Lanes is how many streams a source remembers.
func Lanes[S comparable](s *Source[S]) int {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return len(s.lanes)
}
