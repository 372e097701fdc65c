package main

import (
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// printer writes to stdout, either text as it comes or one document, and keeps
// the first error.
type printer struct {
	w      io.Writer
	mute   bool // stdout is not for people
	colour bool
	silent bool // what is printed does not say how it ended
	err    error
}

func (p *printer) write(text []byte) {
	if _, err := p.w.Write(text); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) text(s string) {
	if !p.mute {
		p.write([]byte(s))
	}
}

// answer is text that was asked for, and not told on the way.
func (p *printer) answer(o options, s string) {
	if !o.json {
		p.write([]byte(s))
	}
}

func (p *printer) document(v any) {
	text, err := document.Marshal(v)
	if err != nil {
		p.err = err
		return
	}
	p.write(text)
}

// The colours, as parameters of the escape sequence.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

func (p *printer) paint(colour, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

var verdictColours = map[probe.Verdict]string{probe.Pass: green, probe.Fail: red, probe.Skip: yellow}

// whole is a refusal with everything that was tried.
func whole(r *document.Refusal) string { return unavailable(r).Error() }

// inOneLine leaves out what was tried in vain. Where there is a hint, which knows more of
// the code, it stands in the place of the advice.
func inOneLine(r *document.Refusal) string {
	u := unavailable(r)
	if r.Hint != nil {
		u.Advice = "hint: " + r.Hint.Text
	}
	line, _, _ := strings.Cut(u.Error(), "\n")
	return line
}

func unavailable(r *document.Refusal) *events.UnavailableError {
	return &events.UnavailableError{
		Backend: r.Backend, Cause: r.Cause, Detail: r.Detail, Advice: r.Advice, Path: r.Path, Version: r.Version,
		Code: r.Code, CodeName: r.CodeName, Candidates: r.Candidates, Near: r.Near,
	}
}

// refused says in one line each which backends auto went past.
func (p *printer) refused(tried []document.Refusal) {
	for i := range tried {
		p.text("passed over: " + inOneLine(&tried[i]) + "\n")
	}
}

func (p *printer) header(d *document.Document) {
	p.text(p.paint(bold, fmt.Sprintf("%s device %d", d.Backend, d.Device.Ordinal)+deviceText(*d.Device)+versions(d.Library)) + "\n")
}

// deviceText is what is known of a device, after its number.
func deviceText(dev document.Device) string {
	s := ""
	if dev.Kind != "" {
		s += " (" + string(dev.Kind) + ")"
	}
	s += ": " + dev.Name
	if dev.PCIBusID != "" {
		s += ", PCI " + dev.PCIBusID
	}
	return s
}

func versions(lib *document.Library) string {
	if lib == nil {
		return ""
	}
	return fmt.Sprintf(", runtime %s, driver %s", lib.RuntimeVersionText, lib.DriverVersionText)
}

// nameWidth fits the longest name of a check.
func nameWidth() int {
	width := 0
	for _, name := range probe.Names() {
		width = max(width, len(name))
	}
	return width
}

func (p *printer) result(r probe.Result) {
	var said []string
	for _, s := range []string{r.Reason, r.Measurement} {
		if s != "" {
			said = append(said, s)
		}
	}
	width := nameWidth()
	// An error's further lines go under the first.
	text := strings.ReplaceAll(strings.Join(said, "; measured: "), "\n", "\n"+strings.Repeat(" ", width+8))
	verdict := p.paint(verdictColours[r.Verdict], fmt.Sprintf("%-4s", strings.ToUpper(string(r.Verdict))))
	p.text(fmt.Sprintf("%s  %-*s  %s\n", verdict, width, r.Name, text))
}

func (p *printer) summary(d *document.Document) {
	colour := green
	if d.ExitCode != exitPassed {
		colour = red
	}
	p.text(p.paint(colour, d.Summary) + "\n")
}

// failures says for each failure what was expected and what it means.
func (p *printer) failures(d *document.Document) {
	for _, r := range d.Checks {
		if r.Verdict == probe.Fail {
			p.text(fmt.Sprintf("  %s: expected that %s; without it %s\n", r.Name, r.Expectation, r.Meaning))
		}
	}
}

// hints says what to do about the codes that were met.
func (p *printer) hints(d *document.Document) {
	for _, h := range d.Hints {
		p.text("  hint: " + h.Text + "\n")
	}
}

func newLogger(w zapcore.WriteSyncer) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, w, zapcore.DebugLevel))
}
