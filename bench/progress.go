package bench

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on a terminal what is being measured, and shows nothing elsewhere.
type progress struct {
	w     io.Writer // nil where nothing is shown
	shown bool
	last  time.Time
}

const progressEvery = 200 * time.Millisecond

// progressTo is for a terminal alone: a log keeps every line.
func progressTo(w io.Writer) progress {
	f, ok := w.(*os.File)
	if !ok {
		return progress{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return progress{}
	}
	return progress{w: w}
}

// sample says that a case has n samples. It is called between samples.
func (p *progress) sample(r *Result, n int) {
	if p.w == nil || time.Since(p.last) < progressEvery {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K%s: %d samples", r.Name(), n)
}

// done clears the line.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
