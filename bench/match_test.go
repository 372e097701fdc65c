package bench

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/internal/schematest"
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

// Points of an axis are compared case by case and point by point of the other axes.
func TestValuesOfAnAxisAreCompared(t *testing.T) {
	w := newWorld(3)
	r := NewRunner(On(w), In(GPU), WarmUp(0, 0), BlockSeed(1))
	runOne(t, r, func(g *GroupOf[float64]) {
		g.Axis("layout", "rows", "columns")
		g.Axis("size", 10, 20)
		g.Context(func(c *Case) (float64, error) {
			size, err := c.Int("size")
			ns := float64(size) * 10_000
			if layout, _ := c.Axis("layout"); layout == "columns" {
				ns *= 1.05
			}
			return ns, err
		})
		g.Bench("sum", func(ns float64, _ Iters) error {
			w.took = ns
			return nil
		})
		g.CompareAxis("layout")
	})
	require.Len(t, r.Report().Results, 4)
	require.Len(t, r.Report().Comparisons, 2)
	for i, size := range []string{"10", "20"} {
		c := r.Report().Comparisons[i]
		require.Equal(t, "group/sum/layout=rows/size="+size, c.Base)
		require.Equal(t, "group/sum/layout=columns/size="+size, c.Other)
		require.Equal(t, Slower, c.Change)
		require.Equal(t, 2, c.Family)
	}
}

// An unclear answer names a number of samples, and with that number it is clear.
func TestUnclearNamesTheNumberThatSettles(t *testing.T) {
	_, first := compared(t, newWorld(4), 1, Samples(8, 8))
	require.Equal(t, Unclear, first.Change)
	n, ok := first.SamplesNeeded()
	require.True(t, ok)
	require.Greater(t, n, 8)
	_, second := compared(t, newWorld(5), 1, Samples(n, n))
	require.Equal(t, Same, second.Change, "%+v", second)
	require.Equal(t, (n+1)/2, second.N)
	_, ok = second.SamplesNeeded()
	require.False(t, ok)
}

func TestComparisonGoesOnUntilItIsSettled(t *testing.T) {
	report, c := compared(t, newWorld(6), 1.013, UntilSettled())
	require.Equal(t, Slower, c.Change, "%+v", c)
	require.Greater(t, c.N, DefaultBlocks, "30 blocks are not enough")
	require.Greater(t, c.Looks, 1)
	require.Contains(t, report.Results[0].Stop, "all is clear")

	report, c = compared(t, newWorld(6), 1.0101, UntilSettled(), DeviceBudget(50*time.Millisecond))
	require.Equal(t, Unclear, c.Change)
	require.Contains(t, report.Results[1].Stop, "device budget")
	require.InDelta(t, 250, c.N, 10, "100 ms of 100 us each, four to a block")
}

// Many rows, of which one is different by itself but not among the others.
func TestComparisonsOfARunAreJudgedTogether(t *testing.T) {
	w := newWorld(7)
	r := NewRunner(On(w), In(GPU), WarmUp(0, 0), BlockSeed(5), Samples(14, 14))
	for i := range 30 {
		Group(r, fmt.Sprintf("g%d", i), func(g *GroupOf[int]) {
			g.Bench("old", w.takes(100_000))
			g.Bench("new", w.takes(104_000))
			g.Compare("old", "new")
			if i == 0 {
				defer func() { require.Empty(t, r.Report().Comparisons) }()
			}
		})
		if i == 0 {
			require.Equal(t, Slower, r.Report().Comparisons[0].Change)
		}
	}
	first := r.Report().Comparisons[0]
	require.Equal(t, 30, first.Family)
	require.Equal(t, Unclear, first.Change)
	require.Contains(t, first.Why, "clear by itself, not as one of 30 comparisons")
	require.NotNil(t, first.Needed)
	checkOutputs(t, r.Report())
}

// A failure, a skip or a panic of one case leaves the others their comparison; a missing
// sample takes its block out and never makes somebody fast.
func TestFailuresDoNotReachTheOtherVariants(t *testing.T) {
	w := newWorld(8)
	r := NewRunner(On(w), In(GPU), WarmUp(0, 0), BlockSeed(5))
	Group(r, "group", func(g *GroupOf[int]) {
		g.Context(func(c *Case) (int, error) {
			if c.Name() == "skips" {
				return 0, Skip("not today")
			}
			return 0, nil
		})
		calls := 0
		g.Bench("base", w.takes(100_000))
		g.Bench("skips", w.takes(1))
		g.Bench("panics", func(int, Iters) error {
			if calls++; calls > 20 {
				panic("gone")
			}
			w.took = 1
			return nil
		})
		now := 0
		g.Bench("now and then", func(int, Iters) error {
			w.took = 103_000
			if now++; now%25 == 0 {
				w.took = 1
				return events.ErrFull
			}
			return nil
		})
		g.Compare("base", "skips", "panics", "now and then")
	})
	report := r.Report()
	checkOutputs(t, report)
	require.Len(t, report.Comparisons, 3)
	require.Equal(t, []Status{OK, Skipped, Failed, OK}, []Status{
		report.Results[0].Status, report.Results[1].Status, report.Results[2].Status, report.Results[3].Status})
	for _, c := range report.Comparisons[:2] {
		require.Equal(t, Unclear, c.Change)
		require.Contains(t, c.Why, "nothing to compare")
		require.Nil(t, c.CI)
	}
	last := report.Comparisons[2]
	require.Equal(t, Slower, last.Change)
	require.InDelta(t, 1.03, last.Ratio, 0.01)
	require.Positive(t, last.Refused)
	require.Positive(t, report.Results[3].FailedCount)

	Group(r, "base fails", func(g *GroupOf[int]) {
		g.Bench("base", func(int, Iters) error { return events.ErrFull })
		g.Bench("other", w.takes(1000))
		g.Compare("base", "other")
	})
	require.Equal(t, Unclear, report.Comparisons[3].Change)
	require.Equal(t, OK, report.Results[5].Status, "it is measured all the same")
	checkOutputs(t, report)
}

func TestContextsOfVariantsAreOpenTogetherAndClosedInAnyCase(t *testing.T) {
	var log []string
	w := newWorld(9)
	r := NewRunner(On(w), In(GPU), WarmUp(0, 0))
	Group(r, "group", func(g *GroupOf[counting]) {
		g.Context(func(c *Case) (counting, error) {
			log = append(log, "open")
			return counting{&log}, nil
		})
		g.Bench("a", func(counting, Iters) error { w.took = 1000; return nil })
		g.Bench("b", func(counting, Iters) error { return events.ErrDeviceFault })
		g.Compare("a", "b")
	})
	require.Equal(t, []string{"open", "open", "close", "close"}, log)
}

func TestComparisonsThatCannotBeAreRefusedWithTheirReason(t *testing.T) {
	for want, define := range map[string]func(g *GroupOf[int]){
		`no case "c"`:        func(g *GroupOf[int]) { g.Compare("a", "c") },
		`name 2 to 16 cases`: func(g *GroupOf[int]) { g.Compare("a") },
		`"b" is compared twice`: func(g *GroupOf[int]) {
			g.Compare("a", "b")
			g.Compare("b", "a")
		},
		`"a" is compared twice`:     func(g *GroupOf[int]) { g.Compare("a", "a") },
		`there is no axis "x"`:      func(g *GroupOf[int]) { g.CompareAxis("x") },
		"not both":                  func(g *GroupOf[int]) { g.Axis("x", 1); g.CompareAxis("x"); g.Compare("a", "b") },
		"has 17 values":             func(g *GroupOf[int]) { g.Axis("x", make([]any, 17)...); g.CompareAxis("x") },
		"its domain is another one": func(g *GroupOf[int]) { g.Bench("io", nothing, In(IO)); g.Compare("a", "io") },
		"its cache is another one":  func(g *GroupOf[int]) { g.Bench("cold", nothing, Cold(ColdFlush)); g.Compare("a", "cold") },
	} {
		r := NewRunner(On(constant(time.Microsecond)), In(GPU), WarmUp(0, 0))
		Group(r, "group", func(g *GroupOf[int]) {
			g.Bench("a", nothing)
			g.Bench("b", nothing)
			define(g)
		})
		results := r.Report().Results
		require.True(t, slices.ContainsFunc(results, func(res Result) bool {
			return res.Status == Failed && strings.Contains(res.Errors[0].Text, want)
		}), "%s: %+v", want, results)
	}
}

// One variant that waits for the held device: none of them is held then.
func TestVariantThatCannotBeHeldExposesAllOfThem(t *testing.T) {
	b := newBed(t)
	r := b.runner
	Group(r, "group", func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU), Watchdog(time.Millisecond), Cold(ColdNone))
		work := b.work(100 * time.Microsecond)
		g.Bench("a", func(_ int, it Iters) error { return work(it) })
		n := 0
		g.Bench("b", func(_ int, it Iters) error {
			if n++; n > 40 { // after the rehearsal
				if err := b.dev.StreamSynchronize(b.stream); err != nil {
					return err
				}
			}
			return work(it)
		})
		g.Compare("a", "b")
	})
	checkOutputs(t, r.Report())
	for i := range r.Report().Results {
		res := &r.Report().Results[i]
		require.Equal(t, OK, res.Status)
		require.Contains(t, res.Gate, "launch-exposed")
		require.True(t, hasNote(res, "launch-exposed"))
		require.Len(t, res.Samples, 2*DefaultBlocks, "all begins again")
	}
	require.Equal(t, DefaultBlocks, r.Report().Comparisons[0].N)
}

// On the simulated device: a kernel against itself, and against a little more.
func TestDeviceComparesAKernelWithItselfAndWithMore(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		more time.Duration
		want Change
	}{{0, Same}, {20 * time.Microsecond, Slower}, {-20 * time.Microsecond, Faster}} {
		r := NewRunner(WarmUp(0, 0))
		runOne(t, r, func(g *GroupOf[int]) {
			g.Set(On(b.timer), In(GPU))
			one, other := b.work(time.Millisecond), b.work(time.Millisecond+c.more)
			g.Bench("old", func(_ int, it Iters) error { return one(it) })
			g.Bench("new", func(_ int, it Iters) error { return other(it) })
			g.Compare("old", "new")
		})
		found := r.Report().Comparisons[0]
		require.Equal(t, c.want, found.Change, "%+v", found)
		require.Equal(t, "held", r.Report().Results[1].Gate)
		require.Zero(t, r.Report().Results[1].Leak.Count)
	}
}

func TestCommandLineComparesCases(t *testing.T) {
	w := newWorld(10)
	define := func(r *Runner) {
		r.Set(On(w), In(GPU), WarmUp(0, 0))
		Group(r, "group", func(g *GroupOf[int]) {
			g.Bench("a", w.takes(100_000))
			g.Bench("b", w.takes(106_000))
			g.Bench("c", w.takes(100_000))
		})
	}
	code, out, _ := command(t, define, "-compare", "b,c", "-seed", "4", "-threshold", "2%")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^  c +b +faster +0\.94`, out)
	require.Regexp(t, ` 4\n`, out, "the seed is printed")
	code, out, _ = command(t, define, "-compare", "a,c", "-list")
	require.Zero(t, code)
	require.Equal(t, "group/a\ngroup/c\ngroup/b\n", out)
	code, out, _ = command(t, define, "-compare", "a,b", "-settle", "-format", "csv")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^group,b,,slower,compare,ratio,,1\.0`, out)
	code, out, _ = command(t, define, "-compare", "a,b", "-profile", "3")
	require.Zero(t, code)
	require.NotContains(t, out, "compared", "under a profiler they run one after the other")
	code, out, _ = command(t, define, "-compare", "a,b", "-run", "group/c")
	require.Zero(t, code)
	require.NotContains(t, out, "compared")
	for _, args := range [][]string{
		{"-compare", "a"}, {"-compare", "a,z"}, {"-threshold", "100%"}, {"-threshold", "x"}, {"-seed", "x"},
	} {
		code, _, errOut := command(t, define, args...)
		require.Equal(t, 2, code, args)
		require.NotEmpty(t, errOut)
	}
}

func TestComparisonsAreInEveryFormat(t *testing.T) {
	report, c := compared(t, newWorld(4), 1, Samples(16, 16))
	require.Equal(t, Unclear, c.Change)
	n, _ := c.SamplesNeeded()
	settles := fmt.Sprintf("%d samples of each would settle it", n)
	for name, parts := range map[string][]string{
		"table":    {"compared  with", "unclear", settles},
		"markdown": {"| compared | with |", settles},
		"csv":      {"compare,ratio,", "compare,smallest effect seen,", fmt.Sprintf("compare,samples needed,,%d,", n)},
		"json":     {`"comparisons":[{"group":"group","base":"group/old","other":"group/new","verdict":"unclear"`, `"seed":5`},
	} {
		var out bytes.Buffer
		require.NoError(t, formats[name](report, &out))
		for _, part := range parts {
			require.Contains(t, out.String(), part, name)
		}
		if name == "json" {
			require.Empty(t, schematest.Load(t, benchSchema).Check(t, out.Bytes()))
		}
	}
	var with, without bytes.Buffer
	require.NoError(t, report.WriteBenchstat(&with))
	plain := *report
	plain.Comparisons = nil
	require.NoError(t, plain.WriteBenchstat(&without))
	require.Equal(t, without.String(), with.String(), "benchstat compares by itself")
}
