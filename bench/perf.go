package bench

import (
	"encoding/binary"
	"errors"
)

var errShortRead = errors.New("the kernel gave fewer bytes than a group of counters has")

// times are how long a group was asked to count and did, since it was opened.
type times struct{ enabled, running uint64 }

// decodeGroup takes what read(2) gives for a group (number of counters, time enabled,
// time running, values). Where the counters ran for a part of the time only, since the
// processor has too few of them, the values are scaled up. place says where in counts
// each value belongs; was is updated.
func decodeGroup(buf []byte, place []int, was *times, into *counts) (running float64, err error) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buf[8*i:]) }
	if len(buf) < 8*(3+len(place)) || word(0) < uint64(len(place)) {
		return 0, errShortRead
	}
	now := times{enabled: word(1), running: word(2)}
	enabled, ran := float64(now.enabled-was.enabled), float64(now.running-was.running)
	*was = now
	if enabled <= 0 || ran <= 0 {
		return 0, nil
	}
	*into = counts{-1, -1, -1, -1, -1, -1}
	fields := []*float64{
		&into.cycles, &into.instructions, &into.branches,
		&into.branchMisses, &into.cacheRefs, &into.cacheMisses,
	}
	for i, p := range place {
		*fields[p] = float64(word(3+i)) * enabled / ran
	}
	return ran / enabled, nil
}
