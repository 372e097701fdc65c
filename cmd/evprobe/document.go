package main

import (
	"runtime"
	"runtime/debug"
	"time"

	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// document is what -json prints. Fields may be added to schema 1; none changes
// its meaning or goes away.
type document struct {
	Schema      int               `json:"schema"`
	Outcome     string            `json:"outcome"`
	ExitCode    int               `json:"exit_code"`
	Summary     string            `json:"summary"` // one sentence, except for help
	Build       build             `json:"build"`
	Requested   *requested        `json:"requested"` // null if the command line was not understood
	Backend     string            `json:"backend"`   // the one that was opened, or empty
	Library     *library          `json:"library"`   // null if the backend loads none
	Device      *identity         `json:"device"`    // null if none was opened
	Checks      []probe.Result    `json:"checks"`
	Unfinished  *probe.Unfinished `json:"unfinished"`  // what was going on when the run ended early
	Unavailable []unavailable     `json:"unavailable"` // the backends that were tried in vain
	Started     time.Time         `json:"started"`
	DurationMS  float64           `json:"duration_ms"`
}

type build struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Cgo      bool   `json:"cgo"`
}

type requested struct {
	Backend   string `json:"backend"`
	Device    int    `json:"device"`
	TimeoutMS int64  `json:"timeout_ms"`
}

type library struct {
	API                string `json:"api"` // "runtime", "driver" where that library is used directly, or "icd" for OpenCL's loader
	Path               string `json:"path"`
	Driver             string `json:"driver"`
	RuntimeVersion     int    `json:"runtime_version"`
	RuntimeVersionText string `json:"runtime_version_text"`
	DriverVersion      int    `json:"driver_version"`
	DriverVersionText  string `json:"driver_version_text"`
}

type identity struct {
	Kind     events.DeviceKind `json:"kind"` // "gpu", "cpu", "accelerator", "simulated", or empty
	Ordinal  int               `json:"ordinal"`
	Vendor   string            `json:"vendor"`
	Name     string            `json:"name"`
	PCIBusID string            `json:"pci_bus_id"`
	UUID     string            `json:"uuid"`
}

type unavailable struct {
	Backend    string             `json:"backend"`
	Cause      events.Cause       `json:"cause"`
	Detail     string             `json:"detail"`
	Advice     string             `json:"advice"`
	Path       string             `json:"path"`
	Version    int                `json:"version"`
	Code       int32              `json:"code"`
	CodeName   string             `json:"code_name"`
	Candidates []events.Candidate `json:"candidates"`
	Near       []string           `json:"near"`
}

func newDocument(began time.Time) *document {
	return &document{
		Schema: 1, Build: readBuild(), Started: began.UTC(),
		Checks: []probe.Result{}, Unavailable: []unavailable{},
	}
}

func (d *document) setOpened(o *opened) {
	d.Backend = o.backend
	d.Device = (*identity)(&o.identity)
	if lib := o.about.Library; lib != nil {
		d.Library = &library{
			API: lib.API, Path: lib.Path, Driver: lib.Driver,
			RuntimeVersion: o.about.RuntimeVersion, RuntimeVersionText: o.about.RuntimeText,
			DriverVersion: o.about.DriverVersion, DriverVersionText: o.about.DriverText,
		}
	}
}

func (d *document) setUnavailable(errs []*events.UnavailableError) {
	for _, u := range errs {
		d.Unavailable = append(d.Unavailable, unavailable{
			Backend: u.Backend, Cause: u.Cause, Detail: u.Detail, Advice: u.Advice,
			Path: u.Path, Version: u.Version, Code: u.Code, CodeName: u.CodeName,
			// Empty lists, not null.
			Candidates: append([]events.Candidate{}, u.Candidates...),
			Near:       append([]string{}, u.Near...),
		})
	}
}

func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Module, b.Version = info.Main.Path, info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "CGO_ENABLED":
			b.Cgo = s.Value == "1"
		}
	}
	return b
}

func (b build) String() string {
	s := "evprobe " + b.Version
	if b.Revision != "" {
		s += " (" + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s + " " + b.Go + " " + b.OS + "/" + b.Arch
}
