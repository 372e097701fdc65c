// Package opencl is the OpenCL backend of package events, for GPUs that have
// neither CUDA nor HIP, for CPUs through PoCL, and for whatever else has a driver
// for OpenCL 1.2 or later. It loads the loader library (libOpenCL) when Open is
// called, through the dynamic loader and without cgo.
//
//	rt, err := opencl.Open()      // no loader, platform or device: an error that says which
//	dev, err := rt.Device(0)      // an events.EventApi[opencl.Event, opencl.Stream]
//	stream := dev.WrapStream(queue)
//
// # How OpenCL is made to fit
//
// A Stream is an in-order command queue with profiling. An Event is a place for
// one record: OpenCL makes its events when something is queued, so EventRecord
// queues a marker, flushes the queue (or a poll may never see it reached), and
// gives the marker before back. Times are CL_PROFILING_COMMAND_END of the
// markers, so that EventElapsed is exact to the driver's nanosecond.
//
// Where a driver gives no times to markers, which is found out when the device is
// opened, a record is a marker and a fill of one byte behind it;
// Device.StampsByFill says so. Such a record costs more, and a foreign context
// that was recorded in stays alive until Close.
//
// A wrapped queue may be out of order. A record on it is a barrier, so that work
// runs on the side of the record on which it was queued, and always a fill as well:
// NVIDIA's driver gives no times to barriers.
//
// # What it promises
//
// A handle that this package made never reaches the library without a reference
// of ours to it, and each reference is given back once, whatever the order of
// calls. A wrapped queue is its owner's, is not retained, and must outlive the
// calls made with it.
//
// A command that ends with a negative status may have broken its context, so in
// ours it is a fault that stays (events.ErrDeviceFault), and so is a queue of ours
// that the driver calls invalid, which is how some report a kernel's crash. A
// record that was dropped because a program failed a user event before it is an
// error without being a fault. After a fault handles are abandoned and counted.
//
// What is known of an event is answered without the driver, so a fault shows at
// the first call that asks the device for something new.
//
// # What it does not have
//
// Captures and graphs do not exist here, so there is no CaptureAsker and no
// Graphs. Every marker in a profiling queue carries a time, so there is no
// UntimedCreator. A query needs no preparation of its thread, so there is no
// RoundQuerier. A stream waits only for events of its own context: StreamWaitEvent
// across devices, or between our streams and a queue of another context, is
// ErrDeviceMismatch. ScratchSpin needs a timer that a kernel can read: see there.
//
// A Gate is a user event. TimerReader (clGetDeviceAndHostTimer) is there where the
// driver has it; PoCL 3.1 and NVIDIA's driver 580 have not. PoCL's serial device
// ("basic", there only where POCL_DEVICES asks for it) never returns from opening a
// gate: it hangs in clSetUserEventStatus.
//
// # What a record costs
//
// Measured on an NVIDIA H200, driver 580: 11us of the host's time and 8us of the
// device's, where a CUDA event takes 1.6us and 1.3us. What is queued behind a gate
// there is submitted piece by piece once the gate opens, so that the driver's own
// pace shows in the spans. With PoCL on an x86 CPU a record costs about 2us.
//
// # What it needs
//
// Linux on amd64 or arm64, or Windows, and a glibc process: a program that
// imports this package is linked dynamically also with CGO_ENABLED=0. It has been
// run on PoCL 3.1 on an x86 CPU, on an NVIDIA H200 through NVIDIA's OpenCL 3.0 (driver
// 580.159), and on an imitation in Go. On AMD's and Intel's drivers it has never run.
//
// A profiling queue stamps the beginning and the end of every command, and those stamps
// lie inside a span between two events: on the H200 a kernel reads 6.3 us more than its
// own timer, where CUDA's events read 3.2 us more, and an empty span 2.0 us.
//
// All types are safe for concurrent use.
package opencl
