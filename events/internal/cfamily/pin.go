package cfamily

import (
	"runtime"

	"example.com/devevents/events"
)

// need says what a call depends on of what belongs to the OS thread.
type need uint8

const (
	// needDevice: with more than one device visible, the call runs with ours
	// current. The host program's own choice is restored afterwards.
	needDevice need = 1 << iota
	// needContext: the same with one device visible, for the driver library's
	// functions, which take the device from the thread's current context.
	needContext
	// needRelaxed: the call would kill a graph capture in progress in the
	// process if it came from a thread in the default mode.
	needRelaxed
)

// thread is what a call found on its OS thread and has to put back. Between
// enter and leave the goroutine is locked to the thread.
type thread struct {
	previous uintptr // context, or device ordinal where the vendor has no contexts
	mode     int32
	switched bool
	relaxed  bool
}

// enter prepares the thread. Whatever it returns, leave must follow.
//
// The device is switched through contexts and never by cudaSetDevice: since
// CUDA 12 that opens a context on whatever device it is given, so restoring
// the caller's device would initialise one that nobody asked for. Where the
// vendor has no contexts (HIP), setting the device has no such effect.
func (d *dev) enter(need need, f *frame) (t thread, code int32) {
	runtime.LockOSThread()
	l := d.lib
	if need&needContext != 0 || need&needDevice != 0 && l.pin {
		if code = d.makeCurrent(&t, f); code != codeSuccess {
			return t, code
		}
	}
	if need&needRelaxed != 0 && l.has1(OpExchangeMode) {
		f.setInt32(0, captureRelaxed)
		if call1(l.fn[OpExchangeMode], f.wordAddr(0)) == codeSuccess {
			t.mode, t.relaxed = f.int32(0), true
		}
	}
	return t, codeSuccess
}

func (d *dev) makeCurrent(t *thread, f *frame) int32 {
	l := d.lib
	get, set, ours := OpGetDevice, l.switcher(), uintptr(d.ordinal)
	if set == OpContextSet {
		ctx, code := d.context()
		if code != codeSuccess {
			return code
		}
		get, ours = OpContextGet, ctx
	}
	f.word[0] = 0
	if code := call1(l.fn[get], f.wordAddr(0)); code != codeSuccess {
		return code
	}
	if t.previous = f.handle(0); t.previous == ours {
		return codeSuccess
	}
	if code := call1(l.fn[set], ours); code != codeSuccess {
		return code
	}
	t.switched = true
	return codeSuccess
}

// leave puts the thread back as enter found it.
func (d *dev) leave(t thread, f *frame, code int32) {
	l := d.lib
	l.clearLast(code)
	if t.relaxed {
		f.setInt32(0, t.mode)
		call1(l.fn[OpExchangeMode], f.wordAddr(0))
	}
	if t.switched {
		call1(l.fn[l.switcher()], t.previous)
	}
	runtime.UnlockOSThread()
}

// context retains the device's primary context, which initialises the device:
// only a call for this device gets here. A refusal is not kept: memory that is
// short now may be there later.
func (d *dev) context() (uintptr, int32) {
	if ctx := d.ctx.Load(); ctx != 0 {
		return ctx, codeSuccess
	}
	d.ctxMu.Lock()
	defer d.ctxMu.Unlock()
	if ctx := d.ctx.Load(); ctx != 0 {
		return ctx, codeSuccess
	}
	f := d.lib.frame()
	defer d.lib.drop(f)
	f.word[1] = 0
	code := call2(d.lib.fn[OpPrimaryRetain], f.wordAddr(1), uintptr(d.ordinal))
	if code == codeSuccess {
		d.ctx.Store(f.handle(1))
	}
	return f.handle(1), code
}

// A round carries a thread in the seam's own words.
func (t thread) round() events.Round {
	r := events.Round{Saved: uint64(t.previous), Saved2: uint64(uint32(t.mode)), Open: true}
	if t.switched {
		r.Saved2 |= 1 << 32
	}
	if t.relaxed {
		r.Saved2 |= 1 << 33
	}
	return r
}

func threadOf(r events.Round) thread {
	return thread{
		previous: uintptr(r.Saved),
		mode:     int32(uint32(r.Saved2)),
		switched: r.Saved2&(1<<32) != 0,
		relaxed:  r.Saved2&(1<<33) != 0,
	}
}
