package profiler

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"example.com/devevents/events"
	"example.com/devevents/internal/labels"
)

// Tee makes one sink of several, for what is in front of all of them: Sample(Tee(a, b), 10). Each
// gets every batch, also after another one failed or panicked, but on one goroutine: one that blocks
// holds up the rest, and a batch that one of them did not take counts as lost. Sinks that are
// given to the profiler one by one do not affect each other. It panics if one is nil.
func Tee(sinks ...Sink) Sink {
	for i, s := range sinks {
		if s == nil {
			panic(fmt.Sprintf("profiler.Tee: sink %d is nil", i))
		}
	}
	all := slices.Clone(sinks)
	return SinkFunc(func(batch []Span) error {
		errs := make([]error, len(all))
		for i, s := range all {
			errs[i] = offer(s, batch)
		}
		return errors.Join(errs...)
	})
}

// offer gives a sink a batch; its panic is an error.
func offer(s Sink, batch []Span) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the sink panicked: %v", p)
		}
	}()
	return s.Spans(batch)
}

// Filter passes those spans on that keep says yes to. It panics if either is nil.
func Filter(next Sink, keep func(Span) bool) Sink {
	if next == nil || keep == nil {
		panic("profiler.Filter: no sink, or nothing to decide by")
	}
	return SinkFunc(func(batch []Span) error {
		var kept []Span
		for _, s := range batch {
			if keep(s) {
				kept = append(kept, s)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return next.Spans(kept)
	})
}

// Sample passes one window of n on, with all that lie in it: the choice is by Span.Root, so
// nests stay whole, and it is the same in every sink of a profiler. n below 2 passes all.
// It panics if next is nil.
func Sample(next Sink, n int) Sink {
	if n < 2 {
		n = 1
	}
	return Filter(next, func(s Span) bool { return mix(s.Root)%uint64(n) == 0 })
}

// mix spreads numbers that count up over all 64 bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// OtherName is the name of spans whose own is one too many.
const OtherName = labels.Other

// NameLimit is a sink that bounds how many names the next one sees, since a backend of
// metrics or traces keeps something for each for ever. The first names keep theirs; spans with
// others are called OtherName, and counted. Names in Span.Within are bounded alike.
type NameLimit struct {
	next  Sink
	known *labels.Set
	other atomic.Uint64
}

// NewNameLimit passes spans on to next with at most limit names, OtherName not counted.
// It is ErrInvalid for a nil sink or a limit below 1.
func NewNameLimit(next Sink, limit int) (*NameLimit, error) {
	if next == nil || limit < 1 {
		return nil, fmt.Errorf("profiler: a limit of %d names: %w: it needs a sink and at least 1", limit, events.ErrInvalid)
	}
	return &NameLimit{next: next, known: labels.NewSet(limit)}, nil
}

// Spans implements Sink.
func (l *NameLimit) Spans(batch []Span) error {
	bounded := make([]Span, len(batch))
	for i, s := range batch {
		name := l.known.Bound(s.Name)
		if name != s.Name {
			l.other.Add(1)
		}
		s.Name = name
		s.Within = l.boundAll(s.Within)
		bounded[i] = s
	}
	return l.next.Spans(bounded)
}

// Renamed is how many spans were called OtherName.
func (l *NameLimit) Renamed() uint64 { return l.other.Load() }

func (l *NameLimit) boundAll(names []string) []string {
	for i, name := range names {
		if l.known.Bound(name) == name {
			continue
		}
		own := append([]string(nil), names[:i]...) // the span's list is shared
		for _, name := range names[i:] {
			own = append(own, l.known.Bound(name))
		}
		return own
	}
	return names
}
