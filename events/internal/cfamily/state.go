package cfamily

import (
	"fmt"
	"sync"

	"example.com/devevents/events"
)

// state is what reads a device's clocks, temperature and power, found once.
type state struct {
	once   sync.Once
	reader events.Telemetry
	err    error
}

// telemetry finds the reader. Its error wraps events.ErrUnsupported, since the rest of
// the device is not harmed, and what the reader said.
func (d *dev) telemetry() (events.Telemetry, error) {
	s := &d.state
	s.once.Do(func() {
		t := d.lib.table
		if t.Telemetry == nil {
			s.err = fmt.Errorf("%s: telemetry: %w: nothing here reads clocks, temperature and power of %s devices", t.Backend, events.ErrUnsupported, t.Label)
			return
		}
		reader, err := t.Telemetry(d.identity)
		if err != nil {
			s.err = fmt.Errorf("%s: telemetry: %w: %w", t.Backend, events.ErrUnsupported, err)
			return
		}
		s.reader = reader
	})
	return s.reader, s.err
}

// TelemetryRead implements events.Telemetry. It leaves the runtime alone: a capture in
// progress is not harmed, and a fault of the device is not told.
func (d *dev) TelemetryRead() (events.TelemetryReading, error) {
	if d == nil {
		return events.TelemetryReading{}, errNotLoaded
	}
	reader, err := d.telemetry()
	if err != nil {
		return events.TelemetryReading{}, err
	}
	return reader.TelemetryRead()
}

func (l *lib) profilable() bool { return l.has(OpProfilerStart, OpProfilerStop) }

// ProfilerStart implements events.ProfilerControl.
func (d *dev) ProfilerStart() error { return d.profiler(OpProfilerStart) }

// ProfilerStop implements events.ProfilerControl.
func (d *dev) ProfilerStop() error { return d.profiler(OpProfilerStop) }

// profiler makes a call that is about the current context.
func (d *dev) profiler(op Op) error {
	if err := d.needs((*lib).profilable, op); err != nil {
		return err
	}
	if fault := d.fault.Load(); fault != nil {
		return fault
	}
	return d.failed(op, d.on(op, needDevice, func(*frame) int32 { return call0(d.lib.fn[op]) }))
}
