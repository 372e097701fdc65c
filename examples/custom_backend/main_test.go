package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/bench"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsOfBackendAndFunctionAreOneTable(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"-n", "30", "-format", "json"}, &out, &errOut), errOut.String())
	var report bench.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Len(t, report.Results, 1)
	r := report.Results[0]
	require.Equal(t, "fp4_gemm", r.Case)
	require.Equal(t, "GPU", r.Domain)
	var names []string
	for _, m := range r.Metrics {
		require.Empty(t, m.Section, "no rows of the processor")
		names = append(names, m.Name)
	}
	require.Equal(t, []string{"cuda_event_ms", "host_overhead_ms", "tflops"}, names)
	require.False(t, r.OnDevice, "the duration is the host's")
	event, overhead := r.Metrics[0].Summary.Mean, r.Metrics[1].Summary.Mean
	var host float64
	for _, s := range r.Samples {
		require.Equal(t, s.Enqueue, s.Duration)
		host += float64(s.Duration) / 1e6 / float64(len(r.Samples))
	}
	require.InEpsilon(t, 0.85*host, event, 1e-6)
	require.InEpsilon(t, 0.15*host, overhead, 1e-6)
}

func TestTableHasTheThreeMetricsAndNoDiagnostics(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"-n", "30"}, &out, &errOut), errOut.String())
	t.Log("\n" + out.String())
	require.Contains(t, out.String(), "custom: timing + custom device events\n")
	for _, row := range []string{"fp4_gemm ", "cuda_event_ms ", "host_overhead_ms ", "tflops "} {
		require.Contains(t, out.String(), row)
	}
	for _, row := range []string{"cpu:", "cycles", "instructions", "clocks"} {
		require.NotContains(t, out.String(), row)
	}
}
