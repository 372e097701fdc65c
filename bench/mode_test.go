package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

const mib = 1 << 20

// The simulated cache is that of the server GPU of the measurements in size.
const cacheBytes = 60 * mib

// cached is a bed whose device has a cache that reads four times as fast as memory, and a
// buffer on it.
type cached struct {
	*bed
	data events.Buffer
}

func newCached(t *testing.T, bytes int64, opts ...mock.Option) *cached {
	t.Helper()
	b := &cached{bed: newBed(t, append([]mock.Option{mock.CacheOf(cacheBytes, 4)}, opts...)...)}
	b.data = b.alloc(bytes)
	return b
}

func (b *cached) alloc(bytes int64) events.Buffer {
	b.Helper()
	buffer, err := b.dev.ScratchAlloc(bytes)
	require.NoError(b, err)
	return buffer
}

// read reads the whole buffer in each operation.
func (b *cached) read(it Iters) error {
	for range it.N {
		if err := b.dev.LaunchRead(b.data, b.data.Bytes, b.stream); err != nil {
			return err
		}
	}
	return nil
}

// What the simulated device takes for a read between two events, by its own constants.
const (
	hitShare = 1.0 / 4
	eachRead = 1500 + 1280 // memory's latency, and the end event
)

func missNS(bytes int64) float64 { return float64(bytes) / 4580 }

// A cold read that was hot, and the other way round, is the commonest mistake of such
// tables (triton-lang/triton#3943, meta-pytorch/tritonbench#519).
func TestColdIsColdAndHotIsHot(t *testing.T) {
	b := newCached(t, 32*mib)
	cold := b.bench(b.read, Bytes(32*mib))
	require.InDelta(t, missNS(32*mib)+eachRead, cold.Latency.Median, 64)
	require.Equal(t, "cold (verified)", cold.Mode)
	require.Equal(t, "flush of 120 MiB", cold.Cold)
	require.Empty(t, cold.ModeWhy)
	require.True(t, cold.Check.Verified)
	require.InDelta(t, missNS(32*mib)*hitShare+eachRead, cold.Check.Hot, 64)
	require.InEpsilon(t, 4.58e12, cold.Check.Memory, 0.04, "with the latency of fills")
	require.Less(t, cold.Check.Implied, cold.Check.Memory)

	hot := b.bench(b.read, Bytes(32*mib), Cold(ColdNone))
	require.InDelta(t, missNS(32*mib)*hitShare+eachRead, hot.Latency.Median, 64)
	require.Equal(t, "hot", hot.Mode)
	require.Nil(t, hot.Check)
}

// A flush of half the cache and one of twice its size agree where the work is larger than
// what the half leaves; where it is not, the smaller one is caught.
func TestFlushOfHalfTheCacheAgreesOrIsCaught(t *testing.T) {
	for _, c := range []struct {
		data, flush int64
		mode        string
	}{
		{32 * mib, cacheBytes / 2, "cold (verified)"},
		{32 * mib, 2 * cacheBytes, "cold (verified)"},
		{16 * mib, 2 * cacheBytes, "cold (verified)"},
		{16 * mib, cacheBytes / 2, "cold (not verified)"},
	} {
		b := newCached(t, c.data)
		r := b.bench(b.read, Bytes(c.data), FlushBytes(c.flush))
		require.Equal(t, c.mode, r.Mode, "%d %d", c.data, c.flush)
		require.Equal(t, "flush of "+bytesText(c.flush), r.Cold)
		if r.Check.Verified {
			require.InDelta(t, missNS(c.data)+eachRead, r.Latency.Median, 64)
			continue
		}
		require.Contains(t, r.ModeWhy, "the flush of 30 MiB is too small")
		require.InDelta(t, missNS(c.data)*hitShare+eachRead, r.Latency.Median, 64)
	}
}

// What cannot be checked is not called verified, and the row says why.
func TestColdThatNothingShowsIsNotVerified(t *testing.T) {
	for _, c := range []struct {
		why  string
		opts []mock.Option
		set  []Option
		fn   func(b *cached) func(Iters) error
	}{
		{"declares no Bytes", nil, nil, nil},
		{"the size of the cache is not known", []mock.Option{mock.Without(mock.FeatureCache)}, []Option{Bytes(32 * mib)}, nil},
		{"this work does not show what the cache holds", nil, []Option{Bytes(1 * mib)}, func(b *cached) func(Iters) error { return b.work(10 * time.Microsecond) }},
		{"came from the cache, or Bytes is wrong", nil, []Option{Bytes(64 * mib)}, nil},
		{"only the first of the 16 operations", nil, []Option{Bytes(32 * mib), Cold(ColdFlush), FixedChunk(16)}, nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := newCached(t, 32*mib, c.opts...)
			fn := b.read
			if c.fn != nil {
				fn = c.fn(b)
			}
			r := b.bench(fn, c.set...)
			require.Equal(t, OK, r.Status)
			require.Equal(t, "cold (not verified)", r.Mode)
			require.Contains(t, r.ModeWhy, c.why)
			require.True(t, r.Check == nil || !r.Check.Verified)
		})
	}
}

// Lines that were set aside outlive every fill (NVIDIA/nvbench#458, NVIDIA/nvbench#459,
// gpu-mode/pygpubench#49, karpathy/llm.c#852).
func TestPersistingLinesAreResetBeforeEachFill(t *testing.T) {
	b := newCached(t, 16*mib)
	r := runOne(t, b.runner, func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU), Bytes(16*mib))
		g.Round(nil, func(int) error { b.dev.SetAside(b.data, b.data.Bytes); return nil })
		g.Bench("case", func(_ int, it Iters) error { return b.read(it) })
	})
	require.InDelta(t, missNS(16*mib)+eachRead, r.Latency.Median, 64)
	require.Equal(t, "cold (verified)", r.Mode)
}

// rotated reads buffers in turn.
func (b *cached) rotated(n int, bytes int64, opts ...Option) *Result {
	b.Helper()
	buffers := make([]events.Buffer, n)
	for i := range buffers {
		buffers[i] = b.alloc(bytes)
	}
	return b.bench(func(it Iters) error {
		for i := range it.N {
			if err := b.dev.LaunchRead(buffers[(it.First+i)%int64(n)], bytes, b.stream); err != nil {
				return err
			}
		}
		return nil
	}, append([]Option{Rotate(n, bytes), Bytes(bytes)}, opts...)...)
}

// Buffers used in turn that fit into the cache were called cold
// (ROCm/TransformerEngine#677, ROCm/Tensile#1848).
func TestBuffersThatFitIntoTheCacheAreRefusedTheWordCold(t *testing.T) {
	b := newCached(t, mib)
	n, err := b.timer.Ring(16 * mib)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	r := b.rotated(n, 16*mib)
	require.Equal(t, "rotating (cold, verified)", r.Mode)
	require.Equal(t, "8 buffers of 16 MiB in turn", r.Cold)
	require.InDelta(t, missNS(16*mib)+eachRead, r.Latency.Median, 64)

	r = b.rotated(3, 16*mib)
	require.Equal(t, "rotating (not cold)", r.Mode)
	require.Equal(t, "together they are 48 MiB, less than twice the cache of 60 MiB", r.ModeWhy)
	require.InDelta(t, missNS(16*mib)*hitShare+eachRead, r.Latency.Median, 64)

	b = newCached(t, mib, mock.Without(mock.FeatureCache))
	r = b.rotated(8, 16*mib)
	require.Equal(t, "rotating (not cold)", r.Mode)
	require.Contains(t, r.ModeWhy, "not known")
	_, err = b.timer.Ring(16 * mib)
	require.ErrorIs(t, err, events.ErrUnsupported)
	_, err = b.timer.Ring(0)
	require.ErrorIs(t, err, events.ErrInvalid)
}

// A function that uses one buffer whatever it is told is found by the check.
func TestRingThatIsNotUsedIsNotVerified(t *testing.T) {
	b := newCached(t, 16*mib)
	r := b.bench(b.read, Rotate(8, 16*mib), Bytes(16*mib))
	require.Equal(t, "rotating (cold, not verified)", r.Mode)
	require.Contains(t, r.ModeWhy, "the buffers do not keep it cold")
}

// Batches had one mean and no spread (NVIDIA/nvbench#442, golang/go#51218).
func TestHotBatchesHaveADistributionOfTheirOwn(t *testing.T) {
	b := newCached(t, 32*mib)
	r := b.bench(b.read, Bytes(32*mib), AlsoHot(5*time.Millisecond))
	require.Equal(t, "cold (verified)", r.Mode)
	require.NotNil(t, r.Hot)
	require.GreaterOrEqual(t, r.Hot.Latency.N, hotBatches)
	require.Len(t, r.Hot.Samples, r.Hot.Latency.N)
	require.Greater(t, r.Hot.Batch, int64(1))
	each := missNS(32*mib)*hitShare + 1500
	require.InDelta(t, each+1280/float64(r.Hot.Batch), r.Hot.Latency.Median, 40)
	require.InDelta(t, r.Latency.Median/r.Hot.Latency.Median, r.Hot.Ratio, 1e-9)
	var out bytes.Buffer
	require.NoError(t, b.runner.Report().WriteTable(&out))
	require.Contains(t, out.String(), "case [cold (verified)]")
	require.Contains(t, out.String(), "may overlap")
	out.Reset()
	require.NoError(t, b.runner.Report().WriteBenchstat(&out))
	require.Equal(t, 1, strings.Count(out.String(), "mode: cold\n"))
	require.Equal(t, 1, strings.Count(out.String(), "mode: hot\n"))
	require.Contains(t, out.String(), "BenchmarkGroup/case/hot ")

	r = b.bench(func(it Iters) error {
		if it.N > 1 {
			return events.ErrInvalid
		}
		return b.read(it)
	}, AlsoHot(time.Millisecond))
	require.Nil(t, r.Hot)
	require.Equal(t, OK, r.Status, "the case itself is sound")
	require.True(t, hasNote(r, "hot batches failed"))
}

// Rows of other modes are other instruments.
func TestModesAreNotCompared(t *testing.T) {
	b := newCached(t, 32*mib)
	b.bench(b.read, Bytes(32*mib))
	cold := *b.runner.Report()
	b.runner.report.Results = nil
	b.bench(b.read, Bytes(32*mib), Cold(ColdNone))
	list := strings.Join(b.runner.Report().Mismatch(&cold), "\n")
	require.Contains(t, list, "mode cold")
	require.Contains(t, list, "mode hot")
}
