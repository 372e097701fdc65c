package main

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"

	gpuotel "example.com/devevents/contrib/otel"
	gpuprom "example.com/devevents/contrib/prometheus"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
	"example.com/devevents/profiler/timeline"
)

// What sinks cost the device and the host: 40,000 windows round spins of 45 us, some 20,000
// a second, without a sink and with each in turn. The figures are the device's time against that
// without sinks, and the host's time in Start and Stop for a window.
func BenchmarkGPUSinks(b *testing.B) {
	dev := gputest.Device(b)
	stream := gputest.Stream(b, dev)
	const windows, spin = 20_000, 45 * time.Microsecond

	// once gives how long the device took, and the host's time in Start and Stop.
	once := func(options ...profiler.Option) (device, host time.Duration, dropped uint64) {
		prof, err := profiler.New(dev, append(options, profiler.WithPrepared(4096))...)
		require.NoError(b, err)
		defer func() { require.NoError(b, prof.Close()) }()
		whole, tr := prof.Track(stream, "whole"), prof.Track(stream, "w")
		w := whole.Start()
		for i := range windows {
			from := time.Now()
			one := tr.Start()
			host += time.Since(from)
			_, err := dev.ScratchSpin(spin, stream)
			require.NoError(b, err)
			from = time.Now()
			tr.Stop(one)
			host += time.Since(from)
			if i%128 == 127 { // of 256 spins at a time
				require.NoError(b, dev.StreamSynchronize(stream))
			}
		}
		m := whole.Stop(w)
		span, err := m.Wait(context.Background())
		require.NoError(b, err)
		st := prof.Stats()
		return span.Duration, host / windows, st.Dropped + st.SinkDropped
	}

	sinks := []struct {
		name    string
		options func() []profiler.Option
	}{
		{"none", func() []profiler.Option { return nil }},
		{"stacks", func() []profiler.Option { return []profiler.Option{profiler.WithStacks(true)} }},
		{"pprof", func() []profiler.Option {
			return []profiler.Option{profiler.WithStacks(true), profiler.WithSink(gpupprof.New())}
		}},
		{"timeline", func() []profiler.Option {
			return []profiler.Option{profiler.WithSink(timeline.NewWriter(io.Discard, time.Now()))}
		}},
		{"prometheus", func() []profiler.Option {
			metrics, err := gpuprom.New("gpu0")
			require.NoError(b, err)
			return []profiler.Option{profiler.WithSink(metrics)}
		}},
		{"otel", func() []profiler.Option {
			sink, err := gpuotel.New(gpuotel.WithTracerProvider(trace.NewTracerProvider()))
			require.NoError(b, err)
			return []profiler.Option{profiler.WithSink(sink)}
		}},
	}
	for range b.N {
		ratios, hosts := make([][]float64, len(sinks)), make([][]float64, len(sinks))
		lost := make([]uint64, len(sinks))
		raw := map[string]any{}
		const rounds = 5
		for range rounds {
			var bare float64
			for i, s := range sinks {
				device, host, dropped := once(s.options()...)
				if i == 0 {
					bare = float64(device)
				}
				ratios[i] = append(ratios[i], float64(device)/bare)
				hosts[i] = append(hosts[i], float64(host))
				lost[i] += dropped
			}
		}
		for i, s := range sinks {
			raw[s.name] = map[string]any{"x_device": slices.Clone(ratios[i]), "ns_host": slices.Clone(hosts[i]), "dropped": lost[i]}
			b.ReportMetric(median(ratios[i]), "x-device-"+s.name)
			b.ReportMetric(median(hosts[i]), "ns-host-"+s.name)
			b.ReportMetric(float64(lost[i]), "dropped-"+s.name)
		}
		gputest.Raw(b, "sinks", raw)
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
