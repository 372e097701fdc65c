package cfamily

import (
	"errors"
	"fmt"
	"sync"

	"example.com/devevents/events"
)

// CaptureBegin implements events.Graphs. The capture belongs to the calling OS
// thread, so the goroutine must be locked to it by the caller.
func (d Device[V]) CaptureBegin(stream Stream[V], mode events.CaptureMode) error {
	if mode < events.CaptureGlobal || mode > events.CaptureRelaxed {
		return fmt.Errorf("%w: %v (%d)", events.ErrInvalid, mode, mode)
	}
	return d.graphCall(OpCaptureBegin, stream, func(*frame) int32 {
		return call2(d.lib.fn[OpCaptureBegin], stream.handle, uintptr(mode))
	})
}

// CaptureEnd implements events.Graphs.
func (d Device[V]) CaptureEnd(stream Stream[V]) (events.Graph[Stream[V]], error) {
	g := &graph[V]{d: d}
	err := d.graphCall(OpCaptureEnd, stream, func(f *frame) int32 {
		f.word[1] = 0
		code := call2(d.lib.fn[OpCaptureEnd], stream.handle, f.wordAddr(1))
		g.graph = f.handle(1)
		return code
	})
	if err != nil {
		return nil, err
	}
	err = d.graphCall(OpGraphInstance, stream, func(f *frame) int32 {
		f.word[1] = 0
		code := call3(d.lib.fn[OpGraphInstance], f.wordAddr(1), g.graph, 0)
		g.exec = f.handle(1)
		return code
	})
	if err != nil {
		return nil, fmt.Errorf("instantiating the captured graph: %w", errors.Join(err, g.Close()))
	}
	return g, nil
}

// EventRecordExternal implements events.Graphs.
func (d Device[V]) EventRecordExternal(event Event[V], stream Stream[V]) error {
	if err := d.needs((*lib).graphable, OpEventRecordExt); err != nil {
		return err
	}
	e := event.life
	if e == nil || e.dev != d.dev || stream.dev != d.dev {
		return d.checkBoth(event, stream)
	}
	held := d.lib.hold(e, stream.life)
	err := d.recordable(OpEventRecordExt, e, stream.life)
	if err == nil {
		err = d.recorded(OpEventRecordExt, e, d.do3(OpEventRecordExt, e.handle, stream.handle, flagRecordExternal))
	}
	d.lib.release(held, e, stream.life)
	var refused *events.DriverError
	if errors.As(err, &refused) && refused.Code == codeIllegalState {
		return fmt.Errorf("%w: such a record belongs into a capture; is the stream being captured? Elsewhere use EventRecord", err)
	}
	return err
}

// graphCall is a runtime call on a stream.
func (d Device[V]) graphCall(op Op, stream Stream[V], call func(f *frame) int32) error {
	if err := d.needs((*lib).graphable, op); err != nil {
		return err
	}
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
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	return d.failed(op, d.on(op, needDevice, call))
}

// graph is captured work. Launches share the lock, so that Close cannot free
// what one of them is reading; they do not hold up each other.
type graph[V Vendor] struct {
	d      Device[V]
	mu     sync.RWMutex
	graph  uintptr
	exec   uintptr
	closed bool
}

// Launch implements events.Graph.
func (g *graph[V]) Launch(stream Stream[V]) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return fmt.Errorf("graph: %w", events.ErrClosed)
	}
	return g.d.graphCall(OpGraphLaunch, stream, func(*frame) int32 {
		return call2(g.d.lib.fn[OpGraphLaunch], g.exec, stream.handle)
	})
}

// Close implements events.Graph.
func (g *graph[V]) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	d := g.d.dev
	var first error
	for _, h := range []struct {
		op     Op
		handle uintptr
	}{{OpGraphExecFree, g.exec}, {OpGraphFree, g.graph}} {
		if h.handle == 0 {
			continue
		}
		if d.fault.Load() != nil {
			d.stats.abandoned.Add(1)
			continue
		}
		code := d.on(h.op, needDevice, func(*frame) int32 { return call1(d.lib.fn[h.op], h.handle) })
		if err := d.failed(h.op, code); err != nil && first == nil {
			first = err
		}
	}
	return first
}
