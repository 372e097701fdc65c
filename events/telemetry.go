package events

import (
	"fmt"
	"strings"
	"time"
)

// Telemetry reads what the driver says of the device's state: clocks, what holds them
// back, temperature, power, energy. Looking for it with Ability may load the vendor's
// library for such things; where that cannot be used the ability is not offered, and
// the error of TelemetryRead says why.
type Telemetry interface {
	// TelemetryRead takes one reading. It asks the driver several times, which takes
	// from some microseconds to some milliseconds, so it belongs outside of what is
	// measured. It does not wait for the device's work. What the device or driver
	// cannot tell is absent from the reading; an error means that nothing could be read.
	// It is safe for concurrent use.
	TelemetryRead() (TelemetryReading, error)
}

// TelemetryReading is the state of a device at about one moment. A field counts if Has
// names it; all others are 0.
type TelemetryReading struct {
	Has         TelemetryFields // which of the fields count
	SMClock     int             // MHz, of the processors
	MemoryClock int             // MHz
	Throttle    ThrottleReasons // what holds the clocks back now
	Temperature int             // of the chip, in degrees Celsius
	Power       int             // mW; drivers average it, NVIDIA's since Ampere over a second
	Energy      uint64          // mJ since some moment before; it only grows, in steps of up to 100 ms on NVIDIA

	// PowerLimited and HeatLimited are how long power and temperature have held the
	// clocks back since some moment before. They only grow, so that the difference of
	// two readings misses nothing between them.
	PowerLimited, HeatLimited time.Duration
}

// TelemetryFields is a set of fields of a TelemetryReading.
type TelemetryFields uint16

// The fields.
const (
	TelemetrySMClock TelemetryFields = 1 << iota
	TelemetryMemoryClock
	TelemetryThrottle
	TelemetryTemperature
	TelemetryPower
	TelemetryEnergy
	TelemetryPowerLimited
	TelemetryHeatLimited
)

// Knows reports whether all the fields count in the reading.
func (r TelemetryReading) Knows(fields TelemetryFields) bool { return r.Has&fields == fields }

// ThrottleReasons are the reasons for which a device's clocks are not as high as they
// could be, as bits. The numbers are those of NVML's clocks event reasons; bits without
// a name here are the driver's own.
type ThrottleReasons uint64

// The reasons.
const (
	ThrottleIdle             ThrottleReasons = 0x1   // nothing to do
	ThrottleClockSetting     ThrottleReasons = 0x2   // somebody has set the clocks
	ThrottlePowerCap         ThrottleReasons = 0x4   // the board's power limit, kept by software
	ThrottleHardwareSlowdown ThrottleReasons = 0x8   // the hardware has reduced the clocks by a factor, for heat or power
	ThrottleSyncBoost        ThrottleReasons = 0x10  // in a group of devices the slowest sets the clocks
	ThrottleSoftwareThermal  ThrottleReasons = 0x20  // temperature, kept by software
	ThrottleHardwareThermal  ThrottleReasons = 0x40  // temperature, by the hardware
	ThrottlePowerBrake       ThrottleReasons = 0x80  // the power supply has asked for it
	ThrottleDisplayClocks    ThrottleReasons = 0x100 // a display sets the clocks
)

const throttlesUnderLoad = ThrottlePowerCap | ThrottleHardwareSlowdown | ThrottleSyncBoost |
	ThrottleSoftwareThermal | ThrottleHardwareThermal | ThrottlePowerBrake

// Slowing are those reasons that make work slower than the same work was before: not
// that the device has nothing to do, and not clocks that somebody has chosen.
func (r ThrottleReasons) Slowing() ThrottleReasons { return r & throttlesUnderLoad }

// Names are the reasons in words, lowest bit first. A bit without a name is "bit 0x200".
func (r ThrottleReasons) Names() []string {
	words := []string{
		"idle", "clock setting", "power cap", "hardware slowdown", "sync boost",
		"software thermal", "hardware thermal", "power brake", "display clocks",
	}
	var names []string
	for bit := range 64 {
		one := ThrottleReasons(1) << bit
		switch {
		case r&one == 0:
		case bit < len(words):
			names = append(names, words[bit])
		default:
			names = append(names, fmt.Sprintf("bit %#x", uint64(one)))
		}
	}
	return names
}

// String lists the names, or is "none".
func (r ThrottleReasons) String() string {
	if r == 0 {
		return "none"
	}
	return strings.Join(r.Names(), ", ")
}

// ProfilerControl starts and stops the collection of a profiler that is attached to the
// process, so that it sees a part of the run alone. Without a profiler the calls do nothing.
type ProfilerControl interface {
	// ProfilerStart starts the collection. Starting twice is starting once.
	ProfilerStart() error
	// ProfilerStop stops it. Wait for the work first that shall be seen.
	ProfilerStop() error
}
