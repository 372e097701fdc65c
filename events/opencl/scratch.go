package opencl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// scratch is what the Scratch ability keeps on a device.
type scratch struct {
	mu      sync.Mutex // guards buffers and spins
	buffers map[uintptr]*buffer
	spins   []*spin // those that may not be done

	once    sync.Mutex // held while the program is made
	program clapi.Program
	out     clapi.Mem
	ticks   float64 // of the kernel's timer, in a nanosecond of the device's clock
	failed  error   // why there is no program
}

const (
	maxSpin  = 10 * time.Second
	maxSpins = 256
)

// buffer is memory that ScratchAlloc took.
type buffer struct {
	shared
	mem   clapi.Mem
	bytes int64
}

// ScratchAlloc implements events.Scratch. The address is the cl_mem.
func (d Device) ScratchAlloc(bytes int64) (events.Buffer, error) {
	if d.dev == nil {
		return events.Buffer{}, errNotOpen
	}
	if bytes <= 0 {
		return events.Buffer{}, fmt.Errorf("%s: %w: a buffer of %d bytes", backend, events.ErrInvalid, bytes)
	}
	if err := d.enter(); err != nil {
		return events.Buffer{}, err
	}
	defer d.leave()
	m, code := d.api.CreateBuffer(d.context, bytes)
	if code != clapi.Success {
		return events.Buffer{}, fmt.Errorf("allocating %d bytes: %w", bytes, d.failed("clCreateBuffer", code, true))
	}
	b := &buffer{mem: m, bytes: bytes}
	b.init()
	s := &d.scratch
	s.mu.Lock()
	if s.buffers == nil {
		s.buffers = map[uintptr]*buffer{}
	}
	s.buffers[uintptr(m)] = b
	s.mu.Unlock()
	return events.Buffer{Address: uintptr(m), Bytes: bytes}, nil
}

// ScratchFree implements events.Scratch. The library frees the memory when the
// work queued on it is done.
func (d Device) ScratchFree(buffer events.Buffer) error {
	if d.dev == nil {
		return errNotOpen
	}
	s := &d.scratch
	s.mu.Lock()
	b := s.buffers[buffer.Address]
	delete(s.buffers, buffer.Address)
	s.mu.Unlock()
	if b == nil {
		return d.noBuffer(buffer)
	}
	if _, free := b.kill(); free {
		return d.freeBuffer(b)
	}
	return nil
}

func (d *dev) noBuffer(b events.Buffer) error {
	return fmt.Errorf("%s: %w: device %d has no buffer %#x", backend, events.ErrInvalid, d.info.Ordinal, b.Address)
}

func (d *dev) freeBuffer(b *buffer) error {
	if d.fault.Load() != nil {
		d.stats.abandoned.Add(1)
		return nil
	}
	if code := d.api.ReleaseMem(b.mem); code != clapi.Success {
		return d.failed("clReleaseMemObject", code, true)
	}
	return nil
}

// useBuffer makes a buffer usable until dropBuffer.
func (d *dev) useBuffer(which string, b events.Buffer, bytes int64) (*buffer, error) {
	s := &d.scratch
	s.mu.Lock()
	found := s.buffers[b.Address]
	s.mu.Unlock()
	switch {
	case found == nil:
		return nil, d.noBuffer(b)
	case bytes <= 0 || bytes > found.bytes:
		return nil, fmt.Errorf("%s: %w: %d bytes of a %s of %d", backend, events.ErrInvalid, bytes, which, found.bytes)
	case !found.enter():
		return nil, d.noBuffer(b)
	}
	return found, nil
}

func (d *dev) dropBuffer(b *buffer) {
	if b.leave() && d.freeBuffer(b) != nil {
		d.stats.destroyFailed.Add(1)
	}
}

// holdOwn is hold for work on memory or programs of our context.
func (d Device) holdOwn(stream Stream, op string) (held, error) {
	h, err := stream.hold(d.dev, op)
	if err == nil && h.context != d.context {
		h.release()
		return held{}, fmt.Errorf("%s: %s refused: %w: the wrapped queue is of another OpenCL context than the device's memory", backend, op, events.ErrDeviceMismatch)
	}
	return h, err
}

// ScratchMemset implements events.Scratch.
func (d Device) ScratchMemset(buffer events.Buffer, value byte, bytes int64, stream Stream) error {
	h, err := d.holdOwn(stream, opFill)
	if err != nil {
		return err
	}
	defer h.release()
	b, err := d.useBuffer("buffer", buffer, bytes)
	if err != nil {
		return err
	}
	defer d.dropBuffer(b)
	e, code := d.api.Fill(h.queue, b.mem, value, bytes, 0)
	if code != clapi.Success {
		return d.failed(opFill, code, h.own != nil)
	}
	d.giveBack(e)
	return d.flush(h)
}

// ScratchCopy implements events.Scratch. A copy within one buffer is refused by
// OpenCL, because the two ranges overlap.
func (d Device) ScratchCopy(dst, src events.Buffer, bytes int64, stream Stream) error {
	const op = "clEnqueueCopyBuffer"
	h, err := d.holdOwn(stream, op)
	if err != nil {
		return err
	}
	defer h.release()
	to, err := d.useBuffer("destination", dst, bytes)
	if err != nil {
		return err
	}
	defer d.dropBuffer(to)
	from, err := d.useBuffer("source", src, bytes)
	if err != nil {
		return err
	}
	defer d.dropBuffer(from)
	if code := d.api.Copy(h.queue, to.mem, from.mem, bytes); code != clapi.Success {
		return d.failed(op, code, h.own != nil)
	}
	return d.flush(h)
}

// flush sends queued work off, which must run also if nobody records behind it.
func (d Device) flush(h held) error {
	if code := d.api.Flush(h.queue); code != clapi.Success {
		return d.failed(opFlush, code, h.own != nil)
	}
	return nil
}

// spinProgram keeps one work item busy until a timer of the device has moved on
// by so many ticks. Only timers that tick at a constant rate are used; how fast
// is measured against the device's clock. Without one the build fails.
const spinProgram = `
#if defined(cl_khr_kernel_clock)
#pragma OPENCL EXTENSION cl_khr_kernel_clock : enable
#define NOW() clock_read_device()
#elif defined(__NV_CL_C_VERSION)
ulong NOW() { ulong t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
#elif defined(DEVEVENTS_CPU) && defined(__x86_64__) && defined(__clang__)
#define NOW() __builtin_readcyclecounter()
#else
#error no timer of a constant rate is known for this device
#endif
__kernel void devevents_spin(ulong ticks, __global ulong *out)
{
	ulong first = NOW(), last;
	do { last = NOW(); } while (last - first < ticks);
	*out = last - first;
}
`

// spin is one run of the spin kernel.
type spin struct {
	dev  *dev
	mu   sync.Mutex
	mark clapi.Event // of the kernel, until it is done
	done bool
	took time.Duration
	err  error
}

// Measured implements events.Spin.
func (s *spin) Measured() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		if err := s.dev.refusal(); err != nil {
			return 0, err
		}
		s.settle()
	}
	if !s.done {
		return 0, fmt.Errorf("%s: %w: the spin is still queued or running", backend, events.ErrNotReady)
	}
	return s.took, s.err
}

// settle reads the times of a kernel that is done, and gives its event back. mu
// is held.
func (s *spin) settle() {
	d := s.dev
	status, code := d.api.EventStatus(s.mark)
	switch {
	case code != clapi.Success:
		s.err = d.failed(opStatus, code, true)
	case status > clapi.Complete:
		return
	case status < clapi.Complete:
		s.err = d.aborted(opStatus, status, true)
	default:
		s.took, s.err = d.profiled(s.mark)
	}
	s.done = true
	d.giveBack(s.mark)
}

// profiled is how long a command took by the device's clock.
func (d *dev) profiled(e clapi.Event) (time.Duration, error) {
	start, code := d.api.EventTime(e, clapi.ProfilingStart)
	if code != clapi.Success {
		return 0, d.failed(opTime, code, true)
	}
	end, code := d.api.EventTime(e, clapi.ProfilingEnd)
	if code != clapi.Success {
		return 0, d.failed(opTime, code, true)
	}
	return time.Duration(end - start), nil
}

// settle drops the spins that are done, and with all the others too. It returns
// how many are left.
func (s *scratch) settle(all bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spins = slices.DeleteFunc(s.spins, func(x *spin) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !x.done && x.dev.fault.Load() == nil {
			x.settle()
		}
		if !x.done && all {
			x.done, x.err = true, fmt.Errorf("%s: the device was %w before the spin was done", backend, events.ErrClosed)
			x.dev.giveBack(x.mark)
		}
		return x.done
	})
	return len(s.spins)
}

// dispose gives back what is left when the device is closed.
func (s *scratch) dispose(api clapi.API, drop func(op string, release func() int32)) {
	s.mu.Lock()
	left := s.buffers
	s.buffers = nil
	s.mu.Unlock()
	for _, b := range left {
		if _, free := b.kill(); free {
			drop("clReleaseMemObject", func() int32 { return api.ReleaseMem(b.mem) })
		}
	}
	s.once.Lock()
	defer s.once.Unlock()
	if s.out != 0 {
		drop("clReleaseMemObject", func() int32 { return api.ReleaseMem(s.out) })
	}
	if s.program != 0 {
		drop("clReleaseProgram", func() int32 { return api.ReleaseProgram(s.program) })
	}
	s.out, s.program = 0, 0
}

// ScratchSpin implements events.Scratch, on devices with a timer that a kernel
// can read and that ticks at a constant rate: those of NVIDIA, those with
// cl_khr_kernel_clock, and x86 CPUs through PoCL. Elsewhere it is ErrUnsupported.
// Measured is the kernel's own time between CL_PROFILING_COMMAND_START and END.
// The first call compiles the kernel and measures the rate, which takes some
// hundred milliseconds.
func (d Device) ScratchSpin(length time.Duration, stream Stream) (events.Spin, error) {
	if length <= 0 || length > maxSpin {
		return nil, fmt.Errorf("%s: %w: a spin of %v; more than 0 and at most %v", backend, events.ErrInvalid, length, maxSpin)
	}
	h, err := d.holdOwn(stream, "clEnqueueNDRangeKernel")
	if err != nil {
		return nil, err
	}
	defer h.release()
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &d.scratch
	if err := d.prepareSpin(); err != nil {
		return nil, err
	}
	if s.settle(false) >= maxSpins {
		return nil, fmt.Errorf("%s: %w: %d spins are queued and none is done", backend, events.ErrFull, maxSpins)
	}
	// The rate is measured to about a thousandth.
	mark, err := d.launchSpin(h.queue, uint64(float64(length)*s.ticks*1.002)+1, h.own != nil)
	if err != nil {
		return nil, fmt.Errorf("queueing a spin of %v: %w", length, err)
	}
	mine := &spin{dev: d.dev, mark: mark}
	s.mu.Lock()
	s.spins = append(s.spins, mine)
	s.mu.Unlock()
	return mine, nil
}

// launchSpin queues the kernel. Each launch has a kernel object of its own, for
// arguments are set on the object and two launches would mix them up.
func (d *dev) launchSpin(q clapi.Queue, ticks uint64, ours bool) (clapi.Event, error) {
	k, code := d.api.CreateKernel(d.scratch.program, "devevents_spin")
	if code != clapi.Success {
		return 0, d.failed("clCreateKernel", code, ours)
	}
	defer func() { d.api.ReleaseKernel(k) }()
	if code := d.api.SetArgs(k, ticks, d.scratch.out); code != clapi.Success {
		return 0, d.failed("clSetKernelArg", code, ours)
	}
	e, code := d.api.Task(q, k)
	if code != clapi.Success {
		return 0, d.failed("clEnqueueNDRangeKernel", code, ours)
	}
	if code := d.api.Flush(q); code != clapi.Success {
		d.giveBack(e)
		return 0, d.failed(opFlush, code, ours)
	}
	return e, nil
}

// prepareSpin makes the program once, and measures how fast its timer ticks.
// What it says the first time holds, unless the reason was a passing one.
func (d Device) prepareSpin() error {
	s := &d.scratch
	s.once.Lock()
	defer s.once.Unlock()
	if s.ticks > 0 || s.failed != nil {
		return s.failed
	}
	err := d.buildSpin()
	if err == nil {
		s.ticks, err = d.calibrate()
	}
	if errors.Is(err, events.ErrUnsupported) {
		s.failed = err
	}
	return err
}

func (d Device) buildSpin() error {
	s := &d.scratch
	var code int32
	if s.out == 0 {
		if s.out, code = d.api.CreateBuffer(d.context, 8); code != clapi.Success {
			return d.failed("clCreateBuffer", code, true)
		}
	}
	if s.program != 0 {
		return nil
	}
	program, code := d.api.CreateProgram(d.context, spinProgram)
	if code != clapi.Success {
		return d.failed("clCreateProgramWithSource", code, true)
	}
	options := ""
	if d.info.Kind == events.KindCPU {
		options = "-DDEVEVENTS_CPU"
	}
	if code := d.api.BuildProgram(program, d.id, options); code != clapi.Success {
		err := fmt.Errorf("%s: ScratchSpin: %w: the kernel does not compile for this device: %w\n%s", backend, events.ErrUnsupported,
			driverError("clBuildProgram", code, kindOf(code)), d.api.BuildLog(program, d.id))
		d.api.ReleaseProgram(program)
		return err
	}
	s.program = program
	return nil
}

// calibrate measures how many ticks of the kernel's timer make a nanosecond of
// the device's clock. Two lengths, so that what a launch costs cancels out, and
// the best of some runs of each, since disturbances only lengthen a run.
func (d Device) calibrate() (float64, error) {
	q, err := d.createQueue()
	if err != nil {
		return 0, err
	}
	defer func() { d.api.ReleaseQueue(q) }()
	const long, endless = 10 * time.Millisecond, 1 << 40
	ticks := uint64(1000)
	took, err := d.runSpin(q, ticks, 2) // the first run may include compiling
	for took < long && ticks < endless && err == nil {
		ticks *= 4
		took, err = d.runSpin(q, ticks, 1)
	}
	if err != nil {
		return 0, err
	}
	short, err := d.runSpin(q, ticks/10, 3)
	if err != nil {
		return 0, err
	}
	took, err = d.runSpin(q, ticks, 3)
	if err != nil {
		return 0, err
	}
	if took <= short {
		return 0, fmt.Errorf("%s: ScratchSpin: %w: a kernel of %d ticks took %v, and one of %d %v", backend, events.ErrUnsupported, ticks/10, short, ticks, took)
	}
	return float64(ticks-ticks/10) / float64(took-short), nil
}

// runSpin runs the kernel some times and gives the shortest time.
func (d Device) runSpin(q clapi.Queue, ticks uint64, times int) (best time.Duration, err error) {
	for i := range times {
		e, err := d.launchSpin(q, ticks, true)
		if err != nil {
			return 0, err
		}
		code := d.api.WaitEvent(e)
		if code != clapi.Success {
			err = d.waitFailed(loan{mark: e, context: d.context}, code)
		}
		var took time.Duration
		if err == nil {
			took, err = d.profiled(e)
		}
		d.giveBack(e)
		if err != nil {
			return 0, err
		}
		if i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
