package fakert

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Option chooses what Build makes.
type Option func(*build)

type build struct {
	name    string
	nvml    bool
	defines map[string]string
}

func options(opts []Option) build {
	b := build{defines: map[string]string{}}
	for _, o := range opts {
		o(&b)
	}
	switch {
	case b.name != "":
	case b.nvml:
		b.name = "fake-nvidia-ml.so"
	default:
		b.name = "libcudart.so.13"
	}
	return b
}

// Name is the library's file name; libcudart.so.13 unless a vendor option says
// otherwise.
func Name(file string) Option { return func(b *build) { b.name = file } }

// Omit leaves symbols out, each given by its whole name ("cudaEventQuery").
func Omit(symbols ...string) Option {
	return func(b *build) {
		for _, s := range symbols {
			b.defines["OMIT_"+s] = "1"
		}
	}
}

// Vendor names the functions after a vendor: "cuda" is the default with both the
// runtime's and the driver's functions, "hip" has HIP's, and any other prefix the
// functions of CUDA's runtime under that prefix.
func Vendor(prefix string) Option {
	return func(b *build) {
		file := "lib" + prefix + "rt.so"
		switch prefix {
		case "cuda":
			return
		case "hip":
			file = "libamdhip64.so.6"
			b.defines["FAKE_HIP"] = "1"
		default:
			b.defines["VENDOR_PREFIX"] = prefix
		}
		if b.name == "" {
			b.name = file
		}
	}
}

// NVML builds an imitation of NVIDIA's management library instead of a runtime. Its keys are
// in doc.go.
func NVML() Option { return func(b *build) { b.nvml = true } }

// RuntimeOnly leaves the driver's functions (cu*) out.
func RuntimeOnly() Option { return func(b *build) { b.defines["FAKE_NO_DRIVER"] = "1" } }

// DriverOnly leaves the runtime's functions (cuda*) out; the file is libcuda.so.1
// unless Name came before.
func DriverOnly() Option {
	return func(b *build) {
		b.defines["FAKE_NO_RUNTIME"] = "1"
		if b.name == "" {
			b.name = "libcuda.so.1"
		}
	}
}

// ElapsedV2 adds cudaEventElapsedTime_v2 and cuEventElapsedTime_v2, whose answers
// are 7 seconds longer, so that whoever calls them is found out.
func ElapsedV2() Option { return func(b *build) { b.defines["FAKE_ELAPSED_V2"] = "1" } }

// flags are the compiler's, in a fixed order: they also are the key under which
// the result is kept.
func (b build) flags() []string {
	// Optimising is most of the compiler's time. What lacks a symbol is looked at, not used.
	level := "-O1"
	for name := range b.defines {
		if strings.HasPrefix(name, "OMIT_") {
			level = "-O0"
		}
	}
	flags := []string{"-shared", "-fPIC", level, "-pthread", "-fvisibility=hidden"}
	for _, name := range slices.Sorted(maps.Keys(b.defines)) {
		flags = append(flags, "-D"+name+"="+b.defines[name])
	}
	return flags
}

// missing skips the test, or fails it where a compiler is required.
func missing(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("DEVEVENTS_REQUIRE_CC") == "1" || os.Getenv("CI") == "true" {
		tb.Fatalf("fakert: %s, and CI=true or DEVEVENTS_REQUIRE_CC=1 makes it required", reason)
	}
	tb.Skipf("fakert: %s", reason)
}

// Build makes a library with a state of its own in the test's temporary folder,
// and returns its path. Without a C compiler the test is skipped, or fails with
// CI=true or DEVEVENTS_REQUIRE_CC=1.
func Build(tb testing.TB, opts ...Option) string {
	tb.Helper()
	b := options(opts)
	code := compiled(tb, b)
	path := filepath.Join(tb.TempDir(), b.name)
	if strings.ContainsRune(b.name, filepath.Separator) {
		tb.Fatalf("fakert: %q is not a file name", b.name)
	}
	if err := os.WriteFile(path, code, 0o755); err != nil {
		tb.Fatalf("fakert: %v", err)
	}
	return path
}
