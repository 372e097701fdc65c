package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/devevents/events"
)

// Provenance says where and how a report was made. Empty strings are not known.
type Provenance struct {
	Time     time.Time `json:"time"`               // when the run began
	Host     string    `json:"host,omitempty"`     // the machine's name
	OS       string    `json:"os"`                 // GOOS
	Arch     string    `json:"arch"`               // GOARCH
	CPU      string    `json:"cpu,omitempty"`      // the processor's name
	CPUs     int       `json:"cpus"`               // how many the process may use
	Go       string    `json:"go"`                 // the version of Go
	Module   string    `json:"module,omitempty"`   // the path of the main module
	Command  []string  `json:"command,omitempty"`  // without the program's folder
	Revision string    `json:"revision,omitempty"` // of git
	Dirty    bool      `json:"dirty"`              // the tree had changes that the revision does not

	Devices []Device          `json:"devices,omitempty"` // those that were measured with
	Notes   map[string]string `json:"notes,omitempty"`   // the program's own: see Runner.Note

	Shuffle     *int64   `json:"shuffle_seed,omitempty"` // of the order of cases
	NoTelemetry []string `json:"no_telemetry,omitempty"` // why, where a device's state could not be read
}

// Device is a device that something was measured on.
type Device struct {
	Backend  string `json:"backend"`              // of the events: "cuda"
	Kind     string `json:"kind,omitempty"`       // see events.DeviceKind
	Name     string `json:"name,omitempty"`       // the product
	UUID     string `json:"uuid,omitempty"`       // as the vendor writes it
	PCIBusID string `json:"pci_bus_id,omitempty"` // where it is plugged in
	Driver   string `json:"driver,omitempty"`     // its version
	Runtime  string `json:"runtime,omitempty"`    // the version of the library above it
}

func newProvenance() Provenance {
	p := Provenance{
		Time: time.Now().UTC().Truncate(time.Millisecond),
		OS:   runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), CPU: cpuModel(), Go: runtime.Version(),
	}
	if len(os.Args) > 0 {
		p.Command = append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	}
	p.Host, _ = os.Hostname()
	p.Module, p.Revision, p.Dirty = built()
	if p.Revision == "" {
		p.Revision, p.Dirty = checkedOut()
	}
	return p
}

// built is what the go command stamped into the program.
func built() (module, revision string, dirty bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	return info.Main.Path, revision, dirty
}

// checkedOut asks git about the folder that the program runs in: go run and go test
// stamp nothing.
func checkedOut() (revision string, dirty bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "", false
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	return strings.TrimSpace(string(out)), err != nil || len(changes) > 0
}

// identified is a backend that knows its device.
type identified interface{ identity() (Device, bool) }

func (d *DeviceEvents[E, S]) identity() (Device, bool) {
	if d.api == nil {
		return Device{}, false
	}
	dev := Device{Backend: d.api.Backend()}
	if i, ok := events.Ability[events.Identifier](d.api); ok {
		id := i.Identity()
		dev.Kind, dev.Name, dev.UUID, dev.PCIBusID = string(id.Kind), id.Name, id.UUID, id.PCIBusID
	}
	if v, ok := events.Ability[events.Versioned](d.api); ok {
		dev.Driver, dev.Runtime = v.Versions()
	}
	return dev, true
}

// saw records a device that is measured on, once.
func (p *Provenance) saw(b Backend) {
	i, ok := b.(identified)
	if !ok {
		return
	}
	dev, ok := i.identity()
	if !ok {
		return
	}
	for _, known := range p.Devices {
		if known == dev {
			return
		}
	}
	p.Devices = append(p.Devices, dev)
}

// lacksTelemetry records why a device's state cannot be read, once.
func (p *Provenance) lacksTelemetry(why string) {
	if !slices.Contains(p.NoTelemetry, why) {
		p.NoTelemetry = append(p.NoTelemetry, why)
	}
}

// Mismatch names what differs between two reports so that their numbers must not be
// compared: the machine, the devices, the program's own notes (a driver's version, a
// locked clock). Revision and time may differ: that is what a comparison is for.
func (p Provenance) Mismatch(other Provenance) []string {
	var list []string
	differ := func(what, a, b string) {
		if a != b {
			list = append(list, what+": "+a+" and "+b)
		}
	}
	differ("host", p.Host, other.Host)
	differ("cpu", p.CPU, other.CPU)
	differ("os", p.OS+"/"+p.Arch, other.OS+"/"+other.Arch)
	differ("devices", deviceList(p.Devices), deviceList(other.Devices))
	for _, k := range sortedKeys(p.Notes, other.Notes) {
		differ(k, p.Notes[k], other.Notes[k])
	}
	return list
}

func deviceList(devices []Device) string {
	var names []string
	for _, d := range devices {
		names = append(names, joinFilled([]string{d.Backend, d.Name, d.UUID, d.Driver, d.Runtime}, " "))
	}
	return strings.Join(names, ", ")
}

// cpuModel is the processor's name, where the system tells it in a file.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
