package bench

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/schematest"
)

// hundred is a case of a hundred samples of 2 ms, which lasts some readings of telemetry.
var hundred = []Option{Samples(100, 100), Precision(1e-12), Cold(ColdNone), DeviceBudget(time.Hour), WallBudget(time.Hour)}

func (b *bed) watched(opts ...Option) *Result {
	b.Helper()
	b.runner.pause = b.sys.Advance
	r := b.bench(b.work(2*time.Millisecond), append(hundred[:len(hundred):len(hundred)], opts...)...)
	var text bytes.Buffer
	require.NoError(b, b.runner.Report().WriteJSON(&text))
	require.Empty(b, schematest.Load(b.T, benchSchema).Check(b.T, text.Bytes()))
	return r
}

// row is a metric of the section of telemetry, or nil.
func row(r *Result, name string) *MetricSummary {
	for i := range r.Metrics {
		if r.Metrics[i].Section == SectionTelemetry && r.Metrics[i].Name == name {
			return &r.Metrics[i]
		}
	}
	return nil
}

func count(samples []RawSample, keep func(RawSample) bool) int {
	n := 0
	for _, s := range samples {
		if keep(s) {
			n++
		}
	}
	return n
}

func throttled(s RawSample) bool { return s.Throttled != "" }

// Telemetry that is polled misses what lies between the polls, and polling in a sample
// changes it (NVIDIA/nvbench#6, NVIDIA/nvbench#262). Counters over the window miss nothing.
func TestTelemetryCoversTheSamplesAndIsInNone(t *testing.T) {
	b := newBed(t, mock.CallLog(100_000))
	var at []time.Duration
	b.dev.ScriptTelemetry(func(_ int, now time.Duration, r *events.TelemetryReading) {
		at = append(at, now)
		r.SMClock = 1980 - 100*(len(at)%2)
	})
	r := b.watched()
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 100)
	tel := r.Telemetry
	require.NotNil(t, tel)
	require.GreaterOrEqual(t, tel.Readings, 4)
	require.Len(t, at, tel.Readings)
	require.InDelta(t, at[len(at)-1]-at[0], tel.Window, 1000)
	require.InDelta(t, 250*tel.Window.Seconds(), *tel.Energy, 0.01)
	require.InDelta(t, 250, *tel.Power, 0.1)
	require.InDelta(t, *tel.Energy/100, *tel.EnergyPerOp, 1e-9)
	require.Equal(t, &ClockRange{1880, 1880, 1980}, tel.SMClock, "an odd number of readings begins and ends low")
	require.Equal(t, &TemperatureRange{38, 38}, tel.Temperature)
	require.Equal(t, &Share{0, 100}, tel.Throttled)
	require.EqualValues(t, 1880, *row(r, "sm_clock_min").Integer)
	require.Equal(t, "MHz", row(r, "sm_clock_median").Unit)
	require.NotNil(t, row(r, "energy"))

	inside, samples, readings := false, 0, 0
	var first, last time.Duration // of the timed samples
	for _, c := range b.dev.Calls() {
		switch c.Op {
		case mock.OpGateClose:
			inside = true
		case mock.OpEventElapsed:
			if inside {
				samples++
			}
			inside = false
		case mock.OpWork:
			if inside && first == 0 && readings > 0 {
				first = c.At
			}
			last = c.At
		case mock.OpTelemetryRead:
			readings++
			require.False(t, inside, "a reading in a sample")
		}
	}
	require.GreaterOrEqual(t, samples, 100)
	require.Less(t, at[0], first)
	require.Greater(t, at[len(at)-1], last)
}

func TestReadingsAreAsRareAsTheyAreSlow(t *testing.T) {
	b := newBed(t)
	b.dev.Script(mock.Fault{Op: mock.OpTelemetryRead, After: 10 * time.Millisecond})
	tel := b.watched(Samples(1000, 1000)).Telemetry
	require.GreaterOrEqual(t, tel.Readings, 5)
	require.GreaterOrEqual(t, tel.Cost, time.Duration(tel.Readings)*10*time.Millisecond, "what it costs is said")
	require.LessOrEqual(t, tel.Cost, tel.Window/telemetryShare+2*11*time.Millisecond, "the edges, and a twentieth between them")
}

// A throttled device is told by its reasons, and its samples are neither thrown away nor
// hidden (NVIDIA/nvbench#231, NVIDIA/nvbench#193, NVIDIA/nvbench#206).
func TestThrottledSamplesAreTaggedWithTheReasonAndCount(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n >= 3 {
			r.Throttle = events.ThrottlePowerCap | events.ThrottleHardwareThermal | events.ThrottleIdle
		}
	})
	r := b.watched()
	require.Equal(t, OK, r.Status)
	require.Equal(t, 100, r.Latency.N)
	require.Empty(t, r.Samples[0].Throttled)
	require.Equal(t, "power cap, hardware thermal", r.Samples[99].Throttled)
	require.Equal(t, &Share{count(r.Samples, throttled), 100}, r.Telemetry.Throttled)
	require.Less(t, r.Telemetry.Throttled.Count, 100)
	require.True(t, hasNote(r, "lie beside a reading with power cap, hardware thermal; they count"), r.Notes)
	require.Empty(t, r.Retried)
	require.EqualValues(t, r.Telemetry.Readings-2, *row(r, "reason_hardware_thermal").Integer)
	require.EqualValues(t, r.Telemetry.Readings-2, *row(r, "reason_idle").Integer)
}

// What comes and goes between two readings is in the counters alone.
func TestThrottlingBetweenTwoReadingsIsNotMissed(t *testing.T) {
	for reason, grow := range map[string]func(r *events.TelemetryReading){
		"power cap":        func(r *events.TelemetryReading) { r.PowerLimited = 3 * time.Millisecond },
		"software thermal": func(r *events.TelemetryReading) { r.HeatLimited = 3 * time.Millisecond },
	} {
		b := newBed(t)
		b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
			if n >= 2 {
				grow(r)
			}
		})
		r := b.watched()
		require.Equal(t, reason, r.Samples[0].Throttled)
		require.Empty(t, r.Samples[99].Throttled)
		require.Equal(t, 3*time.Millisecond, *r.Telemetry.PowerLimited+*r.Telemetry.HeatLimited)
		require.InDelta(t, 3, row(r, "power_limited").Summary.Median+row(r, "heat_limited").Summary.Median, 1e-9)
		require.Empty(t, r.Telemetry.Reasons)
	}
}

// A device that was held back before the first sample may still have been in it.
func TestReasonBeforeASampleTagsItToo(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n == 1 {
			r.Throttle = events.ThrottlePowerBrake
		}
	})
	r := b.watched()
	require.Equal(t, "power brake", r.Samples[0].Throttled)
	require.Empty(t, r.Samples[99].Throttled)
}

func TestIdleAndChosenClocksAreNoThrottling(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(_ int, _ time.Duration, r *events.TelemetryReading) {
		r.Throttle = events.ThrottleIdle | events.ThrottleClockSetting | events.ThrottleDisplayClocks | 1<<40
	})
	r := b.watched(RetryThrottled(3))
	require.Zero(t, r.Telemetry.Throttled.Count)
	require.Empty(t, r.Retried)
	require.NotNil(t, row(r, "reason_clock_setting"))
	require.NotNil(t, row(r, "reason_bit_0x10000000000"), "a reason without a name is shown as well")
}

func TestThrottledSamplesAreTakenAgain(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n == 3 {
			r.Throttle = events.ThrottleSoftwareThermal
		}
	})
	r := b.watched(RetryThrottled(2))
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 100)
	require.Equal(t, 100, r.Latency.N)
	require.Zero(t, count(r.Samples, throttled))
	require.Equal(t, 1, r.Telemetry.Retries)
	require.NotEmpty(t, r.Retried)
	require.Equal(t, len(r.Retried), count(r.Retried, throttled))
	for _, m := range r.Metrics {
		if m.Section == "" {
			require.Equal(t, 100, m.Summary.N, "%s is of the samples that count", m.Name)
		}
	}
	require.True(t, hasNote(r, "beside a reading with software thermal were taken again, in 1 pauses"), r.Notes)
}

// NVIDIA/nvbench#231: a card that was always at its power limit had no sample left.
func TestDeviceThatIsAlwaysThrottledStillHasARow(t *testing.T) {
	always := func(_ int, _ time.Duration, r *events.TelemetryReading) { r.Throttle = events.ThrottlePowerCap }
	b := newBed(t)
	b.dev.ScriptTelemetry(always)
	r := b.watched(RetryThrottled(2))
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 100)
	require.Equal(t, 2, r.Telemetry.Retries)
	require.Equal(t, 100, r.Telemetry.Throttled.Count)
	require.NotEmpty(t, r.Retried)

	// And where no time is left for others than those set aside.
	b = newBed(t)
	b.dev.ScriptTelemetry(always)
	b.runner.total = time.Hour
	b.runner.pause = func(time.Duration) { b.runner.total = 1 }
	r = b.bench(b.work(2*time.Millisecond), append(hundred[:len(hundred):len(hundred)], RetryThrottled(1000))...)
	require.Equal(t, OK, r.Status)
	require.NotEmpty(t, r.Samples)
	require.Empty(t, r.Retried)
	require.True(t, hasNote(r, "so those count that were to be taken again"), r.Notes)
}

func TestAbsentTelemetryIsOneLineAndTheRunGoesOn(t *testing.T) {
	b := newBed(t, mock.Without(mock.FeatureTelemetry))
	code, out, errOut := command(t, func(r *Runner) {
		Group(r, "g", func(g *GroupOf[int]) {
			g.Set(On(b.timer), In(GPU), Samples(20, 20))
			for _, name := range []string{"a", "b", "c"} {
				g.Bench(name, func(_ int, it Iters) error { return b.work(time.Microsecond)(it) })
			}
		})
		for _, res := range r.Report().Results {
			require.Equal(t, OK, res.Status)
			require.Contains(t, res.Telemetry.Absent, "switched off")
			require.Zero(t, count(res.Samples, throttled))
			require.Nil(t, row(&res, "sm_clock_min"))
		}
	})
	require.Zero(t, code)
	require.Empty(t, errOut)
	require.Equal(t, 1, strings.Count(out, "no telemetry: mock: TelemetryRead: switched off"))
}

func TestTelemetryCanBeSwitchedOff(t *testing.T) {
	b := newBed(t)
	r := b.watched(WithoutTelemetry())
	require.Nil(t, r.Telemetry)
	require.Zero(t, b.dev.CallCount(mock.OpTelemetryRead))
	require.Empty(t, b.runner.Report().Provenance.NoTelemetry)
}

func TestWhatADeviceDoesNotTellIsLeftOut(t *testing.T) {
	for rowName, fields := range map[string]events.TelemetryFields{
		"sm_clock_min":       events.TelemetrySMClock,
		"memory_clock_min":   events.TelemetryMemoryClock,
		"temperature_first":  events.TelemetryTemperature,
		"power_mean":         events.TelemetryPower | events.TelemetryEnergy,
		"energy":             events.TelemetryPower | events.TelemetryEnergy,
		"power_limited":      events.TelemetryPowerLimited,
		"heat_limited":       events.TelemetryHeatLimited,
		"reason_power_brake": events.TelemetryThrottle,
	} {
		script := func(missing events.TelemetryFields) func(int, time.Duration, *events.TelemetryReading) {
			return func(_ int, _ time.Duration, r *events.TelemetryReading) {
				r.Throttle = events.ThrottlePowerBrake
				r.Has &^= missing
			}
		}
		b := newBed(t)
		b.dev.ScriptTelemetry(script(0))
		require.NotNil(t, row(b.watched(), rowName), rowName)
		b.dev.ScriptTelemetry(script(fields))
		r := b.watched()
		require.Equal(t, OK, r.Status)
		require.Nil(t, row(r, rowName), rowName)
		require.NotNil(t, row(r, "reading_cost"), rowName)
	}
	b := newBed(t)
	b.dev.ScriptTelemetry(func(_ int, _ time.Duration, r *events.TelemetryReading) { r.Has = events.TelemetrySMClock })
	r := b.watched()
	require.Nil(t, r.Telemetry.Throttled, "nobody knows, which is not none")
	require.NotNil(t, r.Telemetry.SMClock)
}

// The counter of an H200 steps by what a tenth of a second takes: of a window of 13 ms it
// said 2.1 kW, which is three times what the card has.
func TestEnergyOfAShortWindowIsNotTheCounters(t *testing.T) {
	for _, c := range []struct {
		samples int
		from    string
		joules  float64
	}{{20, "power", 250 * 0.05}, {1000, "counter", 100 * 2.0}} {
		b := newBed(t)
		b.dev.ScriptTelemetry(func(_ int, at time.Duration, r *events.TelemetryReading) {
			r.Power = 250_000
			r.Energy = 1000 + uint64(at/(100*time.Millisecond))*10_000 // 100 W in steps of a tenth of a second
		})
		r := b.watched(Samples(c.samples, c.samples))
		require.Equal(t, c.from, r.Telemetry.EnergyFrom)
		require.InEpsilon(t, c.joules, *r.Telemetry.Energy, 0.3)
	}
}

func TestEnergyThatGoesBackIsNoEnergy(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) { r.Energy = uint64(1000 - n) })
	r := b.watched()
	require.Equal(t, "power", r.Telemetry.EnergyFrom)
	require.InDelta(t, 250, *r.Telemetry.Power, 1e-9, "of the readings of power")
	require.InDelta(t, 250*r.Telemetry.Window.Seconds(), *r.Telemetry.Energy, 1e-6)
}

func TestFailingTelemetryHarmsNothingElse(t *testing.T) {
	broken := errors.New("out of order")
	for _, c := range []struct {
		fault        mock.Fault
		readings     bool
		failed, most int
	}{
		{mock.Fault{Op: mock.OpTelemetryRead, Err: broken}, false, telemetryGiveUp, telemetryGiveUp},
		{mock.Fault{Op: mock.OpTelemetryRead, Nth: 2, Err: broken}, true, 1, 1},
		{mock.Fault{Op: mock.OpTelemetryRead, Every: 2, Err: broken}, true, 1, 100},
	} {
		b := newBed(t)
		b.dev.Script(c.fault)
		r := b.watched()
		require.Equal(t, OK, r.Status)
		require.Len(t, r.Samples, 100)
		require.Zero(t, r.FailedCount, "a reading is no sample")
		require.Equal(t, c.readings, r.Telemetry.Readings > 0)
		require.GreaterOrEqual(t, r.Telemetry.Failed, c.failed)
		require.LessOrEqual(t, r.Telemetry.Failed, c.most)
		require.True(t, hasNote(r, "readings of telemetry failed: out of order"), r.Notes)
	}
}

func TestReadingThatNeverComesBackIsGivenUp(t *testing.T) {
	b := newBed(t)
	block := make(chan struct{})
	var all sync.WaitGroup
	all.Add(1)
	b.dev.Script(mock.Fault{Op: mock.OpTelemetryRead, Nth: 2, Hook: func() { <-block; all.Done() }})
	t.Cleanup(func() { close(block); all.Wait() })
	b.runner.stateLimit = 20 * time.Millisecond
	r := b.watched()
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 100)
	require.True(t, hasNote(r, "had not come back after 20ms"), r.Notes)
	second := b.watched()
	require.Len(t, second.Samples, 100)
	require.Contains(t, second.Telemetry.Absent, "had not come back")
	require.EqualValues(t, 1, b.dev.CallCount(mock.OpTelemetryRead), "nobody asks again")
}

type panicking struct{ *mock.Device }

func (panicking) TelemetryRead() (events.TelemetryReading, error) { panic("no such device") }

func TestTelemetryThatPanicsIsAFailure(t *testing.T) {
	b := newBed(t)
	b.timer = NewDeviceEvents[mock.Event, mock.Stream](panicking{b.dev}, b.stream)
	r := b.watched()
	require.Equal(t, OK, r.Status)
	require.True(t, hasNote(r, "panic: no such device"), r.Notes)
}

func TestTelemetryIsSeenThroughErase(t *testing.T) {
	b := newBed(t)
	timer := NewDeviceEvents(events.Erase[mock.Event, mock.Stream](b.dev))
	r := runOne(t, b.runner, func(g *GroupOf[int]) {
		g.Set(On(timer), In(GPU), Samples(20, 20))
		g.Bench("case", nothing)
	})
	require.NotNil(t, r.Telemetry)
	require.Equal(t, 1980, r.Telemetry.SMClock.Min)
	require.NoError(t, timer.Close())
}

// A case measured again without a hold has one window, which is of the samples that count.
func TestWindowBeginsAnewWithTheSamples(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n == 1 {
			r.Throttle = events.ThrottlePowerCap
		}
	})
	waits := false
	r := b.bench(func(it Iters) error {
		// The fiftieth timed sample is the first to wait for the device.
		if waits = waits || it.Index >= 50 && b.dev.CallCount(mock.OpTelemetryRead) > 0; waits {
			return b.dev.StreamSynchronize(b.stream)
		}
		return nil
	}, Samples(100, 100), Precision(1e-12), Watchdog(time.Millisecond))
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Gate, "launch-exposed")
	require.Len(t, r.Samples, 100)
	require.Equal(t, &Share{0, 100}, r.Telemetry.Throttled, "what held the device back was before these")
}

// The window of a case that ends early is that of the samples it has.
func TestWindowEndsWithTheLastSampleHoweverTheCaseEnds(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n > 1 {
			r.Throttle = events.ThrottlePowerCap
		}
	})
	r := b.bench(func(it Iters) error {
		if it.Index == 10 && b.dev.CallCount(mock.OpTelemetryRead) > 0 {
			return events.ErrContextLost
		}
		return nil
	}, RetryThrottled(3))
	require.Equal(t, Failed, r.Status)
	require.Len(t, r.Samples, 10, "none is set aside where none can take its place")
	require.Equal(t, &Share{10, 10}, r.Telemetry.Throttled)
	require.Equal(t, 2, r.Telemetry.Readings)
}

// What is set aside does not use up the measured time of those that count.
func TestSamplesSetAsideAreNotInTheDeviceBudget(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(n int, _ time.Duration, r *events.TelemetryReading) {
		if n == 2 {
			r.Throttle = events.ThrottleSyncBoost
		}
	})
	r := b.watched(RetryThrottled(1), Samples(20, 10_000), StopBy(func() Rule { return ByCount(10_000) }), DeviceBudget(100*time.Millisecond))
	require.NotEmpty(t, r.Retried)
	require.GreaterOrEqual(t, len(r.Samples), 49, "100 ms of samples of 2 ms")
	require.Equal(t, "device budget", r.Verdict)
}
