package profiler

import "slices"

// knownStacks bounds the stacks that are kept for good. A program that starts windows from
// more places gets a copy of its own for each window beyond.
const knownStacks = 4096

// stacks keeps each stack once, however many windows came by it. It is the harvester's.
type stacks struct {
	byHash map[uint64][][]uintptr
	count  int
}

// shared is the one copy of a stack; nil for none.
func (k *stacks) shared(calls []uintptr) []uintptr {
	if len(calls) == 0 {
		return nil
	}
	hash := uint64(14695981039346656037) // FNV-1a, a word at a time
	for _, pc := range calls {
		hash = (hash ^ uint64(pc)) * 1099511628211
	}
	for _, known := range k.byHash[hash] {
		if slices.Equal(known, calls) {
			return known
		}
	}
	own := slices.Clone(calls)
	if k.count < knownStacks {
		if k.byHash == nil {
			k.byHash = map[uint64][][]uintptr{}
		}
		k.byHash[hash] = append(k.byHash[hash], own)
		k.count++
	}
	return own
}
