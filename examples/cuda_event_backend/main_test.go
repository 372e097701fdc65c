package main

import (
	"bytes"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/bench"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names are the metrics of a result in their order.
func names(r *bench.Result) []string {
	var list []string
	for _, m := range r.Metrics {
		list = append(list, m.Name+" "+m.Unit)
	}
	return list
}

// on measures on a simulated device and gives the report, and the table as printed.
func on(t *testing.T, dev *mock.Device) (*bench.Report, string) {
	t.Helper()
	var out bytes.Buffer
	var report *bench.Report
	bench.Run(flag.NewFlagSet("", flag.ContinueOnError), nil, &out, io.Discard, func(r *bench.Runner) {
		measure(r, events.Erase(dev), 64<<20)
		report = r.Report()
	})
	t.Log("\n" + out.String())
	return report, out.String()
}

func TestRowsLabelsAndMetricsOnTheSimulatedDevice(t *testing.T) {
	sys := mock.New(mock.AutoAdvance())
	defer sys.Close()
	report, table := on(t, sys.Device(0))
	require.Len(t, report.Results, 1)
	r := &report.Results[0]
	require.Equal(t, "CUDA/events", r.Group)
	require.Equal(t, "memset_async_default_stream", r.Case)
	require.Equal(t, "timing + CUDA events", r.Label)
	require.Equal(t, bench.OK, r.Status)
	require.EqualValues(t, 16, r.Chunk)
	require.True(t, r.Fixed)
	require.True(t, r.OnDevice)
	require.Equal(t, []string{"cuda_event_ms ms", "host_overhead_ms ms", "gpu_gib_s GiB/s"}, names(r), "no gpu_tflops without flops")
	require.Equal(t, "none: never on a default stream", r.Gate)
	require.Empty(t, r.Errors)

	// Latency and throughput are the device's: sixteen fills and two stamps.
	fill := 1500 + float64(64<<20)/4.58e6*1e3
	require.InDelta(t, fill, r.Latency.Median, 0.02*fill)
	require.InDelta(t, 16*fill/1e6, r.Metrics[0].Summary.Median, 0.02*16*fill/1e6)
	require.GreaterOrEqual(t, r.Metrics[1].Summary.Min, 0.0)

	require.Contains(t, table, "CUDA/events: timing + CUDA events\n")
	for _, row := range []string{"memset_async_default_stream ", "cuda_event_ms ", "host_overhead_ms ", "gpu_gib_s "} {
		require.Contains(t, table, row)
	}
	for _, row := range []string{"gpu_tflops", "cpu", "CUDA error", "NaN", "Inf"} {
		require.NotContains(t, table, row)
	}
	events, streams := sys.Device(0).Live()
	require.Zero(t, events)
	require.Zero(t, streams)
}

// A failing device is a row with the code and its text, and the run goes on. Elsewhere
// the failed samples became fast ones, timed by the host, and the text was lost.
func TestFailingDeviceIsARowAndTheRunGoesOn(t *testing.T) {
	sys := mock.New(mock.AutoAdvance())
	defer sys.Close()
	dev := sys.Device(0)
	dev.Script(mock.Fault{Op: mock.OpScratchMemset, Nth: 200, Lose: true})
	var out bytes.Buffer
	after := 0
	code := bench.Run(flag.NewFlagSet("", flag.ContinueOnError), nil, &out, io.Discard, func(r *bench.Runner) {
		measure(r, events.Erase(dev), 64<<20)
		bench.Group(r, "host", func(g *bench.GroupOf[int]) {
			g.Set(bench.On(bench.WallClock()), bench.FixedChunk(1), bench.Samples(20, 20))
			g.Bench("after", func(int, bench.Iters) error { after++; return nil })
		})
		require.Len(t, r.Report().Results, 2)
		failed := r.Report().Results[0]
		require.Equal(t, bench.Failed, failed.Status)
		require.NotEmpty(t, failed.Errors)
		require.Equal(t, "CUDA error", failed.Errors[0].Title)
		require.Equal(t, "cuda_error_code", failed.Errors[0].Name)
		require.EqualValues(t, mock.CodeIllegalAddress, *failed.Errors[0].Code)
		require.Contains(t, failed.Stop, "fault")
		require.Equal(t, bench.OK, r.Report().Results[1].Status)
	})
	t.Log("\n" + out.String())
	require.Equal(t, 1, code)
	require.Positive(t, after)
	require.Regexp(t, `CUDA error +cuda_error_code=700: .*IllegalAddress`, out.String())
}

func TestProgramRunsOnTheSimulatedDevice(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"-wall", "500ms"}, &out, &errOut), errOut.String())
	require.Contains(t, out.String(), "memset_async_default_stream")
	require.Empty(t, errOut.String())
}

func TestBackendThatDoesNotOpenIsARow(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, 1, run([]string{"-backend", "none"}, &out, &errOut))
	require.Contains(t, out.String(), "mock, cuda or opencl")
}

func TestGPUMemsetIsMeasured(t *testing.T) {
	gputest.Device(t)
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"-backend", "cuda"}, &out, &errOut), errOut.String())
	t.Log("\n" + out.String())
	for _, row := range []string{"timing + CUDA events", "cuda_event_ms", "host_overhead_ms", "gpu_gib_s"} {
		require.Equal(t, 1, strings.Count(out.String(), row), row)
	}
}

// A driver that is not CUDA's twin gives its own name to labels and metrics.
func TestPrefixIsTheVendorsOwnThroughOpenCL(t *testing.T) {
	gputest.OpenCL(t)
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"-backend", "opencl", "-bytes", "1048576"}, &out, &errOut), errOut.String())
	t.Log("\n" + out.String())
	for _, row := range []string{"timing + OpenCL events", "opencl_event_ms", "host_overhead_ms"} {
		require.Contains(t, out.String(), row)
	}
}
