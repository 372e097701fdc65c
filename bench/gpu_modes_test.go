package bench

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/internal/gputest"
)

// nativeCold are the samples of testdata/cold.c, by kind, in ns.
func nativeCold(t *testing.T) map[string][]float64 {
	t.Helper()
	info := gputest.Runtime(t).Info()
	program := gputest.Compile(t, filepath.Join("testdata", "cold.c"), "-ldl", "-lm")
	driver := info.Driver
	if driver == "" {
		driver = "libcuda.so.1"
	}
	samples := map[string][]float64{}
	for _, fields := range printed(t, exec.Command(program, info.Library, driver, "200")) {
		require.Equal(t, "0", fields[2], "the reference itself leaks: %s", fields)
		samples[fields[0]] = append(samples[fields[0]], nsOf(t, fields[1]))
	}
	return samples
}

// coldWork is what testdata/cold.c measures, through the abilities of a device.
type coldWork struct {
	name  string
	queue func() error
}

// A kernel that reads 32 MiB, and a copy of 16 MiB to 16 MiB, hot and cold within 5 % of what a
// program in C says that fills, holds and queues in the same way, and with fills of half the
// cache and of twice its size alike.
func TestGPUColdAndHotAgreeWithANativeReference(t *testing.T) {
	native := nativeCold(t)
	dev := events.Erase(gputest.Device(t))
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(t, ok)
	reader, ok := events.Ability[events.ReadKernel[events.AnyStream]](dev)
	require.True(t, ok)
	cache, ok := events.Ability[events.Cache](dev)
	require.True(t, ok, "the driver tells the size of the cache")
	l2, err := cache.CacheBytes()
	require.NoError(t, err)
	timer := NewDeviceEvents(dev)
	stream, err := timer.Stream()
	require.NoError(t, err)
	const half = 16 << 20
	from, err := scratch.ScratchAlloc(2 * half)
	require.NoError(t, err)
	to, err := scratch.ScratchAlloc(half)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, timer.Close())
		require.NoError(t, scratch.ScratchFree(from))
		require.NoError(t, scratch.ScratchFree(to))
	}()
	runner := NewRunner(On(timer), In(GPU), Bytes(2*half), Samples(200, DefaultMaxSamples))
	row := func(work coldWork, kind string, opts ...Option) *Result {
		name := work.name + "_" + kind
		r := *runOne(t, runner, func(g *GroupOf[int]) {
			g.Bench(name, func(_ int, it Iters) error {
				for range it.N {
					if err := work.queue(); err != nil {
						return err
					}
				}
				return nil
			}, opts...)
		})
		require.Equal(t, OK, r.Status)
		require.Equal(t, "held", r.Gate)
		require.Zero(t, r.Leak.Count)
		reference := medianOf(native[name])
		t.Logf("%-14s %8.0f ns, native %8.0f ns, %s %s %+v", name, r.Latency.Median, reference, r.Mode, r.ModeWhy, r.Check)
		assert.InEpsilon(t, reference, r.Latency.Median, 0.05, name)
		return &r
	}
	for _, work := range []coldWork{
		{"read", func() error { return reader.LaunchRead(from, 2*half, stream) }},
		{"copy", func() error { return scratch.ScratchCopy(to, from, half, stream) }},
	} {
		hot := row(work, "hot", Cold(ColdNone))
		cold := row(work, "cold", FlushBytes(2*l2), AlsoHot(50*time.Millisecond))
		small := row(work, "cold_half", FlushBytes(l2/2))
		assert.Greater(t, cold.Latency.Median, 1.2*hot.Latency.Median)
		assert.Equal(t, "cold (verified)", cold.Mode, cold.ModeWhy)
		assert.InEpsilon(t, cold.Latency.Median, small.Latency.Median, 0.05)
		require.NotNil(t, cold.Hot)
		assert.GreaterOrEqual(t, cold.Hot.Latency.N, hotBatches)
	}
	gputest.Raw(t, "bench-cold-native", native)
	gputest.Raw(t, "bench-cold-ours", runner.Report())
}

// A row from a graph is that of the stream within 3 %.
func TestGPUGraphRowsAgreeWithGatedOnes(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	_, ok := events.Ability[events.Graphs[events.AnyEvent, events.AnyStream]](dev)
	require.True(t, ok)
	gated := spinning(t, dev, 10*time.Microsecond, Samples(200, DefaultMaxSamples))
	graph := spinning(t, dev, 10*time.Microsecond, Samples(200, DefaultMaxSamples), AsGraph())
	t.Logf("gated %.0f ns, graph %.0f ns (%s, %v)", gated.Latency.Median, graph.Latency.Median, graph.Gate, graph.Notes)
	require.Equal(t, "held", gated.Gate)
	require.Contains(t, graph.Gate, "launched as graphs of")
	require.InEpsilon(t, gated.Latency.Median, graph.Latency.Median, 0.03)
}

// Buffers in turn are as cold as a fill makes them.
func TestGPURingIsAsColdAsAFlush(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	require.True(t, ok)
	timer := NewDeviceEvents(dev)
	stream, err := timer.Stream()
	require.NoError(t, err)
	const half = 16 << 20
	n, err := timer.Ring(2 * half)
	require.NoError(t, err)
	var buffers []events.Buffer
	defer func() {
		require.NoError(t, timer.Close())
		for _, b := range buffers {
			require.NoError(t, scratch.ScratchFree(b))
		}
	}()
	for range 2 * n {
		b, err := scratch.ScratchAlloc(half)
		require.NoError(t, err)
		buffers = append(buffers, b)
	}
	r := runOne(t, NewRunner(On(timer), In(GPU), Bytes(2*half), Samples(200, DefaultMaxSamples)), func(g *GroupOf[int]) {
		g.Bench("ring", func(_ int, it Iters) error {
			for i := range it.N {
				pair := 2 * int((it.First+i)%int64(n))
				if err := scratch.ScratchCopy(buffers[pair+1], buffers[pair], half, stream); err != nil {
					return err
				}
			}
			return nil
		}, Rotate(n, 2*half))
	})
	t.Logf("%d buffers: %.0f ns, %s %s %+v", n, r.Latency.Median, r.Mode, r.ModeWhy, r.Check)
	require.Equal(t, OK, r.Status)
	require.NotNil(t, r.Check)
	require.Greater(t, r.Latency.Median, 1.2*r.Check.Hot)
}

// What a kernel costs at least, beside the floor.
func TestGPUEmptyKernelIsARow(t *testing.T) {
	dev := events.Erase(gputest.Device(t))
	empty, ok := events.Ability[events.EmptyKernel[events.AnyStream]](dev)
	require.True(t, ok)
	timer := NewDeviceEvents(dev)
	defer func() { require.NoError(t, timer.Close()) }()
	stream, err := timer.Stream()
	require.NoError(t, err)
	r := runOne(t, NewRunner(On(timer), In(GPU), Cold(ColdNone)), func(g *GroupOf[int]) {
		g.Bench("empty", func(_ int, it Iters) error {
			for range it.N {
				if err := empty.LaunchEmpty(stream); err != nil {
					return err
				}
			}
			return nil
		})
	})
	t.Logf("an empty kernel %.0f ns, nothing %v", r.Latency.Median, r.Calibration.Empty)
	require.Equal(t, OK, r.Status)
	require.Zero(t, r.Leak.Count)
	require.Greater(t, r.Latency.Median, float64(r.Calibration.Empty))
}
