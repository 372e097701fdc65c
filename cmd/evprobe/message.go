package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

// message is what the work on a device says as it goes along. One thing is said at a time.
type message struct {
	Step        *step             `json:"step,omitempty"`
	Unavailable *document.Refusal `json:"unavailable,omitempty"`
	Opened      *opening          `json:"opened,omitempty"`
	Result      *probe.Result     `json:"result,omitempty"`
	Backend     *document.Backend `json:"backend,omitempty"`
	Bench       *bench.Report     `json:"bench,omitempty"`
	EndedEarly  bool              `json:"ended_early,omitempty"` // a limit or an interrupt came first
	Unfinished  *probe.Unfinished `json:"unfinished,omitempty"`  // with EndedEarly: what was going on, if anything
	CloseError  string            `json:"close_error,omitempty"`
	Ended       bool              `json:"ended,omitempty"` // the last message
}

// step is what is going on.
type step struct {
	Index int    `json:"index"` // of the check
	Count int    `json:"count"` // of all checks; 0 outside them
	In    string `json:"in"`    // a check, "open", "bench" or "close"
	Doing string `json:"doing"`
}

// opening is a device that was opened.
type opening struct {
	Backend string            `json:"backend"`
	Library *document.Library `json:"library"`
	Device  *document.Device  `json:"device"`
}

// Messages travel as JSON text sequences (RFC 7464): what a driver prints on the same
// pipe stands outside of them.
const recordSeparator = 0x1e

// sender writes messages. It may be used from several goroutines.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(m message) {
	text, err := json.Marshal(m)
	if err != nil {
		text, _ = json.Marshal(message{CloseError: "a message could not be written: " + err.Error()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Whoever does not read any more is not waiting for an answer either.
	_, _ = s.w.Write(append(append([]byte{recordSeparator}, text...), '\n'))
}

// receive reads messages until the end of r. What is none is noise.
func receive(r io.Reader, take func(message), noise io.Writer) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		before, text, found := bytes.Cut(line, []byte{recordSeparator})
		var m message
		if found && json.Unmarshal(text, &m) == nil {
			take(m)
			line = before
		}
		_, _ = noise.Write(line)
		if err != nil {
			return
		}
	}
}
