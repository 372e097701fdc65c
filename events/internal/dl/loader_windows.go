package dl

import (
	"syscall"
	"unsafe"
)

const (
	supported     = true
	loaderPathVar = "PATH"

	// A library given by its path finds its neighbours beside it.
	withAlteredSearchPath = 0x8
	// A bare name is looked for beside the program and in System32. PATH is
	// searched by path; the current directory, where anybody may put a file, is not.
	searchApplicationDir = 0x200
	searchSystem32       = 0x800

	maxPath = 32768
)

var (
	kernel32          = syscall.NewLazyDLL("kernel32.dll")
	loadLibraryEx     = kernel32.NewProc("LoadLibraryExW")
	getModuleHandleEx = kernel32.NewProc("GetModuleHandleExW")
	getModuleFileName = kernel32.NewProc("GetModuleFileNameW")
)

// sysOpen loads a library, or with resident finds one that is loaded and keeps
// it so.
func sysOpen(name string, resident bool) (uintptr, error) {
	wide, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	if resident {
		handle := new(uintptr)
		ok, _, err := getModuleHandleEx.Call(0, uintptr(unsafe.Pointer(wide)), uintptr(unsafe.Pointer(handle)))
		if ok == 0 {
			return 0, err
		}
		return *handle, nil
	}
	flags := uintptr(withAlteredSearchPath)
	if isBare(name) {
		flags = searchApplicationDir | searchSystem32
	}
	handle, _, err := loadLibraryEx.Call(uintptr(unsafe.Pointer(wide)), 0, flags)
	if handle == 0 {
		return 0, err
	}
	return handle, nil
}

func sysLookup(handle uintptr, name string) uintptr {
	address, err := syscall.GetProcAddress(syscall.Handle(handle), name)
	if err != nil {
		return 0
	}
	return address
}

func sysPath(handle uintptr, asked string) string {
	buffer := make([]uint16, maxPath)
	n, _, _ := getModuleFileName.Call(handle, uintptr(unsafe.Pointer(&buffer[0])), maxPath)
	if n == 0 || n >= maxPath {
		return asked
	}
	return syscall.UTF16ToString(buffer[:n])
}

// mapped is empty: what is loaded is found by name here.
func mapped(func(base string) bool) []string { return nil }
