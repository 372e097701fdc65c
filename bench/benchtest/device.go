package benchtest

import (
	"testing"

	"example.com/devevents/bench"
)

// Option sets up Device.
type Option func(*settings)

type settings struct{ main bool }

// AsNsPerOp makes the device's time the benchmark's ns/op; the host's is host-ns/op.
func AsNsPerOp() Option { return func(s *settings) { s.main = true } }

// Device measures the benchmark with timer from here to the end of the benchmark
// function, and reports its duration an iteration. Nothing but the loop's work may be
// queued on the measured streams in between. It queues the window's start and does not
// wait; after the function it waits until the work is done, with the benchmark's clock
// stopped. What fails, fails the benchmark.
//
// A timer measures one benchmark at a time; benchmarks run one after another anyway.
func Device(b *testing.B, timer bench.Backend, opts ...Option) {
	b.Helper()
	var set settings
	for _, o := range opts {
		if o != nil {
			o(&set)
		}
	}
	if err := timer.Begin(); err != nil {
		b.Fatalf("%s: beginning to measure: %v", timer.Label(), err)
	}
	b.Cleanup(func() {
		host := b.Elapsed()
		err := timer.End()
		if b.Failed() || b.Skipped() {
			return
		}
		var s bench.Sample
		if err == nil {
			s, err = timer.Collect(bench.Interval{Host: host, Complete: host, Operations: int64(max(b.N, 1))})
		}
		if err != nil {
			b.Errorf("%s: %v", timer.Label(), err)
			return
		}
		n := float64(max(b.N, 1))
		unit := "device-ns/op"
		if set.main {
			unit = "ns/op"
			b.ReportMetric(float64(host)/n, "host-ns/op")
		}
		b.ReportMetric(float64(s.Duration)/n, unit)
	})
}
