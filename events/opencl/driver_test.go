package opencl

import (
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/devevents/events/internal/clapi"
)

// driver imitates a loader with its drivers: queues whose commands start when
// they have been flushed and what they wait for is done, and stamps from a clock
// that runs with the host's. The fields are how it can be made to differ.
type driver struct {
	mu        sync.Mutex
	platforms []platform
	origin    time.Time
	offset    uint64 // what the device's clock showed when the host's began

	platformsCode int32            // what Platforms answers; 0: its list
	refuse        map[string]int32 // by method: the code instead of the call
	lost          int32            // the device is lost: what its unfinished commands end with
	untimed       map[string]bool  // by method: commands that get no times
	zeroTimes     bool             // those get times of 0 instead of a refusal
	untimedJoins  bool             // so do barriers, as with NVIDIA
	unprofiled    map[clapi.Queue]bool
	stamps        map[clapi.Event]uint64 // end times that are not those of the clock
	optional      map[clapi.Optional]bool
	legacyQueues  int                  // made with the function of OpenCL 1
	reads         int                  // calls of ReadWords
	overrun       func() time.Duration // by how much the next kernel takes longer than it was asked to
	late          time.Duration        // by how much the end times of kernels are wrong

	last     uintptr
	queues   map[clapi.Queue]*imitatedQueue
	events   map[clapi.Event]*command
	kernels  map[clapi.Kernel]arguments
	words    map[place]*command // by where it wrote: the last kernel
	contexts map[clapi.Context]clapi.Device
}

type platform struct {
	name, version string
	code          int32 // what it answers when asked for devices
	devices       []gadget
}

type gadget struct {
	name, version, extensions string
	kind                      uint64
	unavailable               bool
}

type imitatedQueue struct {
	context    clapi.Context
	device     clapi.Device
	properties uint64
	all        []*command
	last       *command   // what the next command waits for: the last one in order, else the last barrier
	pending    []*command // not flushed
}

// arguments are those of the spin kernel, whose timer ticks twice a nanosecond.
type arguments struct {
	out   place
	ticks uint64
}

// place is a pair of words in a buffer.
type place struct {
	mem    clapi.Mem
	offset int64
}

// command is what an event stands for.
type command struct {
	user    bool
	kernel  bool
	set     bool // of a user event
	flushed bool
	joins   bool // it waits for all before it in its queue
	holds   bool // all behind it in its queue wait for it
	after   []*command
	queued  int64
	length  int64
	known   bool // start and end are
	start   int64
	end     int64
	status  int32 // the one that it ends with
	timed   bool
	refs    int
}

const cpuExtensions = "cl_khr_fp64 cl_khr_device_uuid cl_khr_pci_bus_info"

func newDriver() *driver {
	return &driver{
		platforms: []platform{{name: "Imitation", version: "OpenCL 3.0 test", devices: []gadget{
			{name: "first", version: "OpenCL 3.0 test", kind: clapi.TypeGPU, extensions: cpuExtensions},
			{name: "second", version: "OpenCL 3.0 test", kind: clapi.TypeGPU},
		}}},
		origin:     time.Now(),
		offset:     1 << 60,
		refuse:     map[string]int32{},
		untimed:    map[string]bool{},
		unprofiled: map[clapi.Queue]bool{},
		stamps:     map[clapi.Event]uint64{},
		optional:   map[clapi.Optional]bool{clapi.QueueWithProperties: true, clapi.Timers: true},
		last:       0x1000,
		queues:     map[clapi.Queue]*imitatedQueue{},
		events:     map[clapi.Event]*command{},
		kernels:    map[clapi.Kernel]arguments{},
		words:      map[place]*command{},
		contexts:   map[clapi.Context]clapi.Device{},
	}
}

// set changes the driver while it is in use.
func (f *driver) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *driver) now() int64 { return int64(time.Since(f.origin)) }

func (f *driver) handle() uintptr {
	f.last += 16
	return f.last
}

// Platform n is n+1, and its device m (n+1)<<8 + m+1.

func (f *driver) Path() string                { return "imitation" }
func (f *driver) Has(o clapi.Optional) bool   { return f.optional[o] }
func (f *driver) platform(i uintptr) platform { return f.platforms[i-1] }
func (f *driver) gadget(d clapi.Device) gadget {
	return f.platform(uintptr(d) >> 8).devices[d&0xFF-1]
}

func (f *driver) Platforms() ([]clapi.Platform, int32) {
	if f.platformsCode != 0 {
		return nil, f.platformsCode
	}
	var list []clapi.Platform
	for i := range f.platforms {
		list = append(list, clapi.Platform(i+1))
	}
	return list, 0
}

func (f *driver) PlatformText(p clapi.Platform, param uint32) (string, int32) {
	switch of := f.platform(uintptr(p)); param {
	case clapi.PlatformName:
		return of.name, 0
	case clapi.PlatformVersion:
		return of.version, 0
	}
	return "", 0
}

func (f *driver) Devices(p clapi.Platform) ([]clapi.Device, int32) {
	of := f.platform(uintptr(p))
	var list []clapi.Device
	for i := range of.devices {
		list = append(list, clapi.Device(uintptr(p)<<8+uintptr(i)+1))
	}
	return list, of.code
}

func (f *driver) DeviceText(d clapi.Device, param uint32) (string, int32) {
	switch g := f.gadget(d); param {
	case clapi.DeviceName:
		return g.name, 0
	case clapi.DeviceVersion:
		return g.version, 0
	case clapi.DeviceExtensions:
		return g.extensions, 0
	}
	return "", 0
}

func (f *driver) DeviceWord(d clapi.Device, param uint32) (uint64, int32) {
	switch g := f.gadget(d); param {
	case clapi.DeviceType:
		return g.kind, 0
	case clapi.DeviceAvailable:
		if g.unavailable {
			return 0, 0
		}
	}
	return 1, 0
}

func (f *driver) DeviceBytes(_ clapi.Device, param uint32, out []byte) int32 {
	switch param {
	case clapi.DeviceUUID:
		copy(out, "0123456789abcdef")
	case clapi.DevicePCIBusInfo:
		copy(out, []byte{1, 0, 0, 0, 0x4e, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0})
	}
	return 0
}

// refused is what a method answers instead of doing anything. mu is held.
func (f *driver) refused(method string) int32 {
	if f.lost != 0 {
		return clapi.InvalidCommandQueue
	}
	return f.refuse[method]
}

func (f *driver) DeviceAndHostTimer(clapi.Device) (device, host uint64, code int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := uint64(f.now())
	return f.offset + now, now, f.refused("DeviceAndHostTimer")
}

func (f *driver) CreateContext(d clapi.Device) (clapi.Context, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := clapi.Context(f.handle())
	f.contexts[c] = d
	return c, f.refused("CreateContext")
}

func (f *driver) ReleaseContext(clapi.Context) int32 { return 0 }

func (f *driver) CreateQueue(c clapi.Context, d clapi.Device, properties uint64, modern bool) (clapi.Queue, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := f.refused("CreateQueue"); code != 0 {
		return 0, code
	}
	if !modern {
		f.legacyQueues++
	}
	q := clapi.Queue(f.handle())
	f.queues[q] = &imitatedQueue{context: c, device: d, properties: properties}
	return q, 0
}

func (f *driver) ReleaseQueue(q clapi.Queue) int32 {
	f.Flush(q)
	return 0
}

func (f *driver) QueueContext(q clapi.Queue) (clapi.Context, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[q] == nil {
		return 0, clapi.InvalidCommandQueue
	}
	return f.queues[q].context, 0
}

func (f *driver) QueueDevice(q clapi.Queue) (clapi.Device, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[q] == nil {
		return 0, clapi.InvalidCommandQueue
	}
	return f.queues[q].device, 0
}

func (f *driver) QueueProperties(q clapi.Queue) (uint64, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[q] == nil {
		return 0, clapi.InvalidCommandQueue
	}
	return f.queues[q].properties, f.refuse["QueueProperties"]
}

func (f *driver) Flush(q clapi.Queue) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := f.refused("Flush"); code != 0 {
		return code
	}
	f.flush(f.queues[q])
	return 0
}

func (f *driver) flush(q *imitatedQueue) {
	now := f.now()
	for _, c := range q.pending {
		c.flushed, c.queued = true, now
	}
	q.pending = nil
}

func (f *driver) Finish(q clapi.Queue) int32 {
	f.mu.Lock()
	if code := f.refused("Finish"); code != 0 {
		f.mu.Unlock()
		return code
	}
	of := f.queues[q]
	f.flush(of)
	all := slices.Clone(of.all)
	f.mu.Unlock()
	for _, c := range all {
		f.wait(c)
	}
	return 0
}

// enqueue puts a command behind what it has to wait for: in order, all others of
// the queue; out of order, the last barrier and with joins all others too.
func (f *driver) enqueue(method string, q clapi.Queue, c *command, after ...clapi.Event) (clapi.Event, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := f.refused(method); code != 0 {
		return 0, code
	}
	of := f.queues[q]
	c.refs, c.timed = 1, !f.untimed[method] && !f.unprofiled[q] && !(c.joins && c.holds && f.untimedJoins)
	of.all = slices.DeleteFunc(of.all, func(c *command) bool { return c.known && c.end <= f.now() })
	ordered := of.properties&clapi.QueueOutOfOrder == 0
	switch {
	case c.joins && !ordered:
		c.after = append(c.after, of.all...)
	case of.last != nil:
		c.after = append(c.after, of.last)
	}
	for _, e := range after {
		c.after = append(c.after, f.events[e])
	}
	if c.holds || ordered {
		of.last = c
	}
	of.all, of.pending = append(of.all, c), append(of.pending, c)
	e := clapi.Event(f.handle())
	f.events[e] = c
	return e, 0
}

// resolve finds out when a command starts and ends, as far as that is decided.
func (c *command) resolve() bool {
	if c.known || c.user && !c.set || !c.user && !c.flushed {
		return c.known
	}
	start := c.queued
	for _, a := range c.after {
		if !a.resolve() {
			return false
		}
		start = max(start, a.end)
		if a.status < 0 {
			c.status, c.length = clapi.ErrorForEventsInWaitList, 0
		}
	}
	c.known, c.start, c.end, c.after = true, start, start+c.length, nil
	return true
}

func (f *driver) statusOf(c *command) int32 {
	switch {
	case c.resolve() && c.end <= f.now():
		return c.status
	case f.lost != 0:
		return f.lost
	case c.known:
		return 1 // CL_RUNNING
	}
	return 3 // CL_QUEUED
}

func (f *driver) wait(c *command) int32 {
	for {
		f.mu.Lock()
		status := f.statusOf(c)
		f.mu.Unlock()
		if status < 0 {
			return clapi.ErrorForEventsInWaitList
		}
		if status == clapi.Complete {
			return 0
		}
		time.Sleep(50 * time.Microsecond)
	}
}

func (f *driver) Marker(q clapi.Queue, barrier bool) (clapi.Event, int32) {
	return f.enqueue("Marker", q, &command{joins: true, holds: barrier})
}

func (f *driver) Barrier(q clapi.Queue, after clapi.Event) int32 {
	return f.nameless(f.enqueue("Barrier", q, &command{holds: true}, after))
}

func (f *driver) Fill(q clapi.Queue, _ clapi.Mem, _ byte, _ int64, after clapi.Event) (clapi.Event, int32) {
	if after != 0 {
		return f.enqueue("Fill", q, &command{}, after)
	}
	return f.enqueue("Fill", q, &command{})
}

func (f *driver) Copy(q clapi.Queue, _, _ clapi.Mem, _ int64) int32 {
	return f.nameless(f.enqueue("Copy", q, &command{}))
}

// ReadWords gives what the kernels wrote that were last to write there.
func (f *driver) ReadWords(q clapi.Queue, m clapi.Mem, offset int64, out []uint64, after []clapi.Event) int32 {
	e, code := f.enqueue("ReadWords", q, &command{}, after...)
	if code != 0 {
		return code
	}
	f.Flush(q)
	code = f.WaitEvent(e)
	f.ReleaseEvent(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	for i := 0; i < len(out); i += 2 {
		out[i], out[i+1] = 0, 0
		if c := f.words[place{m, offset + int64(8*i)}]; c != nil && c.known && c.status == clapi.Complete {
			out[i], out[i+1] = 2*uint64(c.start), 2*uint64(c.end)
		}
	}
	return code
}

// nameless is for commands whose event nobody asked for.
func (f *driver) nameless(e clapi.Event, code int32) int32 {
	if code == 0 {
		f.ReleaseEvent(e)
	}
	return code
}

func (f *driver) Task(q clapi.Queue, k clapi.Kernel) (clapi.Event, int32) {
	f.mu.Lock()
	args := f.kernels[k]
	c := &command{kernel: true, length: int64(args.ticks+1) / 2}
	if f.overrun != nil {
		c.length += int64(f.overrun())
	}
	f.mu.Unlock()
	e, code := f.enqueue("Task", q, c)
	if code == 0 {
		f.mu.Lock()
		f.words[args.out] = c
		f.mu.Unlock()
	}
	return e, code
}

func (f *driver) CreateUserEvent(clapi.Context) (clapi.Event, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := f.refused("CreateUserEvent"); code != 0 {
		return 0, code
	}
	e := clapi.Event(f.handle())
	f.events[e] = &command{user: true, refs: 1}
	return e, 0
}

func (f *driver) SetUserEvent(e clapi.Event, status int32) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.events[e]
	c.set, c.queued, c.status = true, f.now(), status
	return 0
}

func (f *driver) WaitEvent(e clapi.Event) int32 {
	f.mu.Lock()
	c := f.events[e]
	f.mu.Unlock()
	return f.wait(c)
}

func (f *driver) EventStatus(e clapi.Event) (status, code int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.statusOf(f.events[e]), f.refuse["EventStatus"]
}

func (f *driver) EventTime(e clapi.Event, param uint32) (uint64, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.events[e]
	if f.statusOf(c) != clapi.Complete || !c.timed && !f.zeroTimes {
		return 0, clapi.ProfilingInfoNotAvailable
	}
	if t, ok := f.stamps[e]; ok {
		return t, 0
	}
	switch {
	case !c.timed:
		return 0, 0
	case param == clapi.ProfilingStart:
		return f.offset + uint64(c.start), 0
	case c.kernel:
		return f.offset + uint64(c.end) + uint64(f.late), 0
	}
	return f.offset + uint64(c.end), 0
}

func (f *driver) RetainEvent(e clapi.Event) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events[e].refs++
	return 0
}

func (f *driver) ReleaseEvent(e clapi.Event) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events[e].refs--; f.events[e].refs == 0 {
		delete(f.events, e)
	}
	return f.refuse["ReleaseEvent"]
}

func (f *driver) CreateBuffer(clapi.Context, int64) (clapi.Mem, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return clapi.Mem(f.handle()), f.refused("CreateBuffer")
}

func (f *driver) ReleaseMem(clapi.Mem) int32 { return 0 }

func (f *driver) CreateProgram(_ clapi.Context, source string) (clapi.Program, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.Contains(source, "__kernel") {
		return 0, clapi.InvalidValue
	}
	return clapi.Program(f.handle()), 0
}

func (f *driver) BuildProgram(clapi.Program, clapi.Device, string) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused("BuildProgram")
}

func (f *driver) BuildLog(clapi.Program, clapi.Device) string { return "what the compiler says" }

func (f *driver) ReleaseProgram(clapi.Program) int32 { return 0 }

func (f *driver) CreateKernel(clapi.Program, string) (clapi.Kernel, int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return clapi.Kernel(f.handle()), f.refused("CreateKernel")
}

func (f *driver) SetArgs(k clapi.Kernel, m clapi.Mem, ticks, slot uint64) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kernels[k] = arguments{place{m, int64(slot) * 16}, ticks}
	return 0
}

func (f *driver) ReleaseKernel(k clapi.Kernel) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kernels, k)
	return 0
}
