package opencl

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/clapi"
)

// ledger keeps account of every reference that we hold, and of every use of a
// handle: a use of one that has no reference left, or whose last reference is
// given back during the use, is what crashes in a driver.
type ledger struct {
	clapi.API

	mu    sync.Mutex
	refs  map[entry]int
	busy  map[entry]int
	wrong []string
	made  int
}

type entry struct {
	kind   string
	handle uintptr
}

func (e entry) String() string { return fmt.Sprintf("%s %#x", e.kind, e.handle) }

func newLedger(api clapi.API) *ledger {
	return &ledger{API: api, refs: map[entry]int{}, busy: map[entry]int{}}
}

// balanced fails the test unless everything was given back and nothing misused.
func (l *ledger) balanced(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.wrong, "%s", strings.Join(l.wrong, "\n"))
	require.Empty(t, l.refs, "references that were not given back")
	require.Empty(t, l.busy)
}

// live counts the handles of a kind that have references.
func (l *ledger) live(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for e := range l.refs {
		if e.kind == kind {
			n++
		}
	}
	return n
}

func (l *ledger) create(kind string, handle uintptr, code int32) {
	if code != clapi.Success {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entry{kind, handle}
	if l.refs[e] != 0 {
		l.wrong = append(l.wrong, e.String()+" was made while we still held it")
	}
	l.refs[e]++
	l.made++
}

func (l *ledger) retain(kind string, handle uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entry{kind, handle}
	if l.refs[e] == 0 {
		l.wrong = append(l.wrong, e.String()+" was retained when it was gone")
	}
	l.refs[e]++
}

func (l *ledger) release(kind string, handle uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entry{kind, handle}
	switch l.refs[e] {
	case 0:
		l.wrong = append(l.wrong, e.String()+" was given back too often")
		return
	case 1:
		delete(l.refs, e)
		if l.busy[e] != 0 {
			l.wrong = append(l.wrong, e.String()+" was given back while a call was using it")
		}
	default:
		l.refs[e]--
	}
}

// use accounts for one call with some handles, until what it returns is called.
func (l *ledger) use(op string, entries ...entry) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if l.refs[e] == 0 {
			l.wrong = append(l.wrong, op+" with "+e.String()+", which is gone")
		}
		l.busy[e]++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range entries {
			if l.busy[e]--; l.busy[e] == 0 {
				delete(l.busy, e)
			}
		}
	}
}

func contextOf(c clapi.Context) entry { return entry{"context", uintptr(c)} }
func queueOf(q clapi.Queue) entry     { return entry{"queue", uintptr(q)} }
func eventOf(e clapi.Event) entry     { return entry{"event", uintptr(e)} }
func memOf(m clapi.Mem) entry         { return entry{"mem", uintptr(m)} }

func (l *ledger) CreateContext(d clapi.Device) (clapi.Context, int32) {
	c, code := l.API.CreateContext(d)
	l.create("context", uintptr(c), code)
	return c, code
}

func (l *ledger) ReleaseContext(c clapi.Context) int32 {
	l.release("context", uintptr(c))
	return l.API.ReleaseContext(c)
}

func (l *ledger) CreateQueue(c clapi.Context, d clapi.Device, properties uint64, modern bool) (clapi.Queue, int32) {
	defer l.use("CreateQueue", contextOf(c))()
	q, code := l.API.CreateQueue(c, d, properties, modern)
	l.create("queue", uintptr(q), code)
	return q, code
}

func (l *ledger) ReleaseQueue(q clapi.Queue) int32 {
	l.release("queue", uintptr(q))
	return l.API.ReleaseQueue(q)
}

func (l *ledger) Flush(q clapi.Queue) int32 {
	defer l.use("Flush", queueOf(q))()
	return l.API.Flush(q)
}

func (l *ledger) Finish(q clapi.Queue) int32 {
	defer l.use("Finish", queueOf(q))()
	return l.API.Finish(q)
}

func (l *ledger) Marker(q clapi.Queue, barrier bool) (clapi.Event, int32) {
	defer l.use("Marker", queueOf(q))()
	e, code := l.API.Marker(q, barrier)
	l.create("event", uintptr(e), code)
	return e, code
}

func (l *ledger) Barrier(q clapi.Queue, after clapi.Event) int32 {
	defer l.use("Barrier", queueOf(q), eventOf(after))()
	return l.API.Barrier(q, after)
}

func (l *ledger) Fill(q clapi.Queue, m clapi.Mem, value byte, bytes int64, after clapi.Event) (clapi.Event, int32) {
	used := []entry{queueOf(q), memOf(m)}
	if after != 0 {
		used = append(used, eventOf(after))
	}
	defer l.use("Fill", used...)()
	e, code := l.API.Fill(q, m, value, bytes, after)
	l.create("event", uintptr(e), code)
	return e, code
}

func (l *ledger) Copy(q clapi.Queue, dst, src clapi.Mem, bytes int64) int32 {
	defer l.use("Copy", queueOf(q), memOf(dst), memOf(src))()
	return l.API.Copy(q, dst, src, bytes)
}

func (l *ledger) ReadWords(q clapi.Queue, m clapi.Mem, offset int64, out []uint64, after []clapi.Event) int32 {
	used := []entry{queueOf(q), memOf(m)}
	for _, e := range after {
		used = append(used, eventOf(e))
	}
	defer l.use("ReadWords", used...)()
	return l.API.ReadWords(q, m, offset, out, after)
}

func (l *ledger) Task(q clapi.Queue, k clapi.Kernel) (clapi.Event, int32) {
	defer l.use("Task", queueOf(q), entry{"kernel", uintptr(k)})()
	e, code := l.API.Task(q, k)
	l.create("event", uintptr(e), code)
	return e, code
}

func (l *ledger) CreateUserEvent(c clapi.Context) (clapi.Event, int32) {
	e, code := l.API.CreateUserEvent(c)
	l.create("event", uintptr(e), code)
	return e, code
}

func (l *ledger) SetUserEvent(e clapi.Event, status int32) int32 {
	defer l.use("SetUserEvent", eventOf(e))()
	return l.API.SetUserEvent(e, status)
}

func (l *ledger) WaitEvent(e clapi.Event) int32 {
	defer l.use("WaitEvent", eventOf(e))()
	return l.API.WaitEvent(e)
}

func (l *ledger) EventStatus(e clapi.Event) (status, code int32) {
	defer l.use("EventStatus", eventOf(e))()
	return l.API.EventStatus(e)
}

func (l *ledger) EventTime(e clapi.Event, param uint32) (uint64, int32) {
	defer l.use("EventTime", eventOf(e))()
	return l.API.EventTime(e, param)
}

func (l *ledger) RetainEvent(e clapi.Event) int32 {
	l.retain("event", uintptr(e))
	return l.API.RetainEvent(e)
}

func (l *ledger) ReleaseEvent(e clapi.Event) int32 {
	l.release("event", uintptr(e))
	return l.API.ReleaseEvent(e)
}

func (l *ledger) CreateBuffer(c clapi.Context, bytes int64) (clapi.Mem, int32) {
	m, code := l.API.CreateBuffer(c, bytes)
	l.create("mem", uintptr(m), code)
	return m, code
}

func (l *ledger) ReleaseMem(m clapi.Mem) int32 {
	l.release("mem", uintptr(m))
	return l.API.ReleaseMem(m)
}

func (l *ledger) CreateProgram(c clapi.Context, source string) (clapi.Program, int32) {
	defer l.use("CreateProgram", contextOf(c))()
	p, code := l.API.CreateProgram(c, source)
	l.create("program", uintptr(p), code)
	return p, code
}

func (l *ledger) ReleaseProgram(p clapi.Program) int32 {
	l.release("program", uintptr(p))
	return l.API.ReleaseProgram(p)
}

func (l *ledger) CreateKernel(p clapi.Program, name string) (clapi.Kernel, int32) {
	defer l.use("CreateKernel", entry{"program", uintptr(p)})()
	k, code := l.API.CreateKernel(p, name)
	l.create("kernel", uintptr(k), code)
	return k, code
}

func (l *ledger) SetArgs(k clapi.Kernel, m clapi.Mem, first, second uint64) int32 {
	defer l.use("SetArgs", entry{"kernel", uintptr(k)}, memOf(m))()
	return l.API.SetArgs(k, m, first, second)
}

func (l *ledger) ReleaseKernel(k clapi.Kernel) int32 {
	l.release("kernel", uintptr(k))
	return l.API.ReleaseKernel(k)
}
