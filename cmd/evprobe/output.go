package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// printer writes to stdout, either text as it comes or one document, and keeps
// the first error.
type printer struct {
	w    io.Writer
	json bool
	err  error
}

func (p *printer) write(text []byte) {
	if _, err := p.w.Write(text); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) text(s string) {
	if !p.json {
		p.write([]byte(s))
	}
}

func (p *printer) document(d *document) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		p.err = err
		return
	}
	p.write(append(text, '\n'))
}

// inOneLine leaves out what was tried in vain.
func inOneLine(u *events.UnavailableError) string {
	line, _, _ := strings.Cut(u.Error(), "\n")
	return line
}

// refused says in one line each which backends auto went past.
func (p *printer) refused(tried []*events.UnavailableError) {
	for _, u := range tried {
		p.text("passed over: " + inOneLine(u) + "\n")
	}
}

func (p *printer) header(o *opened) {
	s := fmt.Sprintf("%s device %d", o.backend, o.identity.Ordinal)
	if o.identity.Kind != "" {
		s += " (" + string(o.identity.Kind) + ")"
	}
	s += ": " + o.identity.Name
	if o.identity.PCIBusID != "" {
		s += ", PCI " + o.identity.PCIBusID
	}
	if o.about.Library != nil {
		s += fmt.Sprintf(", runtime %s, driver %s", o.about.RuntimeText, o.about.DriverText)
	}
	p.text(s + "\n")
}

// nameWidth fits the longest name of a check.
var nameWidth = func() int {
	width := 0
	for _, name := range probe.Names() {
		width = max(width, len(name))
	}
	return width
}()

func (p *printer) result(r probe.Result) {
	var said []string
	for _, s := range []string{r.Reason, r.Measurement} {
		if s != "" {
			said = append(said, s)
		}
	}
	// An error's further lines go under the first.
	text := strings.ReplaceAll(strings.Join(said, "; measured: "), "\n", "\n"+strings.Repeat(" ", nameWidth+8))
	p.text(fmt.Sprintf("%-4s  %-*s  %s\n", strings.ToUpper(string(r.Verdict)), nameWidth, r.Name, text))
}

// failures says for each failure what was expected and what it means.
func (p *printer) failures(d *document) {
	for _, r := range d.Checks {
		if r.Verdict == probe.Fail {
			p.text(fmt.Sprintf("  %s: expected that %s; without it %s\n", r.Name, r.Expectation, r.Meaning))
		}
	}
}

// watch shows a run as it goes by.
type watch struct {
	out      *printer
	log      *zap.Logger
	progress *progress
}

func (w *watch) Running(index, count int, name, step string) {
	if step == "" {
		w.log.Debug("check begins", zap.String("check", name))
	}
	w.progress.show(fmt.Sprintf("[%d/%d] %s: %s", index+1, count, name, step))
}

func (w *watch) Done(r probe.Result) {
	w.progress.clear()
	w.out.result(r)
	w.log.Debug("check is over", zap.String("check", r.Name), zap.String("verdict", string(r.Verdict)),
		zap.String("reason", r.Reason), zap.Float64("duration_ms", r.DurationMS))
}

// progress is one line that is written over, on a terminal only. A nil one
// shows nothing.
type progress struct{ w io.Writer }

// newProgress gives nil where the line would be in the way.
func newProgress(stderr io.Writer, verbose bool) *progress {
	f, ok := stderr.(*os.File)
	if !ok || verbose {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &progress{w: f}
}

const (
	clearLine     = "\r\x1b[K"
	progressWidth = 79 // a longer line would wrap and not be written over
)

func (p *progress) show(line string) {
	if p == nil {
		return
	}
	if runes := []rune(line); len(runes) > progressWidth {
		line = string(runes[:progressWidth])
	}
	fmt.Fprint(p.w, clearLine+line)
}

func (p *progress) clear() {
	if p != nil {
		fmt.Fprint(p.w, clearLine)
	}
}

func newLogger(w io.Writer, verbose bool) *zap.Logger {
	if !verbose {
		return zap.NewNop()
	}
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), zapcore.DebugLevel))
}
