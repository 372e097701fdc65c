package stats

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runUntilStop feeds samples that cost this much each until the stopper ends the
// case. Every one counts against the limit that keeps a broken stopper from
// hanging the test.
func runUntilStop(t *testing.T, plan Plan, device, wall time.Duration, next func(i int) float64) (Decision, []float64) {
	t.Helper()
	stopper := NewStopper(plan)
	var samples []float64
	for i := range 100_000 {
		x := next(i)
		samples = append(samples, x)
		each := time.Duration(i + 1)
		d := stopper.Add(x, Spent{Device: each * device, Wall: each * wall})
		require.Equal(t, d, stopper.Decision())
		if d.Stop() {
			require.NotEmpty(t, d.Reason)
			return d, samples
		}
		require.Empty(t, d.Reason)
	}
	require.FailNow(t, "it never stopped")
	return Decision{}, nil
}

const microsecond = float64(time.Microsecond)

func TestStopperEndsWhenTheIntervalIsNarrowEnough(t *testing.T) {
	random := seeded(10)
	d, samples := runUntilStop(t, Plan{}, 100*time.Microsecond, time.Millisecond, func(int) float64 {
		return 100 * microsecond * math.Exp(0.02*random.NormFloat64())
	})
	require.Equal(t, Converged, d.Verdict)
	require.LessOrEqual(t, d.Relative, 0.005)
	ci, ok := MedianCI(sortedOf(samples), 0.95)
	require.True(t, ok)
	require.InDelta(t, ci.HalfWidth(), d.HalfWidth, 0, "the decision is about all samples")
	require.Equal(t, len(samples), d.Samples)
	require.Equal(t, d.Samples, d.Needed)
	require.Regexp(t, `^the median's 95 % interval is ±0\.\d+ % after \d+ samples, within the ±0\.5 % asked for$`, d.Reason)
}

func TestStopperTakesTheSmallestNumberInAnyCase(t *testing.T) {
	for asked, want := range map[int]int{0: 20, 50: 50, 1: 6} {
		d, _ := runUntilStop(t, Plan{MinSamples: asked}, 1, 1, func(int) float64 { return 1000 })
		require.Equal(t, Converged, d.Verdict)
		require.Equal(t, want, d.Samples, "asked for %d", asked)
		require.Contains(t, d.Reason, "interval is ±0 ns")
		require.Contains(t, d.Reason, "within the ±0.5 % asked for")
	}
	d, _ := runUntilStop(t, Plan{MinSamples: 1, Level: 0.99}, 1, 1, func(int) float64 { return 1000 })
	require.Equal(t, 8, d.Samples, "an interval of 99 % needs 8")
}

// Device times of 0 made repeat counts infinite (triton-lang/triton#6868,
// triton-lang/triton#8948).
func TestElapsedOfNothingEndsTheCase(t *testing.T) {
	d, _ := runUntilStop(t, Plan{Quantum: 32}, 0, time.Microsecond, func(int) float64 { return 0 })
	require.Equal(t, Converged, d.Verdict)
	require.Equal(t, "the median of 20 samples and both ends of its interval are 0 ns, below what the clock can tell", d.Reason)
	for name, next := range map[string]func(i int) float64{
		"one nanosecond": func(int) float64 { return 1 },
		"negative":       func(int) float64 { return -32 },
		"now and then a tick": func(i int) float64 {
			if i%9 == 0 {
				return 32
			}
			return 0
		},
	} {
		d, _ := runUntilStop(t, Plan{Quantum: 32}, 0, time.Microsecond, next)
		require.Equal(t, Converged, d.Verdict, name)
		require.Equal(t, 20, d.Samples, name)
	}
}

// Precision below the clock's tick is not to be had, however many samples.
func TestStopperDoesNotChaseWhatTheClockCannotTell(t *testing.T) {
	random := seeded(11)
	next := func(int) float64 { return onTicks(1040+20*random.NormFloat64(), 32) }
	d, _ := runUntilStop(t, Plan{Quantum: 32}, time.Microsecond, time.Microsecond, next)
	require.Equal(t, Converged, d.Verdict)
	require.Equal(t, 20, d.Samples)
	require.Regexp(t, `no wider than the clock's step of 32 ns$`, d.Reason)
}

// A harness that believed device time alone ran 257 times longer than it was asked
// to (google/benchmark#702).
func TestEveryBudgetEndsTheCase(t *testing.T) {
	random := seeded(12)
	wild := func(int) float64 { return math.Exp(0.3 * random.NormFloat64()) }
	for _, c := range []struct {
		name         string
		plan         Plan
		device, wall time.Duration
		want         Verdict
		samples      int
		says         string
	}{
		{"a second on the host for a nanosecond", Plan{}, time.Nanosecond, time.Second, WallBudget, 5,
			"the wall time of 5s is spent; 5 samples have no 95 % interval of the median"},
		{"long work", Plan{}, 100 * time.Millisecond, 100 * time.Millisecond, DeviceBudget, 10, "the device time of 1s is spent; the median's"},
		{"few allowed", Plan{MaxSamples: 25}, 1, 1, SampleBudget, 25, "all 25 samples allowed were taken; the median's"},
		{"both at once", Plan{Device: time.Millisecond, Wall: time.Millisecond}, time.Millisecond, time.Millisecond, WallBudget, 1, "the wall time of 1ms is spent"},
		{"no bound on time", Plan{Device: -1, Wall: -1, MaxSamples: 30}, time.Hour, time.Hour, SampleBudget, 30, "all 30"},
	} {
		d, _ := runUntilStop(t, c.plan, c.device, c.wall, wild)
		require.Equal(t, c.want, d.Verdict, c.name)
		require.Equal(t, c.samples, d.Samples, c.name)
		require.Contains(t, d.Reason, c.says, c.name)
	}
}

// The last sample that a budget pays for may be the one that was needed.
func TestStopperLooksOnceMoreWhenABudgetEnds(t *testing.T) {
	samples := append(append(repeat(500, 6), repeat(1500, 6)...), repeat(1000, 12)...)
	at20, _ := MedianCI(sortedOf(samples[:20]), 0.95)
	require.InDelta(t, 500, at20.HalfWidth(), 0, "too wide at the first look, and the next is at 25")
	d, _ := runUntilStop(t, Plan{MaxSamples: 24}, 1, 1, func(i int) float64 { return samples[i] })
	require.Equal(t, Converged, d.Verdict)
	require.Equal(t, 24, d.Samples)
}

// A case of which every sample was discarded ran into its timeout and printed rows
// of NaN (NVIDIA/nvbench#231).
func TestSamplesThatFailEndTheCaseToo(t *testing.T) {
	d, _ := runUntilStop(t, Plan{MaxSamples: 100}, 0, 0, func(i int) float64 { return []float64{nan, inf, -inf, 1e300}[i%4] })
	require.Equal(t, SampleBudget, d.Verdict)
	require.Zero(t, d.Samples)
	require.Equal(t, 100, d.Refused)
	require.Equal(t, "all 100 samples allowed were taken; 0 samples have no 95 % interval of the median; 100 more failed or were no numbers", d.Reason)

	stopper := NewStopper(Plan{})
	require.False(t, stopper.Fail(Spent{Wall: time.Second}).Stop())
	d = stopper.Fail(Spent{Wall: 5 * time.Second})
	require.Equal(t, WallBudget, d.Verdict)
	require.Equal(t, 2, d.Refused)
}

// Suites ran for 30 hours because noisy cases could not reach their target and
// nobody told them (NVIDIA/nvbench#61).
func TestATargetOutOfReachIsToldEarly(t *testing.T) {
	random := seeded(13)
	noisy := func(int) float64 { return 1000 * math.Exp(0.3*random.NormFloat64()) }
	for _, c := range []struct {
		name         string
		plan         Plan
		device, wall time.Duration
		says         string
	}{
		{"by samples", Plan{MaxSamples: 2000}, 1, 1, "the limit on samples allows about 2000$"},
		{"by device time", Plan{}, time.Millisecond, 1, "the device time of 1s allows about 1000$"},
		{"by wall time", Plan{}, 1, 5 * time.Millisecond, "the wall time of 5s allows about 1000$"},
		{"by anything", Plan{Target: 1e-300}, 1, 1, "would take more samples than can be counted, and"},
	} {
		d, _ := runUntilStop(t, c.plan, c.device, c.wall, noisy)
		require.Equal(t, Unreachable, d.Verdict, c.name)
		require.GreaterOrEqual(t, d.Samples, 40, "not on the word of a few samples")
		require.LessOrEqual(t, d.Samples, 100, c.name)
		require.Regexp(t, c.says, d.Reason)
		require.Regexp(t, `^the median's 95 % interval is ±[\d.]+ % after \d+ samples; `, d.Reason)
	}
}

// A median of 0 has no percentage.
func TestZeroInTheMiddleOfNoiseIsUnreachable(t *testing.T) {
	d, _ := runUntilStop(t, Plan{}, 1, 1, func(i int) float64 { return float64(i%3-1) * 1000 })
	require.Equal(t, Unreachable, d.Verdict)
	require.Zero(t, d.Relative)
	require.Positive(t, d.HalfWidth)
	require.Contains(t, d.Reason, "±500 ns")
}

// The interval of two modes is wide until it no longer reaches into the other mode,
// and then narrow at once, which no square root foretells.
func TestTwoModesAreNotGivenUpWhereTheTargetIsWithinReach(t *testing.T) {
	converged := 0
	const rounds = 200
	for round := range rounds {
		next := mixture(seeded(uint64(1000+round)), 0.6, 1000, 2000, 2)
		d, _ := runUntilStop(t, Plan{}, time.Microsecond, time.Microsecond, func(int) float64 { return next() })
		if d.Verdict == Converged {
			converged++
		}
	}
	require.GreaterOrEqual(t, converged, 98*rounds/100)
}

func TestLevelIsSaidAsItWasAsked(t *testing.T) {
	d, _ := runUntilStop(t, Plan{Level: 0.9999}, 1, 1, func(int) float64 { return 1000 })
	require.Contains(t, d.Reason, "the median's 99.99 % interval")
}

func TestATargetWithinReachIsNotGivenUp(t *testing.T) {
	gaveUp, enough := 0, 0
	const rounds = 400
	for round := range rounds {
		random := seeded(uint64(100 + round))
		// 500 samples or so are needed and 1000 are paid for.
		d, _ := runUntilStop(t, Plan{}, time.Millisecond, time.Millisecond, func(int) float64 {
			return microsecond * math.Exp(0.04*random.NormFloat64())
		})
		switch d.Verdict {
		case Unreachable:
			gaveUp++
		case Converged:
			enough++
		}
	}
	require.LessOrEqual(t, gaveUp, 2*rounds/100)
	require.GreaterOrEqual(t, enough, 95*rounds/100)
}

// Each look is a chance to stop on an interval that is narrow by luck, and such an
// interval misses more often. It must not do so much more often.
func TestIntervalAtTheStopStillCovers(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 500
	}
	for spread, target := range map[float64]float64{0.01: 0.005, 0.02: 0.005, 0.03: 0.01} {
		covered := 0
		for round := range rounds {
			random := seeded(uint64(round))
			d, samples := runUntilStop(t, Plan{Target: target}, time.Microsecond, time.Microsecond, func(int) float64 {
				return 1000 * math.Exp(spread*random.NormFloat64())
			})
			require.Equal(t, Converged, d.Verdict)
			if ci, ok := MedianCI(sortedOf(samples), 0.95); ok && ci.Lo <= 1000 && 1000 <= ci.Hi {
				covered++
			}
		}
		slack := 4 * math.Sqrt(0.93*0.07/float64(rounds))
		require.GreaterOrEqual(t, float64(covered)/float64(rounds), 0.93-slack, "spread %v", spread)
	}
}

// Looking costs a sort, so it happens at numbers that grow by a quarter: between 20
// and 20 000 samples 32 times.
func TestStopperLooksSeldom(t *testing.T) {
	random := seeded(14)
	stopper := NewStopper(Plan{Target: 1e-9, MaxSamples: 1 << 30, Device: -1, Wall: -1, MinSamples: 20_000})
	for range 19_999 {
		stopper.Add(1000*math.Exp(0.3*random.NormFloat64()), Spent{})
	}
	require.Zero(t, stopper.ordered, "no look before the smallest number")

	stopper = NewStopper(Plan{Target: 0.002, Device: -1, Wall: -1, MaxSamples: 1 << 30})
	looks, last := 0, 0
	for range 20_000 {
		d := stopper.Add(1000*math.Exp(0.3*random.NormFloat64()), Spent{})
		require.False(t, d.Stop(), d.Reason)
		if stopper.ordered != last {
			looks, last = looks+1, stopper.ordered
			require.IsNonDecreasing(t, stopper.samples[:last])
		}
	}
	require.InDelta(t, 32, looks, 2)
}

func TestADecisionToStopStays(t *testing.T) {
	d, _ := runUntilStop(t, Plan{MaxSamples: 3}, 1, 1, func(int) float64 { return 7 })
	stopper := NewStopper(Plan{MaxSamples: 3})
	for range 10 {
		stopper.Add(7, Spent{1, 1})
	}
	require.Equal(t, d, stopper.Decision())
	require.Equal(t, d, stopper.Fail(Spent{time.Hour, time.Hour}))
	require.Equal(t, d, stopper.Add(nan, Spent{time.Hour, time.Hour}))
}

func TestPlanThatMakesNoSenseIsTheDefault(t *testing.T) {
	want := Plan{Level: 0.95, Target: 0.005, MinSamples: 20, MaxSamples: 20_000, Device: time.Second, Wall: 5 * time.Second}
	require.Equal(t, want, Plan{}.clean())
	require.Equal(t, want, Plan{Level: nan, Target: nan, Quantum: nan, MinSamples: -1, MaxSamples: -1}.clean())
	require.Equal(t, want, Plan{Level: 1, Target: -1, Quantum: -1}.clean())
	require.Equal(t, want, Plan{Level: 95, Target: inf, Quantum: inf}.clean())
}

func TestRulesDecideFromTheSmallestNumberOn(t *testing.T) {
	noisy := seeded(15)
	next := func(int) float64 { return 1000 * math.Exp(noisy.NormFloat64()) }
	d, _ := runUntilStop(t, Plan{Rule: Count(137)}, 1, 1, next)
	require.Equal(t, Converged, d.Verdict)
	require.Equal(t, 137, d.Samples)
	require.Equal(t, "137 samples are enough because 137 samples were asked for", d.Reason)

	d, _ = runUntilStop(t, Plan{Rule: Count(3)}, 1, 1, next)
	require.Equal(t, 20, d.Samples)
	d, _ = runUntilStop(t, Plan{Rule: Count(3), MinSamples: 1}, 1, 1, next)
	require.Equal(t, 3, d.Samples, "a rule needs no interval")

	d, _ = runUntilStop(t, Plan{Rule: Total(time.Millisecond)}, 1, 1, func(int) float64 { return 10 * microsecond })
	require.Equal(t, 100, d.Samples)
	require.Contains(t, d.Reason, "add up to the 1ms asked for")

	d, _ = runUntilStop(t, Plan{Rule: Count(1000), Wall: time.Second}, 0, 100*time.Millisecond, next)
	require.Equal(t, WallBudget, d.Verdict, "no rule outlives a budget")
	require.Equal(t, 10, d.Samples)
}

// A mean of 0 makes a relative deviation NaN, which compares false for ever.
func TestRulesOutliveOddSamples(t *testing.T) {
	for name, rule := range map[string]func() Rule{
		"stdrel":  func() Rule { return StdRel(0.005, time.Millisecond) },
		"entropy": Entropy,
		"count":   func() Rule { return Count(1 << 30) },
		"total":   func() Rule { return Total(time.Hour) },
	} {
		for _, x := range []float64{0, 1, -1, nan, MaxMagnitude, math.SmallestNonzeroFloat64} {
			d, _ := runUntilStop(t, Plan{Rule: rule(), MaxSamples: 700}, 0, 0, func(int) float64 { return x })
			_, err := json.Marshal(d)
			require.NoError(t, err, "%s of %v", name, x)
			require.NotContains(t, d.Reason, "NaN", "%s of %v", name, x)
			require.NotContains(t, d.Reason, "Inf", "%s of %v", name, x)
		}
	}
}

func TestStopperAllocatesOnlyToGrow(t *testing.T) {
	stopper := NewStopper(Plan{Target: 1e-9, MinSamples: 1 << 20, MaxSamples: 1 << 21, Device: -1, Wall: -1})
	for range 10_000 {
		stopper.Add(1, Spent{})
	}
	require.Less(t, testing.AllocsPerRun(2000, func() { stopper.Add(1, Spent{}) }), 1.0)
}

func FuzzStopper(f *testing.F) {
	f.Add([]byte{}, 0.0, 0.0, 0, int64(0))
	f.Add(make([]byte, 8*100), 32.0, 0.005, 20, int64(1000))
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"), 1e-300, 1e-300, 1, int64(-5))
	f.Fuzz(func(t *testing.T, raw []byte, quantum, target float64, least int, each int64) {
		for _, rule := range []Rule{nil, StdRel(target, time.Duration(each)), Entropy()} {
			stopper := NewStopper(Plan{Quantum: quantum, Target: target, MinSamples: least, MaxSamples: 64, Rule: rule})
			for i, x := range fromBytes(raw) {
				d := stopper.Add(x, Spent{Device: time.Duration(int64(i) * each), Wall: time.Duration(each)})
				_, err := json.Marshal(d)
				require.NoError(t, err, "a number that is none")
				require.LessOrEqual(t, d.Samples+d.Refused, 64)
				require.Equal(t, d.Stop(), d.Reason != "")
			}
		}
	})
}

func BenchmarkStopperAdd(b *testing.B) {
	random := seeded(16)
	x := draw(20_000, func() float64 { return 1000 * math.Exp(0.3*random.NormFloat64()) })
	plan := Plan{Target: 0.0001, MaxSamples: 1 << 30, Device: -1, Wall: -1}
	stopper := NewStopper(plan)
	i := 0
	for b.Loop() {
		if i == len(x) {
			stopper, i = NewStopper(plan), 0
		}
		stopper.Add(x[i], Spent{})
		i++
	}
}

func BenchmarkSummarize(b *testing.B) {
	random := seeded(17)
	x := draw(2000, func() float64 { return onTicks(1000+100*random.NormFloat64(), 32) })
	for b.Loop() {
		Summarize(x, Options{Quantum: 32})
	}
}
