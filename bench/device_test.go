package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// instant is a device that starts as soon as something is queued, below a host that
// takes time to queue it: all of that time lies in the window unless the stream is held.
var instant = []mock.Option{mock.LaunchLatency(0), mock.HostCost(3000, 300, 25)}

// Events round short work measured the launching of it (NVIDIA/nvbench#184,
// triton-lang/triton#1893, triton-lang/triton#404, openxla/xla#9757).
func TestLaunchLatencyIsHeldOutAndProvedOut(t *testing.T) {
	work := func(b *bed) func(Iters) error {
		return func(it Iters) error {
			b.sys.Advance(20 * time.Microsecond) // what the host does before it launches
			return b.work(5 * time.Microsecond)(it)
		}
	}
	b := newBed(t, instant...)
	held := b.bench(work(b))
	require.Equal(t, "held", held.Gate)
	require.Equal(t, Share{Count: 0, Of: held.Latency.N}, *held.Leak)
	require.InDelta(t, 5000+1280, held.Latency.Median, 32)
	require.False(t, hasNote(held, "launch latency"))

	b = newBed(t, instant...)
	free := b.bench(work(b), WithoutGate(), Cold(ColdNone))
	require.Equal(t, "none: switched off", free.Gate)
	require.Equal(t, Share{Count: free.Latency.N, Of: free.Latency.N}, *free.Leak)
	require.Greater(t, free.Latency.Median, 20_000.0)
	require.True(t, hasNote(free, "launch latency may lie in"))
}

// The gate is closed for the samples, and in a calibration before the first call; not
// in the first call and not in the warm-up, where libraries are loaded and code is
// compiled (NVIDIA/nvbench#240, NVIDIA/cccl#5262).
func TestNothingIsHeldInFirstCallAndWarmUp(t *testing.T) {
	b := newBed(t)
	calls, heldAt := 0, 0
	work := b.work(time.Microsecond)
	r := b.bench(func(it Iters) error {
		calls++
		if b.dev.CallCount(mock.OpGateClose) > b.dev.CallCount(mock.OpGateOpen) && heldAt == 0 {
			heldAt = calls
		}
		return work(it)
	})
	require.Equal(t, 1+r.WarmUp.Runs+1, heldAt, "first call, warm-up, then the rehearsal is held")
}

func TestDefaultStreamsAreNeverHeld(t *testing.T) {
	for handle := range uintptr(3) {
		b := newBed(t)
		b.stream = b.dev.WrapStream(handle)
		b.timer = NewDeviceEvents(b.dev, b.stream)
		r := b.bench(b.work(time.Microsecond))
		require.Equal(t, "none: never on a default stream", r.Gate)
		require.Zero(t, b.dev.CallCount(mock.OpGateClose))
	}
}

// A chunk that does not fit behind a closed gate would block the host until the
// watchdog: the driver's queue is finite.
func TestChunksThatDoNotFitBehindTheGateAreNotHeld(t *testing.T) {
	b := newBed(t)
	r := b.bench(b.work(time.Microsecond), FixedChunk(2000), Samples(20, 20))
	require.Contains(t, r.Gate, "2000 operations do not fit")
	require.InDelta(t, 1000, r.Latency.Median, 10)
}

// An operation may be many entries of the queue; then the watchdog decides.
func TestFullQueueBehindTheGateDegrades(t *testing.T) {
	b := newBed(t)
	r := b.bench(func(Iters) error { return b.work(time.Microsecond)(Iters{N: 1500}) })
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Gate, "launch-exposed")
}

func TestWhatABackendLacksIsSaidAndTheRestGoesOn(t *testing.T) {
	for _, c := range []struct {
		feature mock.Feature
		check   func(t *testing.T, r *Result)
	}{
		{mock.FeatureGate, func(t *testing.T, r *Result) {
			require.Equal(t, "kept busy instead: the backend has none", r.Gate)
			require.Zero(t, r.Leak.Count, "launching lies in what keeps the stream busy")
		}},
		{mock.FeatureQuerier, func(t *testing.T, r *Result) {
			require.Nil(t, r.Leak)
			require.True(t, hasNote(r, "cannot query"))
		}},
		{mock.FeatureScratch, func(t *testing.T, r *Result) { require.Contains(t, r.Cold, "no memory to fill") }},
		{mock.FeatureStatsReader, func(t *testing.T, r *Result) { require.False(t, hasNote(r, "negative")) }},
		{mock.FeatureIdentifier, func(*testing.T, *Result) {}},
		{mock.FeatureStreamWrapper, func(t *testing.T, r *Result) { require.Equal(t, "held", r.Gate) }},
	} {
		t.Run(fmt.Sprint(c.feature), func(t *testing.T) {
			b := newBed(t, mock.Without(c.feature))
			r := b.bench(b.work(5 * time.Microsecond))
			require.Equal(t, OK, r.Status)
			require.InDelta(t, 5000+1280, r.Latency.Median, 2400)
			c.check(t, r)
		})
	}
}

// Rows near what the instrument itself reads looked as precise as any
// (pygpubench and NVBench print it once, or not at all).
func TestFloorIsMeasuredAndPrintedAndNeverSubtracted(t *testing.T) {
	b := newBed(t)
	r := b.bench(b.work(2 * time.Microsecond))
	require.Equal(t, 32*time.Nanosecond, r.Calibration.Quantum)
	require.Equal(t, 1280*time.Nanosecond, r.Calibration.Empty)
	require.Equal(t, 100, r.Calibration.Pairs)
	require.True(t, r.Calibration.Held)
	require.InDelta(t, 1300, r.Calibration.Record, 50)
	require.InDelta(t, 1280, r.FloorNS, 1e-9)
	require.InDelta(t, 2000+1280, r.Latency.Median, 32, "with the cost of the events in it")
	require.True(t, hasNote(r, "near the floor"))

	r = b.bench(b.work(2*time.Microsecond), FixedChunk(100))
	require.InDelta(t, 12.8, r.FloorNS, 1e-9, "of an operation")
	require.False(t, hasNote(r, "near the floor"))
}

// Host overhead was once read before the device was done, and so was always 0.
func TestThreeClocksASampleAreCausal(t *testing.T) {
	b := newBed(t)
	r := b.bench(func(it Iters) error {
		b.sys.Advance(5 * time.Microsecond)
		return b.work(100 * time.Microsecond)(it)
	})
	for _, s := range r.Samples {
		require.Greater(t, s.Enqueue, 5*time.Microsecond-time.Nanosecond)
		require.GreaterOrEqual(t, s.Complete, s.Duration)
		require.GreaterOrEqual(t, s.Complete, s.Enqueue)
		require.Positive(t, s.Complete-s.Duration, "the host queued for 5 us while the stream was held")
	}
	require.Equal(t, *r.Clocks.Device, r.Samples[0].Duration)
	require.InDelta(t, float64(r.Clocks.Complete-*r.Clocks.Device), float64(*r.Clocks.Idle), 100)
	require.Equal(t, "host_overhead_ms", r.Metrics[1].Name)
	require.InDelta(t, float64(*r.Clocks.Idle)/1e6, r.Metrics[1].Summary.Median, 1e-4)
}

// Fills of a fixed size were too small for newer caches and wasteful on small ones,
// and lines that were set aside outlived every fill (triton-lang/triton#3943,
// NVIDIA/nvbench#458, gpu-mode/pygpubench#49).
func TestColdCacheIsFilledByTheDevicesOwnSize(t *testing.T) {
	for bytes, want := range map[int64]int64{60 << 20: 120 << 20, 1 << 20: flushSmallest, 4 << 30: flushLargest} {
		b := newBed(t, mock.CacheOf(bytes, 1), mock.CallLog(1000))
		r := b.bench(b.work(time.Microsecond), Samples(20, 20))
		require.Equal(t, fmt.Sprintf("flush of %d MiB", want>>20), r.Cold)
		require.EqualValues(t, 1, b.dev.CallCount(mock.OpScratchAlloc), "one buffer, once")
		require.EqualValues(t, 20+1, b.dev.CallCount(mock.OpScratchMemset))
		require.EqualValues(t, 20+1, b.dev.CallCount(mock.OpCacheResetPersisting))
		held := 0
		for _, c := range b.dev.Calls() {
			switch c.Op {
			case mock.OpGateClose:
				held++
			case mock.OpGateOpen:
				held--
			case mock.OpCacheResetPersisting:
				require.Zero(t, held, "nothing is reset while the stream is held")
			}
		}
		require.Equal(t, "cold (not verified)", r.Mode)
		require.Contains(t, r.ModeWhy, "declares no Bytes")
		require.InDelta(t, 1000+1280, r.Latency.Median, 32, "the fill is not in the window")
		require.Less(t, r.Clocks.Complete, 20*time.Microsecond, "and not in the host's clock either")
		require.NoError(t, b.timer.Close())
		live, _ := b.dev.Live()
		require.Zero(t, live)
	}
	b := newBed(t)
	r := b.bench(b.work(time.Microsecond), FixedChunk(16))
	require.Equal(t, "none", r.Cold, "only the first of sixteen would be cold")
}

// Fan-outs were timed on one stream of several (cupy/cupy#3484, pytorch/FBGEMM#5988).
func TestOneWindowCoversSeveralStreams(t *testing.T) {
	b := newBed(t)
	streams := []mock.Stream{b.stream}
	for range 2 {
		s, err := b.dev.StreamCreateNonBlocking()
		require.NoError(t, err)
		streams = append(streams, s)
	}
	b.timer = NewDeviceEvents(b.dev, streams...)
	r := b.bench(func(Iters) error {
		for i, s := range streams {
			if err := b.dev.Work(s, time.Duration(i+1)*100*time.Microsecond); err != nil {
				return err
			}
		}
		b.sys.Advance(time.Millisecond) // work that did not wait for the start would be over
		return nil
	})
	require.Equal(t, OK, r.Status)
	require.Equal(t, 3, r.Streams)
	require.InDelta(t, 300_000, r.Latency.Median, 10_000, "the makespan")
	got := map[string]float64{}
	for _, m := range r.Metrics {
		got[m.Name] = m.Summary.Median
	}
	require.InDelta(t, 0.1, got["stream_0_ms"], 0.002)
	require.InDelta(t, 0.2, got["stream_1_ms"], 0.002)
	require.InDelta(t, 0.3, got["stream_2_ms"], 0.002)
	require.InDelta(t, 600.0/300, got["overlap"], 0.05)
}

// Records go to the caller's stream and to no other.
func TestEverythingIsRecordedOnTheCallersStream(t *testing.T) {
	b := newBed(t, mock.CallLog(100_000))
	b.bench(b.work(time.Microsecond), Samples(20, 20))
	records := 0
	for _, c := range b.dev.Calls() {
		if c.Op == mock.OpEventRecord {
			records++
			require.Equal(t, b.stream.ID(), c.Stream)
		}
	}
	require.Greater(t, records, 40)
}

// One stream is made where none is given, and nothing is left after Close.
func TestCloseGivesBackWhatWasMade(t *testing.T) {
	sys := mock.New(mock.AutoAdvance())
	defer sys.Close()
	dev := sys.Device(0)
	timer := NewDeviceEvents(dev)
	stream, err := timer.Stream()
	require.NoError(t, err)
	r := runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
		g.Set(On(timer), In(GPU))
		g.Bench("case", func(int, Iters) error { return dev.Work(stream, time.Microsecond) })
	})
	require.Equal(t, OK, r.Status)
	require.Equal(t, "held", r.Gate)
	require.NoError(t, timer.Close())
	require.NoError(t, timer.Close())
	liveEvents, liveStreams := dev.Live()
	require.Zero(t, liveEvents)
	require.Zero(t, liveStreams)
}

func TestDeviceThatCannotBePreparedIsARow(t *testing.T) {
	for _, op := range []mock.Op{mock.OpEventCreate, mock.OpStreamCreate, mock.OpEventRecord, mock.OpGateClose} {
		sys := mock.New(mock.AutoAdvance())
		dev := sys.Device(0)
		dev.Script(mock.Fault{Op: op, Code: mock.CodeInvalidValue})
		timer := NewDeviceEvents(dev)
		r := runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
			g.Set(On(timer), In(GPU))
			g.Bench("case", nothing)
		})
		require.Equal(t, Failed, r.Status, op)
		require.Equal(t, "mock error", r.Errors[0].Title, op)
		require.Equal(t, "mock_error_code", r.Errors[0].Name)
		require.EqualValues(t, mock.CodeInvalidValue, *r.Errors[0].Code)
		require.NoError(t, timer.Close())
		dev.ClearScript()
		live, streams := dev.Live()
		require.Zero(t, live, op)
		require.Zero(t, streams, op)
		sys.Close()
	}
	r := runOne(t, NewRunner(), func(g *GroupOf[int]) {
		g.Set(On(NewDeviceEvents[mock.Event, mock.Stream](nil)), In(GPU))
		g.Bench("case", nothing)
	})
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Errors[0].Text, "no device")
}

// A fault in the middle ends its case, with the samples before it and the driver's
// words, and later cases on the device say so, too.
func TestStickyFaultEndsTheCase(t *testing.T) {
	b := newBed(t)
	calls := 0
	work := b.work(time.Microsecond)
	r := b.bench(func(it Iters) error {
		if calls++; calls == 40 {
			b.dev.Lose()
		}
		return work(it)
	}, Samples(500, 500))
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Stop, "fault")
	require.Equal(t, 1, r.FailedCount, "nothing is tried again on a dead device")
	require.Equal(t, "mock_error_code", r.Errors[0].Name)
	next := b.bench(work)
	require.Equal(t, Failed, next.Status)
	require.Equal(t, "mock error", next.Errors[0].Title)
}

// A vendor whose name is not known gives its own prefix.
func TestLabelAndPrefixAreTheVendors(t *testing.T) {
	sys := mock.New()
	defer sys.Close()
	erased := events.Erase(sys.Device(0))
	require.Equal(t, "timing + mock events", NewDeviceEvents(erased).Label())
	d := NewDeviceEvents(erased).Named("Some Vendor")
	require.Equal(t, "timing + Some Vendor events", d.Label())
	require.Equal(t, "some_vendor", d.prefix)
}

// Runs were compared across drivers, devices and instruments as like with like. A
// change of the driver's version is named, and the report refused.
func TestReportsOfOtherInstrumentsAreNotCompared(t *testing.T) {
	dir := t.TempDir()
	run := func(driver string, gate bool, args ...string) (int, string, string) {
		sys := mock.New(mock.AutoAdvance(), mock.Versions(driver, "13.0"))
		defer sys.Close()
		return command(t, func(r *Runner) {
			dev := sys.Device(0)
			stream, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			timer := NewDeviceEvents(dev, stream)
			defer r.Release(timer)
			r.Set(quick(20, 20)...)
			if !gate {
				r.Set(WithoutGate())
			}
			Group(r, "g", func(g *GroupOf[int]) {
				g.Set(On(timer), In(GPU))
				g.Bench("c", func(int, Iters) error { return dev.Work(stream, time.Microsecond) })
			})
		}, args...)
	}
	path := filepath.Join(dir, "first.json")
	code, out, _ := run("580", true, "-o", "json="+path)
	require.Zero(t, code)
	require.Contains(t, out, "580, 13.0")
	code, _, _ = run("580", true, "-like", path)
	require.Zero(t, code)
	code, out, errOut := run("590", true, "-like", path)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "590 13.0 and mock")
	code, out, _ = run("590", true, "-like", path, "-force")
	require.Zero(t, code)
	require.Contains(t, out, "differs from")
	code, _, errOut = run("580", false, "-like", path)
	require.Equal(t, 1, code)
	require.Contains(t, errOut, "gate none: switched off")
	require.NoError(t, os.WriteFile(path, []byte(`{"schema":"other"}`), 0o600))
	code, _, _ = run("580", true, "-like", path)
	require.Equal(t, 2, code)
}

// A gate that turns out not to be there is no failure.
func TestGateThatIsRefusedAsUnsupportedIsDoneWithout(t *testing.T) {
	b := newBed(t)
	b.dev.Script(mock.Fault{Op: mock.OpGateClose, Err: fmt.Errorf("stream memory operations: %w", events.ErrUnsupported)})
	r := b.bench(b.work(time.Microsecond))
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Gate, "stream memory operations")
	require.Contains(t, r.Gate, "kept busy instead")
	require.False(t, r.Calibration.Held)
	require.NoError(t, b.timer.Close())
}
