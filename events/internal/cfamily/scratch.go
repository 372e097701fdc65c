package cfamily

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// scratch is what the Scratch and Gate abilities keep on a device: a program
// with the spin kernel, and one pinned block of host memory that the device can
// reach. Close gives all of it back.
type scratch struct {
	mu     sync.Mutex
	module uintptr
	kernel kernels
	host   uintptr // our address of the block
	device uintptr // the device's address of it
	spins  [spinSlots]*spin
	next   int
	gates  [gateSlots]*gateSlot
	asks   [askSlots]*TimerQuestion
}

// kernels are those of the program, 0 where not loaded.
type kernels struct {
	spin, asker, empty, reader uintptr
}

// The layout of the block: two 64-bit words for each spin, then one 32-bit word
// for each gate, then three 64-bit words for each question.
const (
	spinSlots  = 256
	gateSlots  = 64
	gateOffset = spinSlots * 16
	askSlots   = 8
	askOffset  = gateOffset + gateSlots*4
	blockSize  = askOffset + askSlots*24
	maxSpin    = 10 * time.Second
)

// driverOp is a call into the driver library with our context current.
func (d *dev) driverOp(op Op, call func(f *frame) int32) error {
	if d == nil {
		return errNotLoaded
	}
	if !d.lib.has1(op) || !d.lib.canSwitch() {
		return d.unsupported(op)
	}
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	return d.failed(op, d.on(op, needContext|needRelaxed, call))
}

// needs refuses what belongs to an ability that the library lacks as a whole, so
// that a method never works where its ability is not offered.
func (d *dev) needs(offered func(*lib) bool, op Op) error {
	switch {
	case d == nil:
		return errNotLoaded
	case !offered(d.lib):
		return d.unsupported(op)
	}
	return nil
}

// ScratchAlloc implements events.Scratch.
func (d *dev) ScratchAlloc(bytes int64) (events.Buffer, error) {
	if err := d.needs((*lib).scratchable, OpMalloc); err != nil {
		return events.Buffer{}, err
	}
	if bytes <= 0 {
		return events.Buffer{}, fmt.Errorf("%w: a buffer of %d bytes", events.ErrInvalid, bytes)
	}
	var address uintptr
	err := d.driverOp(OpMalloc, func(f *frame) int32 {
		f.word[1] = 0
		code := call2(d.lib.fn[OpMalloc], f.wordAddr(1), uintptr(bytes))
		address = f.handle(1)
		return code
	})
	if err != nil {
		return events.Buffer{}, fmt.Errorf("allocating %d bytes: %w", bytes, err)
	}
	return events.Buffer{Address: address, Bytes: bytes}, nil
}

// ScratchFree implements events.Scratch.
func (d *dev) ScratchFree(buffer events.Buffer) error {
	if err := d.needs((*lib).scratchable, OpFree); err != nil {
		return err
	}
	if buffer.Address == 0 {
		return fmt.Errorf("%w: zero buffer", events.ErrInvalid)
	}
	return d.driverOp(OpFree, func(*frame) int32 { return call1(d.lib.fn[OpFree], buffer.Address) })
}

func checkRange(name string, buffer events.Buffer, bytes int64) error {
	if buffer.Address == 0 || bytes <= 0 || bytes > buffer.Bytes {
		return fmt.Errorf("%w: %d bytes of a %s of %d", events.ErrInvalid, bytes, name, buffer.Bytes)
	}
	return nil
}

// ScratchMemset implements events.Scratch.
func (d Device[V]) ScratchMemset(buffer events.Buffer, value byte, bytes int64, stream Stream[V]) error {
	if err := d.needs((*lib).scratchable, OpMemset); err != nil {
		return err
	}
	if err := checkRange("buffer", buffer, bytes); err != nil {
		return err
	}
	return d.queued(OpMemset, stream, func(*frame) int32 {
		return call4(d.lib.fn[OpMemset], buffer.Address, uintptr(value), uintptr(bytes), stream.handle)
	})
}

// ScratchCopy implements events.Scratch.
func (d Device[V]) ScratchCopy(dst, src events.Buffer, bytes int64, stream Stream[V]) error {
	if err := d.needs((*lib).scratchable, OpCopy); err != nil {
		return err
	}
	if err := checkRange("destination", dst, bytes); err != nil {
		return err
	}
	if err := checkRange("source", src, bytes); err != nil {
		return err
	}
	return d.queued(OpCopy, stream, func(*frame) int32 {
		return call4(d.lib.fn[OpCopy], dst.Address, src.Address, uintptr(bytes), stream.handle)
	})
}

// queued is a driver call that queues work on a stream.
func (d Device[V]) queued(op Op, stream Stream[V], call func(f *frame) int32) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	if s := stream.life; s != nil {
		count(s, nil)
		defer d.lib.releaseCounted(s, nil)
		if s.dead.Load() {
			return d.destroyed(op, "stream")
		}
	}
	return d.driverOp(op, call)
}

// spin is one launch of the spin kernel.
type spin struct {
	block uintptr
	slot  int
	mu    sync.Mutex
	done  bool
	began uint64
	took  time.Duration
}

// Measured implements events.Spin.
func (s *spin) Measured() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		begin, end := hostWord64(s.block, 2*s.slot).Load(), hostWord64(s.block, 2*s.slot+1).Load()
		if begin == 0 || end == 0 {
			return 0, fmt.Errorf("%w: the spin is still queued or running", events.ErrNotReady)
		}
		s.began, s.took, s.done = begin, time.Duration(end-begin), true
	}
	return s.took, nil
}

// prepare makes what spins and gates need, once. The scratch's lock is held:
// this is set-up, not a hot path. The kernel is loaded and launched once before
// the first gate closes: drivers load code lazily, and loading can wait for the
// whole device, which a closed gate would hold for ever.
func (d Device[V]) prepare() error {
	s := &d.scratch
	if s.host == 0 {
		if err := d.pinBlock(); err != nil {
			return fmt.Errorf("pinned memory for scratch work: %w", err)
		}
	}
	if s.kernel.spin != 0 || !d.lib.spinnable() {
		return nil
	}
	if err := d.loadKernel(); err != nil {
		return fmt.Errorf("the spin kernel: %w", err)
	}
	return nil
}

func (d *dev) pinBlock() error {
	var host, device uintptr
	err := d.driverOp(OpHostAlloc, func(f *frame) int32 {
		f.word[1] = 0
		code := call3(d.lib.fn[OpHostAlloc], f.wordAddr(1), blockSize, flagHostMapped)
		host = f.handle(1)
		return code
	})
	if err != nil {
		return err
	}
	err = d.driverOp(OpHostAddress, func(f *frame) int32 {
		f.word[1] = 0
		code := call3(d.lib.fn[OpHostAddress], f.wordAddr(1), host, 0)
		device = f.handle(1)
		return code
	})
	if err != nil {
		return errors.Join(err, d.freeBlock(host))
	}
	for i := range blockSize / 8 {
		hostWord64(host, i).Store(0)
	}
	d.scratch.host, d.scratch.device = host, device
	return nil
}

func (d *dev) freeBlock(host uintptr) error {
	return d.driverOp(OpHostFree, func(*frame) int32 { return call1(d.lib.fn[OpHostFree], host) })
}

func (d Device[V]) loadKernel() error {
	s := &d.scratch
	if s.module == 0 { // else an earlier try got that far
		text := heapText(d.lib.table.SpinProgram)
		err := d.driverOp(OpModuleLoad, func(f *frame) int32 {
			f.word[1] = 0
			code := call2(d.lib.fn[OpModuleLoad], f.wordAddr(1), bytesAddr(text))
			if code == codeSuccess {
				s.module = f.handle(1)
			}
			return code
		})
		runtime.KeepAlive(text)
		if err != nil {
			return err
		}
	}
	kernel, err := d.kernelNamed(d.lib.table.SpinKernel)
	if err != nil {
		return err
	}
	if d.lib.launchable() && s.kernel.empty == 0 {
		if s.kernel.empty, err = d.kernelNamed(d.lib.table.EmptyKernel); err != nil {
			return err
		}
	}
	if d.lib.readable() && s.kernel.reader == 0 {
		if s.kernel.reader, err = d.kernelNamed(d.lib.table.ReadKernel); err != nil {
			return err
		}
	}
	warm, err := d.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	first, err := s.claim()
	if err == nil {
		s.kernel.spin = kernel
		if err = d.launchSpin(first, 1, warm); err != nil {
			first.discard()
		} else {
			if s.kernel.empty != 0 {
				err = d.launchEmpty(warm)
			}
			if s.kernel.reader != 0 {
				err = errors.Join(err, d.launchRead(events.Buffer{}, 0, warm))
			}
			err = errors.Join(err, d.StreamSynchronize(warm))
		}
	}
	if err != nil {
		s.kernel.spin = 0
	}
	return errors.Join(err, d.StreamDestroy(warm))
}

// kernelNamed finds a kernel of the program.
func (d *dev) kernelNamed(name string) (kernel uintptr, err error) {
	err = d.driverOp(OpModuleFunction, func(f *frame) int32 {
		f.word[1] = 0
		f.setText(name)
		code := call3(d.lib.fn[OpModuleFunction], f.wordAddr(1), d.scratch.module, f.textAddr())
		kernel = f.handle(1)
		return code
	})
	return kernel, err
}

// ScratchSpin implements events.Scratch.
func (d Device[V]) ScratchSpin(length time.Duration, stream Stream[V]) (events.Spin, error) {
	if err := d.needs((*lib).spinnable, OpLaunch); err != nil {
		return nil, err
	}
	if length <= 0 || length > maxSpin {
		return nil, fmt.Errorf("%w: a spin of %v; more than 0 and at most %v", events.ErrInvalid, length, maxSpin)
	}
	if err := stream.check(d.dev); err != nil {
		return nil, err
	}
	s := &d.scratch
	s.mu.Lock()
	err := d.prepare()
	var mine *spin
	if err == nil {
		mine, err = s.claim()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// Launched without the lock: a full queue blocks here, and gates that hold
	// the queue back must still open.
	if err := d.launchSpin(mine, length, stream); err != nil {
		mine.discard()
		return nil, fmt.Errorf("queueing a spin of %v: %w", length, err)
	}
	return mine, nil
}

func (d Device[V]) launchSpin(s *spin, length time.Duration, stream Stream[V]) error {
	return d.queued(OpLaunch, stream, func(f *frame) int32 {
		f.launch.first, f.launch.second = uint64(length), uint64(d.scratch.device)+uint64(16*s.slot)
		return callLaunch(d.lib.fn[OpLaunch], d.scratch.kernel.spin, stream.handle, oneThread, &f.launch)
	})
}

// Times are the first and the last reading of the device's own timer, in its nanoseconds,
// once the spin is done; until then the error is events.ErrNotReady.
func (s *spin) Times() (first, last uint64, err error) {
	if _, err := s.Measured(); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began, s.began + uint64(s.took), nil
}

// discard gives the words of a spin back that was never launched.
func (s *spin) discard() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
}

// claim finds a pair of words whose last spin is done, and keeps that spin's answer.
func (s *scratch) claim() (*spin, error) {
	for range spinSlots {
		slot := s.next
		s.next = (s.next + 1) % spinSlots
		if last := s.spins[slot]; last != nil {
			if _, err := last.Measured(); err != nil {
				continue
			}
		}
		hostWord64(s.host, 2*slot).Store(0)
		hostWord64(s.host, 2*slot+1).Store(0)
		s.spins[slot] = &spin{block: s.host, slot: slot}
		return s.spins[slot], nil
	}
	return nil, fmt.Errorf("%w: %d spins are queued and none is done", events.ErrFull, spinSlots)
}

// gateSlot is one word that streams wait on. Its value only grows, so that a
// reused word cannot hold back a stream that an earlier gate let go.
type gateSlot struct {
	value  uint32
	closed atomic.Bool
}

// gate is one closed gate. Opening it takes no lock: it must work while a call
// is stuck behind it.
type gate struct {
	slot    *gateSlot
	word    *atomic.Uint32
	value   uint32
	timer   *time.Timer
	state   atomic.Int32
	timeout time.Duration
}

const (
	gateClosed int32 = iota
	gateOpened
	gateExpired
)

// GateClose implements events.Gate.
func (d Device[V]) GateClose(stream Stream[V], watchdog time.Duration) (events.GateHandle, error) {
	if err := d.needs((*lib).gateable, OpWaitValue); err != nil {
		return nil, err
	}
	if watchdog <= 0 {
		return nil, fmt.Errorf("%w: a gate needs a watchdog, not %v", events.ErrInvalid, watchdog)
	}
	if err := stream.check(d.dev); err != nil {
		return nil, err
	}
	s := &d.scratch
	s.mu.Lock()
	err := d.prepare()
	var g *gate
	if err == nil {
		g, err = s.claimGate()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	index := gateOffset/4 + slices.IndexFunc(s.gates[:], func(x *gateSlot) bool { return x == g.slot })
	g.word = hostWord32(s.host, index)
	g.timeout = watchdog
	address := s.device + uintptr(4*index)
	err = d.queued(OpWaitValue, stream, func(*frame) int32 {
		return call4(d.lib.fn[OpWaitValue], stream.handle, address, uintptr(g.value), flagWaitValueGEQ)
	})
	if err != nil {
		g.slot.closed.Store(false)
		return nil, fmt.Errorf("closing a gate: %w", err)
	}
	g.timer = time.AfterFunc(watchdog, func() { g.release(gateExpired) })
	return g, nil
}

func (s *scratch) claimGate() (*gate, error) {
	for i := range s.gates {
		if s.gates[i] == nil {
			s.gates[i] = new(gateSlot)
		}
		if s.gates[i].closed.CompareAndSwap(false, true) {
			s.gates[i].value++
			return &gate{slot: s.gates[i], value: s.gates[i].value}, nil
		}
	}
	return nil, fmt.Errorf("%w: %d gates are closed", events.ErrFull, gateSlots)
}

// Open implements events.GateHandle.
func (g *gate) Open() error {
	g.timer.Stop()
	g.release(gateOpened)
	if g.state.Load() == gateExpired {
		return fmt.Errorf("gate: %w: its watchdog of %v opened it first, so what was queued behind it did not start together", events.ErrExpired, g.timeout)
	}
	return nil
}

func (g *gate) release(state int32) {
	if g.state.CompareAndSwap(gateClosed, state) {
		g.word.Store(g.value)
		g.slot.closed.Store(false)
	}
}

// Close gives back what scratch work and gates hold on this device. Events and
// streams are their owners', and for their sake the device's context stays. It does not
// wait: while a gate is closed it is ErrInvalid, while a spin or a question to the timer is
// in progress ErrNotReady, and then nothing is given back.
func (d *dev) Close() error {
	if d == nil {
		return nil
	}
	s := &d.scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host == 0 && s.module == 0 {
		return nil
	}
	for i := range s.gates {
		if s.gates[i] != nil && s.gates[i].closed.Load() {
			return fmt.Errorf("%s: %w: a gate is still closed; open it before closing the device", d.lib.table.Backend, events.ErrInvalid)
		}
	}
	for i, last := range s.spins {
		if last == nil {
			continue
		}
		if _, err := last.Measured(); err != nil && d.fault.Load() == nil {
			return fmt.Errorf("%s: a spin is still running: %w; wait for its stream before closing the device", d.lib.table.Backend, err)
		}
		s.spins[i] = nil
	}
	for i, q := range s.asks {
		if q == nil {
			continue
		}
		if _, answered := q.Answer(); !answered && d.fault.Load() == nil {
			return fmt.Errorf("%s: %w: a question to the device's timer is not answered; ask it, and wait for its stream, before closing the device", d.lib.table.Backend, events.ErrNotReady)
		}
		s.asks[i] = nil
	}
	if d.fault.Load() != nil {
		d.stats.abandoned.Add(1)
		s.host, s.device, s.module, s.kernel = 0, 0, 0, kernels{}
		return nil
	}
	var first error
	if s.module != 0 {
		first = d.driverOp(OpModuleUnload, func(*frame) int32 { return call1(d.lib.fn[OpModuleUnload], s.module) })
	}
	if s.host != 0 {
		if err := d.freeBlock(s.host); first == nil {
			first = err
		}
	}
	s.host, s.device, s.module, s.kernel = 0, 0, 0, kernels{}
	return first
}
