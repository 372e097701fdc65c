package cfamily

import (
	"sync/atomic"
	"unsafe"
)

// This file holds every unsafe conversion of the package, and call.go its only
// call into C.
//
// Arguments live on the caller's stack: SyscallN copies them through a slice
// that the Go runtime adjusts when the stack moves, so hiding them from escape
// analysis is safe and saves the allocation. Results that C writes through a
// pointer never live there: SyscallN may grow the stack and leave C writing to
// the old one. They live in a frame, which is on the heap.

// noescape hides p from escape analysis. p must stay a pointer into the current
// frame, kept as unsafe.Pointer so that the runtime adjusts it.
//
//go:nosplit
func noescape(p unsafe.Pointer) unsafe.Pointer {
	x := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&x))
}

// status is the only place that narrows a C return value: the callee defines
// the lower 32 bits of the register and may leave anything above them.
func status(r uintptr) int32 { return int32(r) }

func call0(fn uintptr) int32 {
	r := invoke(fn, nil)
	return status(r)
}

func call1(fn, a uintptr) int32 {
	args := [1]uintptr{a}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), 1))
	return status(r)
}

func call2(fn, a, b uintptr) int32 {
	args := [2]uintptr{a, b}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), 2))
	return status(r)
}

func call3(fn, a, b, c uintptr) int32 {
	args := [3]uintptr{a, b, c}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), 3))
	return status(r)
}

func call4(fn, a, b, c, d uintptr) int32 {
	args := [4]uintptr{a, b, c, d}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), 4))
	return status(r)
}

// grid is how many threads run a kernel.
type grid struct{ blocks, threads uintptr }

var oneThread = grid{1, 1}

// callLaunch is cuLaunchKernel, without shared memory.
func callLaunch(fn, kernel, stream uintptr, size grid, params *launchParams) int32 {
	args := [11]uintptr{kernel, size.blocks, 1, 1, size.threads, 1, 1, 0, stream, params.pointers(), 0}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), len(args)))
	return status(r)
}

// frame is memory that C may write to or follow pointers into during one call: on
// the heap, so it does not move, and back in its pool after the call, so it stays
// alive until then.
type frame struct {
	word   [2]uint64
	text   [256]byte
	launch launchParams
}

func (f *frame) wordAddr(i int) uintptr { return uintptr(unsafe.Pointer(&f.word[i])) }
func (f *frame) textAddr() uintptr      { return uintptr(unsafe.Pointer(&f.text)) }

func (f *frame) handle(i int) uintptr { return uintptr(f.word[i]) }
func (f *frame) int32(i int) int32    { return *(*int32)(unsafe.Pointer(&f.word[i])) }

func (f *frame) setInt32(i int, v int32) {
	f.word[i] = 0
	*(*int32)(unsafe.Pointer(&f.word[i])) = v
}

func (f *frame) setFloat(v float32) { *(*float32)(unsafe.Pointer(&f.word[0])) = v }
func (f *frame) float() float32     { return *(*float32)(unsafe.Pointer(&f.word[0])) }

func (s *slot) outAddr() uintptr   { return uintptr(unsafe.Pointer(&s.out)) }
func (s *slot) outInt32() int32    { return *(*int32)(unsafe.Pointer(&s.out)) }
func (s *slot) outFloat() float32  { return *(*float32)(unsafe.Pointer(&s.out)) }
func (s *slot) setFloat(v float32) { *(*float32)(unsafe.Pointer(&s.out)) = v }
func (s *slot) setInt32(v int32)   { s.out = 0; *(*int32)(unsafe.Pointer(&s.out)) = v }

// stackShard spreads goroutines over the slots: stacks are at least 2 KiB
// apart, so a goroutine keeps its slot while its stack stays where it is.
func stackShard() uint32 {
	var here byte
	return uint32((uint64(uintptr(noescape(unsafe.Pointer(&here)))) >> 11) * 0x9e3779b97f4a7c15 >> 32)
}

// launchParams is the argument list of a kernel, of which each has two arguments at most. It
// is part of a frame: C follows the pointers in it, which nothing adjusts when a stack moves.
type launchParams struct {
	ptr           [2]uintptr
	first, second uint64
}

func (p *launchParams) pointers() uintptr {
	p.ptr[0] = uintptr(unsafe.Pointer(&p.first))
	p.ptr[1] = uintptr(unsafe.Pointer(&p.second))
	return uintptr(unsafe.Pointer(&p.ptr))
}

// cText copies a NUL-terminated string of C's, at most limit bytes of it.
func cText(p uintptr, limit int) string {
	if p == 0 {
		return ""
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	n := 0
	for n < limit && *(*byte)(unsafe.Add(base, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(base), n))
}

// callText is for functions that return a string.
func callText(fn, a uintptr) string {
	args := [1]uintptr{a}
	r := invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(&args))), 1))
	return cText(r, 256)
}

// setText puts a string of C's into the frame, as much of it as fits.
func (f *frame) setText(s string) {
	f.text[copy(f.text[:len(f.text)-1], s)] = 0
}

// heapText is a string of C's that is too long for a frame. It is not inlined, so
// that what it returns cannot be on a stack. Keep it alive until C is done with it.
//
//go:noinline
func heapText(s string) []byte { return append([]byte(s), 0) }

func bytesAddr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// hostWord64 and hostWord32 reach into pinned memory of the driver's that the
// device writes to or reads from while we look.
func hostWord64(base uintptr, index int) *atomic.Uint64 {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&base))
	return (*atomic.Uint64)(unsafe.Add(p, index*8))
}

func hostWord32(base uintptr, index int) *atomic.Uint32 {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&base))
	return (*atomic.Uint32)(unsafe.Add(p, index*4))
}
