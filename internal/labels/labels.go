// Package labels keeps the names of windows and devices fit for use as labels: valid,
// short, and few. A store of metrics keeps a series for each label that it ever saw.
package labels

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"example.com/devevents/events"
)

const (
	// Unnamed stands for an empty name.
	Unnamed = "unnamed"
	// Other stands for every name beyond a set's bound.
	Other = "other"
	// Longest is how many bytes of a name are kept.
	Longest = 128
)

// Clean gives the name as valid UTF-8 of at most Longest bytes, and Unnamed for
// an empty one. What is no UTF-8 is replaced by U+FFFD: exporters refuse whole batches
// for one such string.
func Clean(name string) string {
	if name == "" {
		return Unnamed
	}
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name[:min(len(name), 2*Longest)], "\uFFFD")
	}
	if len(name) <= Longest {
		return name
	}
	end := Longest
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// Device is the best name for a device that there is: its UUID as the vendor writes it,
// by which series join with those of other exporters, else where it is plugged in, else
// its number in this process.
func Device(backend string, who events.Identity) string {
	switch {
	case who.UUID != "":
		return Clean(who.UUID)
	case who.PCIBusID != "":
		return Clean(who.PCIBusID)
	}
	return Clean(backend + ":" + strconv.Itoa(who.Ordinal))
}

// Set lets the first few distinct names through. It is safe for concurrent use.
type Set struct {
	mu   sync.RWMutex
	most int
	kept map[string]bool
}

// NewSet makes a set of at most most names; Other is not counted.
func NewSet(most int) *Set { return &Set{most: most, kept: map[string]bool{}} }

// Bound is the name, or Other if it is one too many.
func (s *Set) Bound(name string) string {
	s.mu.RLock()
	known, full := s.kept[name], len(s.kept) >= s.most
	s.mu.RUnlock()
	switch {
	case known:
		return name
	case full:
		return Other
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept[name] {
		if len(s.kept) >= s.most {
			return Other
		}
		s.kept[strings.Clone(name)] = true // it may be the start of a long one
	}
	return name
}
