package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/profiler"
)

// Writer writes spans to a trace; it is a profiler.Sink. Make it with NewWriter, and Close it
// when no more spans come. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	out     io.Writer
	origin  time.Time
	buf     []byte
	err     error
	closed  bool
	host    *process
	devices map[*profiler.Device]*process
	order   []*process
	names   map[string][]byte // as JSON
	threads int
}

// process is one process of the trace.
type process struct {
	pid   int
	rows  map[uint64]*row
	named map[thread]int // their numbers in the trace
	epoch uint32
}

type thread struct {
	row  uint64
	lane int
}

// NewWriter starts a trace on out, with times since origin, which is that of the profiler
// (Profiler.Origin). Every write to out is made by a call of Spans or Close; the first
// error ends the trace and is what these then return.
func NewWriter(out io.Writer, origin time.Time) *Writer {
	t := &Writer{out: out, origin: origin, devices: map[*profiler.Device]*process{}, names: map[string][]byte{}}
	t.buf = append(t.buf, "[\n"...)
	t.host = t.process("host")
	return t
}

// Spans implements profiler.Sink. After Close it is events.ErrClosed.
func (t *Writer) Spans(batch []profiler.Span) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("timeline: %w", events.ErrClosed)
	}
	for i := range batch {
		t.take(&batch[i])
	}
	return t.flush()
}

// Close writes what is held back, and the end of the trace. It does not close the writer below.
// It is idempotent.
func (t *Writer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.err
	}
	t.closed = true
	for _, p := range slices.Backward(t.order) { // the host last: windows bring calls
		for stream, r := range p.rows {
			r.release(math.MaxInt64, 0, func(s slice, lane int) { t.write(p, stream, s, lane) })
		}
	}
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"trace_end","pid":%d,"tid":0,"args":{"complete":true}}`+"\n]\n", t.host.pid)
	return t.flush()
}

// flush hands the buffer on. The lock is held, here and below.
func (t *Writer) flush() error {
	if t.err == nil && len(t.buf) > 0 {
		_, t.err = t.out.Write(t.buf)
	}
	t.buf = t.buf[:0]
	return t.err
}

func (t *Writer) take(s *profiler.Span) {
	if t.err != nil {
		return
	}
	p := t.devices[s.Device]
	if p == nil {
		p = t.process(deviceName(s.Device))
		p.epoch = s.Epoch
		t.devices[s.Device] = p
	}
	from := s.Start.Sub(t.origin)
	kept := *s
	kept.Context, kept.Stack = nil, nil // not to be kept alive
	p.row(s.Stream()).add(slice{from, from + s.Duration, kept}, func(at slice, lane int) { t.write(p, at.span.Stream(), at, lane) })
}

func (p *process) row(of uint64) *row {
	r := p.rows[of]
	if r == nil {
		r = &row{}
		p.rows[of] = r
	}
	return r
}

func deviceName(d *profiler.Device) string {
	if d == nil {
		return "device"
	}
	name := d.Backend + " " + strconv.Itoa(d.Ordinal)
	if d.Name != "" {
		name += ", " + d.Name
	}
	return name
}

// process names a process of the trace.
func (t *Writer) process(name string) *process {
	p := &process{pid: len(t.order) + 1, rows: map[uint64]*row{}, named: map[thread]int{}}
	t.order = append(t.order, p)
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"process_name","pid":%d,"args":{"name":%s}},`+"\n", p.pid, t.text(name))
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"process_sort_index","pid":%d,"args":{"sort_index":%d}},`+"\n", p.pid, p.pid)
	return p
}

// thread names a lane at its first use and gives its number.
func (t *Writer) thread(p *process, of uint64, lane int) int {
	key := thread{of, lane}
	if tid, ok := p.named[key]; ok {
		return tid
	}
	t.threads++
	tid := t.threads
	p.named[key] = tid
	name := "calls"
	if p != t.host {
		name = "stream " + strconv.FormatUint(of, 10)
		if lane > 0 {
			name += ", beside"
		}
	}
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"thread_name","pid":%d,"tid":%d,"args":{"name":%s}},`+"\n", p.pid, tid, t.text(name))
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"thread_sort_index","pid":%d,"tid":%d,"args":{"sort_index":%d}},`+"\n", p.pid, tid, int64(of)<<8+int64(lane))
	return tid
}

// write writes a window: on the device, on the host, and the arrow between.
func (t *Writer) write(p *process, of uint64, s slice, lane int) {
	tid := t.thread(p, of, lane)
	if p == t.host {
		t.complete(p, tid, s, "calls")
		t.buf = append(t.buf, "}},\n"...)
		t.arrow("s", p, tid, s.from, s.span)
		return
	}
	if p.epoch != s.span.Epoch {
		p.epoch = s.span.Epoch
		t.buf = fmt.Appendf(t.buf, `{"ph":"i","s":"p","name":"clock epoch %d","pid":%d,"tid":%d,"ts":`, p.epoch, p.pid, tid)
		t.time(s.from)
		t.buf = append(t.buf, "},\n"...)
	}
	t.complete(p, tid, s, "gpu")
	t.buf = append(t.buf, `,"parent":"`...)
	t.buf = strconv.AppendUint(t.buf, s.span.Parent, 10)
	t.buf = append(t.buf, `","bound_us":`...)
	t.time(s.span.Bound)
	t.buf = append(t.buf, `,"placed":"`...)
	t.buf = append(t.buf, s.span.Quality.String()...)
	t.buf = append(t.buf, "\"}},\n"...)
	if s.span.Called.IsZero() || s.span.Stopped.IsZero() {
		return
	}
	t.arrow("f", p, tid, s.from, s.span)
	calls := slice{s.span.Called.Sub(t.origin), s.span.Stopped.Sub(t.origin), s.span}
	t.host.row(0).add(calls, func(at slice, lane int) { t.write(t.host, 0, at, lane) })
}

// complete begins a complete event; its arguments are left open.
func (t *Writer) complete(p *process, tid int, s slice, kind string) {
	t.buf = append(t.buf, `{"ph":"X","cat":"`...)
	t.buf = append(t.buf, kind...)
	t.buf = append(t.buf, `","name":`...)
	t.buf = append(t.buf, t.text(s.span.Name)...)
	t.place(p, tid, s.from)
	t.buf = append(t.buf, `,"dur":`...)
	t.time(s.to - s.from)
	t.buf = append(t.buf, `,"args":{"window":"`...)
	t.buf = strconv.AppendUint(t.buf, s.span.ID, 10)
	t.buf = append(t.buf, '"')
}

// arrow is one end of the arrow from a window's calls to the window.
func (t *Writer) arrow(end string, p *process, tid int, at time.Duration, s profiler.Span) {
	pid := p.pid
	if p == t.host {
		pid = t.devices[s.Device].pid // an arrow's number is the window's, and tells devices apart
	}
	t.buf = append(t.buf, `{"ph":"`...)
	t.buf = append(t.buf, end...)
	t.buf = append(t.buf, `","bp":"e","cat":"window","name":"queued","id":"`...)
	t.buf = strconv.AppendInt(t.buf, int64(pid), 10)
	t.buf = append(t.buf, '.')
	t.buf = strconv.AppendUint(t.buf, s.ID, 10)
	t.buf = append(t.buf, '"')
	t.place(p, tid, at)
	t.buf = append(t.buf, "},\n"...)
}

func (t *Writer) place(p *process, tid int, at time.Duration) {
	t.buf = append(t.buf, `,"pid":`...)
	t.buf = strconv.AppendInt(t.buf, int64(p.pid), 10)
	t.buf = append(t.buf, `,"tid":`...)
	t.buf = strconv.AppendInt(t.buf, int64(tid), 10)
	t.buf = append(t.buf, `,"ts":`...)
	t.time(at)
}

// time writes microseconds with three decimals.
func (t *Writer) time(d time.Duration) {
	ns := int64(d)
	if ns < 0 {
		t.buf = append(t.buf, '-')
		ns = -ns
	}
	t.buf = strconv.AppendInt(t.buf, ns/1000, 10)
	t.buf = append(t.buf, '.', byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10))
}

// maxNames bounds the names that are kept as JSON.
const maxNames = 1024

// text gives a name as JSON.
func (t *Writer) text(name string) []byte {
	quoted, ok := t.names[name]
	if !ok {
		quoted, _ = json.Marshal(name) // a string always can be
		if len(t.names) < maxNames {
			t.names[name] = quoted
		}
	}
	return quoted
}
