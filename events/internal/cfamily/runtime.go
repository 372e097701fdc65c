package cfamily

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"example.com/devevents/events"
)

// Runtime is a vendor's library, loaded and asked for its devices. It is never
// unloaded: vendors' libraries crash when they are. One that no Open returned, nil
// included, has no devices.
type Runtime[V Vendor] struct {
	lib  *lib
	devs []*dev
}

// Info says what was loaded and what it sees.
type Info struct {
	Backend            string            `json:"backend"`
	API                string            `json:"api"`     // "runtime", or "driver" where that library is used directly
	Library            string            `json:"library"` // the file that is mapped
	RuntimeVersion     int               `json:"runtime_version"`
	RuntimeVersionText string            `json:"runtime_version_text"`
	Driver             string            `json:"driver,omitempty"` // the driver library beneath it
	DriverVersion      int               `json:"driver_version"`
	DriverVersionText  string            `json:"driver_version_text"`
	Devices            []events.Identity `json:"devices"`
	// Origin says in a few words how the library was found, and Skipped what was tried
	// before it and why that was refused.
	Origin  string             `json:"origin,omitempty"`
	Skipped []events.Candidate `json:"skipped,omitempty"`
}

// errNotOpened answers for a Runtime that is not Open's.
var errNotOpened = fmt.Errorf("%w: this Runtime was not opened; get one from Open, and look at its error", events.ErrUnavailable)

// Open loads a vendor's library and lists its devices. It initialises none of
// them. The error is an *events.UnavailableError, or ErrInvalid for a nil option. byDriver is nil where the vendor
// has no second library to speak to.
func Open[V Vendor](byRuntime, byDriver *Table, opts []Option) (*Runtime[V], error) {
	var o options
	for i, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("%s: %w: option %d is nil", byRuntime.Backend, events.ErrInvalid, i)
		}
		option.apply(&o)
	}
	l, err := choose(byRuntime, byDriver, o)
	if err != nil {
		return nil, err
	}
	r := &Runtime[V]{lib: l, devs: make([]*dev, l.devices)}
	for i := range r.devs {
		r.devs[i] = &dev{lib: l, ordinal: i, identity: l.identify(i)}
	}
	return r, nil
}

// choose opens the runtime, or the driver library where there is no runtime or
// the caller wants it so.
func choose(byRuntime, byDriver *Table, o options) (*lib, error) {
	asked := o.driverAPI != nil
	if byDriver == nil {
		if asked && *o.driverAPI {
			return nil, fmt.Errorf("%s: %w: there is no driver library to use in place of the runtime", byRuntime.Backend, events.ErrUnsupported)
		}
		return open(byRuntime, o)
	}
	direct := options{library: o.driver}
	if asked && *o.driverAPI {
		return open(byDriver, direct)
	}
	l, err := open(byRuntime, o)
	if err == nil || asked || o.library != "" || os.Getenv(byRuntime.Library.Env) != "" || !replaceable(err) {
		return l, err
	}
	fallback, driverErr := open(byDriver, direct)
	if driverErr == nil {
		return fallback, nil
	}
	return nil, bothFailed(err, driverErr)
}

// replaceable reports whether a runtime is missing, rather than one that works
// and has nothing to work on: the driver would say the same.
func replaceable(err error) bool {
	var u *events.UnavailableError
	return errors.As(err, &u) && (u.Cause == events.CauseLibraryMissing || u.Cause == events.CauseSymbolMissing)
}

// bothFailed gives the driver's answer where it was there to answer, and what was
// tried for both.
func bothFailed(runtimeErr, driverErr error) error {
	var r, d *events.UnavailableError
	if !errors.As(runtimeErr, &r) || !errors.As(driverErr, &d) {
		return errors.Join(runtimeErr, driverErr)
	}
	told := *r
	if d.Cause != events.CauseLibraryMissing {
		told = *d
	}
	told.Candidates = slices.Concat(r.Candidates, d.Candidates)
	told.Near = slices.Concat(r.Near, d.Near)
	return &told
}

// Info says what was loaded and what it sees.
func (r *Runtime[V]) Info() Info {
	if r == nil || r.lib == nil {
		var vendor V
		return Info{Backend: vendor.VendorName()}
	}
	l := r.lib
	info := Info{
		Backend:            l.table.Backend,
		API:                l.table.API,
		Library:            l.runtime.Path(),
		RuntimeVersion:     l.version.runtime,
		RuntimeVersionText: l.versionText(l.version.runtime),
		DriverVersion:      l.version.driver,
		DriverVersionText:  l.versionText(l.version.driver),
		Origin:             l.runtime.Origin(),
		Skipped:            slices.Clone(l.runtime.Skipped()),
	}
	if l.driver != nil {
		info.Driver = l.driver.Path()
	}
	for _, d := range r.devs {
		info.Devices = append(info.Devices, d.identity)
	}
	return info
}

// DeviceCount is the number of visible devices, at least 1.
func (r *Runtime[V]) DeviceCount() int {
	if r == nil {
		return 0
	}
	return len(r.devs)
}

// Device is the i-th visible device. Asking twice gives the same device; the
// first call that needs it initialises it.
func (r *Runtime[V]) Device(i int) (Device[V], error) {
	if r == nil || r.lib == nil {
		return Device[V]{}, errNotOpened
	}
	if i < 0 || i >= len(r.devs) {
		return Device[V]{}, fmt.Errorf("%s: %w: device %d of %d (counted from 0)", r.lib.table.Backend, events.ErrInvalid, i, len(r.devs))
	}
	return Device[V]{r.devs[i]}, nil
}

// identify asks for a device's names through calls that do not initialise it.
func (l *lib) identify(ordinal int) events.Identity {
	id := events.Identity{Kind: events.KindGPU, Ordinal: ordinal, Vendor: l.table.Vendor}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := l.frame()
	defer l.drop(f)
	text := func(op Op) string {
		if !l.has1(op) {
			return ""
		}
		clear(f.text[:])
		code := call3(l.fn[op], f.textAddr(), uintptr(len(f.text)-1), uintptr(ordinal))
		l.clearLast(code)
		if code != codeSuccess {
			return ""
		}
		end := max(slices.Index(f.text[:], 0), 0)
		return strings.TrimSpace(string(f.text[:end]))
	}
	id.Name = text(OpDeviceName)
	id.PCIBusID = strings.ToLower(text(OpDevicePCI))
	if l.has1(OpDeviceUUID) {
		clear(f.text[:])
		code := call2(l.fn[OpDeviceUUID], f.textAddr(), uintptr(ordinal))
		l.clearLast(code)
		if u := f.text[:16]; code == codeSuccess && slices.ContainsFunc(u, func(b byte) bool { return b != 0 }) {
			id.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		}
	}
	return id
}

// Initialized reports whether the vendor has opened device i in this process,
// by us or by anyone. The second result is false where the vendor cannot tell.
func (r *Runtime[V]) Initialized(i int) (active, known bool) {
	if i < 0 || i >= r.DeviceCount() || !r.lib.has1(OpPrimaryState) {
		return false, false
	}
	l := r.lib
	f := l.frame()
	defer l.drop(f)
	f.word = [2]uint64{}
	if call3(l.fn[OpPrimaryState], uintptr(i), f.wordAddr(0), f.wordAddr(1)) != codeSuccess {
		return false, false
	}
	return f.int32(1) != 0, true
}

// Offers implements events.Limiter.
func (d Device[V]) Offers(ability any) bool {
	if d.dev == nil {
		return false
	}
	l := d.lib
	switch ability.(type) {
	case *events.CaptureAsker[Stream[V]]:
		return l.has(OpCapturing)
	case *events.Gate[Stream[V]]:
		return l.gateable()
	case *events.Scratch[Stream[V]]:
		return l.scratchable()
	case *events.Graphs[Event[V], Stream[V]]:
		return l.graphable()
	case *events.Cache:
		return l.cached()
	case *events.DeviceSynchronizer:
		return l.synchronizable()
	case *events.EmptyKernel[Stream[V]]:
		return l.launchable()
	case *events.ReadKernel[Stream[V]]:
		return l.readable()
	case *events.ProfilerControl:
		return l.profilable()
	case *events.Telemetry:
		_, err := d.telemetry()
		return err == nil
	}
	return true
}
