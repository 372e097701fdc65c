package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// repeat is n times x.
func repeat(x float64, n int) []float64 { return slices.Repeat([]float64{x}, n) }

// draw is n values of next.
func draw(n int, next func() float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = next()
	}
	return x
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// onTicks rounds to the ticks of a clock.
func onTicks(x, tick float64) float64 { return math.Round(x/tick) * tick }

func sortedOf(x []float64) []float64 {
	sorted, _ := Sorted(x)
	return sorted
}

// A duration of 0 made harnesses divide by zero and print inf
// (triton-lang/triton#6868, triton-lang/triton#8948), so every kind of odd sample
// goes through all of a summary. encoding/json refuses NaN and infinities.
func TestOddSamplesLeaveNoNumberUnsaid(t *testing.T) {
	huge, tiny := math.MaxFloat64, math.SmallestNonzeroFloat64
	for _, c := range []struct {
		name           string
		samples        []float64
		n, refused     int
		zero, negative int
	}{
		{name: "none"},
		{name: "one", samples: []float64{42}, n: 1},
		{name: "one refused", samples: []float64{nan}, refused: 1},
		{name: "all refused", samples: []float64{nan, inf, -inf, huge, -huge}, refused: 5},
		{name: "two", samples: []float64{1, 2}, n: 2},
		{name: "equal", samples: repeat(64, 300), n: 300},
		{name: "zeros", samples: repeat(0, 300), n: 300, zero: 300},
		{name: "minus zeros", samples: repeat(math.Copysign(0, -1), 30), n: 30, zero: 30},
		{name: "one nanosecond", samples: repeat(1, 50), n: 50},
		{name: "negative", samples: repeat(-3, 50), n: 50, negative: 50},
		{name: "zero, then milliseconds", samples: append(repeat(0, 20), repeat(5e6, 20)...), n: 40, zero: 20},
		{name: "tiny", samples: append(repeat(tiny, 25), repeat(2*tiny, 25)...), n: 50},
		{name: "largest and smallest", samples: append(append(repeat(MaxMagnitude, 25), repeat(-MaxMagnitude, 25)...), tiny), n: 51, negative: 25},
		{name: "tiny among large", samples: append(repeat(tiny, 30), repeat(MaxMagnitude, 10)...), n: 40},
		{name: "holes", samples: []float64{1, nan, 2, inf, 3, -inf, 4, 5, 6, 7}, n: 7, refused: 3},
	} {
		for _, quantum := range []float64{0, 32, -1, nan, inf, tiny, huge, MaxMagnitude} {
			before := slices.Clone(c.samples)
			s := Summarize(c.samples, Options{Quantum: quantum})
			requireSound(t, s)
			require.Equal(t, c.n, s.N, c.name)
			require.Equal(t, c.refused, s.Refused, c.name)
			require.Equal(t, c.zero, s.Zero, c.name)
			require.Equal(t, c.negative, s.Negative, c.name)
			for i := range before { // NaN is not equal to itself
				require.Equal(t, math.Float64bits(before[i]), math.Float64bits(c.samples[i]))
			}
		}
	}
}

// requireSound checks what holds for any summary.
func requireSound(t *testing.T, s Summary) {
	t.Helper()
	_, err := json.Marshal(s)
	require.NoError(t, err, "a number that is none")
	require.True(t, slices.IsSorted([]float64{s.Min, s.Q1, s.Median, s.Q3, s.Max}), "%+v", s)
	require.GreaterOrEqual(t, s.Stddev, 0.0)
	require.GreaterOrEqual(t, s.MAD, 0.0)
	require.LessOrEqual(t, s.Outliers.Total(), s.N)
	require.Equal(t, s.N >= MinSamplesP95, s.P95 != nil)
	require.Equal(t, s.N >= MinSamplesP99, s.P99 != nil)
	require.GreaterOrEqual(t, s.Drift.P, 0.0)
	require.LessOrEqual(t, s.Drift.P, 1.0)
	if ci := s.MedianCI; ci != nil {
		require.True(t, slices.IsSorted([]float64{s.Min, ci.Lo, s.Median, ci.Hi, s.Max}), "%+v", s)
		require.GreaterOrEqual(t, ci.Level, s.Level-1e-9)
	}
	if s.Noise != nil {
		require.GreaterOrEqual(t, *s.Noise, 0.0)
	}
	if s.Lag1 != nil {
		require.LessOrEqual(t, math.Abs(*s.Lag1), 1.0)
	}
	if s.Modes.Two {
		require.Less(t, s.Modes.Low, s.Modes.High)
	}
}

func TestFiniteKeepsOrderAndCountsWhatItRefuses(t *testing.T) {
	clean := []float64{3, 1, 2}
	kept, refused := Finite(clean)
	require.Equal(t, clean, kept)
	require.Zero(t, refused)

	dirty := []float64{3, nan, 1, inf, -inf, 2e100, 2}
	kept, refused = Finite(dirty)
	require.Equal(t, clean, kept)
	require.Equal(t, 4, refused)
	require.Len(t, dirty, 7)
	require.InDelta(t, 1, dirty[2], 0, "the argument is left as it was")
}

// slices.Sort puts NaN first, where a quantile would find it.
func TestSortedSlicesMayHoldWhatIsNoNumber(t *testing.T) {
	x := []float64{5, nan, 1, inf, 3, -inf, nan}
	slices.Sort(x)
	require.InDelta(t, 3, Median(x), 0)
	require.InDelta(t, 1, Quantile(x, 0), 0)
	require.InDelta(t, 5, Quantile(x, 1), 0)
	require.InDelta(t, 2, MAD(x), 0)
	require.Zero(t, CountOutliers(x, 0).Total())
	_, ok := MedianCI(x, 0.95)
	require.False(t, ok, "three samples")
	require.InDelta(t, 3, Mean(x), 0)
	require.InDelta(t, 2, Stddev(x), 1e-15)
	require.False(t, FindModes(x, 0).Two)
	require.Zero(t, Mean(x[:1]))
	require.Zero(t, Stddev(x[:1]))
}

func TestSummaryGivesThePlusMinusOfAReport(t *testing.T) {
	s := Summarize([]float64{90, 95, 100, 100, 105, 110}, Options{})
	half, ok := s.RelativeHalfWidth()
	require.True(t, ok)
	require.InDelta(t, 0.1, half, 1e-15)
	_, ok = Summarize(repeat(0, 50), Options{}).RelativeHalfWidth()
	require.False(t, ok, "a median of 0 has no percentage")
	_, ok = Summarize(repeat(1, 5), Options{}).RelativeHalfWidth()
	require.False(t, ok, "5 samples have no interval")
}

// A running sum of a million samples of 0.1 ns ends at 0.100000000001.
func TestMeanOfManyEqualSamplesIsThatSample(t *testing.T) {
	x := repeat(0.1, 1_000_000)
	require.Equal(t, 0.1, Mean(x)) //nolint:testifylint // exactly, which is the point
	require.InDelta(t, 0, Stddev(x), 1e-15)
	_, ok := Lag1(x)
	require.False(t, ok, "equal samples have no correlation")
}

func FuzzSummarize(f *testing.F) {
	f.Add([]byte{}, 0.0, 0.95)
	f.Add([]byte("0123456789abcdef0123456789abcdef"), 32.0, 0.99)
	f.Add(make([]byte, 8*64), nan, inf)
	f.Add(slices.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x7f, 0, 0, 0, 0, 0, 0, 0x50, 0xc0}, 120), 1e-300, 1e-300)
	f.Fuzz(func(t *testing.T, raw []byte, quantum, level float64) {
		samples := fromBytes(raw)
		s := Summarize(samples, Options{Quantum: quantum, Level: level})
		requireSound(t, s)
		require.Equal(t, len(samples), s.N+s.Refused)

		sorted := sortedOf(samples)
		half := len(samples) / 2
		change, _ := Detectable(sorted, level, quantum, quantum)
		ci, _ := QuantileCI(sorted, quantum, level)
		_, err := json.Marshal([]any{
			change, ci, Quantile(sorted, quantum), Quantile(sorted, level), Holm(samples),
			MinSamplesMedianCI(level),
			Judge([]Effect{
				CompareMedians(samples[:half], samples[half:], Question{Threshold: quantum, Level: level, Quantum: quantum, Look: int(half)}),
				CompareBlocks(inTwos(samples[:half]), inTwos(samples[half:]), Question{Threshold: level, Quantum: quantum}),
			}, int(half)),
			SamplesFor(len(samples), quantum, level),
		})
		require.NoError(t, err, "a number that is none")
	})
}

// fromBytes makes samples of any bytes: every second value as it comes, the others
// small whole numbers, so that there are ties.
func fromBytes(raw []byte) []float64 {
	var samples []float64
	for i := 0; i+8 <= len(raw); i += 8 {
		var bits uint64
		for _, b := range raw[i : i+8] {
			bits = bits<<8 | uint64(b)
		}
		samples = append(samples, math.Float64frombits(bits), float64(int8(raw[i])))
	}
	return samples
}

// inTwos are blocks of two samples.
func inTwos(samples []float64) [][]float64 {
	return slices.Collect(slices.Chunk(samples, 2))
}
