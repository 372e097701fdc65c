package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a scripted backend in which the function says how long it took, times weather
// that all share.
type world struct {
	*scripted
	random *rand.Rand
	took   float64 // nanoseconds, by the function
	slow   float64 // logarithm of the weather
	calm   bool
}

// newWorld makes one with 1 % of noise and weather that comes and goes over tens of samples.
func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 3))}
	w.scripted = &scripted{quantum: time.Nanosecond, collect: func(_ int, iv Interval) (Sample, error) {
		if !w.calm {
			w.slow = 0.95*w.slow + 0.01*w.random.NormFloat64()
		}
		noise := math.Exp(w.slow + 0.01*w.random.NormFloat64())
		return Sample{Duration: time.Duration(w.took * noise * float64(iv.Operations)), OnDevice: true}, nil
	}}
	return w
}

// takes is a function of so many nanoseconds.
func (w *world) takes(ns float64) func(int, Iters) error {
	return func(int, Iters) error {
		w.took = ns
		return nil
	}
}

// compared are two cases measured in turn, of which the second takes ratio times as long.
func compared(t *testing.T, w *world, ratio float64, opts ...Option) (*Report, *Comparison) {
	t.Helper()
	r := NewRunner(append([]Option{On(w), In(GPU), WarmUp(0, 0), BlockSeed(5)}, opts...)...)
	runOne(t, r, func(g *GroupOf[int]) {
		g.Bench("old", w.takes(100_000))
		g.Bench("new", w.takes(100_000*ratio))
		g.Compare("old", "new")
	})
	report := r.Report()
	require.Len(t, report.Results, 2)
	require.Len(t, report.Comparisons, 1)
	return report, &report.Comparisons[0]
}

// Two files, or two cases one after the other, differ by whatever the machine did in
// between: identical binaries came out slower or faster (NVIDIA/nvbench#316). In turn
// they share it.
func TestVariantsMeasuredInTurnShareTheWeather(t *testing.T) {
	for _, c := range []struct {
		ratio float64
		want  Change
	}{{1, Same}, {1.03, Slower}, {0.97, Faster}} {
		report, found := compared(t, newWorld(1), c.ratio)
		require.Equal(t, c.want, found.Change, "%+v", found)
		require.Equal(t, "group/old", found.Base)
		require.Equal(t, "group/new", found.Other)
		require.InDelta(t, c.ratio, found.Ratio, 0.01)
		require.Less(t, found.CI.Lo, found.Ratio)
		require.Greater(t, found.CI.Hi, found.Ratio)
		require.Equal(t, DefaultBlocks, found.N)
		require.Greater(t, *found.Smallest, DefaultThreshold)
		for i := range report.Results {
			require.Equal(t, OK, report.Results[i].Status)
			require.Len(t, report.Results[i].Samples, 2*DefaultBlocks)
			require.Contains(t, report.Results[i].Stop, "30 blocks")
		}
	}
}

// What is always measured first has an advantage, or a disadvantage, that is not its own
// (NVIDIA/nvbench#310).
func TestEveryVariantIsAtEveryPlaceAsOften(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			run := func(seed int64) (order []string) {
				w := newWorld(2)
				r := NewRunner(On(w), In(GPU), WarmUp(0, 0), BlockSeed(seed))
				Group(r, "group", func(g *GroupOf[int]) {
					for _, name := range names {
						g.Bench(name, func(int, Iters) error {
							order = append(order, name)
							w.took = 1000
							return nil
						})
					}
					g.Compare(names[0], names[1:]...)
				})
				return order
			}
			k := len(names)
			order := run(7)[k:] // but for the first calls
			require.Len(t, order, DefaultBlocks*k*k)
			patterns := map[string]bool{}
			for block := range slices.Chunk(order, k*k) {
				patterns[fmt.Sprint(block)] = true
				for place := range k {
					var here []string
					for round := range k {
						here = append(here, block[round*k+place])
					}
					require.ElementsMatch(t, names, here, "each once at place %d", place)
				}
			}
			require.Greater(t, len(patterns), 1, "a coin decides")
			require.Equal(t, order, run(7)[k:], "the seed decides the coin")
			require.NotEqual(t, order, run(8)[k:])
		})
	}
}

func TestJSONShow(t *testing.T) {
	_, found := compared(t, newWorld(1), 1.01)
	text, _ := json.MarshalIndent(found, "", " ")
	t.Log(string(text))
}
