//go:build (amd64 || arm64) && !android && !faketime

package dl

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

const (
	supported     = true
	loaderPathVar = "LD_LIBRARY_PATH"

	rtldNoLoad = 0x4 // only what is loaded already; glibc and musl agree
	// rtldDefault is the handle that means "anything in this program".
	rtldDefault = uintptr(purego.RTLD_DEFAULT)
	// dlinfoLinkMap asks dlinfo for a library's link map.
	dlinfoLinkMap = 2
)

var errNoReason = errors.New("nothing: it failed without a reason")

// sysOpen loads a library, or with resident finds one that is loaded. RTLD_NOW,
// so that a missing function shows here and not in the middle of a call;
// RTLD_LOCAL, so that two versions do not get hold of each other's functions.
//
// The loader keeps the text of its last error per OS thread and purego fetches
// it in a second call; between the two, an unlocked goroutine moves to a thread
// with somebody else's text or none.
func sysOpen(name string, resident bool) (uintptr, error) {
	mode := purego.RTLD_NOW | purego.RTLD_LOCAL
	if resident {
		mode |= rtldNoLoad
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(name, mode)
	if err != nil && err.Error() == "" {
		err = errNoReason
	}
	return handle, err
}

func sysLookup(handle uintptr, name string) uintptr {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// linkMap is the public head of the loader's record of a library (link.h).
type linkMap struct {
	_       uintptr // where it lies
	name    *byte
	dynamic uintptr
}

// sysPath is the file that a handle was loaded from: the file mapped where the
// library's dynamic section lies, else what the loader calls it, else asked.
func sysPath(handle uintptr, asked string) string {
	dlinfo := sysLookup(rtldDefault, "dlinfo")
	if dlinfo == 0 {
		return asked
	}
	// On the heap: a call into C may move this goroutine's stack.
	out := new(struct{ m *linkMap })
	r, _, _ := purego.SyscallN(dlinfo, handle, dlinfoLinkMap, uintptr(unsafe.Pointer(out)))
	runtime.KeepAlive(out)
	if int32(r) != 0 || out.m == nil {
		return asked
	}
	for _, m := range mappings() {
		if m.start <= out.m.dynamic && out.m.dynamic < m.end && m.path != "" {
			return m.path
		}
	}
	if name := cString(out.m.name); name != "" {
		return realPath(name)
	}
	return asked
}

// cString copies a string of C's, which the loader keeps for as long as the library.
func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// mapping is a line of /proc/self/maps that is backed by a file.
type mapping struct {
	start, end uintptr
	code       bool
	path       string
}

func mappings() []mapping {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var all []mapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if m, ok := parseMapping(lines.Text()); ok {
			all = append(all, m)
		}
	}
	return all
}

// parseMapping reads a line such as
//
//	7f25a2f5d000-7f25a2f83000 r-xp 00000000 fd:00 1234     /usr/lib/libc.so.6
func parseMapping(line string) (mapping, bool) {
	rest := line
	var fields [5]string
	for i := range fields {
		fields[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	path := strings.TrimSuffix(strings.TrimLeft(rest, " "), " (deleted)")
	from, to, _ := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil || !filepath.IsAbs(path) {
		return mapping{}, false
	}
	return mapping{uintptr(start), uintptr(end), strings.Contains(fields[1], "x"), path}, true
}

// mapped lists the files mapped as code whose base name is wanted, newest version
// first.
func mapped(wanted func(base string) bool) []string {
	var paths []string
	for _, m := range mappings() {
		if m.code && wanted(filepath.Base(m.path)) {
			paths = append(paths, m.path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return naturalCompare(filepath.Base(b), filepath.Base(a)) })
	return slices.Compact(paths)
}
