package events

import "time"

// EventApi is the seam between what is written once (fence, profiler, bench)
// and a vendor's device runtime. One value speaks for one device.
//
// E is the vendor's event handle and S its stream handle. Both are small values
// that callers copy and never look into. The zero E is never a valid event, and
// the zero S is never a valid stream: a vendor's default stream has a handle of
// its own, obtained from the vendor's package.
//
// All methods are safe for concurrent use. None panics, whatever handle it is
// given: a zero handle is ErrInvalid, a destroyed one ErrDestroyed, one of
// another device or another instance ErrDeviceMismatch, and none of these
// reaches the vendor's library.
//
// Unless a method says that it blocks, it returns without waiting for device
// work. After a sticky device fault the first call that asks the device for
// something new returns an error that wraps ErrDeviceFault, and from then on every
// method that reaches the device does. Until then a call may still answer with what
// is known already: that an event was reached, for one.
//
// The interface is frozen: no method is added, taken away or changed any more.
// It was frozen once a runtime that is not CUDA's twin (OpenCL: no events made in
// advance, queues for streams, integer stamps) had passed the whole suite on a
// real driver without a change to it. What only some vendors can do is an ability:
// a small interface of its own, found with Ability.
//
//revive:disable-next-line:var-naming
type EventApi[E any, S comparable] interface {
	// Backend names the vendor: "cuda", "hip", "opencl", "mock". It never changes and
	// is fit for a log field or a file name.
	Backend() string

	// EventCreate makes an event that carries a timestamp. The caller owns it
	// and gives it back with EventDestroy.
	EventCreate() (E, error)

	// EventDestroy gives an event back. It never blocks: an event that the
	// device has not reached yet, or that another call is using, is freed when
	// that has passed. Destroying an event a second time does nothing and
	// returns nil.
	EventDestroy(event E) error

	// EventRecord queues a timestamp on stream and returns once it is queued,
	// not when it is reached. It blocks only while the device's own queue is
	// full. Recording again replaces the earlier record; stream waits queued
	// before keep the record that they saw. If it fails, for its stream or in the
	// vendor's library, the event counts as never recorded, so that a stale stamp
	// cannot be read as the new one.
	//
	// It does not ask whether stream is being captured into a graph, which
	// would cost a second driver call; see CaptureAsker.
	EventRecord(event E, stream S) error

	// EventWait blocks the calling goroutine until the event's last record is
	// reached. An event that was never recorded is ErrNotRecorded, not success.
	// It cannot be cancelled: package fence waits with a context.
	EventWait(event E) error

	// EventElapsed is the span from start to end on the device's clock. Both
	// must have been reached: one that was never recorded is ErrNotRecorded,
	// one still pending ErrNotReady, one without a timestamp ErrTimingDisabled,
	// and the text says which of the two. A negative reading is clamped to 0
	// and counted (see StatsReader); one that is not a duration at all
	// (NaN, infinite, beyond 292 years) is ErrBadReading.
	EventElapsed(start, end E) (time.Duration, error)

	// StreamWaitEvent makes work queued on stream from now on wait, on the
	// device, for the event's last record. The host does not wait. An event of
	// another device of the same vendor may be waited for where the vendor can.
	// An event that was never recorded is ErrNotRecorded: vendors treat such a
	// wait as already satisfied, which loses the dependency silently.
	StreamWaitEvent(stream S, event E) error

	// StreamSynchronize blocks the calling goroutine until everything queued
	// on stream so far is done.
	StreamSynchronize(stream S) error

	// StreamCreateNonBlocking makes a stream that does not synchronise with the
	// vendor's default stream. The caller owns it.
	StreamCreateNonBlocking() (S, error)

	// StreamDestroy gives back a stream made by StreamCreateNonBlocking. Work
	// already queued on it still runs. A second destroy returns nil. A stream
	// that was only wrapped is the caller's: ErrInvalid.
	StreamDestroy(stream S) error
}
