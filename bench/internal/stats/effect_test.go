package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// weathers are how a device's samples behave round what the work takes: the next factor,
// 1 % of noise with whatever neighbours have in common.
var weathers = []struct {
	name string
	make func(r *rand.Rand) func() float64
}{
	{"independent", likeNeighbours(0, 0.01)},
	{"alike over one or two", likeNeighbours(0.5, 0.01)},
	{"alike over ten", likeNeighbours(0.9, 0.01)},
	{"alike over a hundred", likeNeighbours(0.99, 0.05)},
	{"spikes", func(r *rand.Rand) func() float64 {
		return func() float64 {
			f := math.Exp(0.01 * r.NormFloat64())
			if r.Float64() < 0.05 {
				f *= 1 + 3*r.Float64()
			}
			return f
		}
	}},
	{"skewed", func(r *rand.Rand) func() float64 { return func() float64 { return 1 + 0.01*r.ExpFloat64() } }},
	{"drift", func(r *rand.Rand) func() float64 {
		i := 0.0
		return func() float64 { i++; return math.Exp(0.01*r.NormFloat64() + 0.0005*i) }
	}},
}

// likeNeighbours is a process of first order.
func likeNeighbours(phi, sd float64) func(r *rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 {
		x := sd * r.NormFloat64()
		return func() float64 {
			x = phi*x + math.Sqrt(1-phi*phi)*sd*r.NormFloat64()
			return math.Exp(x)
		}
	}
}

// inTurn are n blocks of ABBA or BAAB on a clock of 32 ns, of which the second takes
// ratio times as long as the 10 us of the first.
func inTurn(r *rand.Rand, next func() float64, n int, ratio float64) (base, other [][]float64) {
	for range n {
		order := []int{0, 1, 1, 0}
		if r.IntN(2) == 1 {
			order = []int{1, 0, 0, 1}
		}
		var block [2][]float64
		for _, which := range order {
			x := 10_000 * next()
			if which == 1 {
				x *= ratio
			}
			block[which] = append(block[which], onTicks(x, 32))
		}
		base, other = append(base, block[0]), append(other, block[1])
	}
	return base, other
}

// comparisonsOf is how many comparisons a simulation makes.
func comparisonsOf(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		return 200
	}
	return 1000
}

// blocksAnswer is what is said of n blocks.
func blocksAnswer(r *rand.Rand, next func() float64, n int, ratio, threshold float64) Finding {
	base, other := inTurn(r, next, n, ratio)
	return Judge([]Effect{CompareBlocks(base, other, Question{Threshold: threshold, Quantum: 32})}, 1)[0]
}

func different(c Change) bool { return c == Faster || c == Slower }

// Binaries that were identical came out slower or faster (NVIDIA/nvbench#316). Here they
// do in 5 % of comparisons in which any difference counts, whatever neighbouring samples
// have in common, and in none where 1 % does.
func TestIdenticalStreamsInTurnAreNotCalledDifferent(t *testing.T) {
	comparisons := comparisonsOf(t)
	for _, w := range weathers {
		t.Run(w.name, func(t *testing.T) {
			for _, n := range []int{10, 30} {
				alarms, beyond := 0, 0
				for i := range comparisons {
					r := rand.New(rand.NewPCG(uint64(i), 7))
					if different(blocksAnswer(r, w.make(r), n, 1, 0).Change) {
						alarms++
					}
					if different(blocksAnswer(r, w.make(r), n, 1, 0.01).Change) {
						beyond++
					}
				}
				t.Logf("%d blocks: %d of %d called different, %d by 1 %% or more", n, alarms, comparisons, beyond)
				require.LessOrEqual(t, alarms, 65*comparisons/1000)
				require.LessOrEqual(t, beyond, 5*comparisons/1000)
			}
		})
	}
}

// Two separate runs are the harder case: the weather of one is not that of the other.
// Where it lasts too long for the run, nothing is called anything; and where runs are long
// enough to tell, alarms are as rare among the answers alone, so that answers which are not
// given make the others no better than they are.
func TestIdenticalRunsAreNotCalledDifferent(t *testing.T) {
	const comparisons = 1000 // fewer could not tell 5 % from 6.5 %
	for _, w := range weathers {
		t.Run(w.name, func(t *testing.T) {
			for _, n := range []int{20, 60, 200, 1000} {
				alarms, answers := 0, 0
				for i := range comparisons {
					r := rand.New(rand.NewPCG(uint64(i), 8))
					e := CompareMedians(draw(n, w.make(r)), draw(n, w.make(r)), Question{})
					if e.why == "" {
						answers++
					}
					if different(Judge([]Effect{e}, 1)[0].Change) {
						alarms++
					}
				}
				t.Logf("%d samples: %d of %d called different, %d answered", n, alarms, comparisons, answers)
				require.LessOrEqual(t, alarms, 65*comparisons/1000)
				if n >= 200 && answers >= comparisons/10 {
					require.LessOrEqual(t, alarms, 65*answers/1000, "among %d answers", answers)
				}
			}
		})
	}
}

// A run whose samples resemble each other for long has an answer once it is long enough,
// and says beforehand how long that is.
func TestRunsThatAreTooShortForTheirWeatherNameALength(t *testing.T) {
	next := likeNeighbours(0.9, 0.01)
	compared := func(r *rand.Rand, n int) Effect {
		slow := next(r)
		return CompareMedians(draw(n, next(r)), draw(n, func() float64 { return 1.1 * slow() }), Question{Threshold: 0.01})
	}
	short, found := 0, 0
	for i := range 200 {
		r := rand.New(rand.NewPCG(uint64(i), 15))
		f := Judge([]Effect{compared(r, 200)}, 1)[0]
		if f.Change != Unclear || !strings.Contains(f.Why, "resemble each other") {
			continue
		}
		short++
		require.Contains(t, f.Why, "the least that can tell")
		require.Greater(t, *f.Needed, 200)
		require.Less(t, *f.Needed, 20_000)
		if Judge([]Effect{compared(r, *f.Needed)}, 1)[0].Change == Slower {
			found++
		}
	}
	t.Logf("%d of %d are slower", found, short)
	require.Greater(t, short, 150)
	require.GreaterOrEqual(t, found, 95*short/100)
}

// A difference as large as the threshold is neither below it nor beyond it: each of the two
// wrong answers is a false alarm of its own.
func TestADifferenceOfTheThresholdIsSeldomCalledAnything(t *testing.T) {
	comparisons := comparisonsOf(t)
	for _, w := range weathers {
		t.Run(w.name, func(t *testing.T) {
			blocks, runs := map[Change]int{}, map[Change]int{}
			for i := range comparisons {
				r := rand.New(rand.NewPCG(uint64(i), 16))
				blocks[blocksAnswer(r, w.make(r), 30, 1.01, 0.01).Change]++
				slow := w.make(r)
				e := CompareMedians(draw(400, w.make(r)), draw(400, func() float64 { return 1.01 * slow() }), Question{Threshold: 0.01})
				runs[Judge([]Effect{e}, 1)[0].Change]++
			}
			t.Logf("blocks %v, runs %v", blocks, runs)
			for _, c := range []Change{Same, Slower, Faster} {
				require.LessOrEqual(t, blocks[c], 65*comparisons/1000, c)
				require.LessOrEqual(t, runs[c], 65*comparisons/1000, c)
			}
		})
	}
}

// The interval of the ratio holds the truth as often as it says, whatever the weather: at
// least 93.5 of 100 times.
func TestIntervalsOfBlocksHoldTheTruth(t *testing.T) {
	const comparisons = 1000 // fewer could not tell 95 % from 93.5 %
	for _, w := range weathers {
		t.Run(w.name, func(t *testing.T) {
			held := 0
			for i := range comparisons {
				r := rand.New(rand.NewPCG(uint64(i), 17))
				ci := blocksAnswer(r, w.make(r), 30, 1.02, 0.01).CI
				if ci.Lo <= 1.02 && 1.02 <= ci.Hi {
					held++
				}
			}
			t.Logf("%d of %d", held, comparisons)
			require.GreaterOrEqual(t, held, 935*comparisons/1000)
		})
	}
}

// A run names the smallest effect that it would have seen, and an effect of that size is
// seen; it names how many blocks would settle what is unclear, and they do.
func TestWhatAComparisonSaysOfItsPowerIsSo(t *testing.T) {
	comparisons := comparisonsOf(t)
	next := weathers[0].make
	for _, ratio := range []float64{1, 1.02, 1 / 1.02} {
		for _, pilot := range []int{10, 15, 20} {
			said, seen, unclear, settled := 0, 0, 0, 0
			for i := range comparisons {
				r := rand.New(rand.NewPCG(uint64(i), 9))
				f := blocksAnswer(r, next(r), pilot, ratio, 0.01)
				if f.Smallest != nil {
					said++
					if blocksAnswer(r, next(r), pilot, 1+*f.Smallest, 0.01).Change == Slower {
						seen++
					}
				}
				if f.Change != Unclear || f.Needed == nil || *f.Needed > 5000 {
					continue
				}
				unclear++
				if blocksAnswer(r, next(r), *f.Needed, ratio, 0.01).Change != Unclear {
					settled++
				}
			}
			t.Logf("ratio %.3f, %d blocks: smallest effect seen in %d of %d, %d of %d settled", ratio, pilot, seen, said, settled, unclear)
			require.GreaterOrEqual(t, said, 95*comparisons/100)
			require.GreaterOrEqual(t, seen, 95*said/100)
			require.GreaterOrEqual(t, settled, 95*unclear/100)
		}
	}
}

// A shift of 2 % under 1 % of noise is found at the number of blocks from which a
// comparison says that it would see it.
func TestTwoPercentIsFoundWhereThePowerStatementSaysSo(t *testing.T) {
	comparisons := comparisonsOf(t)
	next := weathers[0].make
	r := rand.New(rand.NewPCG(1, 10))
	n := 6
	for ; n < 500; n++ {
		if f := blocksAnswer(r, next(r), n, 1, 0.01); f.Smallest != nil && *f.Smallest <= 0.02 {
			break
		}
	}
	found := map[Change]int{}
	for i := range comparisons {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		found[blocksAnswer(r, next(r), n, 1.02, 0.01).Change]++
	}
	t.Logf("%d blocks: %v", n, found)
	require.GreaterOrEqual(t, found[Slower], 95*comparisons/100)
	require.Zero(t, found[Faster]+found[Same])
}

// The same of two runs: what they say of their power holds.
func TestWhatRunsSayOfTheirPowerIsSo(t *testing.T) {
	comparisons := comparisonsOf(t)
	next := weathers[0].make
	answer := func(r *rand.Rand, n int, ratio float64) Finding {
		other := next(r)
		e := CompareMedians(draw(n, next(r)), draw(n, func() float64 { return ratio * other() }), Question{Threshold: 0.01})
		return Judge([]Effect{e}, 1)[0]
	}
	for _, ratio := range []float64{1, 1.02} {
		said, seen, unclear, settled := 0, 0, 0, 0
		for i := range comparisons / 2 {
			r := rand.New(rand.NewPCG(uint64(i), 12))
			f := answer(r, 60, ratio)
			if f.Smallest != nil {
				said++
				if answer(r, 60, 1+*f.Smallest).Change == Slower {
					seen++
				}
			}
			if f.Change == Unclear && f.Needed != nil && *f.Needed < 5000 {
				unclear++
				if answer(r, *f.Needed, ratio).Change != Unclear {
					settled++
				}
			}
		}
		t.Logf("ratio %.2f: smallest effect seen in %d of %d, %d of %d settled", ratio, seen, said, settled, unclear)
		require.GreaterOrEqual(t, seen, 95*said/100)
		require.GreaterOrEqual(t, settled, 95*unclear/100)
	}
}

// Looking again and again until something is clear finds it in the end, if each look
// alone is believed. Ours share out the chance of a false alarm.
func TestLookingUntilItIsClearRaisesNoFalseAlarms(t *testing.T) {
	comparisons := comparisonsOf(t)
	alarms := 0
	for i := range comparisons {
		r := rand.New(rand.NewPCG(uint64(i), 13))
		base, other := inTurn(r, weathers[1].make(r), 640, 1)
		for look, n := 1, 10; n <= 640; look, n = look+1, 2*n {
			e := CompareBlocks(base[:n], other[:n], Question{Quantum: 32, Look: look})
			if different(Judge([]Effect{e}, 1)[0].Change) {
				alarms++
				break
			}
		}
	}
	t.Logf("%d of %d", alarms, comparisons)
	require.LessOrEqual(t, alarms, 50*comparisons/1000)
}

// Of many rows that are the same some come out different by chance; all together they do
// in one family of twenty.
func TestManyRowsTogetherRaiseNoMoreFalseAlarmsThanOne(t *testing.T) {
	comparisons := comparisonsOf(t)
	families := 0
	for i := range comparisons / 5 {
		r := rand.New(rand.NewPCG(uint64(i), 14))
		effects := make([]Effect, 20)
		for k := range effects {
			base, other := inTurn(r, weathers[0].make(r), 20, 1)
			effects[k] = CompareBlocks(base, other, Question{Quantum: 32})
		}
		for _, f := range Judge(effects, 0) {
			require.Equal(t, 20, f.Family)
			if different(f.Change) {
				families++
				break
			}
		}
	}
	require.LessOrEqual(t, families, 65*comparisons/5/1000)
}

// What drifts or comes and goes falls out of the ratio, and swapped it is the inverse.
func TestBlocksCancelWhatSlowsBoth(t *testing.T) {
	r := seeded(20)
	base, other := inTurn(r, likeNeighbours(0.99, 0.3)(r), 200, 1.03)
	f := Judge([]Effect{CompareBlocks(base, other, Question{Threshold: 0.01})}, 1)[0]
	require.Equal(t, Slower, f.Change)
	require.InDelta(t, 1.03, f.Ratio, 0.015)
	back := Judge([]Effect{CompareBlocks(other, base, Question{Threshold: 0.01})}, 1)[0]
	require.Equal(t, Faster, back.Change)
	require.InDelta(t, 1, f.Ratio*back.Ratio, 1e-12)
	require.InDelta(t, 1, f.CI.Lo*back.CI.Hi, 1e-9)
}

// Where all readings are one step of the clock, anything within a step may be true.
func TestAStepOfTheClockIsNoSameness(t *testing.T) {
	one := func(x float64) [][]float64 { return inTwos(repeat(x, 60)) }
	q := Question{Threshold: 0.01, Quantum: 32}
	f := Judge([]Effect{CompareBlocks(one(1024), one(1024), q)}, 1)[0]
	require.Equal(t, Unclear, f.Change)
	require.Nil(t, f.Needed)
	require.Contains(t, f.Why, "the clock's step is 3.12 % of the time")
	require.InDelta(t, 1/1.03174, f.CI.Lo, 1e-4)
	f = Judge([]Effect{CompareBlocks(one(1024), one(1056), q)}, 1)[0]
	require.Equal(t, Unclear, f.Change, "neither is one step more a difference")
	f = Judge([]Effect{CompareBlocks(one(1024), one(1120), q)}, 1)[0]
	require.Equal(t, Slower, f.Change, "three are")
	f = Judge([]Effect{CompareBlocks(one(102_400), one(102_400), q)}, 1)[0]
	require.Equal(t, Same, f.Change)
	f = Judge([]Effect{CompareMedians(repeat(1024, 60), repeat(1024, 60), q)}, 1)[0]
	require.Equal(t, Unclear, f.Change)
	require.Contains(t, f.Why, "longer samples")
}

func TestWhatCannotBeComparedIsUnclearAndSaysWhy(t *testing.T) {
	q := Question{Threshold: 0.01}
	judged := func(e Effect) Finding { return Judge([]Effect{e}, 1)[0] }
	for what, f := range map[string]Finding{
		"nothing":  judged(CompareBlocks(nil, nil, q)),
		"zeros":    judged(CompareBlocks(inTwos(repeat(0, 60)), inTwos(repeat(1, 60)), q)),
		"no runs":  judged(CompareMedians(nil, repeat(1, 60), q)),
		"negative": judged(CompareMedians(repeat(-1, 60), repeat(1, 60), q)),
	} {
		require.Equal(t, Unclear, f.Change, what)
		require.Contains(t, f.Why, "nothing to compare", what)
		require.Zero(t, f.Ratio, what)
		require.Nil(t, f.Needed, what)
	}
	f := judged(CompareBlocks(inTwos(repeat(100, 8)), inTwos(repeat(200, 8)), q))
	require.Equal(t, Unclear, f.Change)
	require.Equal(t, 6, *f.Needed, "with fewer no signs are clear enough")
	f = judged(CompareBlocks(inTwos(repeat(100, 12)), inTwos(repeat(200, 12)), q))
	require.Equal(t, Slower, f.Change)
	f = judged(CompareMedians(repeat(100, 19), repeat(200, 60), q))
	require.Equal(t, MinSamplesMedians, *f.Needed)
	f = judged(CompareBlocks([][]float64{{1, nan}, {2, 3}, {}, {4}}, [][]float64{{1, 1}, {2, 3}, {1}}, q))
	require.Equal(t, 1, f.N)
	require.Equal(t, 3, f.Refused, "a sample that is no number, a block without, a block without a partner")

	rising := make([]float64, 200)
	for i := range rising {
		rising[i] = 1000 + float64(i)
	}
	f = judged(CompareMedians(rising, repeat(5000, 200), q))
	require.Equal(t, Unclear, f.Change)
	require.Contains(t, f.Why, "resemble each other over")
}

// A ratio on the threshold is on neither side of it, however many samples there are.
func TestARatioOnTheThresholdIsNotProjected(t *testing.T) {
	base, other := make([][]float64, 100), make([][]float64, 100)
	for i := range base {
		noise := 0.02 * (float64(i) - 49.5) / 50
		base[i], other[i] = []float64{1000}, []float64{1010 * math.Exp(noise)}
	}
	f := Judge([]Effect{CompareBlocks(base, other, Question{Threshold: 0.01})}, 1)[0]
	require.Equal(t, Unclear, f.Change)
	require.Nil(t, f.Needed)
	require.Contains(t, f.Why, "threshold")
}
