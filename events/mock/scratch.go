package mock

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

const (
	maxSpin         = 10 * time.Second
	nsPerByte       = 1e3 / 4_580_000 // read or written; measured on one server GPU
	bufferAlignment = 512
)

// ScratchAlloc implements events.Scratch.
func (d *Device) ScratchAlloc(bytes int64) (events.Buffer, error) {
	c := d.begin(OpScratchAlloc)
	b, err := d.alloc(&c, bytes)
	return b, d.end(&c, err)
}

func (d *Device) alloc(c *call, bytes int64) (events.Buffer, error) {
	if err := d.need(FeatureScratch, c.op); err != nil {
		return events.Buffer{}, err
	}
	if bytes <= 0 {
		return events.Buffer{}, fmt.Errorf("mock: %v: %d bytes: %w", c.op, bytes, events.ErrInvalid)
	}
	if err := d.reach(c); err != nil {
		return events.Buffer{}, err
	}
	if bytes > d.cfg.memory-d.used {
		return events.Buffer{}, refusal(c.op, CodeOutOfMemory)
	}
	d.lastPtr += bufferAlignment
	b := events.Buffer{Address: d.lastPtr, Bytes: bytes}
	d.lastPtr += uintptr((bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment)
	d.buffers[b.Address] = bytes
	d.used += bytes
	return b, nil
}

// ScratchFree implements events.Scratch.
func (d *Device) ScratchFree(b events.Buffer) error {
	c := d.begin(OpScratchFree)
	return d.end(&c, d.free(&c, b))
}

func (d *Device) free(c *call, b events.Buffer) error {
	if err := d.need(FeatureScratch, c.op); err != nil {
		return err
	}
	if err := d.holds(c.op, b, b.Bytes); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	d.used -= d.buffers[b.Address]
	d.cache.forget(b.Address)
	delete(d.buffers, b.Address)
	return nil
}

// holds refuses what is not a buffer of this device, or is shorter than bytes.
func (d *Device) holds(op Op, b events.Buffer, bytes int64) error {
	size, ok := d.buffers[b.Address]
	switch {
	case !ok:
		return fmt.Errorf("mock: %v: device %d has no buffer at %#x: %w", op, d.ordinal, b.Address, events.ErrInvalid)
	case bytes <= 0 || bytes > size:
		return fmt.Errorf("mock: %v: %d bytes of a buffer of %d: %w", op, bytes, size, events.ErrInvalid)
	}
	return nil
}

// ScratchMemset implements events.Scratch. Memory has no contents.
func (d *Device) ScratchMemset(b events.Buffer, _ byte, bytes int64, s Stream) error {
	c := d.begin(OpScratchMemset)
	c.stream = s.ID()
	return d.end(&c, d.move(&c, FeatureScratch, s, bytes, access{b.Address, bytes, true}))
}

// ScratchCopy implements events.Scratch.
func (d *Device) ScratchCopy(dst, src events.Buffer, bytes int64, s Stream) error {
	c := d.begin(OpScratchCopy)
	c.stream = s.ID()
	return d.end(&c, d.move(&c, FeatureScratch, s, bytes, access{src.Address, bytes, false}, access{dst.Address, bytes, true}))
}

func (d *Device) move(c *call, f Feature, s Stream, bytes int64, moves ...access) error {
	if err := d.need(f, c.op); err != nil {
		return err
	}
	for _, m := range moves {
		if err := d.holds(c.op, events.Buffer{Address: m.buffer}, bytes); err != nil {
			return err
		}
	}
	o := op{kind: opWork, dur: d.cfg.memoryLatency, moves: moves}
	if d.cache == nil {
		o.moves, o.dur = nil, o.dur+int64(float64(len(moves))*float64(bytes)*nsPerByte)
	}
	return d.submit(c, s, o)
}

// ScratchSpin implements events.Scratch.
func (d *Device) ScratchSpin(span time.Duration, s Stream) (events.Spin, error) {
	c := d.begin(OpScratchSpin)
	c.stream = s.ID()
	sp, err := d.spinOn(&c, span, s)
	if err != nil {
		return nil, d.end(&c, err)
	}
	return sp, d.end(&c, nil)
}

func (d *Device) spinOn(c *call, span time.Duration, s Stream) (*spin, error) {
	if err := d.need(FeatureScratch, c.op); err != nil {
		return nil, err
	}
	if span <= 0 || span > maxSpin {
		return nil, fmt.Errorf("mock: %v: %v is not above 0 and at most %v: %w", c.op, span, maxSpin, events.ErrInvalid)
	}
	// The device reads a timer that steps by ticks.
	ticks := (int64(span) + d.cfg.tick - 1) / d.cfg.tick
	sp := &spin{dev: d, span: time.Duration(ticks * d.cfg.tick)}
	return sp, d.submit(c, s, op{kind: opWork, dur: int64(sp.span), spin: sp})
}

type spin struct {
	dev  *Device
	span time.Duration

	known bool // at counts
	at    int64
}

// done notes when the host can first see that the work is over.
func (sp *spin) done(at int64) {
	if !sp.known {
		sp.known, sp.at = true, at
	}
}

// Measured implements events.Spin.
func (sp *spin) Measured() (time.Duration, error) {
	d := sp.dev
	c := d.begin(OpSpinMeasured)
	if err := d.reach(&c); err != nil {
		return 0, d.end(&c, err)
	}
	now := d.sys.now()
	d.sys.refresh(now)
	if !sp.known || sp.at > now {
		return 0, d.end(&c, fmt.Errorf("mock: %v: the work is still pending: %w (code %d)", c.op, events.ErrNotReady, CodeNotReady))
	}
	return sp.span, d.end(&c, nil)
}
