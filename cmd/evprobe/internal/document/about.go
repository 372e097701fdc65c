package document

import (
	"os"
	"runtime"
	"runtime/debug"

	"example.com/devevents/cmd/evprobe/internal/hint"
)

// Build says which evprobe it was.
type Build struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Cgo      bool   `json:"cgo"`
}

// Environment says where it ran.
type Environment struct {
	Host      string     `json:"host"`      // its name, empty if not known
	CPUs      int        `json:"cpus"`      // that this process may use
	Variables []Variable `json:"variables"` // that decide which library and which devices are found
}

// Variable is an environment variable. One that is empty is not one that is not set.
type Variable struct {
	Name  string `json:"name"`
	Set   bool   `json:"set"`
	Value string `json:"value"`
}

// overrides are the variables that name a library for this module.
var overrides = []string{"DEVEVENTS_CUDART", "DEVEVENTS_CUDA_DRIVER", "DEVEVENTS_HIP", "DEVEVENTS_OPENCL", "LD_LIBRARY_PATH"}

func readEnvironment() Environment {
	e := Environment{CPUs: runtime.GOMAXPROCS(0)}
	e.Host, _ = os.Hostname()
	for _, name := range append(hint.Variables(), overrides...) {
		value, set := os.LookupEnv(name)
		e.Variables = append(e.Variables, Variable{name, set, value})
	}
	return e
}

func readBuild() Build {
	b := Build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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

func (b Build) String() string {
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
