package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
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
	waiting int               // slices, in all rows
	arrows  uint64
	threads int
	lost    uint64
}

// process is one process of the trace.
type process struct {
	pid    int
	rows   map[uint64]*row
	order  []*row
	named  map[thread]int // their numbers in the trace
	newest time.Duration  // when the last of its slices began
	swept  time.Duration  // what newest was when all rows were looked at
	epoch  uint32
}

type thread struct {
	row  uint64
	lane int
}

// firstThread is behind every number of a process: Perfetto takes the thread that has the number
// of its process for the main one.
const firstThread = 1 << 16

// NewWriter starts a trace on out, with times since origin, which is that of the profiler
// (Profiler.Origin). Every write to out is made by a call of Spans or Close; the first
// error ends the trace and is what these then return.
func NewWriter(out io.Writer, origin time.Time) *Writer {
	t := &Writer{out: out, origin: origin, devices: map[*profiler.Device]*process{}, names: map[string][]byte{}, threads: firstThread}
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
	for _, p := range t.order {
		t.sweep(p)
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
	for _, p := range t.order {
		for _, r := range p.order {
			r.release(math.MaxInt64, 0, t.write)
		}
	}
	t.buf = fmt.Appendf(t.buf, `{"ph":"M","name":"trace_end","pid":%d,"tid":0,"args":{"complete":%t,"lost":%d}}`+"\n]\n", t.host.pid, t.lost == 0, t.lost)
	return t.flush()
}

// end closes the trace without writing more. It waits for a write in progress.
func (t *Writer) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// addLost has Close tell that windows are missing.
func (t *Writer) addLost(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost += n
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
	if s.Epoch > p.epoch { // streams get there one by one
		p.epoch = s.Epoch
		t.mark(p, s.Stream(), from)
	}
	at := slice{
		from: from, to: from + s.Duration, name: s.Name, id: s.ID, parent: s.Parent,
		bound: s.Bound, depth: int32(s.Depth), quality: s.Quality,
	}
	if !s.Called.IsZero() && !s.Stopped.IsZero() {
		t.arrows++
		at.arrow = t.arrows
		calls := at
		calls.from, calls.to = s.Called.Sub(t.origin), s.Stopped.Sub(t.origin)
		t.add(t.host, 0, &calls)
	}
	t.add(p, s.Stream(), &at)
}

// add takes a slice into its row. What is too late to be put in order is written at once.
func (t *Writer) add(p *process, of uint64, s *slice) {
	p.newest = max(p.newest, s.from)
	r := p.rows[of]
	if r == nil {
		r = &row{process: p, of: of, written: math.MinInt64}
		p.rows[of] = r
		p.order = append(p.order, r)
	}
	t.waiting++
	if s.from < r.written {
		t.write(r, s, r.late(s))
		return
	}
	r.waiting = append(r.waiting, *s)
	if len(r.waiting) >= 2*maxHeld {
		r.release(p.newest-held, maxHeld, t.write)
	}
	if t.waiting >= maxWaiting {
		for _, p := range t.order {
			for _, r := range p.order {
				r.release(p.newest-held, len(r.waiting)/2, t.write)
			}
		}
	}
}

// sweep writes what is old enough, at most once for each time that a slice is held.
func (t *Writer) sweep(p *process) {
	if p.newest-p.swept < held {
		return
	}
	p.swept = p.newest
	for _, r := range p.order {
		r.release(p.newest-held, maxHeld, t.write)
	}
}

// mark tells that the clocks were set apart.
func (t *Writer) mark(p *process, of uint64, at time.Duration) {
	tid := t.thread(p, of, 0)
	t.buf = fmt.Appendf(t.buf, `{"ph":"i","s":"p","name":"clock epoch %d"`, p.epoch)
	t.place(p, tid, at)
	t.buf = append(t.buf, "},\n"...)
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
	p := &process{pid: len(t.order) + 1, rows: map[uint64]*row{}, named: map[thread]int{}, newest: math.MinInt64 / 2}
	p.swept = p.newest
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

// write writes a slice, and its end of the arrow from the calls to the window.
func (t *Writer) write(r *row, s *slice, lane int) {
	t.waiting--
	p := r.process
	tid := t.thread(p, r.of, lane)
	kind, end := "gpu", "f"
	if p == t.host {
		kind, end = "calls", "s"
	}
	t.buf = append(t.buf, `{"ph":"X","cat":"`...)
	t.buf = append(t.buf, kind...)
	t.buf = append(t.buf, `","name":`...)
	t.buf = append(t.buf, t.text(s.name)...)
	t.place(p, tid, s.from)
	t.buf = append(t.buf, `,"dur":`...)
	t.time(s.to - s.from)
	t.buf = append(t.buf, `,"args":{"window":"`...)
	t.buf = strconv.AppendUint(t.buf, s.id, 10)
	if p != t.host {
		t.buf = append(t.buf, `","parent":"`...)
		t.buf = strconv.AppendUint(t.buf, s.parent, 10)
		t.buf = append(t.buf, `","bound_us":`...)
		t.time(s.bound)
		t.buf = append(t.buf, `,"placed":"`...)
		t.buf = append(t.buf, s.quality.String()...)
	}
	t.buf = append(t.buf, "\"}},\n"...)
	if s.arrow == 0 {
		return
	}
	// The number is one in JSON, too: of strings Perfetto takes hexadecimal ones alone.
	t.buf = append(t.buf, `{"ph":"`...)
	t.buf = append(t.buf, end...)
	t.buf = append(t.buf, `","bp":"e","cat":"window","name":"queued","id":`...)
	t.buf = strconv.AppendUint(t.buf, s.arrow, 10)
	t.place(p, tid, s.from)
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
