package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// Harnesses divided by a time of 0 and ran for ever, printed inf, or grew their counts
// without an end (triton-lang/triton#6868, triton-lang/triton#8948,
// tracel-ai/cubecl#1592, google/benchmark#1158, google/benchmark#702).
func TestReadingsThatAreNoTimesEndWithTheRightWords(t *testing.T) {
	for _, c := range []struct {
		name    string
		reading func(float32) float32
		status  Status
		check   func(t *testing.T, r *Result)
	}{
		{"always 0", mock.Reads(0), OK, func(t *testing.T, r *Result) {
			require.True(t, hasNote(r, "below resolution"))
			require.Zero(t, r.Latency.Median)
			require.Empty(t, r.Rates, "nothing can be divided by 0")
		}},
		{"always 1 ns", mock.Reads(1e-6), OK, func(t *testing.T, r *Result) {
			require.InDelta(t, 1, r.Latency.Median, 0)
			require.True(t, hasNote(r, "near the floor"))
		}},
		{"always negative", mock.Reads(-0.5), OK, func(t *testing.T, r *Result) {
			require.True(t, hasNote(r, "were negative and count as 0"))
			require.True(t, hasNote(r, "below resolution"))
		}},
		{"always NaN", mock.Reads(float32(nan)), Failed, func(t *testing.T, r *Result) {
			require.Contains(t, r.Errors[0].Text, "not-a-number ms")
			require.Nil(t, r.Latency)
		}},
		{"always infinite", mock.Reads(float32(math.Inf(1))), Failed, func(t *testing.T, r *Result) {
			require.Contains(t, r.Errors[0].Text, "plus infinity ms")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: c.reading})
			r := b.bench(b.work(5*time.Microsecond), WallBudget(2*time.Second), Bytes(1<<20))
			require.Equal(t, c.status, r.Status)
			c.check(t, r)
		})
	}
}

// A time of 0 is not printed as one: it is less than the clock's tick over the
// operations of a sample.
func TestZeroIsPrintedAsBelowResolution(t *testing.T) {
	s := constant(0)
	s.quantum = 32 * time.Nanosecond
	runner := NewRunner(quick(20, 20)...)
	r := runOne(t, runner, func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU), FixedChunk(16))
		g.Bench("case", nothing)
	})
	require.True(t, hasNote(r, "below resolution: the median reads 0; it is less than 2 ns"))
	var out bytes.Buffer
	require.NoError(t, runner.Report().WriteTable(&out))
	require.Contains(t, out.String(), "< 2 ns")
	require.NotContains(t, out.String(), "  0 ns")
}

// A function that does nothing, however many operations it is asked for, grows the
// chunk to its bound and no further.
func TestFunctionThatDoesNothingEnds(t *testing.T) {
	largest := int64(0)
	r := runOne(t, NewRunner(WallBudget(time.Second), WarmUp(0, 10*time.Millisecond), On(WallClock())), func(g *GroupOf[int]) {
		g.Bench("case", func(_ int, it Iters) error { largest = max(largest, it.N); return nil })
	})
	require.Equal(t, OK, r.Status)
	require.LessOrEqual(t, largest, int64(maxChunk))
	require.Less(t, r.Latency.Median, 1.0, "of an operation, in fractions of a nanosecond")
	require.True(t, hasNote(r, "near the floor"))
}

// NaN that comes only once calibration is over fails the samples, and the case ends.
func TestReadingsThatTurnIntoNaNFailTheirSamples(t *testing.T) {
	b := newBed(t)
	n := 0
	b.dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: func(ms float32) float32 {
		if n++; n > 600 && n%2 == 0 {
			return float32(nan)
		}
		return ms
	}})
	r := b.bench(b.work(5*time.Microsecond), Samples(500, 500), Precision(1e-9))
	require.Equal(t, OK, r.Status)
	require.Positive(t, r.FailedCount)
	require.Contains(t, r.Errors[0].Text, "not-a-number ms")
	require.Greater(t, r.Errors[0].Count, 1, "the same words are one row with a count")
	require.InDelta(t, 5000+1280, r.Latency.Median, 64, "failed samples are not among the others")
}

// The time may come after a long 0, and the host may be slow while the device says
// that it was fast: both once made counts explode (bheisler/criterion.rs#663,
// bheisler/criterion.rs#862).
func TestWallClockBoundsWhatTheDeviceCallsFast(t *testing.T) {
	t.Run("0, then 5 ms", func(t *testing.T) {
		s := &scripted{quantum: 32, collect: func(n int, iv Interval) (Sample, error) {
			if n < 10 {
				return Sample{}, nil
			}
			return Sample{Duration: 5 * time.Millisecond * time.Duration(iv.Operations)}, nil
		}}
		largest := int64(0)
		r := runOne(t, NewRunner(WallBudget(time.Second), WarmUp(0, time.Millisecond)), func(g *GroupOf[int]) {
			g.Set(On(s), In(GPU), CalibratedChunk())
			g.Bench("case", func(_ int, it Iters) error { largest = max(largest, it.N); return nil })
		})
		require.Equal(t, OK, r.Status)
		require.LessOrEqual(t, largest, int64(maxChunk))
	})
	t.Run("1 s a call on the host, 1 us on the device", func(t *testing.T) {
		b := newBed(t)
		work := b.work(time.Microsecond)
		r := b.bench(func(it Iters) error {
			b.sys.Advance(time.Duration(it.N) * time.Second)
			return work(it)
		}, CalibratedChunk())
		require.Equal(t, OK, r.Status)
		require.EqualValues(t, 1, r.Chunk)
		require.Equal(t, "wall budget", r.Verdict)
		require.LessOrEqual(t, b.sys.Now(), 20*time.Second)
	})
}

// A backend's numbers are checked whatever device they are from.
func TestImpossibleSamplesAreRefused(t *testing.T) {
	for name, sample := range map[string]Sample{
		"a negative duration": {Duration: -time.Microsecond},
		"-1 iterations":       {Duration: 1, Iterations: -1},
		"-1 chunks":           {Duration: 1, Chunks: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{collect: func(int, Interval) (Sample, error) { return sample, nil }}
			r := runOne(t, NewRunner(), func(g *GroupOf[int]) {
				g.Set(On(s), In(GPU))
				g.Bench("case", nothing)
			})
			require.Equal(t, Failed, r.Status)
			require.Equal(t, failuresInARow, r.FailedCount)
			require.Contains(t, r.Errors[0].Text, name)
			require.Contains(t, r.Stop, "10 in a row")
		})
	}
}

// A failed sample was once counted as a fast one. It is left out.
func TestFailedSampleIsLeftOutCountedAndExplained(t *testing.T) {
	for _, where := range []string{"begin", "end", "collect", "function"} {
		t.Run(where, func(t *testing.T) {
			refuse := func(at string, n int) error {
				if at == where && n == 1+3 { // after the first call
					return errors.New("refused at " + at)
				}
				return nil
			}
			s := &scripted{
				begin: func(n int) error { return refuse("begin", n) },
				end:   func(n int) error { return refuse("end", n) },
				collect: func(n int, _ Interval) (Sample, error) {
					return Sample{Duration: time.Microsecond}, refuse("collect", n)
				},
			}
			r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
				g.Set(On(s), In(GPU))
				g.Bench("case", func(int, Iters) error { return refuse("function", s.n) })
			})
			require.Equal(t, OK, r.Status)
			require.Len(t, r.Samples, 9)
			require.Equal(t, 1, r.FailedCount)
			require.Contains(t, r.Errors[0].Text, "refused at "+where)
			require.Zero(t, s.open, "End is called for every Begin")
		})
	}
}

// A function that panics ends its case with the panic's words; its context is closed,
// the backend's hold is let go, and the next case runs.
func TestPanicEndsItsCaseAlone(t *testing.T) {
	for _, at := range []int{1, 2, 30} {
		t.Run(fmt.Sprint("call ", at), func(t *testing.T) {
			b := newBed(t)
			calls, closed := 0, 0
			work := b.work(time.Microsecond)
			Group(b.runner, "group", func(g *GroupOf[closer]) {
				g.Set(On(b.timer), In(GPU), Samples(40, 40))
				g.Context(func(*Case) (closer, error) { return closer{&closed}, nil })
				g.Bench("panics", func(_ closer, it Iters) error {
					if calls++; calls == at {
						panic("no such luck")
					}
					return work(it)
				})
				g.Bench("after", func(_ closer, it Iters) error { return work(it) })
			})
			checkOutputs(t, b.runner.Report())
			first, second := b.runner.Report().Results[0], b.runner.Report().Results[1]
			require.Equal(t, Failed, first.Status)
			require.Contains(t, first.Errors[0].Text, "panic: no such luck")
			require.Equal(t, "panic", first.Stop)
			require.Equal(t, OK, second.Status)
			require.Equal(t, 2, closed)
			require.Equal(t, b.dev.CallCount(mock.OpGateClose), b.dev.CallCount(mock.OpGateOpen))
		})
	}
}

// closer counts its closes.
type closer struct{ closed *int }

func (c closer) Close() error { *c.closed++; return nil }

func TestFunctionThatFailsOnceGoesOn(t *testing.T) {
	b := newBed(t)
	calls := 0
	work := b.work(time.Microsecond)
	r := b.bench(func(it Iters) error {
		if calls++; calls == 3 {
			return errors.New("run 3 failed")
		}
		return work(it)
	})
	require.Equal(t, OK, r.Status)
	require.Equal(t, 1, r.FailedCount)
	require.Contains(t, r.Errors[0].Text, "run 3 failed")
}

// First calls load libraries and compile code; they took 500 times as long and were in
// the first sample, or ate a warm-up that was bounded in time
// (AcademySoftwareFoundation/openqmc#109, NVIDIA/nvbench#240, NVIDIA/nvbench#340).
func TestFirstUseIsInNoSample(t *testing.T) {
	for _, slow := range []int{1, 3} {
		b := newBed(t)
		calls := 0
		r := b.bench(func(it Iters) error {
			d := 10 * time.Microsecond
			if calls++; calls <= slow {
				d *= 500
				require.Equal(t, b.dev.CallCount(mock.OpGateClose), b.dev.CallCount(mock.OpGateOpen), "nothing is held in first calls")
			}
			return b.work(d)(it)
		}, WarmUp(time.Microsecond, time.Second))
		require.Equal(t, OK, r.Status)
		require.InDelta(t, 10_000+1280, r.Latency.Max, 64)
		require.False(t, r.Latency.SlowFirst)
	}
}

// A warm-up that is shorter than the first call still warms up, and a first sample
// that is far from the others is named.
func TestColdFirstSampleIsNamed(t *testing.T) {
	samples := 0
	s := &scripted{collect: func(int, Interval) (Sample, error) {
		if samples++; samples == 2 { // the first after the first call
			return Sample{Duration: 500 * time.Microsecond}, nil
		}
		return Sample{Duration: time.Microsecond}, nil
	}}
	r := runOne(t, NewRunner(WarmUp(0, 0), Samples(20, 20)), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU))
		g.Bench("case", nothing)
	})
	require.True(t, r.Latency.SlowFirst)
	require.True(t, hasNote(r, "the first sample took 500 us"))
}

// A function that waits for the device while its stream is held waits for ever, in
// tools that hold with a kernel (NVIDIA/nvbench#136, NVIDIA/nvbench#240,
// NVIDIA/nvbench#242, NVIDIA/nvbench#249, NVIDIA/cccl#8901, meta-pytorch/tritonbench#779).
func TestFunctionThatSynchronizesInAHoldIsMeasuredWithout(t *testing.T) {
	b := newBed(t)
	work := b.work(10 * time.Microsecond)
	r := b.bench(func(it Iters) error {
		if err := work(it); err != nil {
			return err
		}
		return b.dev.StreamSynchronize(b.stream)
	})
	require.Equal(t, OK, r.Status)
	require.Contains(t, r.Gate, "launch-exposed")
	require.True(t, hasNote(r, "launch-exposed"))
	require.Zero(t, r.FailedCount, "the sample that was held too long is not one of the case")
	require.GreaterOrEqual(t, r.Latency.N, 20)
	require.Less(t, b.sys.Now(), 4*time.Second, "one watchdog, not one a sample")
}

// A function that waits once in a while loses all samples taken before: held and not
// held are two measurements.
func TestHeldAndUnheldSamplesAreNotMixed(t *testing.T) {
	b := newBed(t, mock.LaunchLatency(0))
	work := b.work(10 * time.Microsecond)
	r := b.bench(func(it Iters) error {
		if err := work(it); err != nil || b.dev.CallCount(mock.OpGateClose) < 12 {
			return err
		}
		return b.dev.StreamSynchronize(b.stream)
	}, Cold(ColdNone), Samples(30, 30))
	require.Contains(t, r.Gate, "launch-exposed")
	require.Len(t, r.Samples, 30)
	for _, s := range r.Samples {
		require.Equal(t, Yes.String(), s.Leaked, "no sample of those that were held")
	}
	require.Equal(t, 30, r.Metrics[0].Summary.N)
}

// Warnings came thousands of times (tensorflow/tensorflow#73487, openxla/xla#39255,
// openxla/xla#26466). Each is one line of its case, with a count where that says more.
func TestEachWarningIsOneLineOfItsCase(t *testing.T) {
	b := newBed(t, mock.LaunchLatency(0))
	b.dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(-1)})
	r := b.bench(b.work(time.Microsecond), WithoutGate(), Cold(ColdNone), Samples(300, 300))
	require.NotEmpty(t, r.Notes)
	seen := map[string]bool{}
	for _, n := range r.Notes {
		require.False(t, seen[n], n)
		seen[n] = true
	}
	require.Less(t, len(r.Notes), 8)
	require.True(t, hasNote(r, "of 300 samples"))
}

// A device that never gets there ends the case, and the next one does not wait again.
func TestLostEventsEndTheCase(t *testing.T) {
	b := newBed(t)
	b.dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 300, Hang: true})
	r := b.bench(b.work(time.Microsecond), WallBudget(200*time.Millisecond), Samples(500, 500), Precision(1e-9))
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Stop, "lost")
	require.Contains(t, r.Errors[0].Text, "had not reached the end")
	next := b.bench(b.work(time.Microsecond))
	require.Equal(t, Failed, next.Status)
	require.Contains(t, next.Stop, "lost")
	require.ErrorIs(t, b.timer.Close(), events.ErrExpired)
	b.dev.ReleaseHangs()
}

// Events on one stream round work on another read next to nothing, whatever the work
// (Genesis-Embodied-AI/quadrants#407, csarofeen/pytorch#2521,
// NVIDIA/TensorRT-LLM#6906, JuliaGPU/AMDGPU.jl#471).
func TestWorkOnAnotherStreamIsFound(t *testing.T) {
	b := newBed(t)
	other, err := b.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	r := b.bench(func(Iters) error { return b.dev.Work(other, 250*time.Microsecond) })
	require.Equal(t, OK, r.Status)
	require.Equal(t, r.Escape.Of, r.Escape.Count)
	require.GreaterOrEqual(t, r.Escape.Of, 2)
	require.True(t, hasNote(r, "another stream"))

	right := b.bench(b.work(250 * time.Microsecond))
	require.Zero(t, right.Escape.Count)
	require.Positive(t, right.Escape.Of)
}
