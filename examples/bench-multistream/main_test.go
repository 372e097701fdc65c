package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/bench"
	"example.com/devevents/bench/benchtest"
	"example.com/devevents/events"
	"example.com/devevents/examples/internal/device"
	"example.com/devevents/internal/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func results(t *testing.T, args ...string) []bench.Result {
	t.Helper()
	var out, errOut bytes.Buffer
	require.Zero(t, run(append(args, "-format", "json", "-n", "30", "-wall", "600ms"), &out, &errOut), errOut.String()+out.String())
	var report bench.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	return report.Results
}

func TestOneWindowCoversAllStreams(t *testing.T) { checkWindows(t, "mock") }

func TestGPUOneWindowCoversAllStreams(t *testing.T) {
	gputest.Device(t)
	checkWindows(t, "cuda")
}

func checkWindows(t *testing.T, backend string) {
	list := results(t, "-backend", backend, "-streams", "3")
	require.Len(t, list, 2)
	for _, r := range list {
		require.Equal(t, bench.OK, r.Status)
		require.Equal(t, 3, r.Streams)
		own := 0
		for _, m := range r.Metrics {
			if m.Section == bench.SectionStreams && m.Unit == "ms" {
				own++
				require.LessOrEqual(t, m.Summary.Median, float64(*r.Clocks.Device)/1e6*1.01, "a stream's own time is within the window")
			}
		}
		require.Equal(t, 3, own)
	}
}

func TestOneStreamIsAWindowToo(t *testing.T) {
	list := results(t, "-streams", "1", "-a", "bytes=1024")
	require.Len(t, list, 1)
	require.Equal(t, "1024", list[0].Axes[0].Value)
}

func TestNoStreamIsRefused(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, 1, run([]string{"-streams", "0"}, &out, &errOut))
	require.Contains(t, out.String(), "at least one stream")
}

// A Go benchmark with the device's time beside the host's.
func BenchmarkMemset(b *testing.B) {
	dev, giveBack, err := device.Open("mock")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, giveBack()) })
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(b, err)
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(b, ok)
	buffer, err := scratch.ScratchAlloc(1 << 20)
	require.NoError(b, err)
	b.SetBytes(buffer.Bytes)

	benchtest.Device(b, bench.NewDeviceEvents(dev, stream))
	for b.Loop() {
		if err := scratch.ScratchMemset(buffer, 0, buffer.Bytes, stream); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBenchmarkReportsDeviceTime(t *testing.T) {
	require.NoError(t, flag.Set("test.benchtime", "100x"))
	r := testing.Benchmark(BenchmarkMemset)
	require.Positive(t, r.N)
	require.Greater(t, r.Extra["device-ns/op"], 1000.0)
}
