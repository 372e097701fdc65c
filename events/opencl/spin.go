package opencl

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// spins is what ScratchSpin keeps on a device: the kernel's program, a buffer with
// two words for each spin, and a queue to read them by.
type spins struct {
	once    sync.Mutex // held while the rest is made
	program clapi.Program
	out     clapi.Mem
	queue   clapi.Queue
	rate    rate
	failed  error // why there is no program

	mu    sync.Mutex // guards what follows, and the spins themselves
	slots [maxSpins]*spin
	next  int
}

const (
	maxSpin     = 10 * time.Second
	maxSpins    = 256
	spinsAtOnce = 64 // that one read answers
	slotBytes   = 16
)

// spinProgram keeps one work item busy until a timer of the device has moved on
// by so many ticks, and leaves the first and the last reading behind. Only timers
// that tick at a constant rate are used. Without one the build fails.
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
__kernel void devevents_spin(__global ulong *out, ulong ticks, ulong slot)
{
	ulong first = NOW(), last;
	do { last = NOW(); } while (last - first < ticks);
	out[2 * slot] = first;
	out[2 * slot + 1] = last;
}
`

// spin is one run of the spin kernel.
type spin struct {
	dev   *dev
	slot  int
	ticks uint64 // that were asked for

	// Guarded by spins.mu.
	mark clapi.Event // of the kernel, from its launch until its words are read
	done bool        // what follows is final
	took time.Duration
	err  error
}

// Measured implements events.Spin.
func (s *spin) Measured() (time.Duration, error) {
	d := s.dev
	refused := d.enter()
	if refused == nil {
		defer d.leave() // after the lock is free: it may close the device
	}
	all := &d.scratch.spins
	all.mu.Lock()
	defer all.mu.Unlock()
	if !s.done && refused == nil {
		all.settle(d, s.slot, 1)
	}
	switch {
	case s.done:
		return s.took, s.err
	case refused != nil:
		return 0, refused
	}
	return 0, fmt.Errorf("%s: %w: the spin is still queued or running", backend, events.ErrNotReady)
}

// settle answers the spins of so many slots, as far as they are done one after
// another, with one read for all of them. mu is held and the device entered.
func (s *spins) settle(d *dev, slot, n int) {
	run := s.slots[slot:min(slot+n, maxSpins)]
	var marks []clapi.Event
	for i, x := range run {
		if x == nil || !x.ended() {
			run = run[:i]
			break
		}
		if !x.done {
			marks = append(marks, x.mark)
		}
	}
	if marks == nil {
		return
	}
	words := make([]uint64, 2*len(run))
	code := d.api.ReadWords(s.queue, s.out, int64(slot)*slotBytes, words, marks)
	for i, x := range run {
		switch first, last := words[2*i], words[2*i+1]; {
		case x.done:
		case code != clapi.Success:
			x.answer(0, d.failed(opRead, code, true))
		case last < first || last-first < x.ticks:
			x.answer(0, fmt.Errorf("%s: a spin of %d ticks: %w", backend, x.ticks, &events.ReadingError{Read: fmt.Sprintf("from %d to %d ticks", first, last)}))
		default:
			x.answer(s.rate.duration(last-first), nil)
		}
	}
}

// ended reports whether a spin has ended, one way or another. mu is held.
func (s *spin) ended() bool {
	if s.done || s.mark == 0 {
		return s.done
	}
	status, code := s.dev.api.EventStatus(s.mark)
	switch {
	case code != clapi.Success:
		s.answer(0, s.dev.failed(opStatus, code, true))
	case status < clapi.Complete:
		s.answer(0, s.dev.aborted(opStatus, status, true))
	}
	return s.done || status == clapi.Complete
}

// answer makes an answer final. mu is held.
func (s *spin) answer(took time.Duration, err error) {
	s.dev.giveBack(s.mark)
	s.mark, s.done, s.took, s.err = 0, true, took, err
}

// claim finds a slot whose last spin is done, and keeps that spin's answer.
func (s *spins) claim(d *dev, ticks uint64) (*spin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range maxSpins {
		slot := s.next
		s.next = (s.next + 1) % maxSpins
		last := s.slots[slot]
		if last != nil && !last.done {
			s.settle(d, slot, spinsAtOnce)
		}
		if last == nil || last.done {
			s.slots[slot] = &spin{dev: d, slot: slot, ticks: ticks}
			return s.slots[slot], nil
		}
	}
	return nil, fmt.Errorf("%s: %w: %d spins are queued and none is done", backend, events.ErrFull, maxSpins)
}

// launched ends what claim began.
func (s *spins) launched(x *spin, mark clapi.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		x.answer(0, err)
		return
	}
	x.mark = mark
}

// dispose gives everything back when the device is closed.
func (s *spins) dispose(d *dev, drop func(op string, release func() int32)) {
	s.mu.Lock()
	for _, x := range s.slots {
		if x != nil && !x.done {
			x.answer(0, fmt.Errorf("%s: the device was %w before the spin was read", backend, events.ErrClosed))
		}
	}
	s.mu.Unlock()
	s.once.Lock()
	defer s.once.Unlock()
	if s.queue != 0 {
		drop("clReleaseCommandQueue", func() int32 { return d.api.ReleaseQueue(s.queue) })
	}
	if s.out != 0 {
		drop("clReleaseMemObject", func() int32 { return d.api.ReleaseMem(s.out) })
	}
	if s.program != 0 {
		drop("clReleaseProgram", func() int32 { return d.api.ReleaseProgram(s.program) })
	}
	s.queue, s.out, s.program = 0, 0, 0
}

// ScratchSpin implements events.Scratch, on devices with a timer that a kernel
// can read and that ticks at a constant rate: those of NVIDIA, those with
// cl_khr_kernel_clock, and x86 CPUs through PoCL. Elsewhere it is ErrUnsupported.
// Measured is what the kernel counted of that timer, in nanoseconds of the host's
// clock: the driver's times have no part in it. It must be asked before Close.
//
// The first call compiles the kernel and measures the timer's rate, which takes
// some hundred milliseconds. Where the host is too busy for that it is ErrExpired,
// and the next call tries again.
func (d Device) ScratchSpin(length time.Duration, stream Stream) (events.Spin, error) {
	if d.dev == nil {
		return nil, errNotOpen
	}
	if length <= 0 || length > maxSpin {
		return nil, fmt.Errorf("%s: %w: a spin of %v; more than 0 and at most %v", backend, events.ErrInvalid, length, maxSpin)
	}
	h, err := d.holdOwn(stream, opKernel)
	if err != nil {
		return nil, err
	}
	defer h.release()
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &d.scratch.spins
	if err := d.prepareSpin(); err != nil {
		return nil, err
	}
	mine, err := s.claim(d.dev, s.rate.ticks(length))
	if err != nil {
		return nil, err
	}
	mark, err := d.launchSpin(h.queue, mine.slot, mine.ticks, h.own != nil)
	s.launched(mine, mark, err)
	if err != nil {
		return nil, fmt.Errorf("queueing a spin of %v: %w", length, err)
	}
	return mine, nil
}

// launchSpin queues the kernel. Each launch has a kernel object of its own, for
// arguments are set on the object and two launches would mix them up.
func (d *dev) launchSpin(q clapi.Queue, slot int, ticks uint64, ours bool) (clapi.Event, error) {
	s := &d.scratch.spins
	k, code := d.api.CreateKernel(s.program, "devevents_spin")
	if code != clapi.Success {
		return 0, d.failed("clCreateKernel", code, ours)
	}
	defer func() { d.api.ReleaseKernel(k) }()
	if code := d.api.SetArgs(k, s.out, ticks, uint64(slot)); code != clapi.Success {
		return 0, d.failed("clSetKernelArg", code, ours)
	}
	e, code := d.api.Task(q, k)
	if code != clapi.Success {
		return 0, d.failed(opKernel, code, ours)
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
	s := &d.scratch.spins
	s.once.Lock()
	defer s.once.Unlock()
	if s.rate.perNano > 0 || s.failed != nil {
		return s.failed
	}
	err := d.buildSpin()
	if err == nil {
		s.rate, err = d.calibrate()
	}
	if errors.Is(err, events.ErrUnsupported) {
		s.failed = err
	}
	return err
}

func (d Device) buildSpin() error {
	s := &d.scratch.spins
	var code int32
	if s.queue == 0 {
		q, err := d.createQueue()
		if err != nil {
			return err
		}
		s.queue = q
	}
	if s.out == 0 {
		if s.out, code = d.api.CreateBuffer(d.context, maxSpins*slotBytes); code != clapi.Success {
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

// rate is how fast the kernel's timer ticks by the host's clock.
type rate struct {
	perNano float64
	slack   float64 // by which part of itself it may be wrong
}

// ticks are at least as many as make a length.
func (r rate) ticks(length time.Duration) uint64 {
	return uint64(math.Ceil(float64(length) * r.perNano * (1 + r.slack)))
}

// duration is what so many ticks make.
func (r rate) duration(ticks uint64) time.Duration {
	return time.Duration(math.Round(float64(ticks) / r.perNano))
}

// reading is one of the kernel's timer, which was taken between two readings of
// the host's.
type reading struct {
	ticks    uint64
	from, to time.Duration
}

func (r reading) width() time.Duration { return r.to - r.from }

// since is the rate between an earlier reading and this one, each taken to be in
// the middle of its bracket.
func (r reading) since(earlier reading) rate {
	apart := float64(r.from+r.to-earlier.from-earlier.to) / 2
	slack := float64(r.width()+earlier.width()) / 2
	if apart <= slack {
		return rate{slack: math.Inf(1)}
	}
	// Of the time between the readings, which is at least apart-slack.
	return rate{perNano: float64(r.ticks-earlier.ticks) / apart, slack: slack / (apart - slack)}
}

// How exactly the rate is measured: to goodSlack, or, where that takes longer
// than maxCalibration, to usableSlack.
const (
	firstReadings  = 20
	goodSlack      = 2e-4
	usableSlack    = 1e-2
	maxCalibration = time.Second
)

// calibrate measures how fast the kernel's timer ticks against the host's clock.
// A kernel that ends at once reads its timer between two readings of the host's,
// and whatever interrupts it makes that bracket wider and not the reading wrong.
// So the best of some readings, and a later one far enough away, give the rate
// with a bound on its error.
func (d Device) calibrate() (rate, error) {
	began := time.Now()
	first, err := d.readTimer(began)
	if err != nil {
		return rate{}, err
	}
	for range firstReadings {
		next, err := d.readTimer(began)
		if err != nil {
			return rate{}, err
		}
		if next.width() < first.width() {
			first = next
		}
	}
	best := rate{slack: math.Inf(1)}
	for deadline := time.Now().Add(maxCalibration); best.slack > goodSlack && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		later, err := d.readTimer(began)
		if err != nil {
			return rate{}, err
		}
		if later.ticks <= first.ticks {
			return rate{}, fmt.Errorf("%s: ScratchSpin: %w: the timer of the kernel stood at %d, and %v later at %d",
				backend, events.ErrUnsupported, first.ticks, later.from-first.to, later.ticks)
		}
		if r := later.since(first); r.slack < best.slack {
			best = r
		}
	}
	if best.slack > usableSlack {
		return rate{}, fmt.Errorf("%s: ScratchSpin: %w: in %v the timer of the kernel could not be read closely enough to tell its rate; the host is too busy",
			backend, events.ErrExpired, maxCalibration)
	}
	return best, nil
}

// readTimer runs the kernel with nothing to wait for.
func (d Device) readTimer(began time.Time) (reading, error) {
	const slot = 0 // no spin has it yet
	s := &d.scratch.spins
	r := reading{from: time.Since(began)}
	e, err := d.launchSpin(s.queue, slot, 0, true)
	if err != nil {
		return reading{}, err
	}
	defer d.giveBack(e)
	code := d.api.WaitEvent(e)
	r.to = time.Since(began)
	if code != clapi.Success {
		return reading{}, d.waitFailed(loan{mark: e, context: d.context}, code)
	}
	words := make([]uint64, 2)
	if code = d.api.ReadWords(s.queue, s.out, slot*slotBytes, words, []clapi.Event{e}); code != clapi.Success {
		return reading{}, d.failed(opRead, code, true)
	}
	r.ticks = words[0]
	return r, nil
}
