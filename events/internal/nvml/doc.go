// Package nvml reads the state of NVIDIA's devices through the driver's management
// library, NVML (libnvidia-ml.so.1, nvml.dll).
//
//	open.go    which files may be the library, its functions, and which device is meant
//	read.go    one reading: what the device has, in words of package events
//	codes.go   names of the codes, and what they stand for
//	mem.go     every unsafe conversion
//	call.go    the one call into C
//
// The library is loaded when a device is first asked for, initialised once, and never
// unloaded. A device is found by its UUID, or else by its place on the bus: NVML counts
// devices in another order than CUDA, and counts those that CUDA_VISIBLE_DEVICES hides.
//
//	device, err := nvml.Find(identity)      // why not, in a sentence
//	reading, err := device.TelemetryRead()
package nvml
