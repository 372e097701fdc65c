package cfamily

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/dl"
)

// lib is a vendor's resolved functions.
type lib struct {
	table   *Table
	fn      [opCount]uintptr
	runtime *dl.Library
	driver  *dl.Library // nil where there is none
	version struct{ runtime, driver int }
	devices int
	frames  sync.Pool
	slots   slotTable
	limbo   limbo
	// pinning: the calls depend on which device is current, and more than one is visible.
	pin bool
	// lastError: the library keeps a last error per thread that we must not leave behind.
	lastError bool
	// quiet functions are the driver library's, which leave the last error alone.
	quiet [opCount]bool
}

func (l *lib) has(ops ...Op) bool {
	return !slices.ContainsFunc(ops, func(op Op) bool { return l.fn[op] == 0 })
}

// canSwitch: a device's context can be made current, or where there are no
// contexts, the device.
func (l *lib) canSwitch() bool {
	return l.has(OpContextGet, OpContextSet, OpPrimaryRetain) || l.has(OpGetDevice, OpSetDevice)
}

// switcher is the function that makes a device current on the calling thread.
func (l *lib) switcher() Op {
	if l.has1(OpContextSet) {
		return OpContextSet
	}
	return OpSetDevice
}

// What each ability needs, for Offers and for its methods alike.

func (l *lib) scratchable() bool { return l.canSwitch() && l.has(OpMalloc, OpFree, OpMemset, OpCopy) }

func (l *lib) spinnable() bool {
	return l.scratchable() && l.pinned() && l.table.SpinProgram != "" && l.has(OpModuleLoad, OpModuleFunction, OpLaunch)
}

func (l *lib) gateable() bool { return l.pinned() && l.has(OpWaitValue) }

// pinned: host memory that the device can reach.
func (l *lib) pinned() bool {
	return l.canSwitch() && l.has(OpHostAlloc, OpHostAddress, OpHostFree)
}

func (l *lib) graphable() bool {
	return l.has(OpCaptureBegin, OpCaptureEnd, OpGraphInstance, OpGraphLaunch, OpGraphExecFree, OpGraphFree, OpEventRecordExt)
}

func (l *lib) has1(op Op) bool { return l.fn[op] != 0 }

func (l *lib) frame() *frame { return l.frames.Get().(*frame) }
func (l *lib) drop(f *frame) { l.frames.Put(f) }

// lacking names those of the functions that were not found.
func (l *lib) lacking(ops ...Op) (names []string) {
	for _, op := range ops {
		if !l.has1(op) {
			names = append(names, cmp.Or(l.name(op), "one that the table does not name"))
		}
	}
	return names
}

func (l *lib) name(op Op) string { return l.table.Symbols[op].Name }

// Option changes how a vendor's Open looks for its library. A later option
// overrides an earlier one.
type Option interface{ apply(*options) }

type options struct {
	library, driver string
	driverAPI       *bool
}

// WithLibrary is the path of the runtime library, instead of searching for one.
// There is no fallback: if it cannot be used, Open fails.
type WithLibrary string

func (p WithLibrary) apply(o *options) { o.library = string(p) }

// WithDriver is the path of the driver library beneath the runtime, instead of
// searching for one. There is no fallback: if it cannot be used, Open fails.
type WithDriver string

func (p WithDriver) apply(o *options) { o.driver = string(p) }

// WithDriverAPI says whether the vendor's driver library is used in place of its
// runtime: true forces it, false forbids it, and without the option it is the
// fallback where no runtime can be loaded.
type WithDriverAPI bool

func (b WithDriverAPI) apply(o *options) { use := bool(b); o.driverAPI = &use }

// open finds and resolves a vendor's libraries, and asks for the number of
// devices. It initialises no device.
func open(t *Table, o options) (*lib, error) {
	l := &lib{table: t}
	l.frames.New = func() any { return new(frame) }
	if len(t.Driver.Names) > 0 {
		spec := t.Driver
		spec.Override = o.driver
		driver, err := dl.Open(spec)
		if err != nil && named(err) {
			return nil, err
		}
		if err == nil {
			l.driver = driver
			l.resolve(FromDriver, driver)
			// It may refuse; what it refuses with is asked through the count below.
			if l.has(OpInit) {
				call1(l.fn[OpInit], 0)
			}
			l.version.driver = l.askVersion(OpBelowVersion)
		}
	}

	spec := t.Library
	spec.Override = o.library
	if t.Prefer != nil {
		spec.Names = t.Prefer(spec.Names, l.version.driver)
	}
	spec.Accept = func(candidate *dl.Library) error {
		if refused := l.accept(candidate); refused != nil {
			return refused
		}
		return nil
	}
	found, err := dl.Open(spec)
	if err != nil {
		return nil, err
	}
	l.runtime = found
	l.pin = l.devices > 1 || t.AlwaysPin
	if l.pin && !l.canSwitch() {
		u := &events.UnavailableError{
			Backend: t.Backend, Cause: events.CauseSymbolMissing, Path: found.Path(), Version: l.version.runtime,
			Detail: fmt.Sprintf("%d devices are visible, and functions that switch between them are missing: %s",
				l.devices, strings.Join(l.lacking(OpGetDevice, OpSetDevice), ", ")),
			Advice: "make one device visible",
		}
		if t.Driver.Env != "" {
			u.Cause = events.CauseDriverMissing
			u.Detail = fmt.Sprintf("%d devices are visible, and the functions that switch between them are missing: the driver library was not found", l.devices)
			u.Advice = "name the driver library with " + t.Driver.Env + ", or make one device visible"
		}
		return nil, u
	}
	return l, nil
}

// named reports whether a library is missing that somebody asked for by its path.
// Going on without it would hide that.
func named(err error) bool {
	var u *events.UnavailableError
	return errors.As(err, &u) && u.Cause == events.CauseBadOverride
}

// accept resolves the runtime's symbols in one candidate and asks it for its
// devices. What it answers decides whether another candidate may do better.
func (l *lib) accept(candidate *dl.Library) *events.UnavailableError {
	missing := l.resolve(FromRuntime, candidate)
	l.lastError = l.has(OpLastErrorPeek, OpLastErrorClear)
	code := codeSuccess
	if l.table.Symbols[OpInit].From == FromRuntime && l.has1(OpInit) {
		code = call1(l.fn[OpInit], 0)
	}
	l.version.runtime = l.askVersion(OpRuntimeVersion)
	if l.version.driver == 0 {
		l.version.driver = l.askVersion(OpDriverVersion)
	}
	u := &events.UnavailableError{Backend: l.table.Backend, Path: candidate.Path(), Version: l.version.runtime}
	if len(missing) > 0 {
		u.Cause = events.CauseSymbolMissing
		u.Detail = fmt.Sprintf("%s (version %s) lacks %s", candidate.Path(), l.versionText(l.version.runtime), strings.Join(missing, ", "))
		u.Advice = "use a newer " + l.table.Label + " runtime, or name one with " + l.table.Library.Env
		return u
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := l.frame()
	defer l.drop(f)
	f.word[0] = 0
	if code == codeSuccess { // what the initialisation refuses with says more than a count after it
		code = call1(l.fn[OpDeviceCount], f.wordAddr(0))
		l.clearLast(code)
	}
	if code == codeSuccess && f.int32(0) > 0 {
		l.devices = int(f.int32(0))
		return nil
	}
	u.Code, u.CodeName = code, l.codeName(code)
	u.Cause, u.Detail, u.Advice = explainCount(l.table, code, l.versionText(l.version.driver))
	if u.Cause == events.CauseStubDriver {
		u.Detail += l.table.residentStub()
	}
	return u
}

// residentStub says where the stub lies that answers, if the process tells: whoever
// has to remove it knows of a library path, and not which folder of it is wrong.
func (t *Table) residentStub() string {
	for _, name := range t.Driver.Names {
		for _, file := range dl.MappedFiles(name) {
			if dl.IsStub(file) {
				return ": " + file
			}
		}
	}
	return ""
}

// explainCount says what an answer to "how many devices?" means, and no more
// than it means.
func explainCount(t *Table, code int32, driver string) (cause events.Cause, detail, advice string) {
	switch code {
	case codeSuccess, 100:
		return events.CauseNoDevice, "the library works and sees no device",
			"check that a device is present and that the visibility variables (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES) and the container do not hide it"
	case codeInsufficientDriver:
		return events.CauseDriverMissing, "the driver is missing or too old for this library (driver version " + driver + "; the code covers both)",
			"install a driver, or pass the host's driver into the container, or use an older " + t.Label + " runtime"
	case 34:
		return events.CauseStubDriver, "a link-time stub answers in the driver's place",
			"remove the toolkit's stubs folder from the library search path, so that the real driver is found"
	case 3, 802, 803, 804, 127, 304:
		return events.CauseSystemNotReady, "library and driver were found, but the system is not ready for use",
			"look at the driver's kernel log and services (fabric manager, persistence daemon), and that library and driver versions match"
	case 101:
		return events.CauseNoDevice, "the library answers as if no device could be used",
			"check that a device is present and visible to this process"
	}
	return events.CauseDriverError, "the library refuses to count its devices", "look the code up in the vendor's documentation"
}

func (l *lib) versionText(v int) string {
	if v == 0 {
		return "unknown"
	}
	return l.table.VersionText(v)
}

// resolve looks up all symbols that live in one library. It returns the
// required ones that are missing.
func (l *lib) resolve(from Source, in *dl.Library) (missing []string) {
	for op := range opCount {
		s, ok := l.table.Symbols[op]
		if !ok || s.From != from {
			continue
		}
		l.fn[op] = in.Lookup(s.Name)
		l.quiet[op] = from == FromDriver
		if l.fn[op] == 0 && s.Need == Required {
			missing = append(missing, s.Name)
		}
	}
	return missing
}

func (l *lib) askVersion(op Op) int {
	if !l.has(op) {
		return 0
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := l.frame()
	defer l.drop(f)
	f.word[0] = 0
	if code := call1(l.fn[op], f.wordAddr(0)); code != codeSuccess {
		l.clearLast(code)
		return 0
	}
	return int(f.int32(0))
}

// clearLast removes our own refusal from the thread's last error, so that an
// unrelated call of the host program does not fail with it. A sticky error
// stays, and so does anything that is not ours. The goroutine must be locked to
// the thread that the call ran on.
func (l *lib) clearLast(code int32) {
	if code == codeSuccess || code == codeNotReady || !l.lastError {
		return
	}
	if errors.Is(l.table.Kind(code), events.ErrDeviceFault) {
		return
	}
	if call0(l.fn[OpLastErrorPeek]) == code {
		call0(l.fn[OpLastErrorClear])
	}
}

func (l *lib) codeName(code int32) string {
	if name, ok := l.table.Codes[code]; ok {
		return name
	}
	// A library newer than our table may know it; an unknown code's text says nothing.
	if l.has(OpErrorName) {
		name := callText(l.fn[OpErrorName], uintptr(uint32(code)))
		if name != "" && !strings.Contains(strings.ToLower(name), "unknown") && !strings.Contains(name, "unrecognized") {
			return name
		}
	}
	return ""
}

// err turns a code into an error; success is nil.
func (l *lib) err(op Op, code int32) error {
	if code == codeSuccess {
		return nil
	}
	return &events.DriverError{
		Backend: l.table.Backend,
		Op:      l.name(op),
		Code:    code,
		Name:    l.codeName(code),
		Kind:    l.table.Kind(code),
	}
}
