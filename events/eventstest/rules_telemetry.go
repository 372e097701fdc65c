package eventstest

import "example.com/devevents/events"

// read is a reading of telemetry, which the backend must have.
func (c *check[E, S]) read() events.TelemetryReading {
	c.need(c.telemetry != nil, "Telemetry")
	r, err := c.telemetry.TelemetryRead()
	c.must(err, "TelemetryRead")
	return r
}

func telemetryFields[E any, S comparable](c *check[E, S]) {
	for range 3 {
		r := c.read()
		if r.Has == 0 {
			c.failf("The reading has no field, and no error says why.")
		}
		for _, f := range []struct {
			name        string
			field       events.TelemetryFields
			value       int64
			least, most int64
		}{
			{"SMClock", events.TelemetrySMClock, int64(r.SMClock), 0, 20_000},
			{"MemoryClock", events.TelemetryMemoryClock, int64(r.MemoryClock), 0, 100_000},
			{"Throttle", events.TelemetryThrottle, int64(r.Throttle >> 1), 0, 1<<63 - 1},
			{"Temperature", events.TelemetryTemperature, int64(r.Temperature), -100, 250},
			{"Power", events.TelemetryPower, int64(r.Power), 0, 100_000_000},
			{"Energy", events.TelemetryEnergy, int64(r.Energy >> 1), 0, 1<<63 - 1},
			{"PowerLimited", events.TelemetryPowerLimited, int64(r.PowerLimited), 0, 1<<63 - 1},
			{"HeatLimited", events.TelemetryHeatLimited, int64(r.HeatLimited), 0, 1<<63 - 1},
		} {
			switch {
			case !r.Knows(f.field) && f.value != 0:
				c.failf("The reading does not have %s, which is %d.", f.name, f.value)
			case f.value < f.least || f.value > f.most:
				c.failf("%s is %d, and no device is below %d or above %d.", f.name, f.value, f.least, f.most)
			}
		}
	}
}

func telemetryGrows[E any, S comparable](c *check[E, S]) {
	s, last := c.stream(), c.read()
	for range 3 {
		c.busy(s, workTime)
		c.must(c.sync(s), "StreamSynchronize")
		r := c.read()
		both := last.Has & r.Has
		for _, f := range []struct {
			name     string
			field    events.TelemetryFields
			from, to uint64
		}{
			{"Energy", events.TelemetryEnergy, last.Energy, r.Energy},
			{"PowerLimited", events.TelemetryPowerLimited, uint64(last.PowerLimited), uint64(r.PowerLimited)},
			{"HeatLimited", events.TelemetryHeatLimited, uint64(last.HeatLimited), uint64(r.HeatLimited)},
		} {
			if both&f.field != 0 && f.to < f.from {
				c.failf("%s went from %d to %d.", f.name, f.from, f.to)
			}
		}
		last = r
	}
}

func telemetryReturnsAtOnce[E any, S comparable](c *check[E, S]) {
	c.need(c.telemetry != nil, "Telemetry")
	c.held(func(h *hold[E, S]) {
		c.must(c.prompt(h, "TelemetryRead", func() error { _, err := c.telemetry.TelemetryRead(); return err }), "TelemetryRead")
	})
}
