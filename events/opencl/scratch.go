package opencl

import (
	"fmt"
	"sync"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// scratch is what the Scratch ability keeps on a device. spin.go has what belongs
// to spins.
type scratch struct {
	mu      sync.Mutex // guards buffers
	buffers map[uintptr]*buffer
	spins   spins
}

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
// work queued on it is done. What is left is freed by Close.
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

// noBuffer says why there is no such buffer: Close takes them all.
func (d *dev) noBuffer(b events.Buffer) error {
	if err := d.refusal(); err != nil {
		return err
	}
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

// dispose gives back what is left when the device is closed.
func (s *scratch) dispose(d *dev, drop func(op string, release func() int32)) {
	s.mu.Lock()
	left := s.buffers
	s.buffers = nil
	s.mu.Unlock()
	for _, b := range left {
		if _, free := b.kill(); free {
			drop("clReleaseMemObject", func() int32 { return d.api.ReleaseMem(b.mem) })
		}
	}
	s.spins.dispose(d, drop)
}
