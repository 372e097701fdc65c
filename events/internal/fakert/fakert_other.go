//go:build !linux || !(amd64 || arm64) || android || faketime

package fakert

import (
	"runtime"
	"testing"
)

func compiled(tb testing.TB, _ build) []byte {
	tb.Helper()
	missing(tb, "the fake runtime is built on linux/amd64 and linux/arm64 only, not on "+runtime.GOOS+"/"+runtime.GOARCH)
	return nil
}

// Runtime is a loaded library; there is none on this platform.
type Runtime struct{}

// Control skips the test.
func Control(tb testing.TB, _ string) *Runtime {
	tb.Helper()
	compiled(tb, build{})
	return nil
}

// Symbol is a function's address.
func (r *Runtime) Symbol(string) uintptr { return 0 }

// Call calls a function.
func (r *Runtime) Call(string, ...uintptr) int32 { return 0 }

// Raw is Call with the whole result register.
func (r *Runtime) Raw(string, ...uintptr) uintptr { return 0 }

// CallText is Raw for a function that returns a string.
func (r *Runtime) CallText(string, ...uintptr) string { return "" }

// Set gives a key a value.
func (r *Runtime) Set(string, int64) {}

// SetFloat gives a key the bits of a float.
func (r *Runtime) SetFloat(string, float32) {}

// Get is a key's value.
func (r *Runtime) Get(string) int64 { return 0 }

// Work queues work of ns nanoseconds on a stream.
func (r *Runtime) Work(uintptr, int64) int32 { return 0 }

// Hold queues something on a stream that is over when Release is called.
func (r *Runtime) Hold(uintptr) int32 { return 0 }

// Release ends every Hold of a stream.
func (r *Runtime) Release(uintptr) int32 { return 0 }

// Echo sends a pointer through C and back.
func (r *Runtime) Echo(uintptr) uintptr { return 0 }
