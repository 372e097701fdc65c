package mock

import (
	"time"

	"example.com/devevents/events"
)

// What a simulated device says of its state where no script says otherwise: that of
// one server GPU under a light load.
const (
	telemetrySMClock     = 1980
	telemetryMemoryClock = 3201
	telemetryTemperature = 38
	telemetryPower       = 250_000 // mW, of which the energy is made
)

// telemetry is what scripts the readings, and how many there have been.
type telemetry struct {
	script func(n int, at time.Duration, r *events.TelemetryReading)
	n      int
}

// ScriptTelemetry lets f change every reading before TelemetryRead gives it: n counts
// the readings from 1, at is the host's time. f runs under the system's lock and must not
// call the device. A field that f takes out of r.Has is absent. Nil ends it. For
// readings that fail, are slow or never end, script OpTelemetryRead.
func (d *Device) ScriptTelemetry(f func(n int, at time.Duration, r *events.TelemetryReading)) {
	d.sys.mu.Lock()
	d.telemetry = telemetry{script: f}
	d.sys.mu.Unlock()
}

// TelemetryRead implements events.Telemetry. Without a script the device has steady
// clocks, a steady temperature and a steady power, of which its energy is made.
func (d *Device) TelemetryRead() (events.TelemetryReading, error) {
	c := d.begin(OpTelemetryRead)
	r, err := d.readTelemetry(&c)
	return r, d.end(&c, err)
}

func (d *Device) readTelemetry(c *call) (events.TelemetryReading, error) {
	if err := d.need(FeatureTelemetry, c.op); err != nil {
		return events.TelemetryReading{}, err
	}
	if err := d.reach(c); err != nil {
		return events.TelemetryReading{}, err
	}
	d.telemetry.n++
	at := time.Duration(d.sys.now())
	r := events.TelemetryReading{
		Has: events.TelemetrySMClock | events.TelemetryMemoryClock | events.TelemetryThrottle | events.TelemetryTemperature |
			events.TelemetryPower | events.TelemetryEnergy | events.TelemetryPowerLimited | events.TelemetryHeatLimited,
		SMClock:     telemetrySMClock,
		MemoryClock: telemetryMemoryClock,
		Temperature: telemetryTemperature,
		Power:       telemetryPower,
		Energy:      uint64(float64(at) / 1e9 * telemetryPower),
	}
	if d.telemetry.script != nil {
		d.telemetry.script(d.telemetry.n, at, &r)
	}
	return only(r), nil
}

// only clears the fields that the reading does not have.
func only(r events.TelemetryReading) events.TelemetryReading {
	numbers := map[events.TelemetryFields]*int{
		events.TelemetrySMClock: &r.SMClock, events.TelemetryMemoryClock: &r.MemoryClock,
		events.TelemetryTemperature: &r.Temperature, events.TelemetryPower: &r.Power,
	}
	spans := map[events.TelemetryFields]*time.Duration{
		events.TelemetryPowerLimited: &r.PowerLimited, events.TelemetryHeatLimited: &r.HeatLimited,
	}
	for field, v := range numbers {
		if !r.Knows(field) {
			*v = 0
		}
	}
	for field, v := range spans {
		if !r.Knows(field) {
			*v = 0
		}
	}
	if !r.Knows(events.TelemetryThrottle) {
		r.Throttle = 0
	}
	if !r.Knows(events.TelemetryEnergy) {
		r.Energy = 0
	}
	return r
}

// ProfilerStart implements events.ProfilerControl.
func (d *Device) ProfilerStart() error { return d.profile(OpProfilerStart, true) }

// ProfilerStop implements events.ProfilerControl.
func (d *Device) ProfilerStop() error { return d.profile(OpProfilerStop, false) }

func (d *Device) profile(op Op, on bool) error {
	c := d.begin(op)
	err := d.need(FeatureProfilerControl, op)
	if err == nil {
		err = d.reach(&c)
	}
	if err == nil {
		d.profiling = on
	}
	return d.end(&c, err)
}

// Profiling reports whether the collection of a profiler has been started and not
// stopped.
func (d *Device) Profiling() bool {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	return d.profiling
}
