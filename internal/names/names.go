// Package names keeps the names of windows and devices fit for use as labels: valid,
// short, and few. A store of metrics keeps a series for each label that it ever saw.
package names

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

// Label is the label to use for a name: the name, cleaned, or Other if the set is full
// of others.
func (s *Set) Label(name string) string {
	label := Clean(name)
	s.mu.RLock()
	known, full := s.kept[label], len(s.kept) >= s.most
	s.mu.RUnlock()
	switch {
	case known:
		return label
	case full:
		return Other
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept[label] {
		if len(s.kept) >= s.most {
			return Other
		}
		label = strings.Clone(label) // it may be the start of a long one
		s.kept[label] = true
	}
	return label
}
