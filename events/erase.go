package events

import (
	"fmt"
	"time"
)

// AnyApi is the contract over handle types that do not name a vendor, for
// programs that pick the vendor at run time. Erase makes one.
//
//revive:disable-next-line:var-naming
type AnyApi = EventApi[AnyEvent, AnyStream]

// AnyEvent is an event of some vendor. The zero value is invalid.
type AnyEvent struct{ box anyBox }

// anyBox is only ever an *eventBox[E]; the interface hides E.
type anyBox interface{ madeBy() any }

type eventBox[E any] struct {
	api   any // the erased api that made it
	event E
}

func (b *eventBox[E]) madeBy() any { return b.api }

// AnyStream is a stream of some vendor. The zero value is invalid; two values
// are equal if they stand for the same stream of the same erased api.
type AnyStream struct {
	api    any
	stream any // an S
}

// InOrder is what the vendor's stream says of itself.
func (s AnyStream) InOrder() bool {
	o, says := s.stream.(InOrder)
	return !says || o.InOrder()
}

// Erase hides a vendor's types. The result has the abilities of api, found with
// Ability as always; hot calls cost a few nanoseconds more and allocate
// nothing. A handle of another vendor, of another erased api or of none is
// refused before the vendor's library is reached; but StreamWaitEvent takes the event of
// another erased api of the same vendor, whose library decides about other devices.
//
// Erase of nil is an api of no device: its Backend is "none", it has no abilities,
// and every call of it is ErrInvalid.
func Erase[E any, S comparable](api EventApi[E, S]) AnyApi {
	if already, ok := any(api).(AnyApi); ok {
		return already
	}
	if api == nil {
		api = noDevice[E, S]{}
	}
	x := &erased[E, S]{api: api}
	x.query, _ = Ability[Querier[E]](api)
	x.rounds, _ = Ability[RoundQuerier[E]](api)
	x.asker, _ = Ability[CaptureAsker[S]](api)
	x.stale, _ = Ability[StaleReader](api)
	x.host, _ = Ability[HostClocker](api)
	x.timer, _ = Ability[TimerReader](api)
	x.stamper, _ = Ability[Stamper[E]](api)
	x.untimed, _ = Ability[UntimedCreator[E]](api)
	x.identity, _ = Ability[Identifier](api)
	x.wrapper, _ = Ability[StreamWrapper[S]](api)
	x.stats, _ = Ability[StatsReader](api)
	x.gate, _ = Ability[Gate[S]](api)
	x.scratch, _ = Ability[Scratch[S]](api)
	x.graphs, _ = Ability[Graphs[E, S]](api)
	x.measuring = measuringOf[S](api)
	x.profiler, _ = Ability[ProfilerControl](api)
	return x
}

// EraseStream turns a vendor's stream into one of the erased api made from the
// same vendor's device.
func EraseStream[S comparable](api AnyApi, stream S) (AnyStream, error) {
	x, ok := api.(interface{ eraseStream(any) (AnyStream, bool) })
	if !ok {
		return AnyStream{}, fmt.Errorf("erase stream: %w: the api was not made by Erase", ErrInvalid)
	}
	out, ok := x.eraseStream(stream)
	if !ok {
		return AnyStream{}, fmt.Errorf("erase stream: %w: a %T is not a stream of backend %s", ErrDeviceMismatch, stream, api.Backend())
	}
	return out, nil
}

type erased[E any, S comparable] struct {
	api      EventApi[E, S]
	query    Querier[E]
	rounds   RoundQuerier[E]
	asker    CaptureAsker[S]
	stale    StaleReader
	host     HostClocker
	timer    TimerReader
	stamper  Stamper[E]
	untimed  UntimedCreator[E]
	identity Identifier
	wrapper  StreamWrapper[S]
	stats    StatsReader
	gate     Gate[S]
	scratch  Scratch[S]
	graphs   Graphs[E, S]
	measuring[S]
	profiler ProfilerControl
}

// Offers implements Limiter: the type has every method, the vendor may not.
func (x *erased[E, S]) Offers(ability any) bool {
	switch ability.(type) {
	case *Querier[AnyEvent]:
		return x.query != nil
	case *RoundQuerier[AnyEvent]:
		return x.rounds != nil
	case *CaptureAsker[AnyStream]:
		return x.asker != nil
	case *StaleReader:
		return x.stale != nil
	case *HostClocker:
		return x.host != nil
	case *TimerReader:
		return x.timer != nil
	case *Stamper[AnyEvent]:
		return x.stamper != nil
	case *UntimedCreator[AnyEvent]:
		return x.untimed != nil
	case *Identifier:
		return x.identity != nil
	case *StreamWrapper[AnyStream]:
		return x.wrapper != nil
	case *StatsReader:
		return x.stats != nil
	case *Gate[AnyStream]:
		return x.gate != nil
	case *Scratch[AnyStream]:
		return x.scratch != nil
	case *Graphs[AnyEvent, AnyStream]:
		return x.graphs != nil
	case *Cache:
		return x.cache != nil
	case *DeviceSynchronizer:
		return x.syncer != nil
	case *Versioned:
		return x.version != nil
	case *EmptyKernel[AnyStream]:
		return x.empty != nil
	case *ReadKernel[AnyStream]:
		return x.reader != nil
	case *ProfilerControl:
		return x.profiler != nil
	case *Telemetry:
		// Asked for when somebody wants it: the question may load a library.
		_, ok := Ability[Telemetry](x.api)
		return ok
	}
	return true
}

func (x *erased[E, S]) unsupported(what string) error {
	return fmt.Errorf("%s: %s: %w", x.api.Backend(), what, ErrUnsupported)
}

func (x *erased[E, S]) event(a AnyEvent) (E, error) {
	if b, ok := a.box.(*eventBox[E]); ok && b.api == any(x) {
		return b.event, nil
	}
	var none E
	return none, x.foreignEvent(a)
}

func (x *erased[E, S]) foreignEvent(a AnyEvent) error {
	if a.box == nil {
		return x.foreign("event", nil)
	}
	return x.foreign("event", a.box.madeBy())
}

func (x *erased[E, S]) stream(a AnyStream) (S, error) {
	if s, ok := a.stream.(S); ok && a.api == any(x) {
		return s, nil
	}
	var none S
	return none, x.foreign("stream", a.api)
}

// foreign is the refusal of a handle that another api made, or none.
func (x *erased[E, S]) foreign(kind string, maker any) error {
	if maker == nil {
		return fmt.Errorf("%s: %w: zero %s handle", x.api.Backend(), ErrInvalid, kind)
	}
	return fmt.Errorf("%v: %w: the %s was made by another erased api, of %v", x, ErrDeviceMismatch, kind, maker)
}

// String names the device, as far as it can be told.
func (x *erased[E, S]) String() string {
	if x.identity == nil {
		return x.api.Backend()
	}
	return fmt.Sprintf("%s device %d", x.api.Backend(), x.identity.Identity().Ordinal)
}

func (x *erased[E, S]) eraseStream(stream any) (AnyStream, bool) {
	if _, ok := stream.(S); !ok {
		return AnyStream{}, false
	}
	return AnyStream{api: x, stream: stream}, true
}

func (x *erased[E, S]) Backend() string { return x.api.Backend() }

func (x *erased[E, S]) boxed(e E, err error) (AnyEvent, error) {
	if err != nil {
		return AnyEvent{}, err
	}
	return AnyEvent{box: &eventBox[E]{api: x, event: e}}, nil
}

func (x *erased[E, S]) EventCreate() (AnyEvent, error) { return x.boxed(x.api.EventCreate()) }

func (x *erased[E, S]) EventDestroy(event AnyEvent) error {
	e, err := x.event(event)
	if err != nil {
		return err
	}
	return x.api.EventDestroy(e)
}

func (x *erased[E, S]) EventRecord(event AnyEvent, stream AnyStream) error {
	e, err := x.event(event)
	if err != nil {
		return err
	}
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	return x.api.EventRecord(e, s)
}

func (x *erased[E, S]) EventWait(event AnyEvent) error {
	e, err := x.event(event)
	if err != nil {
		return err
	}
	return x.api.EventWait(e)
}

func (x *erased[E, S]) EventElapsed(start, end AnyEvent) (time.Duration, error) {
	a, err := x.event(start)
	if err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	b, err := x.event(end)
	if err != nil {
		return 0, fmt.Errorf("end: %w", err)
	}
	return x.api.EventElapsed(a, b)
}

func (x *erased[E, S]) StreamWaitEvent(stream AnyStream, event AnyEvent) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	// An event of another device of the same vendor is legal here, and the
	// vendor tells its devices apart. The type alone does not name the vendor:
	// two may use the same plain type for their handles.
	b, ok := event.box.(*eventBox[E])
	if !ok || b.api != any(x) && b.api.(AnyApi).Backend() != x.api.Backend() {
		return x.foreignEvent(event)
	}
	return x.api.StreamWaitEvent(s, b.event)
}

func (x *erased[E, S]) StreamSynchronize(stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	return x.api.StreamSynchronize(s)
}

func (x *erased[E, S]) StreamCreateNonBlocking() (AnyStream, error) {
	s, err := x.api.StreamCreateNonBlocking()
	if err != nil {
		return AnyStream{}, err
	}
	return AnyStream{api: x, stream: s}, nil
}

func (x *erased[E, S]) StreamDestroy(stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	return x.api.StreamDestroy(s)
}

func (x *erased[E, S]) EventQuery(event AnyEvent) (bool, error) {
	e, err := x.event(event)
	if err != nil {
		return false, err
	}
	if x.query == nil {
		return false, x.unsupported("query")
	}
	return x.query.EventQuery(e)
}

func (x *erased[E, S]) RoundBegin() (Round, error) {
	if x.rounds == nil {
		return Round{}, x.unsupported("polling round")
	}
	return x.rounds.RoundBegin()
}

func (x *erased[E, S]) RoundQuery(round Round, event AnyEvent) (bool, error) {
	e, err := x.event(event)
	if err != nil {
		return false, err
	}
	if x.rounds == nil {
		return false, x.unsupported("polling round")
	}
	return x.rounds.RoundQuery(round, e)
}

func (x *erased[E, S]) RoundEnd(round Round) error {
	if x.rounds == nil {
		return x.unsupported("polling round")
	}
	return x.rounds.RoundEnd(round)
}

func (x *erased[E, S]) StreamCapturing(stream AnyStream) (bool, error) {
	s, err := x.stream(stream)
	if err != nil {
		return false, err
	}
	if x.asker == nil {
		return false, x.unsupported("asking for a capture")
	}
	return x.asker.StreamCapturing(s)
}

func (x *erased[E, S]) ElapsedAfterCapture() bool {
	return x.stale != nil && x.stale.ElapsedAfterCapture()
}

func (x *erased[E, S]) HostClock() func() int64 {
	if x.host == nil {
		return nil
	}
	return x.host.HostClock()
}

func (x *erased[E, S]) DeviceAndHostTimer() (device, host uint64, err error) {
	if x.timer == nil {
		return 0, 0, x.unsupported("the device's timer")
	}
	return x.timer.DeviceAndHostTimer()
}

func (x *erased[E, S]) EventStamp(event AnyEvent) (uint64, error) {
	e, err := x.event(event)
	if err != nil {
		return 0, err
	}
	if x.stamper == nil {
		return 0, x.unsupported("the stamp of one event")
	}
	return x.stamper.EventStamp(e)
}

func (x *erased[E, S]) EventCreateUntimed(blocking bool) (AnyEvent, error) {
	if x.untimed == nil {
		return AnyEvent{}, x.unsupported("events without timing")
	}
	return x.boxed(x.untimed.EventCreateUntimed(blocking))
}

func (x *erased[E, S]) Identity() Identity {
	if x.identity == nil {
		return Identity{Ordinal: -1}
	}
	return x.identity.Identity()
}

func (x *erased[E, S]) WrapStream(handle uintptr) AnyStream {
	if x.wrapper == nil {
		return AnyStream{}
	}
	return AnyStream{api: x, stream: x.wrapper.WrapStream(handle)}
}

func (x *erased[E, S]) EventStats() Stats {
	if x.stats == nil {
		return Stats{}
	}
	return x.stats.EventStats()
}

// TelemetryRead asks the vendor also where it does not offer the ability: its error
// says why.
func (x *erased[E, S]) TelemetryRead() (TelemetryReading, error) {
	t, ok := x.api.(Telemetry)
	if !ok {
		return TelemetryReading{}, x.unsupported("telemetry")
	}
	return t.TelemetryRead()
}

func (x *erased[E, S]) ProfilerStart() error {
	if x.profiler == nil {
		return x.unsupported("profiler control")
	}
	return x.profiler.ProfilerStart()
}

func (x *erased[E, S]) ProfilerStop() error {
	if x.profiler == nil {
		return x.unsupported("profiler control")
	}
	return x.profiler.ProfilerStop()
}

func (x *erased[E, S]) GateClose(stream AnyStream, watchdog time.Duration) (GateHandle, error) {
	s, err := x.stream(stream)
	if err != nil {
		return nil, err
	}
	if x.gate == nil {
		return nil, x.unsupported("gate")
	}
	return x.gate.GateClose(s, watchdog)
}

func (x *erased[E, S]) ScratchAlloc(bytes int64) (Buffer, error) {
	if x.scratch == nil {
		return Buffer{}, x.unsupported("scratch work")
	}
	return x.scratch.ScratchAlloc(bytes)
}

func (x *erased[E, S]) ScratchFree(buffer Buffer) error {
	if x.scratch == nil {
		return x.unsupported("scratch work")
	}
	return x.scratch.ScratchFree(buffer)
}

func (x *erased[E, S]) ScratchMemset(buffer Buffer, value byte, bytes int64, stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.scratch == nil {
		return x.unsupported("scratch work")
	}
	return x.scratch.ScratchMemset(buffer, value, bytes, s)
}

func (x *erased[E, S]) ScratchCopy(dst, src Buffer, bytes int64, stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.scratch == nil {
		return x.unsupported("scratch work")
	}
	return x.scratch.ScratchCopy(dst, src, bytes, s)
}

func (x *erased[E, S]) ScratchSpin(d time.Duration, stream AnyStream) (Spin, error) {
	s, err := x.stream(stream)
	if err != nil {
		return nil, err
	}
	if x.scratch == nil {
		return nil, x.unsupported("scratch work")
	}
	return x.scratch.ScratchSpin(d, s)
}

func (x *erased[E, S]) CaptureBegin(stream AnyStream, mode CaptureMode) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.graphs == nil {
		return x.unsupported("graphs")
	}
	return x.graphs.CaptureBegin(s, mode)
}

func (x *erased[E, S]) CaptureEnd(stream AnyStream) (Graph[AnyStream], error) {
	s, err := x.stream(stream)
	if err != nil {
		return nil, err
	}
	if x.graphs == nil {
		return nil, x.unsupported("graphs")
	}
	g, err := x.graphs.CaptureEnd(s)
	if err != nil {
		return nil, err
	}
	return erasedGraph[E, S]{x, g}, nil
}

func (x *erased[E, S]) EventRecordExternal(event AnyEvent, stream AnyStream) error {
	e, err := x.event(event)
	if err != nil {
		return err
	}
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.graphs == nil {
		return x.unsupported("graphs")
	}
	return x.graphs.EventRecordExternal(e, s)
}

type erasedGraph[E any, S comparable] struct {
	x *erased[E, S]
	g Graph[S]
}

func (g erasedGraph[E, S]) Launch(stream AnyStream) error {
	s, err := g.x.stream(stream)
	if err != nil {
		return err
	}
	return g.g.Launch(s)
}

func (g erasedGraph[E, S]) Close() error { return g.g.Close() }

// noDevice stands for a nil api.
type noDevice[E any, S comparable] struct{}

var errNoDevice = fmt.Errorf("%w: no device: Erase was given nil", ErrInvalid)

func (noDevice[E, S]) Backend() string                            { return "none" }
func (noDevice[E, S]) EventCreate() (e E, err error)              { return e, errNoDevice }
func (noDevice[E, S]) EventDestroy(E) error                       { return errNoDevice }
func (noDevice[E, S]) EventRecord(E, S) error                     { return errNoDevice }
func (noDevice[E, S]) EventWait(E) error                          { return errNoDevice }
func (noDevice[E, S]) EventElapsed(_, _ E) (time.Duration, error) { return 0, errNoDevice }
func (noDevice[E, S]) StreamWaitEvent(S, E) error                 { return errNoDevice }
func (noDevice[E, S]) StreamSynchronize(S) error                  { return errNoDevice }
func (noDevice[E, S]) StreamCreateNonBlocking() (s S, err error)  { return s, errNoDevice }
func (noDevice[E, S]) StreamDestroy(S) error                      { return errNoDevice }
