package opencl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

const backend = "opencl"

// Option changes how Open looks for the library. A later option overrides an
// earlier one.
type Option interface{ apply(*options) }

type options struct{ library string }

// WithLibrary is an option: WithLibrary("/path/libOpenCL.so.1") names the loader
// library's file. There is no fallback: if it cannot be used, Open fails.
type WithLibrary string

func (p WithLibrary) apply(o *options) { o.library = string(p) }

// Runtime is the loaded library with the devices of all its platforms. It is
// never unloaded. Make it with Open; one that Open did not make, nil or zero, has no
// devices, and asking it for one is ErrUnavailable.
type Runtime struct {
	api   clapi.API
	info  Info
	slots []*slot
}

// slot is a device, opened or not.
type slot struct {
	found
	mu  sync.Mutex
	dev *dev // the last one opened, which may be closed by now; nil before
}

// Info says what was loaded and what it sees.
type Info struct {
	Backend   string             `json:"backend"`           // "opencl"
	Library   string             `json:"library"`           // the file that is mapped
	Platforms []PlatformInfo     `json:"platforms"`         // in the loader's order
	Devices   []DeviceInfo       `json:"devices"`           // in the order of Runtime.Device
	Skipped   []events.Candidate `json:"skipped,omitempty"` // platforms and devices that cannot be used
}

// PlatformInfo is one vendor's driver.
type PlatformInfo struct {
	Name    string `json:"name"`    // as the driver gives it
	Vendor  string `json:"vendor"`  // likewise
	Version string `json:"version"` // "OpenCL 3.0 ..."
}

// DeviceInfo is one device.
type DeviceInfo struct {
	events.Identity
	Platform int    // its place in Info.Platforms
	Version  string // "OpenCL 3.0 ..."
	Driver   string // the driver's own version
}

// Open loads OpenCL's loader library and lists the devices of all platforms. It
// opens none of them.
//
// The library is looked for in this order: WithLibrary; the environment variable
// DEVEVENTS_OPENCL; one already mapped into the process; the names that the
// system's loader knows; the directories of distributions and toolkits.
//
// Devices are numbered from 0: GPUs, then accelerators, then others, then CPUs;
// within these by the name of the platform, and within a platform as it lists
// them. Platforms and devices older than OpenCL 1.2 are left out, and so are
// those that say they are not available; Info.Skipped names them.
//
// The error is an *events.UnavailableError: no loader (CauseLibraryMissing), a
// loader without a driver (CauseDriverMissing), drivers without a device
// (CauseNoDevice) and drivers that refuse to list theirs (CauseDriverError) are told
// apart. A nil option is ErrInvalid.
func Open(opts ...Option) (*Runtime, error) {
	var o options
	for i, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("%s: %w: option %d is nil", backend, events.ErrInvalid, i)
		}
		option.apply(&o)
	}
	var rt *Runtime
	err := clapi.Open(o.library, func(api clapi.API) error {
		found, refused := enumerate(api)
		if refused != nil {
			return refused
		}
		rt = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rt, nil
}

// found is what enumeration knows of a device.
type found struct {
	id       clapi.Device
	version  version // what both the platform and the device have
	platform string
	info     DeviceInfo
}

// version is major*100 + minor.
type version int

const (
	v12 version = 102 // markers and barriers with wait lists, fills
	v20 version = 200
	v21 version = 201
)

// parseVersion reads "OpenCL 3.0 and what the vendor adds"; 0 if it cannot.
func parseVersion(text string) version {
	var major, minor int
	if _, err := fmt.Sscanf(text, "OpenCL %d.%d", &major, &minor); err != nil {
		return 0
	}
	return version(major*100 + minor)
}

// survey is what a library sees, as far as it has been asked.
type survey struct {
	api     clapi.API
	info    Info
	slots   []*slot
	old     bool  // something was left out because of its version
	refusal int32 // what a platform answered in place of its devices, -1 only if none said worse
}

// enumerate lists what a library sees.
func enumerate(api clapi.API) (*Runtime, *events.UnavailableError) {
	s := &survey{api: api, info: Info{Backend: backend, Library: api.Path()}}
	platforms, code := api.Platforms()
	if code != clapi.Success || len(platforms) == 0 {
		return nil, noPlatform(api.Path(), code)
	}
	for i, p := range platforms {
		s.platform(i, p)
	}
	if len(s.slots) == 0 {
		return nil, s.noDevice()
	}
	slices.SortStableFunc(s.slots, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(rank(a.info.Kind), rank(b.info.Kind)), cmp.Compare(a.platform, b.platform))
	})
	for i, d := range s.slots {
		d.info.Ordinal = i
		s.info.Devices = append(s.info.Devices, d.info)
	}
	return &Runtime{api: api, info: s.info, slots: s.slots}, nil
}

func (s *survey) skip(what, why string) {
	s.info.Skipped = append(s.info.Skipped, events.Candidate{Path: what, Reason: why})
}

// outdated reports, and notes, that something is too old: a loader's functions
// jump to where an old driver has nothing.
func (s *survey) outdated(what, text string) bool {
	if parseVersion(text) >= v12 {
		return false
	}
	s.old = true
	s.skip(what, "its version is "+strconv.Quote(text)+", and 1.2 is needed")
	return true
}

func (s *survey) platform(i int, p clapi.Platform) {
	about := PlatformInfo{}
	about.Name, _ = s.api.PlatformText(p, clapi.PlatformName)
	about.Vendor, _ = s.api.PlatformText(p, clapi.PlatformVendor)
	about.Version, _ = s.api.PlatformText(p, clapi.PlatformVersion)
	s.info.Platforms = append(s.info.Platforms, about)
	if s.outdated(about.Name, about.Version) {
		return
	}
	devices, code := s.api.Devices(p)
	if code != clapi.Success {
		if s.refusal == clapi.Success || s.refusal == clapi.DeviceNotFound {
			s.refusal = code
		}
		s.skip(about.Name, fmt.Sprintf("it lists no devices: %s (%d)", codes[code], code))
	}
	for _, d := range devices {
		s.device(d, i)
	}
}

// device asks for what can be known of a device without opening it.
func (s *survey) device(id clapi.Device, platform int) {
	of := s.info.Platforms[platform]
	d := &slot{found: found{id: id, platform: of.Name}}
	d.info.Platform = platform
	d.info.Name, _ = s.api.DeviceText(id, clapi.DeviceName)
	d.info.Vendor, _ = s.api.DeviceText(id, clapi.DeviceVendor)
	d.info.Version, _ = s.api.DeviceText(id, clapi.DeviceVersion)
	d.info.Driver, _ = s.api.DeviceText(id, clapi.DriverVersion)
	kind, _ := s.api.DeviceWord(id, clapi.DeviceType)
	d.info.Kind = kindOfDevice(kind)
	d.version = min(parseVersion(of.Version), parseVersion(d.info.Version))
	if s.outdated(d.info.Name, d.info.Version) {
		return
	}
	if available, code := s.api.DeviceWord(id, clapi.DeviceAvailable); code == clapi.Success && uint32(available) == 0 {
		s.skip(d.info.Name, "it says that it is not available")
		return
	}
	extensions, _ := s.api.DeviceText(id, clapi.DeviceExtensions)
	for extension := range strings.FieldsSeq(extensions) {
		switch extension {
		case "cl_khr_pci_bus_info":
			d.info.PCIBusID = pciBusID(s.api, id)
		case "cl_khr_device_uuid":
			d.info.UUID = uuid(s.api, id, d.info.Kind)
		}
	}
	s.slots = append(s.slots, d)
}

func kindOfDevice(bits uint64) events.DeviceKind {
	switch {
	case bits&clapi.TypeGPU != 0:
		return events.KindGPU
	case bits&clapi.TypeAccelerator != 0:
		return events.KindAccelerator
	case bits&clapi.TypeCPU != 0:
		return events.KindCPU
	}
	return ""
}

func rank(kind events.DeviceKind) int {
	return slices.Index([]events.DeviceKind{events.KindGPU, events.KindAccelerator, "", events.KindCPU}, kind)
}

func pciBusID(api clapi.API, d clapi.Device) string {
	var b [16]byte
	if api.DeviceBytes(d, clapi.DevicePCIBusInfo, b[:]) != clapi.Success {
		return ""
	}
	word := func(i int) uint32 {
		return uint32(b[i]) | uint32(b[i+1])<<8 | uint32(b[i+2])<<16 | uint32(b[i+3])<<24
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", word(0), word(4), word(8), word(12))
}

// uuid is written as CUDA writes it where the device is a GPU, so that one device
// has one name in both.
func uuid(api clapi.API, d clapi.Device, kind events.DeviceKind) string {
	var b [16]byte
	if api.DeviceBytes(d, clapi.DeviceUUID, b[:]) != clapi.Success || b == [16]byte{} {
		return ""
	}
	text := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if kind == events.KindGPU {
		return "GPU-" + text
	}
	return text
}

// noPlatform says what it means that a loader finds no platform.
func noPlatform(path string, code int32) *events.UnavailableError {
	u := &events.UnavailableError{Backend: backend, Path: path}
	if code != clapi.Success {
		u.Code, u.CodeName = code, codes[code]
	}
	if code == clapi.Success || code == clapi.PlatformNotFound {
		u.Cause = events.CauseDriverMissing
		u.Detail = "the loader works and finds no platform: no driver is registered with it, or none that is can be loaded"
		u.Advice = "install a driver (for a GPU the vendor's, for the CPU PoCL, package pocl-opencl-icd on Debian), and check that " +
			"/etc/OpenCL/vendors names it, in the container too, and that OCL_ICD_VENDORS does not lead elsewhere"
		return u
	}
	u.Cause = events.CauseDriverError
	u.Detail, u.Advice = "the loader refuses to list the platforms", "look the code up in OpenCL's documentation"
	return u
}

// noDevice says why platforms have no usable device.
func (s *survey) noDevice() *events.UnavailableError {
	var names []string
	for _, p := range s.info.Platforms {
		names = append(names, p.Name)
	}
	drivers := strings.Join(names, ", ")
	u := &events.UnavailableError{
		Backend: backend, Path: s.api.Path(), Candidates: s.info.Skipped,
		Cause:  events.CauseNoDevice,
		Detail: "there are drivers (" + drivers + ") and no usable device",
		Advice: "check that a device is present and visible to this process",
	}
	if s.refusal != clapi.Success {
		u.Code, u.CodeName = s.refusal, codes[s.refusal]
	}
	switch {
	case s.refusal != clapi.Success && s.refusal != clapi.DeviceNotFound:
		u.Cause = events.CauseDriverError
		u.Detail = "there is no usable device, and of the drivers (" + drivers + ") one refuses to list its devices"
		u.Advice = "see what clinfo says as the same user, and whether this process may open the device's files"
	case s.old && s.refusal == clapi.Success:
		u.Cause, u.Advice = events.CauseDriverMissing, "install a newer driver"
	}
	return u
}

// Info says what was loaded and what it sees.
func (rt *Runtime) Info() Info {
	if rt == nil || rt.api == nil {
		return Info{Backend: backend}
	}
	info := rt.info
	info.Platforms = slices.Clone(info.Platforms)
	info.Devices = slices.Clone(info.Devices)
	info.Skipped = slices.Clone(info.Skipped)
	return info
}

// DeviceCount is the number of devices, at least 1.
func (rt *Runtime) DeviceCount() int {
	if rt == nil {
		return 0
	}
	return len(rt.slots)
}

// Device opens the i-th device: a context is made on it, and one marker on an
// idle queue shows whether markers carry times, which may take some milliseconds.
// Asking twice gives the same device, until it is closed.
func (rt *Runtime) Device(i int) (Device, error) {
	if rt == nil || rt.api == nil {
		return Device{}, errNoRuntime
	}
	if i < 0 || i >= len(rt.slots) {
		return Device{}, fmt.Errorf("%s: %w: device %d of %d (counted from 0)", backend, events.ErrInvalid, i, len(rt.slots))
	}
	s := rt.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dev == nil || s.dev.root.dead.Load() {
		dev, err := openDevice(rt, s)
		if err != nil {
			return Device{}, fmt.Errorf("%s: opening device %d (%s): %w", backend, i, s.info.Name, err)
		}
		s.dev = dev
	}
	return Device{s.dev}, nil
}

// DeviceOf opens the device that a foreign cl_command_queue belongs to, for
// WrapStream. A queue of a sub-device, or of a device that Info does not list, is
// ErrDeviceMismatch.
func (rt *Runtime) DeviceOf(queue uintptr) (Device, error) {
	if rt == nil || rt.api == nil {
		return Device{}, errNoRuntime
	}
	if queue == 0 {
		return Device{}, errNoQueue
	}
	id, code := rt.api.QueueDevice(clapi.Queue(queue))
	if code != clapi.Success {
		return Device{}, driverError(opQueueInfo, code, kindOf(code))
	}
	i := slices.IndexFunc(rt.slots, func(s *slot) bool { return s.id == id })
	if i < 0 {
		return Device{}, fmt.Errorf("%s: %w: the queue's device is none of the %d that were listed", backend, events.ErrDeviceMismatch, len(rt.slots))
	}
	return rt.Device(i)
}

var errNoQueue = fmt.Errorf("%s: %w: queue 0 (OpenCL has no default queue)", backend, events.ErrInvalid)

// errNotOpen answers every call on a zero Device.
var errNotOpen = fmt.Errorf("%s: %w: this is a zero Device; get one from a Runtime", backend, events.ErrUnavailable)

// errNoRuntime answers on a Runtime that Open did not make.
var errNoRuntime = fmt.Errorf("%s: %w: this Runtime was not made by Open", backend, events.ErrUnavailable)
