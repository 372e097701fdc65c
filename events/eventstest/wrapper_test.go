package eventstest

import (
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// broken is a simulated device with some methods replaced.
type broken struct {
	*mock.Device
	flaws
}

// flaws are the replaced methods; nil is the device's own.
type flaws struct {
	offers        func(ability any) bool
	backend       func() string
	create        func() (mock.Event, error)
	untimed       func(blocking bool) (mock.Event, error)
	destroy       func(e mock.Event) error
	record        func(e mock.Event, s mock.Stream) error
	wait          func(e mock.Event) error
	query         func(e mock.Event) (bool, error)
	roundQuery    func(r events.Round, e mock.Event) (bool, error)
	elapsed       func(start, end mock.Event) (time.Duration, error)
	streamWait    func(s mock.Stream, e mock.Event) error
	sync          func(s mock.Stream) error
	streamCreate  func() (mock.Stream, error)
	streamDestroy func(s mock.Stream) error
	capturing     func(s mock.Stream) (bool, error)
	identity      func() events.Identity
	wrap          func(handle uintptr) mock.Stream
	stats         func() events.Stats
	hostClock     func() func() int64
	stamp         func(e mock.Event) (uint64, error)
	gate          func(s mock.Stream, watchdog time.Duration) (events.GateHandle, error)
	memset        func(b events.Buffer, bytes int64, s mock.Stream) error
	spin          func(d time.Duration, s mock.Stream) (events.Spin, error)
	captureBegin  func(s mock.Stream, mode events.CaptureMode) error
	captureEnd    func(s mock.Stream) (events.Graph[mock.Stream], error)
	external      func(e mock.Event, s mock.Stream) error
	cacheBytes    func() (int64, error)
	syncAll       func() error
	versions      func() (string, string)
	empty         func(s mock.Stream) error
	read          func(b events.Buffer, bytes int64, s mock.Stream) error
	telemetry     func() (events.TelemetryReading, error)
}

// or picks a replacement, where there is one.
func or[F any](flaw, own F, replaced bool) F {
	if replaced {
		return flaw
	}
	return own
}

func (b *broken) Offers(ability any) bool {
	return or(b.offers, b.Device.Offers, b.offers != nil)(ability)
}

func (b *broken) Backend() string {
	return or(b.backend, b.Device.Backend, b.backend != nil)()
}

func (b *broken) EventCreate() (mock.Event, error) {
	return or(b.create, b.Device.EventCreate, b.create != nil)()
}

func (b *broken) EventCreateUntimed(blocking bool) (mock.Event, error) {
	return or(b.untimed, b.Device.EventCreateUntimed, b.untimed != nil)(blocking)
}

func (b *broken) EventDestroy(e mock.Event) error {
	return or(b.destroy, b.Device.EventDestroy, b.destroy != nil)(e)
}

func (b *broken) EventRecord(e mock.Event, s mock.Stream) error {
	return or(b.record, b.Device.EventRecord, b.record != nil)(e, s)
}

func (b *broken) EventWait(e mock.Event) error {
	return or(b.wait, b.Device.EventWait, b.wait != nil)(e)
}

func (b *broken) EventQuery(e mock.Event) (bool, error) {
	return or(b.query, b.Device.EventQuery, b.query != nil)(e)
}

func (b *broken) RoundQuery(r events.Round, e mock.Event) (bool, error) {
	return or(b.roundQuery, b.Device.RoundQuery, b.roundQuery != nil)(r, e)
}

func (b *broken) EventElapsed(start, end mock.Event) (time.Duration, error) {
	return or(b.elapsed, b.Device.EventElapsed, b.elapsed != nil)(start, end)
}

func (b *broken) StreamWaitEvent(s mock.Stream, e mock.Event) error {
	return or(b.streamWait, b.Device.StreamWaitEvent, b.streamWait != nil)(s, e)
}

func (b *broken) StreamSynchronize(s mock.Stream) error {
	return or(b.sync, b.Device.StreamSynchronize, b.sync != nil)(s)
}

func (b *broken) StreamCreateNonBlocking() (mock.Stream, error) {
	return or(b.streamCreate, b.Device.StreamCreateNonBlocking, b.streamCreate != nil)()
}

func (b *broken) StreamDestroy(s mock.Stream) error {
	return or(b.streamDestroy, b.Device.StreamDestroy, b.streamDestroy != nil)(s)
}

func (b *broken) StreamCapturing(s mock.Stream) (bool, error) {
	return or(b.capturing, b.Device.StreamCapturing, b.capturing != nil)(s)
}

func (b *broken) Identity() events.Identity {
	return or(b.identity, b.Device.Identity, b.identity != nil)()
}

func (b *broken) WrapStream(handle uintptr) mock.Stream {
	return or(b.wrap, b.Device.WrapStream, b.wrap != nil)(handle)
}

func (b *broken) EventStats() events.Stats {
	return or(b.stats, b.Device.EventStats, b.stats != nil)()
}

func (b *broken) HostClock() func() int64 {
	return or(b.hostClock, b.Device.HostClock, b.hostClock != nil)()
}

func (b *broken) EventStamp(e mock.Event) (uint64, error) {
	return or(b.stamp, b.Device.EventStamp, b.stamp != nil)(e)
}

func (b *broken) GateClose(s mock.Stream, watchdog time.Duration) (events.GateHandle, error) {
	return or(b.gate, b.Device.GateClose, b.gate != nil)(s, watchdog)
}

func (b *broken) ScratchMemset(buffer events.Buffer, value byte, bytes int64, s mock.Stream) error {
	if b.memset != nil {
		return b.memset(buffer, bytes, s)
	}
	return b.Device.ScratchMemset(buffer, value, bytes, s)
}

func (b *broken) ScratchSpin(d time.Duration, s mock.Stream) (events.Spin, error) {
	return or(b.spin, b.Device.ScratchSpin, b.spin != nil)(d, s)
}

func (b *broken) CaptureBegin(s mock.Stream, mode events.CaptureMode) error {
	return or(b.captureBegin, b.Device.CaptureBegin, b.captureBegin != nil)(s, mode)
}

func (b *broken) CaptureEnd(s mock.Stream) (events.Graph[mock.Stream], error) {
	return or(b.captureEnd, b.Device.CaptureEnd, b.captureEnd != nil)(s)
}

func (b *broken) EventRecordExternal(e mock.Event, s mock.Stream) error {
	return or(b.external, b.Device.EventRecordExternal, b.external != nil)(e, s)
}

func (b *broken) CacheBytes() (int64, error) {
	return or(b.cacheBytes, b.Device.CacheBytes, b.cacheBytes != nil)()
}

func (b *broken) DeviceSynchronize() error {
	return or(b.syncAll, b.Device.DeviceSynchronize, b.syncAll != nil)()
}

func (b *broken) Versions() (driver, runtime string) {
	return or(b.versions, b.Device.Versions, b.versions != nil)()
}

func (b *broken) LaunchEmpty(s mock.Stream) error {
	return or(b.empty, b.Device.LaunchEmpty, b.empty != nil)(s)
}

func (b *broken) LaunchRead(buffer events.Buffer, bytes int64, s mock.Stream) error {
	return or(b.read, b.Device.LaunchRead, b.read != nil)(buffer, bytes, s)
}

// The pieces that broken handles of abilities are made of.

type graphFunc struct {
	launch func(s mock.Stream) error
	close  func() error
}

func (g graphFunc) Launch(s mock.Stream) error { return g.launch(s) }
func (g graphFunc) Close() error               { return g.close() }

type gateFunc func() error

func (open gateFunc) Open() error { return open() }

type spinFunc func() (time.Duration, error)

func (measured spinFunc) Measured() (time.Duration, error) { return measured() }

func (b *broken) TelemetryRead() (events.TelemetryReading, error) {
	return or(b.telemetry, b.Device.TelemetryRead, b.telemetry != nil)()
}
