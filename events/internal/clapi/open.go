package clapi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/dl"
)

// Env names the environment variable that names the library to use.
const Env = "DEVEVENTS_OPENCL"

type op int

const (
	opPlatforms op = iota
	opPlatformInfo
	opDevices
	opDeviceInfo
	opCreateContext
	opReleaseContext
	opCreateQueue
	opReleaseQueue
	opQueueInfo
	opFlush
	opFinish
	opMarker
	opBarrier
	opFill
	opCopy
	opRead
	opKernel
	opCreateUserEvent
	opSetUserEvent
	opWait
	opEventInfo
	opEventTime
	opRetainEvent
	opReleaseEvent
	opCreateBuffer
	opReleaseMem
	opCreateProgram
	opBuildProgram
	opBuildInfo
	opReleaseProgram
	opCreateKernel
	opSetArg
	opReleaseKernel

	// What older loaders lack comes last.
	opCreateQueueWithProperties
	opDeviceAndHostTimer

	opCount
)

func names() [opCount]string {
	return [opCount]string{
		opPlatforms:       "clGetPlatformIDs",
		opPlatformInfo:    "clGetPlatformInfo",
		opDevices:         "clGetDeviceIDs",
		opDeviceInfo:      "clGetDeviceInfo",
		opCreateContext:   "clCreateContext",
		opReleaseContext:  "clReleaseContext",
		opCreateQueue:     "clCreateCommandQueue",
		opReleaseQueue:    "clReleaseCommandQueue",
		opQueueInfo:       "clGetCommandQueueInfo",
		opFlush:           "clFlush",
		opFinish:          "clFinish",
		opMarker:          "clEnqueueMarkerWithWaitList",
		opBarrier:         "clEnqueueBarrierWithWaitList",
		opFill:            "clEnqueueFillBuffer",
		opCopy:            "clEnqueueCopyBuffer",
		opRead:            "clEnqueueReadBuffer",
		opKernel:          "clEnqueueNDRangeKernel",
		opCreateUserEvent: "clCreateUserEvent",
		opSetUserEvent:    "clSetUserEventStatus",
		opWait:            "clWaitForEvents",
		opEventInfo:       "clGetEventInfo",
		opEventTime:       "clGetEventProfilingInfo",
		opRetainEvent:     "clRetainEvent",
		opReleaseEvent:    "clReleaseEvent",
		opCreateBuffer:    "clCreateBuffer",
		opReleaseMem:      "clReleaseMemObject",
		opCreateProgram:   "clCreateProgramWithSource",
		opBuildProgram:    "clBuildProgram",
		opBuildInfo:       "clGetProgramBuildInfo",
		opReleaseProgram:  "clReleaseProgram",
		opCreateKernel:    "clCreateKernel",
		opSetArg:          "clSetKernelArg",
		opReleaseKernel:   "clReleaseKernel",

		opCreateQueueWithProperties: "clCreateCommandQueueWithProperties",
		opDeviceAndHostTimer:        "clGetDeviceAndHostTimer",
	}
}

// Open finds the loader library: the file at override and no other if it is not
// empty, else what the environment names, is mapped already, is known to the
// system's loader or lies where installations put it. accept judges a library
// that has all functions; after a refusal the next candidate is tried. The error
// is an *events.UnavailableError.
func Open(override string, accept func(API) error) error {
	env := Env
	if override != "" {
		env = "" // it has no say, so no error may point to it
	}
	byEnv := env != "" && os.Getenv(env) != ""
	_, err := dl.Open(dl.Spec{
		Backend:  "opencl",
		Names:    fileNames(runtime.GOOS),
		Stem:     stem(runtime.GOOS),
		Override: override,
		Env:      env,
		Dirs:     dirs(runtime.GOOS, runtime.GOARCH),
		Accept: func(candidate *dl.Library) error {
			l := &Lib{library: candidate}
			if missing := l.resolve(); len(missing) > 0 {
				return lacking(candidate, missing, byEnv)
			}
			err := accept(l)
			var u *events.UnavailableError
			if byEnv && errors.As(err, &u) {
				u.Advice += unsetEnv
			}
			return err
		},
	})
	var u *events.UnavailableError
	if errors.As(err, &u) && u.Cause == events.CauseNotThisPlatform {
		u.Detail = "OpenCL is loaded on Linux and Windows only (amd64 and arm64), and this is " + runtime.GOOS + "/" + runtime.GOARCH
	}
	return err
}

// lacking says what a library without the functions is, as far as it shows.
func lacking(library *dl.Library, missing []string, byEnv bool) *events.UnavailableError {
	u := &events.UnavailableError{
		Backend: "opencl",
		Cause:   events.CauseSymbolMissing,
		Path:    library.Path(),
		Advice:  "use a loader for OpenCL 1.2 or later",
	}
	const shown = 3
	more := len(missing) - shown
	exports := func(name string) bool { return library.Lookup(name) != 0 }
	switch {
	case !exports(names()[opPlatforms]) && (exports("clIcdGetPlatformIDsKHR") || exports("clGetExtensionFunctionAddress")):
		u.Detail = library.Path() + " is a driver, which OpenCL's loader loads, and not the loader"
		u.Advice = "name the loader, " + fileNames(runtime.GOOS)[0]
	case more > 0:
		u.Detail = fmt.Sprintf("%s lacks %s and %d more", library.Path(), strings.Join(missing[:shown], ", "), more)
	default:
		u.Detail = library.Path() + " lacks " + strings.Join(missing, ", ")
	}
	if byEnv {
		u.Advice += unsetEnv
	}
	return u
}

// unsetEnv ends the advice on a library that the environment names.
const unsetEnv = ", or unset " + Env + ", which names this library, to have one searched for"

// resolve looks up all functions and gives the required ones that are missing.
func (l *Lib) resolve() (missing []string) {
	for i, name := range names() {
		l.fn[i] = l.library.Lookup(name)
		if l.fn[i] == 0 && op(i) < opCreateQueueWithProperties {
			missing = append(missing, name)
		}
	}
	return missing
}

func fileNames(goos string) []string {
	switch goos {
	case "windows":
		return []string{"OpenCL.dll"}
	case "linux":
		return []string{"libOpenCL.so.1", "libOpenCL.so"}
	}
	return []string{"OpenCL"}
}

func stem(goos string) string {
	if goos == "linux" {
		return "libOpenCL.so."
	}
	return ""
}

// dirs is where loaders lie that the system does not know of: those of the
// toolkits of NVIDIA, AMD and Intel, and of conda.
func dirs(goos, goarch string) []string {
	switch goos {
	case "windows":
		return []string{`$SystemRoot\System32`, `$CONDA_PREFIX\Library\bin`}
	case "linux":
	default:
		return nil
	}
	triplet, target := "x86_64-linux-gnu", "x86_64-linux"
	if goarch == "arm64" {
		triplet, target = "aarch64-linux-gnu", "sbsa-linux"
	}
	return []string{
		"$CONDA_PREFIX/lib",
		"/usr/lib/" + triplet, "/usr/lib64", "/usr/lib", "/usr/local/lib",
		"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
		"/run/opengl-driver/lib",
		"$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/targets/" + target + "/lib", "/usr/local/cuda/lib64",
		"$ROCM_PATH/lib", "/opt/rocm/lib", "/opt/rocm/opencl/lib",
		"/opt/intel/oneapi/compiler/latest/lib",
	}
}
