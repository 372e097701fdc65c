package nvml

import "unsafe"

// This file holds every unsafe conversion of the package, and call.go its only call
// into C.

// call makes a call. The code is the lower half of the register; the callee may leave
// anything in the other.
func (l *library) call(f op, args ...uintptr) int32 { return int32(invoke(l.fn[f], args)) }

// frame is memory that C writes to during one call. It is part of a Device or of a
// search, both of which are on the heap for as long as they are used, so it does not move.
type frame struct {
	word [2]uint64
	text *byte
}

func (f *frame) clear() { *f = frame{} }

// lend gives C a string for the next call. Keeping it in the frame is also what forces it
// onto the heap.
func (f *frame) lend(s string) uintptr {
	f.text = unsafe.SliceData(append([]byte(s), 0))
	return uintptr(unsafe.Pointer(f.text))
}

func (f *frame) addr(i int) uintptr { return uintptr(unsafe.Pointer(&f.word[i])) }

func (f *frame) handle() uintptr { return uintptr(f.word[0]) }

// uint32 is what C wrote as an unsigned int to the first word.
func (f *frame) uint32() uint32 { return *(*uint32)(unsafe.Pointer(&f.word[0])) }
