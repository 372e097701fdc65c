// Package document is what evprobe prints with -json, as Go types, and how a file of
// it is read back.
package document

import (
	"time"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/hint"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
)

// Schema is the version of the layout. Fields may be added to it; none changes its
// meaning or goes away. docs/schema/evprobe.schema.json describes it.
const Schema = 1

// The outcomes.
const (
	Passed      = "passed"
	Failed      = "failed"
	Usage       = "usage"
	Unavailable = "unavailable"
	TimedOut    = "timed-out"
	Interrupted = "interrupted"
	Crashed     = "crashed"
	Help        = "help"
	Version     = "version"
)

// Document is one run of evprobe, whatever came of it.
type Document struct {
	Schema      int               `json:"schema"`
	Command     string            `json:"command"` // "probe", "check", "list", "bench", "report" or "diff"
	Outcome     string            `json:"outcome"`
	ExitCode    int               `json:"exit_code"`
	Summary     string            `json:"summary"` // one sentence, except for help
	Build       Build             `json:"build"`
	Environment Environment       `json:"environment"`
	Requested   *Requested        `json:"requested"` // null if the command line was not understood
	Backend     string            `json:"backend"`   // the one that was opened, or empty
	Library     *Library          `json:"library"`   // null if the backend loads none
	Device      *Device           `json:"device"`    // null if none was opened
	Checks      []probe.Result    `json:"checks"`
	Unfinished  *probe.Unfinished `json:"unfinished"`  // what was going on when the run ended early
	Crash       *Crash            `json:"crash"`       // how the process with the driver in it died, or null
	Unavailable []Refusal         `json:"unavailable"` // the backends that were tried in vain
	Hints       []hint.Hint       `json:"hints"`       // what to do about the codes above, each once
	Backends    []Backend         `json:"backends,omitempty"`
	Bench       *bench.Report     `json:"bench,omitempty"`
	Started     time.Time         `json:"started"`
	DurationMS  float64           `json:"duration_ms"`
}

// Requested is what the command line asks for.
type Requested struct {
	Backend     string   `json:"backend"`
	Device      int      `json:"device"`
	TimeoutMS   int64    `json:"timeout_ms"`
	StepLimitMS int64    `json:"step_limit_ms"`
	Checks      []string `json:"checks,omitempty"` // absent where all were asked for
}

// Library is what a backend has loaded.
type Library struct {
	API                string `json:"api"` // "runtime", "driver" where that library is used directly, or "icd" for OpenCL's loader
	Path               string `json:"path"`
	Driver             string `json:"driver"`
	RuntimeVersion     int    `json:"runtime_version"`
	RuntimeVersionText string `json:"runtime_version_text"`
	DriverVersion      int    `json:"driver_version"`
	DriverVersionText  string `json:"driver_version_text"`
}

// Device names a device.
type Device struct {
	Kind     events.DeviceKind `json:"kind"` // "gpu", "cpu", "accelerator", "simulated", or empty
	Ordinal  int               `json:"ordinal"`
	Vendor   string            `json:"vendor"`
	Name     string            `json:"name"`
	PCIBusID string            `json:"pci_bus_id"`
	UUID     string            `json:"uuid"`
}

// Crash is the death of the process that had the driver in it.
type Crash struct {
	Signal   string `json:"signal"`    // "SIGSEGV", or empty if it ended by itself
	ExitCode int    `json:"exit_code"` // -1 if a signal ended it
	During   string `json:"during"`    // the check, or "open"
	Step     string `json:"step"`
	Output   string `json:"output"` // the first of what it printed on stderr
}

// Refusal says why a backend cannot be used.
type Refusal struct {
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
	Hint       *hint.Hint         `json:"hint"` // null where there is no more to say
}

// Backend is an entry of evprobe list.
type Backend struct {
	Name    string             `json:"name"`
	Status  string             `json:"status"` // "usable", "unavailable", "hangs" or "crashed"
	Library *Library           `json:"library"`
	Origin  string             `json:"origin"`  // how the library was found
	Skipped []events.Candidate `json:"skipped"` // what was tried before it, and why it was refused
	Devices []Device           `json:"devices"`
	Refusal *Refusal           `json:"unavailable"`
	Crash   *Crash             `json:"crash"`
}

// The states of a backend in a list.
const (
	StatusUsable      = "usable"
	StatusUnavailable = "unavailable"
	StatusHangs       = "hangs"
	StatusCrashed     = "crashed"
)

// New is a document without a result.
func New(command string, began time.Time) *Document {
	return &Document{
		Schema: Schema, Command: command, Build: readBuild(), Environment: readEnvironment(), Started: began.UTC(),
		Checks: []probe.Result{}, Unavailable: []Refusal{}, Hints: []hint.Hint{},
	}
}

// End says how the run ended.
func (d *Document) End(outcome string, code int, summary string) {
	d.Outcome, d.ExitCode, d.Summary = outcome, code, summary
}

// Refused is an unavailability as the document has it.
func Refused(u *events.UnavailableError) Refusal {
	r := Refusal{
		Backend: u.Backend, Cause: u.Cause, Detail: u.Detail, Advice: u.Advice,
		Path: u.Path, Version: u.Version, Code: u.Code, CodeName: u.CodeName,
		// Empty lists, not null.
		Candidates: append([]events.Candidate{}, u.Candidates...),
		Near:       append([]string{}, u.Near...),
		Hint:       hint.For(u.Backend, u.Code),
	}
	if r.Hint == nil && u.Cause == events.CauseNoDevice && (u.Backend == "cuda" || u.Backend == "hip") {
		r.Hint = hint.NoDevice()
	}
	return r
}
