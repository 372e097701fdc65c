// Package events is the seam between GPU event timing written once and the
// vendors' runtimes below it.
//
// CUDA, HIP and the runtimes cut after them share one model: an event is
// recorded into a stream, the device stamps it when the stream reaches it, and
// the span between two stamps is read later. [EventApi] is that model; a backend
// (package cuda, package mock, one of your own) implements it for one device.
//
// # The contract in brief
//
//   - A record returns once it is queued. Query, wait and elapsed are about the
//     last record; one that failed leaves the event as never recorded.
//   - Absence of work never reads as done: a never-recorded event is
//     [ErrNotRecorded] in every call, where vendors say "complete".
//   - Handles are checked before the vendor sees them: zero is [ErrInvalid],
//     destroyed [ErrDestroyed], of another device [ErrDeviceMismatch].
//   - Times are time.Duration, rounded to the nanosecond by [FromMilliseconds].
//     A negative reading is 0 and counted in [Stats]; what is no duration is
//     [ErrBadReading].
//   - Every error wraps one of the sentinels, but for a vendor's code that fits none. A refusal by the vendor is a
//     [*DriverError] with function, name and number; a machine without a
//     usable library or device is an [*UnavailableError] that says why.
//
// # What else is here
//
// What only some vendors can do is an ability, a small interface of its own:
// find it with [Ability], never with a type assertion. [Event] owns a handle,
// knows its history and so names mistakes that a driver's code hides. [Pool]
// lends events and takes them back when nobody holds them and the device has
// reached them. [Erase] hides a vendor's types from a program that picks its
// vendor at run time.
//
// # When not to use it
//
// To wait with a context, without costing a thread for each waiter, use package
// fence. To time parts of a running program, use package profiler: it places
// spans on the host's clock and stays off the hot path. For benchmarks use
// package bench. Below those, [Event] rather than a bare handle is the choice
// where a few nanoseconds do not matter. Events time the device; for host code
// use package time.
//
// # Concurrency
//
// All methods of EventApi and its abilities, of Event and of Pool are safe for
// concurrent use, except that a polling round ([RoundQuerier]) stays on its
// goroutine and a capture that is not relaxed on its thread. Importing the
// package does nothing, and it starts no goroutines.
package events
