package nvml

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/dl"
)

// Env names the environment variable that names the library to use.
const Env = "DEVEVENTS_NVML"

type op int

const (
	opInit op = iota
	opByUUID
	opByBus
	opMIG
	opClock
	opReasons
	opTemperature
	opPower
	opEnergy
	opViolation
	opCount
)

// names are the functions; where there are two, the second is the older name.
func names() [opCount][2]string {
	return [opCount][2]string{
		opInit:        {"nvmlInit_v2"},
		opByUUID:      {"nvmlDeviceGetHandleByUUID"},
		opByBus:       {"nvmlDeviceGetHandleByPciBusId_v2"},
		opMIG:         {"nvmlDeviceGetMigMode"},
		opClock:       {"nvmlDeviceGetClockInfo"},
		opReasons:     {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
		opTemperature: {"nvmlDeviceGetTemperature"},
		opPower:       {"nvmlDeviceGetPowerUsage"},
		opEnergy:      {"nvmlDeviceGetTotalEnergyConsumption"},
		opViolation:   {"nvmlDeviceGetViolationStatus"},
	}
}

// library is NVML, initialised.
type library struct {
	file *dl.Library
	fn   [opCount]uintptr
}

// opened are the libraries in use, by what Env said: one, unless a program changes it.
var opened = struct {
	sync.Mutex
	byEnv map[string]*library
}{byEnv: map[string]*library{}}

// open loads and initialises the library once. A failure is not kept.
func open() (*library, error) {
	opened.Lock()
	defer opened.Unlock()
	asked := os.Getenv(Env)
	if l := opened.byEnv[asked]; l != nil {
		return l, nil
	}
	var l *library
	_, err := dl.Open(dl.Spec{
		Backend: "nvml",
		Names:   fileNames(runtime.GOOS),
		Env:     Env,
		Dirs:    append(dl.DriverDirs(), windowsDirs(runtime.GOOS)...),
		Accept: func(candidate *dl.Library) error {
			l = &library{file: candidate}
			if refused := l.start(); refused != nil {
				return refused
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	opened.byEnv[asked] = l
	return l, nil
}

func fileNames(goos string) []string {
	switch goos {
	case "windows":
		return []string{"nvml.dll"}
	case "linux":
		return []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}
	}
	return []string{"libnvidia-ml"}
}

// windowsDirs is where drivers before 2018 put it.
func windowsDirs(goos string) []string {
	if goos != "windows" {
		return nil
	}
	return []string{`$ProgramFiles\NVIDIA Corporation\NVSMI`}
}

// start looks the functions up and initialises the library, which initialises no device.
func (l *library) start() *events.UnavailableError {
	for f, known := range names() {
		for _, name := range known {
			if l.fn[f] == 0 && name != "" {
				l.fn[f] = l.file.Lookup(name)
			}
		}
	}
	u := &events.UnavailableError{Backend: "nvml", Path: l.file.Path()}
	if missing := l.lacks(); len(missing) > 0 {
		u.Cause = events.CauseSymbolMissing
		u.Detail = l.file.Path() + " lacks " + strings.Join(missing, ", ")
		u.Advice = "use the driver's own library"
		return u
	}
	code := l.call(opInit)
	if code == success {
		return nil
	}
	u.Code, u.CodeName = code, codeName(code)
	switch code {
	case driverNotLoaded:
		u.Cause, u.Detail = events.CauseDriverMissing, "the management library finds no driver that is loaded"
		u.Advice = "load the driver, or pass the host's driver into the container"
	case versionMismatch:
		u.Cause, u.Detail = events.CauseSystemNotReady, "the management library is of another version than the driver that is loaded"
		u.Advice = "reboot after an update of the driver, or mount the library of the host's driver into the container"
	default:
		u.Cause, u.Detail = events.CauseDriverError, "the management library refuses to start"
		u.Advice = "see whether nvidia-smi works for this user"
	}
	return u
}

// lacks names the functions that nothing works without.
func (l *library) lacks() (missing []string) {
	if l.fn[opInit] == 0 {
		missing = append(missing, names()[opInit][0])
	}
	if l.fn[opByUUID] == 0 && l.fn[opByBus] == 0 {
		missing = append(missing, names()[opByUUID][0], names()[opByBus][0])
	}
	return missing
}

// Find finds a device. The error says what is missing: it wraps events.ErrUnavailable where
// that is the library or the device, and events.ErrUnsupported where the device cannot be
// read.
func Find(id events.Identity) (*Device, error) {
	l, err := open()
	if err != nil {
		return nil, err
	}
	d := &Device{lib: l}
	if err := d.find(id); err != nil {
		return nil, err
	}
	if d.partitioned() {
		return nil, fmt.Errorf("%w: the device is split by MIG, and clocks, power and energy are those of all its parts together", events.ErrUnsupported)
	}
	if _, err := d.TelemetryRead(); err != nil { // what it will have, it has now
		return nil, err
	}
	return d, nil
}

// find asks by UUID, which no other device has, and else by the place on the bus: a part
// of a device, under MIG, has a UUID that NVML knows by another front.
func (d *Device) find(id events.Identity) error {
	var last error
	for _, by := range []struct {
		f    op
		name string
	}{{opByUUID, id.UUID}, {opByBus, id.PCIBusID}} {
		if by.name == "" || d.lib.fn[by.f] == 0 {
			continue
		}
		d.frame.clear()
		code := d.lib.call(by.f, d.frame.lend(by.name), d.frame.addr(0))
		if code == success {
			d.handle = d.frame.handle()
			return nil
		}
		last = fmt.Errorf("looking for %s: %w", by.name, failed(by.f, code))
	}
	if last == nil {
		return fmt.Errorf("%w: neither the device's UUID nor its place on the bus is known", events.ErrUnavailable)
	}
	return last
}

func (d *Device) partitioned() bool {
	if d.lib.fn[opMIG] == 0 {
		return false // older than MIG
	}
	d.frame.clear()
	code := d.lib.call(opMIG, d.handle, d.frame.addr(0), d.frame.addr(1))
	return code == success && d.frame.uint32() != 0
}
