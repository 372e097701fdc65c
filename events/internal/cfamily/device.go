package cfamily

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/devevents/events"
)

// Vendor is the tag that keeps the types of two vendors apart.
type Vendor interface {
	VendorName() string
}

// errNotLoaded answers every call on a zero Device.
var errNotLoaded = fmt.Errorf("%w: this is a zero Device: no library was loaded for it; get one from a Runtime", events.ErrUnavailable)

// Event is a vendor's event. It is a small value; the zero value is invalid.
// V is the vendor's tag, so that a program cannot mix vendors up.
type Event[V Vendor] struct{ life *life }

// Stream is a vendor's stream: one that we made, or one wrapped with WrapStream.
// The zero value is invalid; the vendor's default stream is WrapStream(0).
type Stream[V Vendor] struct {
	dev    *dev
	life   *life // nil for a wrapped stream
	handle uintptr
}

// Device is one device of a vendor: an events.EventApi and its abilities.
type Device[V Vendor] struct{ *dev }

// dev is a device without its vendor's tag.
type dev struct {
	lib      *lib
	ordinal  int
	identity events.Identity

	// ctx is the device's primary context, retained at the first call that
	// needs it current: with one visible device, never for events and streams.
	ctx   atomic.Uintptr
	ctxMu sync.Mutex // for the retaining

	fault atomic.Pointer[events.DriverError] // the first sticky fault seen
	stats struct {
		clamped, destroyFailed, abandoned atomic.Uint64
		events, streams                   atomic.Int64
	}
	scratch scratch
	state   state
}

// check is what every handle must pass before it is announced.
func (d *dev) check(l *life, kind string) error {
	switch {
	case d == nil:
		return errNotLoaded
	case l == nil:
		return fmt.Errorf("%s: %w: zero %s handle", d.lib.table.Backend, events.ErrInvalid, kind)
	case l.dev != d:
		return d.mismatch(l.dev, kind)
	}
	return nil
}

func (d *dev) mismatch(other *dev, kind string) error {
	if other.lib != d.lib {
		return fmt.Errorf("%s: %w: the %s was made by another opening of a library (%s device %d, %s), this is %s device %d, %s",
			d.lib.table.Backend, events.ErrDeviceMismatch, kind,
			other.lib.table.Backend, other.ordinal, other.lib.runtime.Path(),
			d.lib.table.Backend, d.ordinal, d.lib.runtime.Path())
	}
	return fmt.Errorf("%s: %w: the %s is of device %d, the call is on device %d",
		d.lib.table.Backend, events.ErrDeviceMismatch, kind, other.ordinal, d.ordinal)
}

func (d *dev) destroyed(op Op, kind string) error {
	return fmt.Errorf("%s: %s: %s was already %w", d.lib.table.Backend, d.lib.name(op), kind, events.ErrDestroyed)
}

// unsupported says what is missing: the function, or what it cannot work without.
func (d *dev) unsupported(op Op) error {
	why := d.lib.name(op) + " cannot be used without others that are"
	switch {
	case d.lib.name(op) == "":
		why = "a function for this is"
	case !d.lib.has1(op):
		why = d.lib.name(op) + " is"
	}
	return fmt.Errorf("%s: %w: %s not in %s (version %s)", d.lib.table.Backend, events.ErrUnsupported,
		why, d.lib.runtime.Path(), d.lib.versionText(d.lib.version.runtime))
}

func (d *dev) notRecorded(op Op) error {
	return fmt.Errorf("%s: %s refused: %w", d.lib.table.Backend, d.lib.name(op), events.ErrNotRecorded)
}

// check is what a stream must pass; it may be a wrapped one, with no life to look at.
func (s Stream[V]) check(d *dev) error {
	switch {
	case d == nil:
		return errNotLoaded
	case s.dev == nil:
		return fmt.Errorf("%s: %w: zero stream handle (the default stream is WrapStream(0))", d.lib.table.Backend, events.ErrInvalid)
	case s.dev != d:
		return d.mismatch(s.dev, "stream")
	}
	return nil
}

// failed turns a refusal into an error and notes a sticky fault. After one,
// calls answer from the note without going to the driver.
func (d *dev) failed(op Op, code int32) error {
	err := d.lib.err(op, code)
	var driver *events.DriverError
	if errors.As(err, &driver) && errors.Is(driver.Kind, events.ErrDeviceFault) {
		d.fault.CompareAndSwap(nil, driver)
	}
	return err
}

// do2 is a call that leaves the device and the thread as they are.
func (d *dev) do2(op Op, a, b uintptr) int32 {
	l := d.lib
	if l.pin {
		return d.pinned2(op, a, b)
	}
	// A refusal is taken back from the thread's last error, so the thread is kept.
	runtime.LockOSThread()
	code := call2(l.fn[op], a, b)
	if code != codeSuccess {
		l.clearLast(code)
	}
	runtime.UnlockOSThread()
	return code
}

func (d *dev) pinned2(op Op, a, b uintptr) int32 {
	l := d.lib
	f := l.frame()
	t, code := d.enter(needDevice, f)
	if code == codeSuccess {
		code = call2(l.fn[op], a, b)
	}
	d.leave(t, f, code)
	l.drop(f)
	return code
}

func (d *dev) do3(op Op, a, b, c uintptr) int32 {
	l := d.lib
	if l.pin {
		return d.pinned3(op, a, b, c)
	}
	runtime.LockOSThread()
	code := call3(l.fn[op], a, b, c)
	if code != codeSuccess {
		l.clearLast(code)
	}
	runtime.UnlockOSThread()
	return code
}

func (d *dev) pinned3(op Op, a, b, c uintptr) int32 {
	l := d.lib
	f := l.frame()
	t, code := d.enter(needDevice, f)
	if code == codeSuccess {
		code = call3(l.fn[op], a, b, c)
	}
	d.leave(t, f, code)
	l.drop(f)
	return code
}

// on runs a call with the thread prepared.
func (d *dev) on(op Op, need need, call func(f *frame) int32) int32 {
	f := d.lib.frame()
	defer d.lib.drop(f)
	t, code := d.enter(need, f)
	if code == codeSuccess {
		code = call(f)
	}
	ours := code
	if d.lib.quiet[op] { // a last error of that number is somebody else's
		ours = codeSuccess
	}
	d.leave(t, f, ours)
	return code
}

// relaxed1 is a query or a wait: a call with one handle that would kill a graph
// capture in progress anywhere in the process if the thread were not exempted.
func (d *dev) relaxed1(op Op, a uintptr) int32 {
	l := d.lib
	if !l.pin && !l.has1(OpExchangeMode) {
		runtime.LockOSThread()
		code := call1(l.fn[op], a)
		l.clearLast(code)
		runtime.UnlockOSThread()
		return code
	}
	f := l.frame()
	t, code := d.enter(needDevice|needRelaxed, f)
	if code == codeSuccess {
		code = call1(l.fn[op], a)
	}
	d.leave(t, f, code)
	l.drop(f)
	return code
}

// Backend implements events.EventApi.
func (d Device[V]) Backend() string {
	var vendor V
	return vendor.VendorName()
}

// Ordinal is the device's number in this process.
func (d *dev) Ordinal() int {
	if d == nil {
		return -1
	}
	return d.ordinal
}

// Identity implements events.Identifier.
func (d *dev) Identity() events.Identity {
	if d == nil {
		return events.Identity{Ordinal: -1}
	}
	return d.identity
}

// String names the device for logs.
func (d *dev) String() string {
	if d == nil {
		return "no device"
	}
	return fmt.Sprintf("%s:%d (%s)", d.lib.table.Backend, d.ordinal, d.identity.Name)
}

func (d *dev) create(op Op, flags uint32, kind lifeKind) (*life, error) {
	if d == nil {
		return nil, errNotLoaded
	}
	if fault := d.fault.Load(); fault != nil {
		return nil, fault
	}
	f := d.lib.frame()
	defer d.lib.drop(f)
	t, code := d.enter(needDevice, f)
	f.word[1] = 0
	if code == codeSuccess {
		code = call2(d.lib.fn[op], f.wordAddr(1), uintptr(flags))
	}
	handle := f.handle(1)
	d.leave(t, f, code)
	if code != codeSuccess {
		return nil, d.failed(op, code)
	}
	if handle == 0 {
		return nil, fmt.Errorf("%s: %s reported success and made no handle: %w", d.lib.table.Backend, d.lib.name(op), events.ErrInvalid)
	}
	live(d, kind).Add(1)
	return newLife(d, handle, kind), nil
}

func live(d *dev, kind lifeKind) *atomic.Int64 {
	if kind == kindStream {
		return &d.stats.streams
	}
	return &d.stats.events
}

// free gives a handle that nobody uses back to the driver. After a sticky fault
// the driver refuses, and the handle goes with the process.
func (d *dev) free(l *life) error {
	live(d, l.kind).Add(-1)
	if d.fault.Load() != nil {
		d.stats.abandoned.Add(1)
		return nil
	}
	op := OpEventDestroy
	if l.kind == kindStream {
		op = OpStreamDestroy
	}
	code := d.on(op, needDevice, func(*frame) int32 { return call1(d.lib.fn[op], l.handle) })
	err := d.failed(op, code)
	switch {
	case errors.Is(err, events.ErrClosed): // the runtime is being torn down with the process
		return nil
	case errors.Is(err, events.ErrDeviceFault):
		d.stats.abandoned.Add(1)
	}
	return err
}

// EventCreate implements events.EventApi.
func (d Device[V]) EventCreate() (Event[V], error) {
	l, err := d.create(OpEventCreate, 0, kindEvent)
	return Event[V]{l}, err
}

// EventCreateUntimed implements events.UntimedCreator.
func (d Device[V]) EventCreateUntimed(blocking bool) (Event[V], error) {
	flags := uint32(flagEventDisableTiming)
	if d.dev != nil && blocking {
		flags = d.lib.table.BlockingUntimed
	}
	l, err := d.create(OpEventCreate, flags, kindEvent)
	if err == nil {
		l.untimed = true
	}
	return Event[V]{l}, err
}

// EventDestroy implements events.EventApi.
func (d Device[V]) EventDestroy(event Event[V]) error {
	if err := d.check(event.life, "event"); err != nil {
		return err
	}
	return d.destroy(event.life)
}

func (d *dev) destroy(l *life) error {
	if !l.dead.CompareAndSwap(false, true) {
		return nil
	}
	return d.lib.retire(l)
}

// EventRecord implements events.EventApi.
func (d Device[V]) EventRecord(event Event[V], stream Stream[V]) error {
	e := event.life
	if e == nil || e.dev != d.dev || stream.dev != d.dev {
		return d.checkBoth(event, stream)
	}
	l, sl := d.lib, stream.life
	held := l.hold(e, sl)
	if e.dead.Load() || sl != nil && sl.dead.Load() || d.fault.Load() != nil {
		err := d.recordable(OpEventRecord, e, sl)
		l.release(held, e, sl)
		return err
	}
	code := d.do2(OpEventRecord, e.handle, stream.handle)
	var err error
	if code != codeSuccess || !e.recorded.Load() {
		err = d.recorded(OpEventRecord, e, code)
	}
	l.release(held, e, sl)
	return err
}

func (d Device[V]) checkBoth(event Event[V], stream Stream[V]) error {
	if err := d.check(event.life, "event"); err != nil {
		return err
	}
	event.life.recorded.Store(false)
	return stream.check(d.dev)
}

// recordable refuses what must not be recorded. A refused event counts as never
// recorded.
func (d *dev) recordable(op Op, e, s *life) error {
	if s != nil && s.dead.Load() || d.fault.Load() != nil {
		e.recorded.Store(false)
	}
	switch {
	case e.dead.Load():
		return d.destroyed(op, "event")
	case s != nil && s.dead.Load():
		return d.destroyed(op, "stream")
	}
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	return nil
}

// recorded notes the outcome of a record. After a refusal the event counts as
// never recorded, so that a stale stamp is not read.
func (d *dev) recorded(op Op, e *life, code int32) error {
	e.recorded.Store(code == codeSuccess)
	return d.failed(op, code)
}

// EventQuery implements events.Querier.
func (d Device[V]) EventQuery(event Event[V]) (bool, error) {
	e := event.life
	if err := d.check(e, "event"); err != nil {
		return false, err
	}
	held := d.lib.hold(e, nil)
	err := d.askable(OpEventQuery, e)
	var code int32
	if err == nil {
		code = d.relaxed1(OpEventQuery, e.handle)
	}
	d.lib.release(held, e, nil)
	if err != nil {
		return false, err
	}
	return d.reached(code)
}

// askable refuses what must not be asked: the driver calls a never-recorded
// event complete.
func (d *dev) askable(op Op, e *life) error {
	if e.dead.Load() {
		return d.destroyed(op, "event")
	}
	// Before the other refusal: a record that met the fault made its event one that
	// was never recorded.
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	if !e.recorded.Load() {
		return d.notRecorded(op)
	}
	return nil
}

// reached turns a query's code into its answer.
func (d *dev) reached(code int32) (bool, error) {
	switch {
	case code == codeNotReady:
		return false, nil
	case code != codeSuccess:
		return false, d.failed(OpEventQuery, code)
	}
	return true, nil
}

// EventWait implements events.EventApi.
func (d Device[V]) EventWait(event Event[V]) error {
	e := event.life
	if err := d.check(e, "event"); err != nil {
		return err
	}
	// Counted, not held: a wait may last, and slots are for short calls.
	count(e, nil)
	err := d.askable(OpEventWait, e)
	if err == nil {
		if code := d.relaxed1(OpEventWait, e.handle); code != codeSuccess {
			err = d.failed(OpEventWait, code)
		}
	}
	d.lib.releaseCounted(e, nil)
	return err
}

// EventElapsed implements events.EventApi.
func (d Device[V]) EventElapsed(start, end Event[V]) (time.Duration, error) {
	s, e := start.life, end.life
	if d.dev == nil || s == nil || e == nil || s.dev != d.dev || e.dev != d.dev {
		if err := d.check(s, "start event"); err != nil {
			return 0, err
		}
		return 0, d.check(e, "end event")
	}
	l := d.lib
	held := l.hold(s, e)
	span, err := d.elapsed(held, s, e)
	l.release(held, s, e)
	return span, err
}

func (d *dev) elapsed(held *slot, s, e *life) (time.Duration, error) {
	switch {
	case s.dead.Load():
		return 0, d.destroyed(OpEventElapsed, "start event")
	case e.dead.Load():
		return 0, d.destroyed(OpEventElapsed, "end event")
	}
	if fault := d.fault.Load(); fault != nil {
		return 0, fault
	}
	// Looked at before the call: what is recorded while the driver reads is too
	// late for this reading.
	fresh, freshEnd := !s.recorded.Load(), !e.recorded.Load()
	var code int32
	var ms float32
	if held != nil {
		held.setFloat(float32(math.NaN()))
		code = d.do3(OpEventElapsed, held.outAddr(), s.handle, e.handle)
		ms = held.outFloat()
	} else {
		f := d.lib.frame()
		f.setFloat(float32(math.NaN()))
		code = d.do3(OpEventElapsed, f.wordAddr(0), s.handle, e.handle)
		ms = f.float()
		d.lib.drop(f)
	}
	if code != codeSuccess || fresh || freshEnd || s.untimed || e.untimed {
		what, kind := d.elapsedMistake(code, s, e, fresh, freshEnd)
		return 0, d.explainElapsed(code, what, kind)
	}
	span, clamped, err := events.FromMilliseconds(ms)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", d.lib.table.Backend, d.lib.name(OpEventElapsed), err)
	}
	if clamped {
		d.stats.clamped.Add(1)
	}
	return span, nil
}

// explainElapsed says what is wrong with the pair. The driver has one code for
// never recorded and for made without timing, and does not say which of the two
// events it means, so what we know decides the text, and the code is appended.
func (d *dev) explainElapsed(code int32, what string, kind error) error {
	if kind == nil {
		return d.failed(OpEventElapsed, code)
	}
	if code == codeSuccess {
		return fmt.Errorf("%s: elapsed: %s: %w", d.lib.table.Backend, what, kind)
	}
	return fmt.Errorf("%s: elapsed: %s: %w", d.lib.table.Backend, what, &events.DriverError{
		Backend: d.lib.table.Backend, Op: d.lib.name(OpEventElapsed), Code: code, Name: d.lib.codeName(code), Kind: kind,
	})
}

func (d *dev) elapsedMistake(code int32, s, e *life, fresh, freshEnd bool) (what string, kind error) {
	which := func(start, end bool, predicate string) string {
		switch {
		case start && end && s != e:
			return "start and end event " + predicate
		case start:
			return "start event " + predicate
		}
		return "end event " + predicate
	}
	if code != codeSuccess && code != codeNotReady && !errors.Is(d.lib.table.Kind(code), events.ErrInvalid) {
		return "", nil
	}
	if s.untimed || e.untimed {
		return which(s.untimed, e.untimed, "made without timing"), events.ErrTimingDisabled
	}
	if fresh || freshEnd {
		return which(fresh, freshEnd, "never recorded, or its last record failed"), events.ErrNotRecorded
	}
	if code == codeNotReady {
		pending, pendingEnd := d.pending(s), d.pending(e)
		if !pending && !pendingEnd {
			return "one of the events was pending and has been reached since", events.ErrNotReady
		}
		return which(pending, pendingEnd, "pending"), events.ErrNotReady
	}
	return "", nil
}

// pending asks for the span of an event to itself. A query would kill the capture
// that the event's last record may have gone into.
func (d *dev) pending(l *life) bool {
	f := d.lib.frame()
	defer d.lib.drop(f)
	return d.do3(OpEventElapsed, f.wordAddr(0), l.handle, l.handle) == codeNotReady
}

// StreamWaitEvent implements events.EventApi.
func (d Device[V]) StreamWaitEvent(stream Stream[V], event Event[V]) error {
	e, s := event.life, stream.life
	if err := stream.check(d.dev); err != nil {
		return err
	}
	// An event of another device of the same library is legal here, and only here.
	if e == nil || e.dev.lib != d.lib { // check names the reason
		return d.check(e, "event")
	}
	l := d.lib
	held := l.hold(e, s)
	err := d.askable(OpStreamWait, e)
	if err == nil && s != nil && s.dead.Load() {
		err = d.destroyed(OpStreamWait, "stream")
	}
	if err == nil {
		if code := d.do3(OpStreamWait, stream.handle, e.handle, 0); code != codeSuccess {
			err = d.failed(OpStreamWait, code)
		}
	}
	l.release(held, e, s)
	return err
}

// StreamSynchronize implements events.EventApi.
func (d Device[V]) StreamSynchronize(stream Stream[V]) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	s := stream.life
	if s != nil {
		count(s, nil)
		defer d.lib.releaseCounted(s, nil)
		if s.dead.Load() {
			return d.destroyed(OpStreamSync, "stream")
		}
	}
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	if code := d.relaxed1(OpStreamSync, stream.handle); code != codeSuccess {
		return d.failed(OpStreamSync, code)
	}
	return nil
}

// StreamCreateNonBlocking implements events.EventApi.
func (d Device[V]) StreamCreateNonBlocking() (Stream[V], error) {
	l, err := d.create(OpStreamCreate, flagStreamNonBlocking, kindStream)
	if err != nil {
		return Stream[V]{}, err
	}
	return Stream[V]{dev: d.dev, life: l, handle: l.handle}, nil
}

// StreamDestroy implements events.EventApi.
func (d Device[V]) StreamDestroy(stream Stream[V]) error {
	if err := stream.check(d.dev); err != nil {
		return err
	}
	if stream.life == nil {
		return fmt.Errorf("%s: %w: a wrapped stream belongs to whoever made it and is not destroyed here", d.lib.table.Backend, events.ErrInvalid)
	}
	return d.destroy(stream.life)
}

// WrapStream implements events.StreamWrapper. Handle 0 is the vendor's default
// stream.
func (d Device[V]) WrapStream(handle uintptr) Stream[V] {
	return Stream[V]{dev: d.dev, handle: handle}
}

// Handle is the vendor's own handle, for use with the vendor's other functions.
// The stream keeps its owner.
func (s Stream[V]) Handle() uintptr { return s.handle }

// InOrder implements events.InOrder: false for the per-thread default stream.
func (s Stream[V]) InOrder() bool { return s.handle != perThreadStream }

// perThreadStream is cudaStreamPerThread, CU_STREAM_PER_THREAD and hipStreamPerThread.
const perThreadStream = 2

// StreamCapturing implements events.CaptureAsker.
func (d Device[V]) StreamCapturing(stream Stream[V]) (bool, error) {
	if d.dev == nil || stream.dev != d.dev {
		return false, stream.check(d.dev)
	}
	if !d.lib.has1(OpCapturing) {
		return false, d.unsupported(OpCapturing)
	}
	s := stream.life
	if s == nil {
		return d.capturing(nil, stream.handle)
	}
	held := d.lib.hold(s, nil)
	if s.dead.Load() {
		d.lib.release(held, s, nil)
		return false, d.destroyed(OpCapturing, "stream")
	}
	captured, err := d.capturing(held, stream.handle)
	d.lib.release(held, s, nil)
	return captured, err
}

// ElapsedAfterCapture implements events.StaleReader.
func (d *dev) ElapsedAfterCapture() bool { return d != nil && d.lib.table.ElapsedAfterCapture }

func (d *dev) capturing(held *slot, handle uintptr) (bool, error) {
	if fault := d.fault.Load(); fault != nil {
		return false, fault
	}
	var code, state int32
	if held != nil {
		held.setInt32(captureNone)
		code = d.do2(OpCapturing, handle, held.outAddr())
		state = held.outInt32()
	} else {
		f := d.lib.frame()
		f.setInt32(1, captureNone)
		code = d.do2(OpCapturing, handle, f.wordAddr(1))
		state = f.int32(1)
		d.lib.drop(f)
	}
	switch code {
	case codeSuccess:
		return state != captureNone, nil
	case codeImplicitCapture:
		// The default stream while a blocking stream of this device captures:
		// work on it would be drawn into that capture.
		return true, nil
	}
	return false, d.failed(OpCapturing, code)
}

// EventStats implements events.StatsReader.
func (d *dev) EventStats() events.Stats {
	if d == nil {
		return events.Stats{}
	}
	return events.Stats{
		Clamped:        d.stats.clamped.Load(),
		DestroyFailed:  d.stats.destroyFailed.Load(),
		LiveEvents:     d.stats.events.Load(),
		LiveStreams:    d.stats.streams.Load(),
		AbandonedAtEnd: d.stats.abandoned.Load(),
	}
}

// RoundBegin implements events.RoundQuerier.
func (d *dev) RoundBegin() (events.Round, error) {
	if d == nil {
		return events.Round{}, errNotLoaded
	}
	if fault := d.fault.Load(); fault != nil {
		return events.Round{}, fault
	}
	f := d.lib.frame()
	t, code := d.enter(needDevice|needRelaxed, f)
	if code != codeSuccess {
		d.leave(t, f, code)
		d.lib.drop(f)
		return events.Round{}, d.failed(d.lib.switcher(), code)
	}
	d.lib.drop(f)
	return t.round(), nil
}

// RoundQuery implements events.RoundQuerier.
func (d Device[V]) RoundQuery(round events.Round, event Event[V]) (bool, error) {
	e := event.life
	if err := d.check(e, "event"); err != nil {
		return false, err
	}
	if !round.Open {
		return false, fmt.Errorf("%s: %w: query outside a round", d.lib.table.Backend, events.ErrInvalid)
	}
	held := d.lib.hold(e, nil)
	err := d.askable(OpEventQuery, e)
	var code int32
	if err == nil {
		if code = call1(d.lib.fn[OpEventQuery], e.handle); code != codeSuccess {
			d.lib.clearLast(code)
		}
	}
	d.lib.release(held, e, nil)
	if err != nil {
		return false, err
	}
	return d.reached(code)
}

// RoundEnd implements events.RoundQuerier.
func (d *dev) RoundEnd(round events.Round) error {
	if d == nil {
		return errNotLoaded
	}
	if !round.Open {
		return fmt.Errorf("%s: %w: the round is not open", d.lib.table.Backend, events.ErrInvalid)
	}
	f := d.lib.frame()
	d.leave(threadOf(round), f, codeSuccess)
	d.lib.drop(f)
	return nil
}

// Handle is the vendor's own handle, 0 once the event is destroyed. The event
// keeps its owner: whoever uses the handle makes sure that it stays alive.
func (e Event[V]) Handle() uintptr {
	if e.life == nil || e.life.dead.Load() {
		return 0
	}
	return e.life.handle
}

// Library is the file of the runtime library that the device was opened through.
func (d *dev) Library() string {
	if d == nil {
		return ""
	}
	return d.lib.runtime.Path()
}
