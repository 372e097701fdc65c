//go:build (amd64 || arm64) && !android && !faketime

package fakert

import (
	_ "embed"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"example.com/devevents/events/internal/dl"
)

//go:embed testdata/fake_runtime.c
var source []byte

//go:embed testdata/fake_nvml.c
var nvmlSource []byte

// outcome is what one set of compiler flags led to in this process.
type outcome struct {
	once sync.Once
	code []byte
	err  string
}

var outcomes sync.Map // joined flags to *outcome

// compiled runs the compiler once for each set of flags.
func compiled(tb testing.TB, b build) []byte {
	tb.Helper()
	cc := compiler()
	if cc == "" {
		missing(tb, "no C compiler: neither cc, gcc nor clang is in PATH")
	}
	flags, source := b.flags(), source
	if b.nvml {
		flags, source = append(flags, "-DFAKE_NVML"), nvmlSource
	}
	entry, _ := outcomes.LoadOrStore(strings.Join(flags, " "), new(outcome))
	o := entry.(*outcome)
	o.once.Do(func() {
		dir := tb.TempDir()
		in, out := filepath.Join(dir, "fake_runtime.c"), filepath.Join(dir, "fake_runtime.so")
		if err := os.WriteFile(in, source, 0o600); err != nil {
			o.err = err.Error()
			return
		}
		said, err := exec.Command(cc, append(flags, "-o", out, in)...).CombinedOutput()
		if err != nil {
			o.err = err.Error() + "\n" + string(said)
			return
		}
		if o.code, err = os.ReadFile(out); err != nil {
			o.err = err.Error()
		}
	})
	if o.err != "" {
		tb.Fatalf("fakert: %s %s: %s", cc, strings.Join(flags, " "), o.err)
	}
	return o.code
}

func compiler() string {
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Runtime is a loaded library, fake or real, for calls that go past the code
// under test.
type Runtime struct {
	tb  testing.TB
	lib *dl.Library
}

// Control loads the library at path. It is the same copy that the code under test
// gets from the same path.
func Control(tb testing.TB, path string) *Runtime {
	tb.Helper()
	lib, err := dl.OpenExact(path)
	if err != nil {
		tb.Fatalf("fakert: %v", err)
	}
	return &Runtime{tb: tb, lib: lib}
}

// Symbol is a function's address, 0 if the library lacks it.
func (r *Runtime) Symbol(name string) uintptr { return r.lib.Lookup(name) }

func (r *Runtime) must(name string) uintptr {
	r.tb.Helper()
	fn := r.Symbol(name)
	if fn == 0 {
		r.tb.Fatalf("fakert: %s has no %s", r.lib.Path(), name)
	}
	return fn
}

// Call calls a function on the calling thread and returns its code. What the
// arguments point to must not move: see Word and Text.
func (r *Runtime) Call(name string, args ...uintptr) int32 {
	r.tb.Helper()
	return int32(r.Raw(name, args...))
}

// Raw is Call with the whole result register.
func (r *Runtime) Raw(name string, args ...uintptr) uintptr {
	r.tb.Helper()
	result, _, _ := purego.SyscallN(r.must(name), args...)
	return result
}

// CallText is Raw for a function that returns a string.
func (r *Runtime) CallText(name string, args ...uintptr) string {
	r.tb.Helper()
	p := r.Raw(name, args...)
	if p == 0 {
		return ""
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	n := 0
	for *(*byte)(unsafe.Add(base, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(base), n))
}

// withKey passes a key to a control function.
func (r *Runtime) withKey(name, key string, more ...uintptr) int64 {
	r.tb.Helper()
	text := Text(key)
	result := r.Raw(name, append([]uintptr{text.Addr()}, more...)...)
	runtime.KeepAlive(text)
	return int64(result)
}

// Set gives a key a value.
func (r *Runtime) Set(key string, value int64) {
	r.tb.Helper()
	if int32(r.withKey("fake_set", key, uintptr(value))) != 0 {
		r.tb.Fatalf("fakert: key %q with value %d: no such key, or no such value", key, value)
	}
}

// SetFloat gives a key the bits of a float.
func (r *Runtime) SetFloat(key string, value float32) {
	r.tb.Helper()
	r.Set(key, int64(math.Float32bits(value)))
}

// Get is a key's value.
func (r *Runtime) Get(key string) int64 {
	r.tb.Helper()
	value := r.withKey("fake_get", key)
	if value == -math.MaxInt64 {
		r.tb.Fatalf("fakert: no such key: %q", key)
	}
	return value
}

// Work queues work of ns nanoseconds on a stream.
func (r *Runtime) Work(stream uintptr, ns int64) int32 {
	r.tb.Helper()
	return r.Call("fake_work", stream, uintptr(ns))
}

// Hold queues something on a stream that is over when Release is called.
func (r *Runtime) Hold(stream uintptr) int32 {
	r.tb.Helper()
	return r.Call("fake_hold", stream)
}

// Release ends every Hold of a stream.
func (r *Runtime) Release(stream uintptr) int32 {
	r.tb.Helper()
	return r.Call("fake_release", stream)
}

// Echo sends a pointer through C and back.
func (r *Runtime) Echo(p uintptr) uintptr {
	r.tb.Helper()
	return r.Raw("fake_echo", p)
}
