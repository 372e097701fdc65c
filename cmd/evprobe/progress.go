package main

import (
	"fmt"
	"io"
	"time"

	"example.com/devevents/cmd/evprobe/internal/term"
)

// progress is one line that is written over, on a terminal only. A nil one
// shows nothing.
type progress struct {
	w     io.Writer
	width func() int
	since time.Time // when what is shown began
	after time.Duration
	shown bool
}

// narrowest is a width below which a line says nothing.
const narrowest = 20

// newProgress gives nil where the line would be in the way.
func newProgress(stderr io.Writer) *progress {
	width := func() int { return term.Redrawn(stderr) }
	if width() < narrowest {
		return nil
	}
	return &progress{w: stderr, width: width, after: time.Second}
}

const clearLine = "\r\x1b[K"

// begin says that something begins. What is over soon is never shown.
func (p *progress) begin(at time.Time) {
	if p != nil {
		p.since = at
	}
}

func (p *progress) show(line string) {
	if p == nil || time.Since(p.since) < p.after {
		return
	}
	// A longer line would wrap and not be written over; a terminal may change its size.
	room := max(p.width()-1, 0)
	if runes := []rune(line); len(runes) > room {
		line = string(runes[:room])
	}
	p.shown = true
	fmt.Fprint(p.w, clearLine+line)
}

func (p *progress) clear() {
	if p != nil && p.shown {
		p.shown = false
		fmt.Fprint(p.w, clearLine)
	}
}
