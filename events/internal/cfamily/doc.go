// Package cfamily is the backend that the C-family runtimes share: CUDA's, CUDA's
// driver alone, HIP's, and whatever else has their functions under other names. A
// Table spells a vendor's names, codes and habits; everything else is here:
//
//	lib.go      loading a vendor's functions and counting its devices
//	runtime.go  Runtime: what was loaded, its devices, the choice of library
//	device.go   Device: events.EventApi and the abilities round events
//	life.go     why no stale handle reaches C
//	pin.go      what belongs to an OS thread and is put back after a call
//	mem.go      every unsafe conversion, and the frames of calls
//	call.go     the one call into C
//	scratch.go  work for probes and benchmarks, and gates
//	graphs.go   captures
package cfamily
