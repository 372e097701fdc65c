package slab

const first = 16

// Slab hands out objects of one type. A slab lives as long as somebody keeps one of
// its objects, so the first are small, and each is twice the one before up to a
// limit. It is not safe for concurrent use. The zero value is ready.
type Slab[T any] struct {
	left []T // not handed out yet
	size int // of the newest slab
}

// Next is a new zero object. No slab is made larger than most.
func (s *Slab[T]) Next(most int) *T {
	if len(s.left) == 0 {
		s.size = min(max(2*s.size, first), most)
		s.left = make([]T, s.size)
	}
	next := &s.left[0]
	s.left = s.left[1:]
	return next
}
