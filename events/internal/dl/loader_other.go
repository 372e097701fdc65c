//go:build !windows && (!linux || android || faketime || !(amd64 || arm64))

package dl

import "errors"

// There is no runtime to load on this platform, and Open says so before it
// would come here.
const (
	supported     = false
	loaderPathVar = "LD_LIBRARY_PATH"
)

func sysOpen(string, bool) (uintptr, error)  { return 0, errors.ErrUnsupported }
func sysLookup(uintptr, string) uintptr      { return 0 }
func sysPath(_ uintptr, asked string) string { return asked }
func mapped(func(base string) bool) []string { return nil }
