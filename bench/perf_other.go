//go:build !linux

package bench

import (
	"fmt"
	"runtime"

	"example.com/devevents/events"
)

func openCounters() (counterSet, error) {
	return nil, fmt.Errorf("counters of the processor on %s: %w", runtime.GOOS, events.ErrUnsupported)
}
