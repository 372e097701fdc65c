package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
	"example.com/devevents/internal/gputest"
)

// The example says what a program in C says that makes the same calls: within 3 % for
// the medians of 30 samples, taken in turn.
func TestGPUExampleAgreesWithItsNativeTwin(t *testing.T) {
	library := gputest.Runtime(t).Info().Library
	twin := gputest.Compile(t, filepath.Join("testdata", "twin.c"), "-ldl")

	var native, ours []float64
	for range 3 {
		out, err := exec.Command(twin, library, "67108864", "16", "10").Output()
		require.NoError(t, err)
		for _, text := range strings.Fields(string(out)) {
			ms, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			native = append(native, ms)
		}
		var text, errOut bytes.Buffer
		require.Zero(t, run([]string{"-backend", "cuda", "-n", "10", "-format", "json"}, &text, &errOut), errOut.String())
		var report bench.Report
		require.NoError(t, json.Unmarshal(text.Bytes(), &report))
		for _, s := range report.Results[0].Samples {
			ours = append(ours, float64(s.Duration)/1e6)
		}
	}
	require.Len(t, native, 30)
	require.Len(t, ours, 30)
	gputest.Raw(t, "cuda_event_backend", map[string][]float64{"native_ms": native, "ours_ms": ours})
	slices.Sort(native)
	slices.Sort(ours)
	t.Logf("native %.4f ms, ours %.4f ms", native[15], ours[15])
	require.InEpsilon(t, native[15], ours[15], 0.03)
}
