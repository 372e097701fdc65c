// Package hip is the HIP backend of package events: it loads AMD's runtime library
// (libamdhip64, ROCm 5 or later) when Open is called, through the dynamic loader
// and without cgo.
//
//	rt, err := hip.Open()        // no GPU: an error that says why
//	dev, err := rt.Device(0)     // an events.EventApi[hip.Event, hip.Stream]
//
// # How far it was tested
//
// This backend has been run against AMD's own library on a machine without an AMD
// device (it loads, names its errors and says "no device"), and against an
// imitation of the runtime. It has never been run on AMD hardware.
//
// It promises what package cuda promises, over the same code, with these
// differences, which follow from AMD's documentation and source:
//
//   - The last error of a thread is overwritten by every call of a runtime up to
//     ROCm 6, also by "not ready"; from 7 on only errors are stored.
//   - With more than one device visible, calls switch the current device with
//     hipSetDevice, which opens nothing on HIP, and restore it.
//   - EventElapsed on an event whose last record went into a graph capture reads
//     the stamps from before the capture (StaleReader), so package profiler asks
//     for a capture at both ends of a window.
//   - A host wait on an untimed blocking event sleeps only where the runtime
//     honours the flag; runtimes up to ROCm 6.3 spin.
//   - There is no Gate and no ScratchSpin. Graphs are there from ROCm 6.4, which brought
//     the external events that belong to them.
//
// All types are safe for concurrent use.
package hip
