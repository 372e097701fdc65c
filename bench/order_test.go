package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/schematest"
)

// ordered runs five cases at two points each, and gives the names in the order in which
// they ran, and the report.
func ordered(t *testing.T, args ...string) (ran []string, report Report, table string) {
	t.Helper()
	define := func(r *Runner) {
		for _, group := range []string{"g", "h"} {
			Group(r, group, func(g *GroupOf[string]) {
				g.Set(On(constant(time.Microsecond)), In(GPU), WarmUp(0, 0), Samples(1, 1), Shuffle(5))
				g.Axis("size", 1, 2)
				g.Context(func(c *Case) (string, error) {
					size, _ := c.Axis("size")
					ran = append(ran, group+"/"+c.Name()+"/size="+size)
					return "", nil
				})
				for i := range 5 {
					g.Bench(fmt.Sprint("case", i), func(string, Iters) error { return nil })
				}
			})
		}
	}
	code, text, errOut := command(t, define, append(args, "-format", "json")...)
	require.Zero(t, code, errOut)
	require.NoError(t, json.Unmarshal([]byte(text), &report))
	require.Empty(t, schematest.Load(t, benchSchema).Check(t, []byte(text)))
	var b strings.Builder
	require.NoError(t, report.WriteTable(&b))
	return ran, report, b.String()
}

func namesOf(report Report) (names []string) {
	for i := range report.Results {
		names = append(names, report.Results[i].Name())
	}
	return names
}

// A fixed order favours whoever comes first or last (NVIDIA/nvbench#310,
// google/benchmark#1051).
func TestShuffledCasesRunInTheOrderOfTheSeed(t *testing.T) {
	inOrder, plain, text := ordered(t, "-shuffle", "off")
	require.Len(t, inOrder, 20)
	require.Equal(t, inOrder, namesOf(plain), "the flag wins over the program")
	require.Nil(t, plain.Provenance.Shuffle)
	require.NotContains(t, text, "-shuffle")

	byProgram, _, _ := ordered(t)
	same, report, text := ordered(t, "-shuffle", "5")
	require.Equal(t, byProgram, same)
	require.NotEqual(t, inOrder, same)
	require.ElementsMatch(t, inOrder, same)
	require.NotEqual(t, strings.ReplaceAll(strings.Join(same[:10], " "), "g/", "h/"), strings.Join(same[10:], " "), "each group has an order of its own")
	require.EqualValues(t, 5, *report.Provenance.Shuffle)
	require.Contains(t, text, "shuffled: -shuffle 5 gives the same order")
	require.Equal(t, inOrder, namesOf(report), "the report keeps the order of definition")
	for i := range report.Results {
		r := &report.Results[i]
		place := slices.Index(same, r.Name())
		require.Equal(t, place%10+1, r.Position, r.Name())
	}
	other, _, _ := ordered(t, "-shuffle", "-6")
	require.NotEqual(t, same, other)

	chosen, report, _ := ordered(t, "-shuffle", "on")
	again, _, _ := ordered(t, "-shuffle", strconv.FormatInt(*report.Provenance.Shuffle, 10))
	require.Equal(t, chosen, again)

	filtered, report, _ := ordered(t, "-shuffle", "5", "-run", "g/case[13]")
	require.Equal(t, slices.DeleteFunc(slices.Clone(same), func(s string) bool {
		return !strings.HasPrefix(s, "g/case1") && !strings.HasPrefix(s, "g/case3")
	}), filtered, "a filter does not change who comes before whom")
	require.Len(t, report.Results, 4)
}

func TestShuffleFavoursNoPlace(t *testing.T) {
	const cases, seeds = 6, 6000
	var places [cases][cases]int
	for seed := range int64(seeds) {
		for place, who := range permutation(seed, "group", cases) {
			places[who][place]++
		}
	}
	for who := range places {
		for place, n := range places[who] {
			require.InDelta(t, seeds/cases, n, 150, "case %d at place %d: five standard deviations", who, place)
		}
	}
}

func TestListIsInTheOrderOfDefinition(t *testing.T) {
	_, out, _ := command(t, func(r *Runner) {
		Group(r, "g", func(g *GroupOf[int]) {
			for i := range 9 {
				g.Bench(strconv.Itoa(i), nothing)
			}
		})
	}, "-list", "-shuffle", "1")
	require.Equal(t, "g/0 g/1 g/2 g/3 g/4 g/5 g/6 g/7 g/8", strings.Join(strings.Fields(out), " "))
}

// cooling runs three cases and gives the pauses before each.
func cooling(t *testing.T, b *bed, opts ...Option) (pauses []time.Duration, results []Result) {
	t.Helper()
	b.runner.pause = func(d time.Duration) {
		pauses = append(pauses, d)
		b.sys.Advance(d)
	}
	Group(b.runner, "g", func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU), Samples(20, 20))
		g.Set(opts...)
		for _, name := range []string{"a", "b", "c"} {
			g.Bench(name, nothing)
		}
	})
	checkOutputs(t, b.runner.Report())
	return pauses, b.runner.Report().Results
}

// flashinfer-ai/flashinfer#2899: one case heats the device for the next.
func TestCoolDownLiesBetweenCases(t *testing.T) {
	pauses, results := cooling(t, newBed(t), CoolDown(3*time.Second))
	require.Equal(t, []time.Duration{3 * time.Second, 3 * time.Second}, pauses)
	require.Nil(t, results[0].CoolDown, "before the first there is nothing to cool down from")
	require.Equal(t, &CoolDownReport{Took: 3 * time.Second, Why: "time"}, results[1].CoolDown)

	pauses, results = cooling(t, newBed(t))
	require.Empty(t, pauses)
	require.Nil(t, results[2].CoolDown)
}

func TestCoolDownEndsAtTheTemperatureOrTheLimit(t *testing.T) {
	b := newBed(t)
	b.dev.ScriptTelemetry(func(_ int, at time.Duration, r *events.TelemetryReading) {
		r.Temperature = 80 - int(at/time.Second) // a degree a second
	})
	_, results := cooling(t, b, CoolDown(time.Second), CoolTo(70, time.Minute))
	c := results[1].CoolDown
	require.Equal(t, "temperature", c.Why)
	require.Equal(t, 70, *c.Temperature)
	require.InDelta(t, 10*time.Second, c.Took, float64(time.Second))

	b = newBed(t)
	_, results = cooling(t, b, CoolTo(20, 5*time.Second))
	c = results[1].CoolDown
	require.Equal(t, "limit", c.Why)
	require.Equal(t, 38, *c.Temperature)
	require.Equal(t, 5*time.Second, c.Took)
	require.True(t, hasNote(&results[1], "not cool: still 38 C after 5s"), results[1].Notes)
	require.Equal(t, OK, results[1].Status)
}

func TestCoolDownWithoutATemperatureSaysSoAndDoesNotWait(t *testing.T) {
	for want, b := range map[string]*bed{
		"switched off": newBed(t, mock.Without(mock.FeatureTelemetry)),
		"the device does not tell": func() *bed {
			b := newBed(t)
			b.dev.ScriptTelemetry(func(_ int, _ time.Duration, r *events.TelemetryReading) { r.Has &^= events.TelemetryTemperature })
			return b
		}(),
	} {
		pauses, results := cooling(t, b, CoolTo(20, time.Hour))
		require.Empty(t, pauses)
		require.Contains(t, results[1].CoolDown.Why, want)
		require.Equal(t, OK, results[2].Status)
	}
	pauses, results := cooling(t, newBed(t), CoolTo(20, time.Hour), WithoutTelemetry())
	require.Empty(t, pauses)
	require.Equal(t, "telemetry is switched off", results[1].CoolDown.Why)
}

func TestCoolDownKeepsTheTimeForAllCases(t *testing.T) {
	for why, opt := range map[string]Option{"time": CoolDown(time.Hour), "limit": CoolTo(20, time.Hour)} {
		b := newBed(t)
		b.runner.total = 10 * time.Minute
		b.runner.clock = func() int64 { return int64(b.sys.Now()) }
		pauses, results := cooling(t, b, opt)
		require.NotEmpty(t, pauses)
		require.LessOrEqual(t, results[1].CoolDown.Took, 10*time.Minute)
		require.Equal(t, why, results[1].CoolDown.Why)
		require.Equal(t, Skipped, results[1].Status)
		require.Equal(t, Skipped, results[2].Status)
		require.Nil(t, results[2].CoolDown)
	}
}

func TestFlagsOfOrderAreReadAndRefused(t *testing.T) {
	r := NewRunner()
	set := func(args ...string) settings {
		r.flags = nil
		code, _, errOut := command(t, func(run *Runner) { r.flags = run.flags }, append(args, "-list")...)
		require.Zero(t, code, errOut)
		return defaults().with(r.flags)
	}
	s := set("-cooldown", "2s", "-cool-to", "55", "-retry-throttled", "3", "-no-telemetry", "-profile", "4")
	require.Equal(t, orderSettings{cool: 2 * time.Second, coolTo: 55, coolLimit: DefaultCoolLimit}, s.order)
	require.Equal(t, watchSettings{off: true, retries: 3}, s.watch)
	require.Equal(t, 4, s.profile)
	for _, args := range [][]string{
		{"-shuffle", "maybe"}, {"-shuffle", "1.5"}, {"-cooldown", "x"}, {"-cooldown", "-1s"}, {"-cool-to", "warm"},
		{"-retry-throttled", "-1"}, {"-profile", "0"},
	} {
		code, _, errOut := command(t, func(*Runner) { t.Error("ran") }, args...)
		require.Equal(t, 2, code, args)
		require.NotEmpty(t, errOut)
	}
}
