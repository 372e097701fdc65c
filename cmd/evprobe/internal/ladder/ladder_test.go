package ladder

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/bench"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type mockAPI = events.EventApi[mock.Event, mock.Stream]

func TestEachRungIsMeasuredAndMemoryIsGivenBack(t *testing.T) {
	dev := mock.NewDevice(mock.AutoAdvance())
	var steps []string
	r := Run(mockAPI(dev), Settings{Largest: 64 << 10, Step: func(what string) error { steps = append(steps, what); return nil }})
	require.Len(t, r.Results, 3+3+3+len(spins))
	for i := range r.Results {
		row := &r.Results[i]
		require.Equal(t, bench.OK, row.Status, row.Name())
		require.Equal(t, row.Group != Spin, Bandwidth(row) != "", row.Name())
		require.NotEmpty(t, Rung(row))
	}
	require.Equal(t, []string{"memset of 4 KiB", "memset of 16 KiB", "memset of 64 KiB", "read of 4 KiB"}, steps[:4])
	liveEvents, liveStreams := dev.Live()
	require.Zero(t, liveEvents)
	require.Zero(t, liveStreams)
	var b strings.Builder
	require.NoError(t, Write(r, &b))
	require.Equal(t, len(r.Results)+1, strings.Count(b.String(), "\n"))
}

// A copy reads and writes; counting one of the two halves the bandwidth.
func TestCopyCountsWhatIsReadAndWritten(t *testing.T) {
	r := Run(mockAPI(mock.NewDevice(mock.AutoAdvance())), Settings{Largest: Smallest})
	for i, touched := range []float64{Smallest, Smallest, 2 * Smallest} {
		row := r.Results[i]
		require.InEpsilon(t, touched/row.Latency.Median*1e9/(1<<30), row.Rates[len(row.Rates)-1].Value, 0.01, row.Name())
	}
}

func TestDeviceThatCannotBeGivenWorkSaysSo(t *testing.T) {
	r := Run(mockAPI(mock.NewDevice(mock.AutoAdvance(), mock.Without(mock.FeatureScratch))), Settings{Largest: Smallest})
	require.Len(t, r.Results, 4)
	var b strings.Builder
	require.NoError(t, Write(r, &b))
	require.Equal(t, 4, strings.Count(b.String(), "no Scratch"), b.String())
	require.True(t, r.Failed())
}

func TestBackendWithoutAKernelThatReadsSkipsTheReads(t *testing.T) {
	r := Run(mockAPI(mock.NewDevice(mock.AutoAdvance(), mock.Without(mock.FeatureReadKernel))), Settings{Largest: Smallest})
	require.False(t, r.Failed())
	require.Equal(t, bench.Skipped, r.Results[1].Status)
	require.Contains(t, why(&r.Results[1]), "the mock backend has no kernel that reads")
}

func TestStepEndsTheRun(t *testing.T) {
	stop := errors.New("the time is up")
	r := Run(mockAPI(mock.NewDevice(mock.AutoAdvance())), Settings{Largest: 1 << 20, Step: func(string) error { return stop }})
	for i := range r.Results {
		require.Nil(t, r.Results[i].Latency)
		require.Contains(t, why(&r.Results[i]), "the time is up")
	}
}

func TestMemoryThatRunsOutFailsOneRungAlone(t *testing.T) {
	dev := mock.NewDevice(mock.AutoAdvance())
	dev.Script(mock.Fault{Op: mock.OpScratchAlloc, Nth: 1, Code: mock.CodeUnknown})
	r := Run(mockAPI(dev), Settings{Largest: 16 << 10, Options: []bench.Option{bench.Cold(bench.ColdNone), bench.DeviceBudget(time.Millisecond)}})
	require.Equal(t, bench.Failed, r.Results[0].Status)
	require.Contains(t, why(&r.Results[0]), "taking 4 KiB of device memory: mockScratchAlloc")
	require.Equal(t, bench.OK, r.Results[1].Status)
}

func TestSizesAreWrittenInTheLargestWholeUnit(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1536 B", 1 << 30: "1 GiB", 1 << 50: "1024 TiB"} {
		require.Equal(t, want, Size(n))
	}
}
