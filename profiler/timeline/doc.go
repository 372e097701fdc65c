// Package timeline writes a profiler's windows as a trace that https://ui.perfetto.dev and
// chrome://tracing open, and tells them to runtime/trace.
//
//	mux.Handle("/debug/gpu/trace", timeline.Handler(prof))
//
//	curl -o gpu.json 'http://host/debug/gpu/trace?seconds=5'   # then open it in Perfetto
//
// # What is in a trace
//
// Each device is a process and each of its streams a thread in it, with the windows as slices
// where the device ran them. Slices of one thread lie in one another or apart, as the
// viewers want it; where windows overlap otherwise, a second thread of the stream takes
// one of them ("stream 1, beside"). A process of its own, "host", has the time from
// Start to Stop of each window, and an arrow leads from there to the window on the device.
// Arguments of a slice are the window's ID, that of the one it lies in, the bound
// of its start and what the placement rests on (see profiler.Quality). Where the clocks
// contradicted each other an instant marks the new epoch: across it, slices are not
// comparable.
//
// Times are microseconds since the origin of the profiler, with three decimals, from
// the host's monotonic clock. Durations are the device's.
//
// # Memory
//
// A trace is streamed. What began in the last one to two seconds waits to be put in order: at most
// 8192 windows of a stream, and 65,536 slices of all streams and the host together. A window
// that comes later than that, since it is longer than all of those, goes on a thread of its own
// beside the stream's. What was written last is complete with Close. Beyond that each
// stream that there ever was costs some hundred bytes.
//
// The format is the "JSON array" form of
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: a file that
// breaks off is still read.
package timeline
