package clapi

import (
	"bytes"

	"example.com/devevents/events/internal/dl"
)

// Lib is API over a loaded library.
type Lib struct {
	fn      [opCount]uintptr
	library *dl.Library
}

var _ API = (*Lib)(nil)

// Path implements API.
func (l *Lib) Path() string { return l.library.Path() }

// Has implements API.
func (l *Lib) Has(o Optional) bool {
	switch o {
	case QueueWithProperties:
		return l.fn[opCreateQueueWithProperties] != 0
	case Timers:
		return l.fn[opDeviceAndHostTimer] != 0
	}
	return false
}

// Platforms implements API.
func (l *Lib) Platforms() ([]Platform, int32) {
	list, c := l.list(func(room, n, out uintptr) int32 {
		return code(call(l.fn[opPlatforms], n, room, out))
	})
	return convert[Platform](list), c
}

// Devices implements API.
func (l *Lib) Devices(p Platform) ([]Device, int32) {
	const all = 0xFFFFFFFF
	list, c := l.list(func(room, n, out uintptr) int32 {
		return code(call(l.fn[opDevices], uintptr(p), all, n, room, out))
	})
	return convert[Device](list), c
}

// list asks how many there are, and then for them.
func (l *Lib) list(ask func(room, n, out uintptr) int32) ([]uintptr, int32) {
	f := newFrame()
	defer f.drop()
	if c := ask(0, 0, f.addr(0)); c != Success {
		return nil, c
	}
	room := make([]uintptr, f.uint32(0))
	if len(room) == 0 {
		return nil, Success
	}
	c := ask(f.handles(room), uintptr(len(room)), f.addr(0))
	if c != Success {
		return nil, c
	}
	return room[:min(len(room), int(f.uint32(0)))], Success
}

func convert[H ~uintptr](list []uintptr) []H {
	out := make([]H, len(list))
	for i, h := range list {
		out[i] = H(h)
	}
	return out
}

// PlatformText implements API.
func (l *Lib) PlatformText(p Platform, param uint32) (string, int32) {
	return l.text(opPlatformInfo, uintptr(p), param)
}

// DeviceText implements API.
func (l *Lib) DeviceText(d Device, param uint32) (string, int32) {
	return l.text(opDeviceInfo, uintptr(d), param)
}

func (l *Lib) text(op op, h uintptr, param uint32) (string, int32) {
	f := newFrame()
	defer f.drop()
	if c := code(call(l.fn[op], h, uintptr(param), 0, 0, f.addr(0))); c != Success {
		return "", c
	}
	room := make([]byte, f.word[0])
	if len(room) == 0 {
		return "", Success
	}
	c := code(call(l.fn[op], h, uintptr(param), uintptr(len(room)), f.bytes(room), 0))
	if c != Success {
		return "", c
	}
	text, _, _ := bytes.Cut(room, []byte{0})
	return string(bytes.TrimSpace(text)), Success
}

// DeviceWord implements API. An answer of 4 bytes is widened.
func (l *Lib) DeviceWord(d Device, param uint32) (uint64, int32) {
	f := newFrame()
	defer f.drop()
	c := code(call(l.fn[opDeviceInfo], uintptr(d), uintptr(param), 8, f.addr(0), 0))
	return f.word[0], c
}

// DeviceBytes implements API.
func (l *Lib) DeviceBytes(d Device, param uint32, out []byte) int32 {
	f := newFrame()
	defer f.drop()
	c := code(call(l.fn[opDeviceInfo], uintptr(d), uintptr(param), uintptr(len(out)), f.bytes(out), f.addr(0)))
	if c == Success && f.word[0] != uint64(len(out)) {
		return InvalidValue
	}
	return c
}

// DeviceAndHostTimer implements API.
func (l *Lib) DeviceAndHostTimer(d Device) (device, host uint64, c int32) {
	f := newFrame()
	defer f.drop()
	c = code(call(l.fn[opDeviceAndHostTimer], uintptr(d), f.addr(0), f.addr(1)))
	return f.word[0], f.word[1], c
}

// CreateContext implements API.
func (l *Lib) CreateContext(d Device) (Context, int32) {
	f := newFrame()
	defer f.drop()
	f.word[1] = uint64(d)
	h := call(l.fn[opCreateContext], 0, 1, f.addr(1), 0, 0, f.addr(0))
	return Context(h), f.int32(0)
}

// ReleaseContext implements API.
func (l *Lib) ReleaseContext(c Context) int32 { return code(call(l.fn[opReleaseContext], uintptr(c))) }

const queueProperties = 0x1093

// CreateQueue implements API.
func (l *Lib) CreateQueue(c Context, d Device, properties uint64, modern bool) (Queue, int32) {
	f := newFrame()
	defer f.drop()
	if !modern {
		h := call(l.fn[opCreateQueue], uintptr(c), uintptr(d), uintptr(properties), f.addr(0))
		return Queue(h), f.int32(0)
	}
	f.word[1], f.word[2] = queueProperties, properties // ended by the zero in word 3
	h := call(l.fn[opCreateQueueWithProperties], uintptr(c), uintptr(d), f.addr(1), f.addr(0))
	return Queue(h), f.int32(0)
}

// ReleaseQueue implements API.
func (l *Lib) ReleaseQueue(q Queue) int32 { return code(call(l.fn[opReleaseQueue], uintptr(q))) }

// QueueContext implements API.
func (l *Lib) QueueContext(q Queue) (Context, int32) {
	w, c := l.queueWord(q, 0x1090)
	return Context(w), c
}

// QueueDevice implements API.
func (l *Lib) QueueDevice(q Queue) (Device, int32) {
	w, c := l.queueWord(q, 0x1091)
	return Device(w), c
}

// QueueProperties implements API.
func (l *Lib) QueueProperties(q Queue) (uint64, int32) { return l.queueWord(q, queueProperties) }

func (l *Lib) queueWord(q Queue, param uintptr) (uint64, int32) {
	f := newFrame()
	c := code(call(l.fn[opQueueInfo], uintptr(q), param, 8, f.addr(0), 0))
	w := f.word[0]
	f.drop()
	return w, c
}

// Flush implements API.
func (l *Lib) Flush(q Queue) int32 { return code(call(l.fn[opFlush], uintptr(q))) }

// Finish implements API.
func (l *Lib) Finish(q Queue) int32 { return code(call(l.fn[opFinish], uintptr(q))) }

// Marker implements API.
func (l *Lib) Marker(q Queue, barrier bool) (Event, int32) {
	op := opMarker
	if barrier {
		op = opBarrier
	}
	f := newFrame()
	c := code(call(l.fn[op], uintptr(q), 0, 0, f.addr(0)))
	e := Event(f.handle(0))
	f.drop()
	return e, c
}

// Barrier implements API.
func (l *Lib) Barrier(q Queue, after Event) int32 {
	f := newFrame()
	f.word[0] = uint64(after)
	c := code(call(l.fn[opBarrier], uintptr(q), 1, f.addr(0), 0))
	f.drop()
	return c
}

// Fill implements API.
func (l *Lib) Fill(q Queue, m Mem, value byte, bytes int64, after Event) (Event, int32) {
	f := newFrame()
	f.setByte(2, value)
	var n, list uintptr
	if after != 0 {
		f.word[1] = uint64(after)
		n, list = 1, f.addr(1)
	}
	c := code(call(l.fn[opFill], uintptr(q), uintptr(m), f.addr(2), 1, 0, uintptr(bytes), n, list, f.addr(0)))
	e := Event(f.handle(0))
	f.drop()
	return e, c
}

// Copy implements API.
func (l *Lib) Copy(q Queue, dst, src Mem, bytes int64) int32 {
	return code(call(l.fn[opCopy], uintptr(q), uintptr(src), uintptr(dst), 0, 0, uintptr(bytes), 0, 0, 0))
}

// ReadWords implements API.
func (l *Lib) ReadWords(q Queue, m Mem, offset int64, out []uint64, after []Event) int32 {
	f := newFrame()
	defer f.drop()
	const blocking = 1
	return code(call(l.fn[opRead], uintptr(q), uintptr(m), blocking, uintptr(offset), uintptr(8*len(out)), f.words(out), uintptr(len(after)), f.events(after), 0))
}

// Task implements API.
func (l *Lib) Task(q Queue, k Kernel) (Event, int32) {
	f := newFrame()
	defer f.drop()
	f.word[1] = 1 // the global size, in one dimension
	c := code(call(l.fn[opKernel], uintptr(q), uintptr(k), 1, 0, f.addr(1), 0, 0, 0, f.addr(0)))
	return Event(f.handle(0)), c
}

// CreateUserEvent implements API.
func (l *Lib) CreateUserEvent(c Context) (Event, int32) {
	f := newFrame()
	defer f.drop()
	h := call(l.fn[opCreateUserEvent], uintptr(c), f.addr(0))
	return Event(h), f.int32(0)
}

// SetUserEvent implements API.
func (l *Lib) SetUserEvent(e Event, status int32) int32 {
	return code(call(l.fn[opSetUserEvent], uintptr(e), uintptr(status)))
}

// WaitEvent implements API.
func (l *Lib) WaitEvent(e Event) int32 {
	f := newFrame()
	f.word[0] = uint64(e)
	c := code(call(l.fn[opWait], 1, f.addr(0)))
	f.drop()
	return c
}

// EventStatus implements API.
func (l *Lib) EventStatus(e Event) (status, c int32) {
	const executionStatus = 0x11D3
	f := newFrame()
	c = code(call(l.fn[opEventInfo], uintptr(e), executionStatus, 4, f.addr(0), 0))
	status = f.int32(0)
	f.drop()
	return status, c
}

// EventTime implements API.
func (l *Lib) EventTime(e Event, param uint32) (uint64, int32) {
	f := newFrame()
	c := code(call(l.fn[opEventTime], uintptr(e), uintptr(param), 8, f.addr(0), 0))
	t := f.word[0]
	f.drop()
	return t, c
}

// RetainEvent implements API.
func (l *Lib) RetainEvent(e Event) int32 { return code(call(l.fn[opRetainEvent], uintptr(e))) }

// ReleaseEvent implements API.
func (l *Lib) ReleaseEvent(e Event) int32 { return code(call(l.fn[opReleaseEvent], uintptr(e))) }

// CreateBuffer implements API.
func (l *Lib) CreateBuffer(c Context, bytes int64) (Mem, int32) {
	const readWrite = 1 << 0
	f := newFrame()
	defer f.drop()
	h := call(l.fn[opCreateBuffer], uintptr(c), readWrite, uintptr(bytes), 0, f.addr(0))
	return Mem(h), f.int32(0)
}

// ReleaseMem implements API.
func (l *Lib) ReleaseMem(m Mem) int32 { return code(call(l.fn[opReleaseMem], uintptr(m))) }

// CreateProgram implements API.
func (l *Lib) CreateProgram(c Context, source string) (Program, int32) {
	f := newFrame()
	defer f.drop()
	f.word[1] = uint64(f.bytes([]byte(source)))
	f.word[2] = uint64(len(source))
	h := call(l.fn[opCreateProgram], uintptr(c), 1, f.addr(1), f.addr(2), f.addr(0))
	return Program(h), f.int32(0)
}

// BuildProgram implements API.
func (l *Lib) BuildProgram(p Program, d Device, options string) int32 {
	f := newFrame()
	defer f.drop()
	f.word[0] = uint64(d)
	return code(call(l.fn[opBuildProgram], uintptr(p), 1, f.addr(0), f.bytes(append([]byte(options), 0)), 0, 0))
}

// BuildLog implements API.
func (l *Lib) BuildLog(p Program, d Device) string {
	const buildLog = 0x1183
	f := newFrame()
	defer f.drop()
	if code(call(l.fn[opBuildInfo], uintptr(p), uintptr(d), buildLog, 0, 0, f.addr(0))) != Success || f.word[0] == 0 {
		return ""
	}
	room := make([]byte, f.word[0])
	if code(call(l.fn[opBuildInfo], uintptr(p), uintptr(d), buildLog, uintptr(len(room)), f.bytes(room), 0)) != Success {
		return ""
	}
	text, _, _ := bytes.Cut(room, []byte{0})
	return string(bytes.TrimSpace(text))
}

// ReleaseProgram implements API.
func (l *Lib) ReleaseProgram(p Program) int32 { return code(call(l.fn[opReleaseProgram], uintptr(p))) }

// CreateKernel implements API.
func (l *Lib) CreateKernel(p Program, name string) (Kernel, int32) {
	f := newFrame()
	defer f.drop()
	h := call(l.fn[opCreateKernel], uintptr(p), f.bytes(append([]byte(name), 0)), f.addr(0))
	return Kernel(h), f.int32(0)
}

// SetArgs implements API.
func (l *Lib) SetArgs(k Kernel, m Mem, first, second uint64) int32 {
	f := newFrame()
	defer f.drop()
	f.word[0], f.word[1], f.word[2] = uint64(m), first, second
	for i := range uintptr(3) {
		if c := code(call(l.fn[opSetArg], uintptr(k), i, 8, f.addr(int(i)))); c != Success {
			return c
		}
	}
	return Success
}

// ReleaseKernel implements API.
func (l *Lib) ReleaseKernel(k Kernel) int32 { return code(call(l.fn[opReleaseKernel], uintptr(k))) }
