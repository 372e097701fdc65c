// Package cuda is the CUDA backend of package events: it loads NVIDIA's runtime
// library (libcudart, 11.0 or later) when Open is called, through the dynamic
// loader and without cgo.
//
//	rt, err := cuda.Open()        // no GPU: an error that says why
//	dev, err := rt.Device(0)      // an events.EventApi[cuda.Event, cuda.Stream]
//	stream := dev.WrapStream(handle)
//
// # What it promises
//
// A handle that this package made never reaches the library once it is
// destroyed, and neither does a zero handle or one of another device. A wrapped
// stream is its owner's and must outlive the calls made with it.
//
// The calling program's current device and capture mode are the same after every
// call as before it, and so is its last error, unless the call fails: that clears it. With one visible device nothing is
// switched at all; with more, calls run with the device's context current, set
// and restored through the driver library. A device that nobody asked for is
// never initialised.
//
// A query, wait or synchronize exempts its thread for the call, because from an
// ordinary thread it would invalidate a graph capture in progress anywhere in
// the process. An event whose last record went into a capture must still not be
// queried: ask with StreamCapturing after recording on a stream that you do
// not own.
//
// After a sticky device fault (cudaErrorIllegalAddress and its like) every call that
// asks something of the device returns the first fault without going to the library.
// What gives back (EventDestroy, StreamDestroy, Close) is nil: the handles are abandoned.
//
// # What it needs
//
// Linux on amd64 or arm64, or Windows, and a glibc process: a program that
// imports this package is linked dynamically also with CGO_ENABLED=0, and does
// not start in an empty container image. It cannot be linked together with
// another library that brings its own cgo replacement (goffi).
//
// All types are safe for concurrent use.
package cuda
