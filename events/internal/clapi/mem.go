package clapi

import (
	"sync"
	"unsafe"
)

// This file holds every unsafe conversion of the package, and call.go its only
// call into C.
//
// Arguments live on the caller's stack: SyscallN copies them through a slice
// that the Go runtime adjusts when the stack moves, so hiding them from escape
// analysis is safe and saves the allocation. What C reads or writes through a
// pointer never lives there: SyscallN may grow the stack and leave C with the
// old one. It lives in a frame, which is on the heap.

// noescape hides p from escape analysis. p must stay a pointer into the current
// frame, kept as unsafe.Pointer so that the runtime adjusts it.
//
//go:nosplit
func noescape(p unsafe.Pointer) unsafe.Pointer {
	x := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&x))
}

func call(fn uintptr, args ...uintptr) uintptr {
	return invoke(fn, unsafe.Slice((*uintptr)(noescape(unsafe.Pointer(unsafe.SliceData(args)))), len(args)))
}

// code is the only place that narrows a C return value: the callee defines the
// lower 32 bits of the register and may leave anything above them.
func code(r uintptr) int32 { return int32(r) }

// frame is memory for C during one call: on the heap, so it does not move, and
// reached only through the frame until drop, so it stays alive.
type frame struct {
	word [6]uint64
	keep [2]unsafe.Pointer
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame() *frame {
	f := frames.Get().(*frame)
	f.word = [6]uint64{}
	return f
}

func (f *frame) drop() {
	f.keep = [2]unsafe.Pointer{}
	frames.Put(f)
}

func (f *frame) addr(i int) uintptr { return uintptr(unsafe.Pointer(&f.word[i])) }

func (f *frame) handle(i int) uintptr { return uintptr(f.word[i]) }

// int32 reads what C wrote as a cl_int to the word's address.
func (f *frame) int32(i int) int32 { return *(*int32)(unsafe.Pointer(&f.word[i])) }

// uint32 is int32 for a cl_uint.
func (f *frame) uint32(i int) uint32 { return *(*uint32)(unsafe.Pointer(&f.word[i])) }

func (f *frame) setByte(i int, v byte) { *(*byte)(unsafe.Pointer(&f.word[i])) = v }

// bytes lends C a slice for the call. Keeping its pointer in the frame is also
// what forces it onto the heap.
func (f *frame) bytes(b []byte) uintptr { return f.lend(0, unsafe.Pointer(unsafe.SliceData(b))) }

// handles is bytes for a list that C fills with handles.
func (f *frame) handles(h []uintptr) uintptr { return f.lend(0, unsafe.Pointer(unsafe.SliceData(h))) }

// words is bytes for a list that C fills with words.
func (f *frame) words(w []uint64) uintptr { return f.lend(0, unsafe.Pointer(unsafe.SliceData(w))) }

// events is bytes for a list of events, beside another slice.
func (f *frame) events(e []Event) uintptr { return f.lend(1, unsafe.Pointer(unsafe.SliceData(e))) }

func (f *frame) lend(i int, p unsafe.Pointer) uintptr {
	f.keep[i] = p
	return uintptr(p)
}
