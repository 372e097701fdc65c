package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// mixture draws from one of two kinds, the lower with the given share.
func mixture(random *rand.Rand, share, low, high, spread float64) func() float64 {
	return func() float64 {
		if random.Float64() < share {
			return low + spread*random.NormFloat64()
		}
		return high + spread*random.NormFloat64()
	}
}

func TestTwoModesAreFoundAndDescribed(t *testing.T) {
	random := seeded(5)
	for _, c := range []struct {
		name    string
		n       int
		quantum float64
		next    func() float64
		share   float64
	}{
		{"half and half", 60, 0, mixture(random, 0.5, 1000, 1400, 10), 0.5},
		{"a third", 100, 0, mixture(random, 0.33, 1000, 1400, 10), 0.33},
		{"a fifth, many", 400, 0, mixture(random, 0.2, 1000, 1400, 10), 0.2},
		{"overlapping", 1000, 0, mixture(random, 0.5, 1000, 1400, 80), 0.5},
		{"on ticks", 100, 32, func() float64 { return onTicks(mixture(random, 0.6, 1024, 1408, 20)(), 32) }, 0.6},
		{"a tick each", 100, 32, func() float64 { return onTicks(mixture(random, 0.6, 1024, 1408, 0)(), 32) }, 0.6},
		{"with outliers", 300, 0, func() float64 {
			if random.Float64() < 0.02 {
				return 1e6
			}
			return mixture(random, 0.5, 1000, 1400, 10)()
		}, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := 0
			const rounds = 100
			for range rounds {
				m := FindModes(sortedOf(draw(c.n, c.next)), c.quantum)
				if !m.Two {
					continue
				}
				found++
				require.LessOrEqual(t, m.P, 0.01)
				require.InDelta(t, c.share, m.LowShare, 0.25)
				require.InDelta(t, 1000, m.Low, 45)
				require.InDelta(t, 1400, m.High, 45)
			}
			require.GreaterOrEqual(t, found, 95)
		})
	}
}

// Samples of a clock that ticks every 32 ns are as many modes as ticks, if taken
// at their word. Of the uniform distribution one in a hundred is called two, by the
// test's own threshold, and of any other of one mode fewer.
func TestOneModeIsNotTwoWhateverItsShapeAndTicks(t *testing.T) {
	random := seeded(6)
	rounds := 500
	if testing.Short() {
		rounds = 100
	}
	most := float64(rounds)*modesP + 4*math.Sqrt(float64(rounds)*modesP)
	for _, shape := range []struct {
		name string
		next func() float64
	}{
		{"normal", func() float64 { return 1000 + 20*random.NormFloat64() }},
		{"uniform", func() float64 { return 1000 + 200*random.Float64() }},
		{"skewed", func() float64 { return 1000 + 100*random.ExpFloat64() }},
		{"spiked", func() float64 { return 1000 + math.Abs(10*random.NormFloat64()/random.NormFloat64()) }},
	} {
		for _, ticks := range []float64{0, 1, 8, 32, 64} {
			for _, quantum := range []float64{ticks, 0} { // known and not known
				for _, n := range []int{20, 50, 200, 600} {
					alarms := 0
					for range rounds {
						x := draw(n, shape.next)
						if ticks > 0 {
							for i := range x {
								x[i] = onTicks(x[i], ticks)
							}
						}
						if FindModes(sortedOf(x), quantum).Two {
							alarms++
						}
					}
					require.LessOrEqual(t, float64(alarms), most, "%s, ticks of %v, quantum %v, n %d", shape.name, ticks, quantum, n)
				}
			}
		}
	}
}

// Ticks reach us through float32 milliseconds and a division by the operations of
// a sample, and then are no longer exactly equal.
func TestTicksThatAreNotQuiteEqualAreStillTicks(t *testing.T) {
	random := seeded(7)
	x := draw(500, func() float64 {
		return onTicks(1040+15*random.NormFloat64(), 32) + 1e-3*random.Float64()
	})
	require.Greater(t, dip(sortedOf(x)), 0.05, "taken at their word they are many modes")
	require.False(t, FindModes(sortedOf(x), 32).Two)
}

func TestNeighbouringTicksAreOneMode(t *testing.T) {
	two := sortedOf(append(repeat(1024, 60), repeat(1056, 60)...))
	require.False(t, FindModes(two, 32).Two)
	require.False(t, FindModes(two, 0).Two, "of two values nobody knows whether they are neighbours")
	require.True(t, FindModes(two, 1).Two, "32 ticks apart")
	require.False(t, FindModes(append(repeat(1024, 60), repeat(1120, 60)...), 32).Two, "three apart")
	require.True(t, FindModes(append(repeat(1024, 60), repeat(1152, 60)...), 32).Two, "four apart")
}

func TestFewOrEqualSamplesAreOneMode(t *testing.T) {
	for _, x := range [][]float64{nil, {1}, append(repeat(1, 9), repeat(100, 10)...), repeat(0, 100), repeat(1024, 100)} {
		m := FindModes(x, 1)
		require.False(t, m.Two)
		require.InDelta(t, 0.5, m.P, 0)
	}
	random := seeded(8)
	minor := FindModes(sortedOf(draw(2000, mixture(random, 0.93, 1000, 1400, 10))), 0)
	require.LessOrEqual(t, minor.P, 0.01, "it is there")
	require.False(t, minor.Two, "and so few that they are outliers")
	require.Zero(t, minor.LowShare)
	require.True(t, FindModes(append(repeat(1000, 450), repeat(1400, 50)...), 1).Two, "a tenth is a mode")
	m := FindModes(sortedOf(append(repeat(1000, 10), repeat(1400, 10)...)), 1)
	require.True(t, m.Two, "twenty samples are enough")
	require.InDelta(t, 0.5, m.LowShare, 0)
	require.InDelta(t, 1000, m.Low, 0)
	require.InDelta(t, 1400, m.High, 0)
}

func TestModesDoNotDependOnWhereZeroIs(t *testing.T) {
	random := seeded(9)
	x := draw(300, func() float64 { return onTicks(mixture(random, 0.4, 1024, 1408, 30)(), 32) })
	for _, quantum := range []float64{0, 32} {
		want := FindModes(sortedOf(x), quantum)
		require.True(t, want.Two)
		for _, shift := range []float64{-1024, -5120} {
			moved := make([]float64, len(x))
			for i := range x {
				moved[i] = x[i] + shift
			}
			got := FindModes(sortedOf(moved), quantum)
			require.True(t, got.Two)
			require.InDelta(t, want.Dip, got.Dip, 1e-6)
			require.InDelta(t, want.Low+shift, got.Low, 0)
			require.InDelta(t, want.High+shift, got.High, 0)
			require.InDelta(t, want.LowShare, got.LowShare, 0)
		}
	}
}

func TestProbabilityOfTheDipFallsAsTheDipGrows(t *testing.T) {
	for _, n := range []int{20, 35, 50, 777, 5000, 20_000} {
		last := 1.0
		for d := 0.0; d <= 0.25; d += 0.0005 {
			p := dipP(n, d)
			require.LessOrEqual(t, p, last, "n %d, dip %v", n, d)
			last = p
		}
		require.InDelta(t, 0.001, last, 0)
	}
	entry := func(i, j int) float64 { return tableDip[i][j] / math.Sqrt(float64(tableN[i])) }
	for i, n := range tableN {
		for j, p := range tableP {
			require.InEpsilon(t, p, dipP(n, entry(i, j)), 1e-9, "n %d, p %v", n, p)
		}
	}
	require.InEpsilon(t, math.Sqrt(0.01*0.005), dipP(20, (entry(0, 5)+entry(0, 6))/2), 1e-9, "between two entries")
	last := len(tableN) - 1
	require.InEpsilon(t, 0.01, dipP(20_000, tableDip[last][5]/math.Sqrt(20_000)), 1e-9, "beyond the last row it is the last")
	between := (tableDip[0][5] + tableDip[1][5]) / 2
	require.InEpsilon(t, 0.01, dipP(32, between/math.Sqrt(32)), 0.04, "32 is between 20 and 50 by ratio, nearly")
}

// A calibration that sees too small a step, or a backend that states one, must not
// make every tick a mode.
func TestQuantumToldTooSmallDoesNotMakeTicksModes(t *testing.T) {
	random := seeded(40)
	for _, told := range []float64{1, 2, 16} {
		alarms := 0
		for range 100 {
			x := draw(200, func() float64 { return onTicks(10_000+40*random.NormFloat64(), 32) })
			if FindModes(sortedOf(x), told).Two {
				alarms++
			}
		}
		require.LessOrEqual(t, alarms, 5, "told %v", told)
	}
}
