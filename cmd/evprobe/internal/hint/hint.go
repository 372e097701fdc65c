// Package hint says in one sentence what to do about a code that a driver
// answered with.
package hint

import (
	"os"
	"slices"
	"strings"
)

// Hint is advice about one code.
type Hint struct {
	Code int32  `json:"code"`
	ID   string `json:"id"`   // a word for machines, the same for ever
	Text string `json:"text"` // one sentence for people
}

// visibility are the variables that hide devices from a process.
var visibility = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}

// Variables are the names of the environment variables that decide which devices a
// process sees, sorted.
func Variables() []string { return slices.Sorted(slices.Values(visibility)) }

// known are the codes of CUDA, which HIP shares as far as it has them.
var known = map[int32]Hint{
	3: {ID: "not-initialized", Text: "the driver could not start in this process: see its kernel log (dmesg), " +
		"and whether this container or user may open the device files"},
	34: {ID: "stub-driver", Text: "a stub that is only for linking answers in the driver's place: " +
		"take the folder called stubs off LD_LIBRARY_PATH, and bring the real driver library into the container"},
	35: {ID: "insufficient-driver", Text: "the driver is missing or older than the library needs (one code says both): " +
		"install or update the driver, pass the host's into the container, or use an older runtime library"},
	36: {ID: "call-needs-newer-driver", Text: "the library made a call that this driver does not have: " +
		"update the driver, or use a runtime library of the driver's own release"},
	46: {ID: "devices-unavailable", Text: "the device is there and lets nobody in: another process has it in exclusive mode, " +
		"or it was reset or has failed; see nvidia-smi -q -d COMPUTE and the kernel log for Xid messages"},
	127: {ID: "startup-failure", Text: "the runtime could not start: see the driver's kernel log, and whether memory or limits of this process are exhausted"},
	304: {ID: "operating-system", Text: "a call to the operating system failed inside the driver: " +
		"see the limits of this process (locked memory, open files) and whether it may open the device files"},
	802: {ID: "fabric-manager", Text: "the system is still starting, and on machines with NVSwitch that waits for the fabric manager: " +
		"start nvidia-fabricmanager in the driver's exact version, or wait until nvidia-smi -q shows the fabric state as completed"},
	803: {ID: "version-mismatch", Text: "the driver in the kernel and the driver library are of different versions, as after an update without a restart: " +
		"reload the kernel module or restart, and do not carry a driver library of your own into a container"},
	804: {ID: "compatibility", Text: "a compatibility library is in use on a device that it does not support: " +
		"take the toolkit's compat folder off LD_LIBRARY_PATH, or update the driver"},
	805: {ID: "mps-unreachable", Text: "CUDA_MPS_PIPE_DIRECTORY or its default points at an MPS daemon that cannot be reached: " +
		"start nvidia-cuda-mps-control as the user of this process, pass its pipe folder into the container, or remove the folder"},
	806: {ID: "mps-failed", Text: "the MPS server has failed: see its log in CUDA_MPS_LOG_DIRECTORY, and restart it"},
	807: {ID: "mps-not-ready", Text: "the MPS server is not ready: it is starting, or is held back by the fault of another client; try again, and see its log"},
	808: {ID: "mps-full", Text: "the MPS server has as many clients as it takes: end some of them"},
	809: {ID: "mps-full", Text: "the MPS server has as many connections as the device takes: end some clients, or lower CUDA_DEVICE_MAX_CONNECTIONS"},
	810: {ID: "mps-terminated", Text: "the MPS server ended this client, as it does when another client faults: start this program again"},
	999: {ID: "unknown-error", Text: "the driver failed and does not say why, often after the machine slept or the kernel module lost its device: " +
		"see the kernel log, reload the module (on Linux nvidia_uvm first), or restart"},
}

// For is the advice about a code that backend answered with, nil if there is none.
// The environment is read for the codes that it explains.
func For(backend string, code int32) *Hint {
	if backend == "opencl" {
		return nil // its numbers are its own
	}
	h, ok := known[code]
	if code == 100 {
		h, ok = noDevice(os.LookupEnv), true
	}
	if !ok {
		return nil
	}
	h.Code = code
	return &h
}

// NoDevice is the advice where a device is missing and no code says so.
func NoDevice() *Hint {
	h := noDevice(os.LookupEnv)
	return &h
}

// noDevice says what the visibility variables hold, since an empty one hides
// everything and looks like none.
func noDevice(lookup func(string) (string, bool)) Hint {
	var said []string
	for _, name := range visibility {
		value, set := lookup(name)
		switch {
		case !set:
			said = append(said, name+" is not set")
		case hidesAll(value):
			said = append(said, name+"=\""+value+"\" (hides every device)")
		default:
			said = append(said, name+"=\""+value+"\"")
		}
	}
	return Hint{ID: "no-device", Text: "what hides devices from a process: " + strings.Join(said, ", ") +
		"; see also whether the container was started with a device, and what nvidia-smi -L or rocm-smi lists outside it"}
}

// hidesAll tells the values that leave nothing: empty, an ordinal that cannot be,
// and the words of NVIDIA's container runtime.
func hidesAll(value string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(value), ",")
	return first == "" || strings.HasPrefix(first, "-") || first == "void" || first == "none" || strings.EqualFold(first, "NoDevFiles")
}
