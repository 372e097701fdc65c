//go:build (linux || windows) && (amd64 || arm64)

package nvml

import "github.com/ebitengine/purego"

// invoke is the only call into C.
func invoke(fn uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
