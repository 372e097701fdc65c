package fakert

import "unsafe"

// Memory is a piece of the Go heap that C may read and write. It stays where it
// is; keep it alive until C is done with it.
type Memory []byte

// Bytes is n zero bytes.
func Bytes(n int) Memory { return memory(max(n, 8)) }

// Text is a string as C has it.
func Text(s string) Memory {
	m := memory(len(s) + 1)
	copy(m, s)
	return m
}

// memory is not inlined, so what it returns cannot be on a stack, which moves.
//
//go:noinline
func memory(n int) Memory {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// Addr is where it is.
func (m Memory) Addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

// Int32 is the i-th int32 of it.
func (m Memory) Int32(i int) int32 { return at[int32](m, i) }

// Uint64 is the i-th uint64 of it.
func (m Memory) Uint64(i int) uint64 { return at[uint64](m, i) }

// Float32 is the i-th float of it.
func (m Memory) Float32(i int) float32 { return at[float32](m, i) }

// Handle is the i-th pointer of it.
func (m Memory) Handle(i int) uintptr { return at[uintptr](m, i) }

// String is the text at its beginning.
func (m Memory) String() string {
	for i, b := range m {
		if b == 0 {
			return string(m[:i])
		}
	}
	return string(m)
}

func at[T int32 | uint64 | float32 | uintptr](m Memory, i int) T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	return *(*T)(unsafe.Pointer(&m[i*size : (i+1)*size][0]))
}
