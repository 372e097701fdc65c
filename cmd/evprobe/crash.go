package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

// maxOutput is how much of what a worker prints is kept.
const maxOutput = 8 << 10

// firstPart keeps the beginning of what is written to it.
type firstPart struct {
	mu   sync.Mutex
	most int
	kept strings.Builder
	also io.Writer // gets everything, may be nil
}

func (f *firstPart) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept.Write(text[:min(len(text), f.most-f.kept.Len())])
	if f.also != nil {
		_, _ = f.also.Write(text) // what is shown is no part of the work
	}
	return len(text), nil
}

// mute keeps what is written from now on from being shown.
func (f *firstPart) mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.also = nil
}

func (f *firstPart) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.ToValidUTF8(f.kept.String(), "?")
}

// The Go runtime catches most deadly signals, says so on stderr and exits with 2.
var caughtSignal = regexp.MustCompile(`(?m)^(?:\[signal )?(SIG[A-Z]+): `)

// died records how a worker ended that had not said its last word.
func (r *recorder) died(state *os.ProcessState, said string) {
	c := &document.Crash{ExitCode: state.ExitCode(), During: cmp.Or(r.now.In, inOpen), Step: r.now.Doing, Output: said}
	if name := signalOf(state); name != "" {
		c.Signal = name
	} else if match := caughtSignal.FindStringSubmatch(said); match != nil {
		c.Signal = match[1]
	}
	r.doc.Crash = c
	r.rest(probe.Fail, "the driver crashed: "+manner(c))
}

// manner is how a process died, in words.
func manner(c *document.Crash) string {
	if c.Signal != "" {
		return "the process died of " + c.Signal
	}
	return fmt.Sprintf("the process ended by itself with exit code %d", c.ExitCode)
}

func crashed(c *document.Crash) string {
	return fmt.Sprintf("the driver crashed in %s: %s; last step: %s", c.During, manner(c), c.Step)
}
