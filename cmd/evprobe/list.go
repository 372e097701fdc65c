package main

import (
	"fmt"
	"strings"
	"time"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// listed is what a library of the C family says of itself.
func listed(info cuda.Info, err error) (document.Backend, error) {
	if err != nil {
		return document.Backend{}, err
	}
	b := document.Backend{
		Library: &document.Library{
			API: info.API, Path: info.Library, Driver: info.Driver,
			RuntimeVersion: info.RuntimeVersion, RuntimeVersionText: info.RuntimeVersionText,
			DriverVersion: info.DriverVersion, DriverVersionText: info.DriverVersionText,
		},
		Origin: info.Origin, Skipped: info.Skipped,
	}
	for _, d := range info.Devices {
		b.Devices = append(b.Devices, document.Device(d))
	}
	return b, nil
}

// list asks each backend in a process of its own, so that one that crashes or hangs
// does not hide the others.
func (c command) list(r *recorder) {
	d := r.doc
	d.Backends = []document.Backend{}
	asked, end := r.options, time.Now().Add(r.timeout)
	for _, b := range c.backends {
		if asked.backend != auto && asked.backend != b.name || r.ctx.Err() != nil {
			continue
		}
		before := len(d.Backends)
		r.backend, r.ended = b.name, false
		r.timeout = max(time.Until(end), time.Millisecond)
		args := []string{"list", "-backend", b.name, "-timeout", r.timeout.String(), "-step-timeout", r.stepLimit.String()}
		if !c.isolated(args, r) {
			work{options: r.options, backends: c.backends, settings: c.settings, tell: r.take}.run(r.ctx)
		}
		r.progress.clear()
		if len(d.Backends) == before && r.ctx.Err() == nil {
			silent := document.Backend{Name: b.name, Status: document.StatusHangs, Skipped: []events.Candidate{}, Devices: []document.Device{}}
			if d.Crash != nil {
				silent.Status, silent.Crash = document.StatusCrashed, d.Crash
				d.Crash = nil
			}
			d.Backends = append(d.Backends, silent)
		}
		if len(d.Backends) > before {
			r.out.backend(&d.Backends[len(d.Backends)-1])
		}
	}
	r.options = asked
	r.hints()
	r.judgeList()
	r.out.silent = true
}

// judgeList says what the backends amount to. Worse things hide better ones, since a
// driver that hangs or crashes is what the list is asked about.
func (r *recorder) judgeList() {
	d := r.doc
	var hang, crash []string
	devices := 0
	for _, b := range d.Backends {
		switch b.Status {
		case document.StatusHangs:
			hang = append(hang, b.Name)
		case document.StatusCrashed:
			crash = append(crash, b.Name+": "+manner(b.Crash))
		}
		for _, dev := range b.Devices {
			if r.backend != auto || dev.Kind != events.KindCPU && dev.Kind != events.KindSimulated {
				devices++
			}
		}
	}
	switch {
	case r.ctx.Err() != nil:
		d.End(document.Interrupted, exitInterrupted, "interrupted"+where(d.Unfinished))
	case len(hang) > 0:
		if d.Unfinished == nil {
			d.Unfinished = &probe.Unfinished{}
		}
		d.End(document.TimedOut, exitTimedOut, whatEnded(r.options, d.Unfinished)+" opening "+strings.Join(hang, ", "))
	case len(crash) > 0:
		d.End(document.Crashed, exitFailed, "a driver crashed: "+strings.Join(crash, "; "))
	case devices == 0:
		d.End(document.Unavailable, exitUnavailable, "no GPU was seen; the backends that are usable have none, or were not asked for by name")
	default:
		d.End(document.Passed, exitPassed, fmt.Sprintf("%d usable devices were seen", devices))
	}
}

// backend prints an entry of the list.
func (p *printer) backend(b *document.Backend) {
	colour := map[string]string{document.StatusUsable: green, document.StatusUnavailable: yellow}[b.Status]
	if colour == "" {
		colour = red
	}
	p.text(p.paint(bold, b.Name) + ": " + p.paint(colour, b.Status) + "\n")
	line := func(parts ...string) { p.text("  " + strings.Join(parts, "") + "\n") }
	switch lib := b.Library; {
	case lib != nil && b.Origin != "":
		line("library: ", lib.Path, " (", b.Origin, ")", versions(lib))
	case lib != nil:
		line("library: ", lib.Path, versions(lib))
	case b.Origin != "":
		line(b.Origin)
	}
	if b.Library != nil && b.Library.Driver != "" {
		line("driver library: ", b.Library.Driver)
	}
	for _, c := range b.Skipped {
		line("passed over ", c.Path, ": ", c.Reason)
	}
	for _, dev := range b.Devices {
		s := fmt.Sprintf("device %d", dev.Ordinal) + deviceText(dev)
		if dev.UUID != "" {
			s += ", " + dev.UUID
		}
		line(s)
	}
	if b.Refusal != nil {
		line(whole(b.Refusal))
		if b.Refusal.Hint != nil {
			line("hint: ", b.Refusal.Hint.Text)
		}
	}
	if b.Crash != nil {
		line(crashed(b.Crash))
	}
	if b.Status == document.StatusHangs {
		line("opening it did not end in time")
	}
}
