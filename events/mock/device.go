package mock

import (
	"fmt"
	"time"

	"example.com/devevents/events"
)

const backend = "mock"

// Device is one simulated device. It implements events.EventApi and every
// ability of package events but StaleReader. Make one with New or NewDevice.
type Device struct {
	sys     *System
	ordinal int
	cfg     deviceConfig

	// What follows is guarded by sys.mu.
	clock     clock
	lost      int32 // the code of the device's loss, 0 while it lives
	faults    []*faultState
	calls     calls
	stats     events.Stats
	unrelaxed bool
	rounds    int
	telemetry telemetry
	profiling bool

	queues  map[uintptr]*queue // live streams by handle
	orphans []*queue           // of destroyed streams, with work left
	wrapped map[uintptr]*stream
	buffers map[uintptr]int64
	used    int64
	lastPtr uintptr
	cache   *cache // nil where the cache makes nothing faster
}

var (
	_ events.EventApi[Event, Stream] = (*Device)(nil)
	_ events.Limiter                 = (*Device)(nil)
	_ events.Querier[Event]          = (*Device)(nil)
	_ events.RoundQuerier[Event]     = (*Device)(nil)
	_ events.CaptureAsker[Stream]    = (*Device)(nil)
	_ events.Stamper[Event]          = (*Device)(nil)
	_ events.TimerReader             = (*Device)(nil)
	_ events.UntimedCreator[Event]   = (*Device)(nil)
	_ events.Identifier              = (*Device)(nil)
	_ events.StreamWrapper[Stream]   = (*Device)(nil)
	_ events.StatsReader             = (*Device)(nil)
	_ events.Gate[Stream]            = (*Device)(nil)
	_ events.Scratch[Stream]         = (*Device)(nil)
	_ events.Graphs[Event, Stream]   = (*Device)(nil)
	_ events.Cache                   = (*Device)(nil)
	_ events.DeviceSynchronizer      = (*Device)(nil)
	_ events.Versioned               = (*Device)(nil)
	_ events.EmptyKernel[Stream]     = (*Device)(nil)
	_ events.ReadKernel[Stream]      = (*Device)(nil)
	_ events.Telemetry               = (*Device)(nil)
	_ events.ProfilerControl         = (*Device)(nil)
)

// Feature is an ability that can be switched off.
type Feature uint32

// The abilities of package events.
const (
	FeatureQuerier Feature = 1 << iota
	FeatureRoundQuerier
	FeatureCaptureAsker
	FeatureUntimedCreator
	FeatureIdentifier
	FeatureStreamWrapper
	FeatureStatsReader
	FeatureGate
	FeatureScratch
	FeatureGraphs
	FeatureStamper
	FeatureTimerReader
	FeatureCache
	FeatureDeviceSynchronizer
	FeatureVersioned
	FeatureEmptyKernel
	FeatureReadKernel
	FeatureTelemetry
	FeatureProfilerControl
)

func newDevice(s *System, ordinal int, cfg deviceConfig) *Device {
	if !cfg.hasOffset {
		cfg.offset = time.Duration(ordinal+1)*time.Hour + 12345*time.Nanosecond
	}
	return &Device{
		sys:       s,
		ordinal:   ordinal,
		cfg:       cfg,
		clock:     newClock(cfg),
		calls:     calls{ring: make([]Call, cfg.callLog)},
		unrelaxed: cfg.unrelaxed,
		queues:    map[uintptr]*queue{},
		wrapped:   map[uintptr]*stream{},
		buffers:   map[uintptr]int64{},
		lastPtr:   uintptr(ordinal+1) << 28,
		cache:     newCache(cfg),
	}
}

// Backend is "mock".
func (d *Device) Backend() string { return backend }

// System is what the device belongs to.
func (d *Device) System() *System { return d.sys }

// Offers implements events.Limiter.
func (d *Device) Offers(ability any) bool {
	var f Feature
	switch ability.(type) {
	case *events.Querier[Event]:
		f = FeatureQuerier
	case *events.RoundQuerier[Event]:
		f = FeatureRoundQuerier
	case *events.CaptureAsker[Stream]:
		f = FeatureCaptureAsker
	case *events.UntimedCreator[Event]:
		f = FeatureUntimedCreator
	case *events.Identifier:
		f = FeatureIdentifier
	case *events.StreamWrapper[Stream]:
		f = FeatureStreamWrapper
	case *events.StatsReader:
		f = FeatureStatsReader
	case *events.Gate[Stream]:
		f = FeatureGate
	case *events.Scratch[Stream]:
		f = FeatureScratch
	case *events.Graphs[Event, Stream]:
		f = FeatureGraphs
	case *events.Stamper[Event]:
		f = FeatureStamper
	case *events.TimerReader:
		f = FeatureTimerReader
	case *events.Cache:
		f = FeatureCache
	case *events.DeviceSynchronizer:
		f = FeatureDeviceSynchronizer
	case *events.Versioned:
		f = FeatureVersioned
	case *events.EmptyKernel[Stream]:
		f = FeatureEmptyKernel
	case *events.ReadKernel[Stream]:
		f = FeatureReadKernel
	case *events.Telemetry:
		f = FeatureTelemetry
	case *events.ProfilerControl:
		f = FeatureProfilerControl
	}
	return d.has(f)
}

func (d *Device) has(f Feature) bool { return d.cfg.off&f == 0 }

func (d *Device) need(f Feature, op Op) error {
	if d.has(f) {
		return nil
	}
	return fmt.Errorf("mock: %v: switched off for device %d: %w", op, d.ordinal, events.ErrUnsupported)
}

// Identity implements events.Identifier.
func (d *Device) Identity() events.Identity {
	if !d.has(FeatureIdentifier) {
		return events.Identity{}
	}
	return events.Identity{
		Kind:     events.KindSimulated,
		Ordinal:  d.ordinal,
		Vendor:   "simulated",
		Name:     d.cfg.name,
		PCIBusID: fmt.Sprintf("0000:%02x:00.0", d.ordinal+1),
		UUID:     fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", d.ordinal+1),
	}
}

// EventStats implements events.StatsReader.
func (d *Device) EventStats() events.Stats {
	if !d.has(FeatureStatsReader) {
		return events.Stats{}
	}
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return d.stats
}

// Live is how many events and streams were made and not yet given back, and
// not abandoned to a lost device either. It is there without StatsReader.
func (d *Device) Live() (eventCount, streamCount int) {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return int(d.stats.LiveEvents), int(d.stats.LiveStreams)
}

// OpenRounds is how many rounds have been begun and not ended.
func (d *Device) OpenRounds() int {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return d.rounds
}

// Unrelaxed switches what the option of that name sets.
func (d *Device) Unrelaxed(on bool) {
	d.sys.mu.Lock()
	d.unrelaxed = on
	d.sys.mu.Unlock()
}

// HostClock implements events.HostClocker: what a program on the simulated host
// reads.
func (d *Device) HostClock() func() int64 { return d.sys.HostClock() }

// HostNow is the host clock as the program under test should read it: see
// System.HostClock.
func (d *Device) HostNow() time.Duration { return time.Duration(d.sys.hostRead()) }

// DeviceNow is what the device's clock shows now, not rounded to a tick.
func (d *Device) DeviceNow() time.Duration { return d.DeviceTime(d.sys.Now()) }

// DeviceTime is what the device's clock shows at a host time, not rounded to a
// tick. For the future it is a forecast that SetDrift and JumpClock change.
func (d *Device) DeviceTime(host time.Duration) time.Duration {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return time.Duration(d.clock.at(int64(host)))
}

// TrueHostTime is the host time, on the scale of System.Now, at which the
// event's last record was stamped, before any rounding. It is false before
// that moment, and for an event whose last record failed or was captured.
func (d *Device) TrueHostTime(e Event) (int64, bool) {
	if e.p == nil || e.p.dev != d {
		return 0, false
	}
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	now := d.sys.now()
	d.sys.refresh(now)
	if e.p.queue == nil || !e.p.known || e.p.end > now {
		return 0, false
	}
	return e.p.end, true
}

// alive refuses calls to a device or system that is gone.
func (d *Device) alive(op Op) error {
	switch {
	case d.sys.closed:
		return fmt.Errorf("mock: %v: the simulated system was closed: %w", op, events.ErrClosed)
	case d.lost != 0:
		return refusal(op, d.lost)
	}
	return nil
}

func (d *Device) mismatch(op Op, what string, id uint64, of *Device) error {
	if of.sys != d.sys {
		return fmt.Errorf("mock: %v: %s %d belongs to device %d of another system, this is device %d: %w",
			op, what, id, of.ordinal, d.ordinal, events.ErrDeviceMismatch)
	}
	return fmt.Errorf("mock: %v: %s %d belongs to device %d, this is device %d: %w",
		op, what, id, of.ordinal, d.ordinal, events.ErrDeviceMismatch)
}
