package nvml

import (
	"fmt"
	"math"
	"sync"
	"time"

	"example.com/devevents/events"
)

// Device is one device. It is safe for concurrent use; readings take turns.
type Device struct {
	lib    *library
	handle uintptr

	mu    sync.Mutex
	frame frame
	first error // of the reading in progress
}

// What NVML calls them.
const (
	clockSM        = 1
	clockMemory    = 2
	sensorGPU      = 0
	policyPower    = 0
	policyThermal  = 1
	mostMHz        = 20_000
	mostDegrees    = 250
	mostMilliwatts = 100_000_000
)

// TelemetryRead implements events.Telemetry. A field whose function is missing, refuses, or
// answers with what no device has (all bits set stand for "not available") is absent.
func (d *Device) TelemetryRead() (events.TelemetryReading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first = nil
	var r events.TelemetryReading
	small := func(field events.TelemetryFields, to *int, most uint32, f op, args ...uintptr) {
		if d.ask(f, args...) && d.frame.uint32() <= most {
			*to = int(d.frame.uint32())
			r.Has |= field
		}
	}
	small(events.TelemetrySMClock, &r.SMClock, mostMHz, opClock, clockSM)
	small(events.TelemetryMemoryClock, &r.MemoryClock, mostMHz, opClock, clockMemory)
	small(events.TelemetryTemperature, &r.Temperature, mostDegrees, opTemperature, sensorGPU)
	small(events.TelemetryPower, &r.Power, mostMilliwatts, opPower)
	if d.ask(opReasons) && d.frame.word[0] != math.MaxUint64 {
		r.Throttle = events.ThrottleReasons(d.frame.word[0])
		r.Has |= events.TelemetryThrottle
	}
	if d.ask(opEnergy) && d.frame.word[0] != math.MaxUint64 {
		r.Energy = d.frame.word[0]
		r.Has |= events.TelemetryEnergy
	}
	limited := func(field events.TelemetryFields, to *time.Duration, policy uintptr) {
		if d.ask(opViolation, policy) && d.frame.word[1] <= math.MaxInt64 {
			*to = time.Duration(d.frame.word[1])
			r.Has |= field
		}
	}
	limited(events.TelemetryPowerLimited, &r.PowerLimited, policyPower)
	limited(events.TelemetryHeatLimited, &r.HeatLimited, policyThermal)
	switch {
	case r.Has != 0:
		return r, nil
	case d.first != nil:
		return r, d.first
	}
	return r, fmt.Errorf("%w: %s has none of the functions that read a device's state", events.ErrUnsupported, d.lib.file.Path())
}

// ask makes a call of the form (device, args..., out).
func (d *Device) ask(f op, args ...uintptr) bool {
	if d.lib.fn[f] == 0 {
		return false
	}
	d.frame.clear()
	all := append([]uintptr{d.handle}, args...)
	code := d.lib.call(f, append(all, d.frame.addr(0))...)
	if code != success && (d.first == nil || code != notSupported) { // another code says more
		d.first = failed(f, code)
	}
	return code == success
}
