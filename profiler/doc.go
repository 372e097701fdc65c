// Package profiler measures windows of device work on the device's own clock and
// places them on the host's, with a bound that the truth lies in.
//
//	prof, err := profiler.New(dev)             // any events.EventApi
//	defer prof.Close()
//	decode := prof.Track(stream, "decode")     // once; names no vendor, nil is a no-op
//	w := decode.Start()                        // queues a timestamp; never waits
//	enqueue()
//	m := decode.Stop(w)                        // returns at enqueue time
//	span, err := m.Wait(ctx)                   // optional: sinks get it anyway
//
// # Windows
//
// A window is two events, recorded where it opened and where it closed. Windows
// nest, overlap and may be stopped by another goroutine than started them.
// Abandon drops one; Fail makes all open ones resolve to an error; Lap closes
// one and opens the next on one shared event. A token used twice is ErrInvalid.
//
// Start and Stop make no waiting call and do not allocate. The results are read
// back by a goroutine of the profiler, which alone asks the device: Wait and Flush end
// with their context, and Close within its timeout, also when a driver hangs.
// Memory is bounded (WithWindows, WithResults): a start beyond the bound is
// dropped and counted, and an old result is ErrExpired.
//
// # The clock
//
// Span.Duration is read between the window's own two events and is as exact as
// the device's stamps. Span.Start is on the host's monotonic clock, and the
// truth lies within Span.Bound of it. The bound comes from brackets around events
// on a private stream (an anchor every 100 ms while windows are open or unread),
// from the window's own record and first-seen times, from the largest difference of
// rates that WithMaxClockRate allows, and, once four anchors follow, from how the
// rate behaved around the window. So sinks get a window half a second later, and a
// reader who waits gets a wider bound at once: see Quality. On an H200 the bound is
// 3.9 us (median; p99 4.8), and of 125,504 windows that were held against the
// device's own timer none lay outside of it; docs/accuracy.md says how that was
// measured and what is not guaranteed.
//
// When the clocks contradict each other (suspend, device reset) a new Epoch begins,
// and every window that may have been open or unread at that moment is
// ErrBadReading: its two stamps are no measure of it. A step of the clocks that is
// smaller than what WithMaxClockRate allows between two anchors (60 us in 100 ms) goes
// unseen, and so does one inside a window that was read less than a millisecond after
// an anchor.
//
// # Captures
//
// A window on a stream that is being captured into a graph resolves to
// ErrCapturing. The capture is not harmed: its events are never queried.
//
// # When not to use it
//
// A window on the device costs two timestamps there (1.3 us each on an H200), so
// windows round single short kernels measure mostly themselves. It does not see
// inside a graph launch, and a window says when its work ran, not which kernels
// ran in it.
//
// # Concurrency and ownership
//
// Everything is safe for concurrent use. A stream given to Track must outlive the
// calls made on the Track; nothing in the background touches it. Close destroys
// every event, within the close timeout.
package profiler
