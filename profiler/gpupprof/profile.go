package gpupprof

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/devevents/internal/labels"
	"example.com/devevents/internal/wholefile"
	"example.com/devevents/profiler"
)

const (
	// maxSamples bounds the distinct samples of a profile. What comes beyond is counted
	// under profiler.OtherName.
	maxSamples = 1 << 16
	// maxOpen bounds the windows that are kept in mind as long as they have not come, for
	// the time of those in them. Twice as many may be there at a time.
	maxOpen = 1 << 13
	framed  = "gpu:"
)

// Profile collects spans; it is a profiler.Sink. Make it with New. It is safe for concurrent
// use.
type Profile struct {
	began time.Time
	took  time.Duration // 0 for one that goes on

	mu      sync.Mutex
	samples map[string]*sample
	nested  nested
	lost    uint64
	key     []byte
}

// window is one of any profiler.
type window struct {
	device *profiler.Device
	id     uint64
}

// nested is the time of finished windows in such that are not. Those that never finish (abandoned,
// failed) are forgotten by and by: it is a young and an old half.
type nested struct{ young, old map[window]time.Duration }

func (n *nested) add(w window, d time.Duration) {
	d += n.take(w)
	if len(n.young) >= maxOpen {
		n.old, n.young = n.young, nil
	}
	if n.young == nil {
		n.young = map[window]time.Duration{}
	}
	n.young[w] = d
}

// take gives what is known of a window, which is forgotten.
func (n *nested) take(w window) time.Duration {
	d := n.young[w] + n.old[w]
	delete(n.young, w)
	delete(n.old, w)
	return d
}

// sample is what has one stack and one set of labels.
type sample struct {
	calls   []uintptr
	windows []string // outermost first
	labels  []label
	count   int64
	time    time.Duration
}

type label struct{ key, value string }

// New makes an empty profile, which covers the time from now on.
func New() *Profile {
	return &Profile{began: time.Now(), samples: map[string]*sample{}}
}

// Spans implements profiler.Sink. It keeps nothing of the batch but the stacks and names.
func (p *Profile) Spans(batch []profiler.Span) error {
	p.count(batch, func(*profiler.Span) bool { return true })
	return nil
}

// count counts the spans that wanted says yes to. The others still matter to those round them.
func (p *Profile) count(batch []profiler.Span, wanted func(*profiler.Span) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		s := &batch[i]
		own := max(0, s.Duration-p.nested.take(window{s.Device, s.ID}))
		if s.Parent != 0 && (profiler.Span{ID: s.Parent}).Stream() == s.Stream() {
			p.nested.add(window{s.Device, s.Parent}, s.Duration)
		}
		if wanted(s) {
			p.add(s, own)
		}
	}
}

// add counts a span with what of its time is its own. The lock is held.
func (p *Profile) add(s *profiler.Span, own time.Duration) {
	at := p.find(s)
	at.count++
	at.time += own
}

// find gives the sample of a span. The lock is held.
func (p *Profile) find(s *profiler.Span) *sample {
	own := labelsOf(s.Context)
	key := binary.AppendUvarint(p.key[:0], uint64(len(s.Stack)))
	for _, pc := range s.Stack {
		key = binary.LittleEndian.AppendUint64(key, uint64(pc))
	}
	text := func(t string) {
		key = binary.AppendUvarint(key, uint64(len(t)))
		key = append(key, t...)
	}
	text(s.Name)
	key = binary.AppendUvarint(key, uint64(len(s.Within)))
	for _, name := range s.Within {
		text(name)
	}
	for _, l := range own {
		text(l.key)
		text(l.value)
	}
	key = binary.LittleEndian.AppendUint64(key, s.Stream())
	if s.Device != nil {
		text(s.Device.Backend)
		text(s.Device.UUID)
		text(s.Device.PCIBusID)
		key = binary.AppendVarint(key, int64(s.Device.Ordinal))
	}
	p.key = key
	if at := p.samples[string(key)]; at != nil {
		return at
	}
	if len(p.samples) >= maxSamples {
		return p.other()
	}
	at := &sample{calls: s.Stack, windows: append(slices.Clone(s.Within), s.Name)}
	at.labels = append(at.labels, label{"window", s.Name}, label{"stream", strconv.FormatUint(s.Stream(), 10)})
	if s.Device != nil {
		at.labels = append(at.labels, label{"device", labels.Device(s.Device.Backend, s.Device.Identity)})
	}
	at.labels = append(at.labels, own...)
	p.samples[string(key)] = at
	return at
}

// other is the sample of all that there is no room for. The lock is held.
func (p *Profile) other() *sample {
	at := p.samples[profiler.OtherName]
	if at == nil {
		at = &sample{windows: []string{profiler.OtherName}}
		p.samples[profiler.OtherName] = at
	}
	return at
}

// labelsOf are the labels that runtime/pprof put into a context.
func labelsOf(ctx context.Context) (list []label) {
	if ctx == nil {
		return nil
	}
	pprof.ForLabels(ctx, func(key, value string) bool {
		list = append(list, label{key, value})
		return true
	})
	return list
}

// WriteTo writes the profile so far in pprof's format, gzipped. It may be called any number
// of times, also while spans arrive.
func (p *Profile) WriteTo(w io.Writer) (int64, error) {
	out := newEncoder()
	p.mu.Lock()
	for _, at := range p.samples {
		out.sample(at)
	}
	if p.lost > 0 {
		out.comment(fmt.Sprintf("%d windows are missing: they came faster than they could be counted", p.lost))
	}
	p.mu.Unlock()
	took := p.took
	if took == 0 {
		took = time.Since(p.began)
	}
	n, err := w.Write(out.finish(p.began, took))
	return int64(n), err
}

// WriteFile writes the profile to a file, which is replaced as a whole or not at all.
func (p *Profile) WriteFile(path string) error {
	err := wholefile.Write(path, func(w io.Writer) error {
		_, err := p.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("gpupprof: %w", err)
	}
	return nil
}

// frame is one call of a stack.
type frame struct {
	function, file string
	line, began    int
}

// framesOf resolves a sample's stack, innermost first. The profiler's own calls between a
// window and the code that opened it are left out.
func framesOf(at *sample) (list []frame) {
	for _, name := range slices.Backward(at.windows) {
		list = append(list, frame{function: framed + name})
	}
	if len(at.calls) == 0 {
		return list
	}
	frames := runtime.CallersFrames(at.calls)
	for {
		f, more := frames.Next()
		if f.Function != "" && f.Function != "runtime.goexit" && !strings.HasPrefix(f.Function, ofProfiler()) {
			list = append(list, frame{f.Function, f.File, f.Line, startOf(f)})
		}
		if !more {
			return list
		}
	}
}

// ofProfiler begins the names of the profiler's own functions.
var ofProfiler = sync.OnceValue(func() string { return reflect.TypeFor[profiler.Span]().PkgPath() + "." })

// startOf is the line at which a function begins, 0 if not known.
func startOf(f runtime.Frame) int {
	if f.Func == nil {
		return 0
	}
	_, line := f.Func.FileLine(f.Func.Entry())
	return line
}
