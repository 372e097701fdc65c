package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

// command runs a program's groups with arguments.
func command(t *testing.T, define func(*Runner), args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(flag.NewFlagSet("program", flag.ContinueOnError), args, &o, &e, define)
	t.Log(code, "\n"+o.String()+e.String())
	return code, o.String(), e.String()
}

// Iteration counts followed the host's time where the device's was wanted, and grew
// without measure (google/benchmark#333, bheisler/RustaCUDA#29). Ours follows the
// backend's clock, at most tenfold a step, and believes two readings in a row.
func TestChunkFollowsTheBackendsClock(t *testing.T) {
	var asked []int64
	glitch := false
	s := &scripted{quantum: 32 * time.Nanosecond, collect: func(_ int, iv Interval) (Sample, error) {
		asked = append(asked, iv.Operations)
		d := 10 * time.Nanosecond * time.Duration(iv.Operations)
		if glitch = !glitch; glitch && iv.Operations < 320 {
			d = time.Second // one long reading proves nothing
		}
		return Sample{Duration: d, OnDevice: true}, nil
	}}
	r := runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU), CalibratedChunk())
		g.Bench("case", nothing)
	})
	require.False(t, r.Fixed)
	require.GreaterOrEqual(t, r.Chunk, int64(320), "a hundred quanta")
	require.LessOrEqual(t, r.Chunk, int64(gateChunk))
	for i := 1; i < len(asked); i++ {
		require.LessOrEqual(t, asked[i], 10*asked[i-1])
	}
	require.InDelta(t, 10, r.Latency.Median, 0.01)
}

func TestFixedChunkIsExact(t *testing.T) {
	for _, n := range []int64{1, 16, 1000} {
		r := runOne(t, NewRunner(quick(20, 20)...), func(g *GroupOf[int]) {
			g.Set(On(constant(time.Microsecond)), FixedChunk(n))
			g.Bench("case", func(_ int, it Iters) error {
				require.Equal(t, n, it.N)
				return nil
			})
		})
		require.Equal(t, n, r.Chunk)
		require.True(t, r.Fixed)
		require.InDelta(t, 1000/float64(n), r.Latency.Median, 1e-9, "an operation's time is no whole number of nanoseconds")
	}
}

// Warm-ups that were too short in time read 30 % too much (triton-lang/triton#2306,
// NVIDIA/nvbench#338). Ours ends on the plateau.
func TestWarmUpEndsOnThePlateau(t *testing.T) {
	n := 0
	s := &scripted{quantum: time.Nanosecond, collect: func(int, Interval) (Sample, error) {
		n++ // 2 % faster every call, until it is warm
		return Sample{Duration: time.Duration(100_000 * max(1, math.Pow(0.98, float64(n))*5))}, nil
	}}
	r := runOne(t, NewRunner(Samples(20, 20), WarmUp(time.Millisecond, 2*time.Second)), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU))
		g.Bench("case", nothing)
	})
	require.Equal(t, "stable", r.WarmUp.Why)
	require.InDelta(t, 100_000, r.Latency.Max, 1000)
}

// Noise that no budget can average away ended in time-outs of hours
// (NVIDIA/nvbench#61, NVIDIA/nvbench#64).
func TestUnreachablePrecisionIsToldEarly(t *testing.T) {
	n := 0
	s := &scripted{quantum: 1, collect: func(int, Interval) (Sample, error) {
		n++
		return Sample{Duration: 10*time.Millisecond + time.Duration(n*n*7919%9_000_000)}, nil
	}}
	r := runOne(t, NewRunner(WarmUp(0, time.Microsecond)), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU))
		g.Bench("case", nothing)
	})
	require.Equal(t, "unreachable", r.Verdict)
	require.Less(t, r.Latency.N, 100)
}

func TestUsersOwnRuleEndsACase(t *testing.T) {
	r := runOne(t, NewRunner(quick(1, 1000)...), func(g *GroupOf[int]) {
		g.Set(On(constant(time.Microsecond)), In(GPU), StopBy(func() Rule { return ByCount(33) }))
		g.Bench("case", nothing)
	})
	require.Equal(t, 33, r.Latency.N)
	require.Contains(t, r.Stop, "33 samples were asked for")
}

// counting is a context that notes its life.
type counting struct{ log *[]string }

func (c counting) Close() error { *c.log = append(*c.log, "close"); return nil }

func TestScopesAreEnteredAndLeftInOrder(t *testing.T) {
	var log []string
	note := func(what string) { log = append(log, what) }
	s := &scripted{
		begin:   func(int) error { note("begin"); return nil },
		end:     func(int) error { note("end"); return nil },
		collect: func(int, Interval) (Sample, error) { note("collect"); return Sample{Duration: 1000}, nil },
	}
	round := []string{"before", "begin", "iterate", "end", "collect", "after"}
	define := func(g *GroupOf[counting]) {
		g.Set(On(s), In(GPU))
		g.Set(quick(2, 2)...)
		g.Round(func(counting) error { note("before"); return nil }, func(counting) error { note("after"); return nil })
		g.Bench("case", func(counting, Iters) error { note("iterate"); return nil })
	}
	open := func(*Case) (counting, error) { note("open"); return counting{&log}, nil }
	runOne(t, NewRunner(), func(g *GroupOf[counting]) { define(g); g.Context(open) })
	require.Equal(t, "open", log[0])
	require.Equal(t, "close", log[len(log)-1])
	require.Equal(t, slices.Concat(round, round), log[len(log)-13:len(log)-1])
	require.Equal(t, 1, strings.Count(fmt.Sprint(log), "open"))

	log = nil
	runOne(t, NewRunner(), func(g *GroupOf[counting]) { define(g); g.PerSample(open) })
	full := slices.Concat([]string{"open"}, round, []string{"close"})
	require.Equal(t, slices.Concat(full, full), log[len(log)-16:])
}

// A context is closed however its case ends.
func TestContextIsClosedWhateverHappens(t *testing.T) {
	for name, fn := range map[string]func(int) error{
		"success": func(int) error { return nil },
		"failure": func(int) error { return errors.New("always") },
		"panic":   func(int) error { panic("now") },
	} {
		for _, each := range []bool{false, true} {
			t.Run(fmt.Sprint(name, each), func(t *testing.T) {
				var log []string
				opened := 0
				runOne(t, NewRunner(quick(2, 2)...), func(g *GroupOf[counting]) {
					g.Set(On(constant(1000)), In(GPU))
					open := func(*Case) (counting, error) { opened++; return counting{&log}, nil }
					if each {
						g.PerSample(open)
					} else {
						g.Context(open)
					}
					g.Bench("case", func(counting, Iters) error { return fn(0) })
				})
				require.Positive(t, opened)
				require.Len(t, log, opened)
			})
		}
	}
	t.Run("runtime.Goexit", func(t *testing.T) {
		var log []string
		s := constant(1000)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Group(NewRunner(), "group", func(g *GroupOf[counting]) {
				g.Set(On(s), In(GPU))
				g.Context(func(*Case) (counting, error) { return counting{&log}, nil })
				g.Bench("case", func(counting, Iters) error { runtime.Goexit(); return nil })
			})
		}()
		<-done
		require.Equal(t, []string{"close"}, log)
		require.Zero(t, s.open, "what Begin holds is let go")
	})
}

func TestContextThatFailsIsARow(t *testing.T) {
	closed := 0
	r := runOne(t, NewRunner(), func(g *GroupOf[closer]) {
		g.Context(func(*Case) (closer, error) { return closer{&closed}, errors.New("no memory") })
		g.Bench("case", func(closer, Iters) error { return nil })
	})
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Errors[0].Text, "making the context: no memory")
	require.Zero(t, closed, "what was not made is not closed")
}

func TestSkippedCaseIsARowWithItsReason(t *testing.T) {
	r := runOne(t, NewRunner(), func(g *GroupOf[int]) {
		g.Context(func(*Case) (int, error) { return 0, Skip("needs 80 GB") })
		g.Bench("case", nothing)
	})
	require.Equal(t, Skipped, r.Status)
	require.Equal(t, "needs 80 GB", r.Skip)
	require.Empty(t, r.Errors)

	r = runOne(t, NewRunner(), func(g *GroupOf[int]) {
		g.Set(On(constant(1)))
		g.Bench("case", func(int, Iters) error { return Skip("the kernel is not there") })
	})
	require.Equal(t, Skipped, r.Status)
}

// Metrics of the function and of the backend are one table by section, name and unit.
func TestMetricsMeetInOneTable(t *testing.T) {
	s := &scripted{collect: func(n int, _ Interval) (Sample, error) {
		return Sample{Duration: 1000, Metrics: []Metric{
			{Name: "device_ms", Unit: "ms", Value: Float(float64(n))},
			{Name: "both", Value: Float(1)},
			{Section: "power", Name: "device_ms", Unit: "ms", Value: Float(7)},
		}}, nil
	}}
	big := int64(1<<53 + 1)
	r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU))
		g.BenchSample("case", func(_ int, it Iters) (Done, error) {
			return Done{Operations: 4, Metrics: []Metric{
				{Name: "both", Value: Float(2)},
				{Name: "tflops", Unit: "TFLOP/s", Display: "speed", Format: "%.2f", Value: Float(3.14159)},
				{Name: "big", Value: Int(big)},
				{Name: "sometimes", Value: Float([]float64{nan, math.Inf(1), 5}[it.Index%3])},
			}}, nil
		})
	})
	var names []string
	for _, m := range r.Metrics {
		names = append(names, m.Section+"/"+m.Name+"/"+m.Unit)
	}
	require.Equal(t, []string{"/device_ms/ms", "/both/", "power/device_ms/ms", "/tflops/TFLOP/s", "/big/", "/sometimes/"}, names)
	require.InDelta(t, 1, r.Metrics[1].Summary.Max, 0, "the backend's")
	require.True(t, hasNote(r, "function and backend both give both"))
	require.Equal(t, big, *r.Metrics[4].Integer, "an integer beyond 2^53 stays itself")
	require.Equal(t, 7, r.Metrics[5].Dropped)
	require.Equal(t, 3, r.Metrics[5].Summary.N)
	require.InDelta(t, 250, r.Latency.Median, 1e-9, "the function did 4 operations")
}

// Counters of the processor say nothing about a device's work; the report says that
// they are muted.
func TestProcessorsCountersAreMutedForADevice(t *testing.T) {
	s := &scripted{cpu: true, collect: func(int, Interval) (Sample, error) {
		return Sample{Duration: 1000, Metrics: []Metric{{Section: SectionCPU, Name: "cycles", Value: Float(1)}, {Name: "own", Value: Float(1)}}}, nil
	}}
	for domain, want := range map[Domain]int{CPU: 2, GPU: 1, Mixed: 2} {
		r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
			g.Set(On(s), In(domain), FixedChunk(1))
			g.Bench("case", nothing)
		})
		require.Len(t, r.Metrics, want)
		require.Equal(t, domain == GPU, hasNote(r, "muted"))
	}
}

// Numbers of a diagnostic pass once mixed with those of the samples of the same name.
func TestDiagnosticsHaveANamespaceOfTheirOwn(t *testing.T) {
	s := &scripted{collect: func(int, Interval) (Sample, error) {
		return Sample{Duration: 1000, Metrics: []Metric{{Name: "device_ms", Unit: "ms", Value: Float(1)}}}, nil
	}}
	r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
		g.Set(On(s), In(GPU))
		g.Diagnose("counters", func(int) ([]Metric, error) {
			return []Metric{{Name: "device_ms", Unit: "ms", Value: Float(100)}}, nil
		})
		g.Diagnose("broken", func(int) ([]Metric, error) { return nil, errors.New("one subscriber only") })
		g.Diagnose("panics", func(int) ([]Metric, error) { panic("oh") })
		g.Bench("case", nothing)
	})
	require.Equal(t, OK, r.Status)
	require.Equal(t, 10, r.Metrics[0].Summary.N)
	require.InDelta(t, 1, r.Metrics[0].Summary.Max, 0)
	require.Len(t, r.Diagnostics, 3)
	require.InDelta(t, 100, r.Diagnostics[0].Metrics[0].Summary.Max, 0)
	require.Equal(t, "one subscriber only", r.Diagnostics[1].Error)
	require.Contains(t, r.Diagnostics[2].Error, "panic: oh")
}

// The fast and wrong variant must not win (facebook/openzl#905, karpathy/llm.c#852).
func TestWrongAnswerIsNoResult(t *testing.T) {
	for at := 1; at <= 2; at++ {
		checks := 0
		r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
			g.Set(On(constant(1000)), In(GPU))
			g.Verify(func(int) error {
				if checks++; checks == at {
					return errors.New("3 of 9 values differ")
				}
				return nil
			})
			g.Bench("case", nothing)
		})
		require.Equal(t, Failed, r.Status)
		require.Contains(t, r.Errors[0].Text, "3 of 9 values differ")
	}
}

// More than the device can do is no success (gpu-mode/reference-kernels#162,
// uxlfoundation/oneDNN#4529).
func TestRateAboveThePeakIsFlagged(t *testing.T) {
	for over, flagged := range map[float64]bool{2: true, 1.06: true, 1.04: false, 0.5: false} {
		r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
			g.Set(On(constant(time.Millisecond)), In(GPU), Bytes(int64(over*1e6)), Peak(Work{Bytes: 1e9}))
			g.Bench("case", nothing)
		})
		require.Equal(t, flagged, hasNote(r, "impossible?"), over)
		require.InDelta(t, over, *r.Rates[1].Peak, 1e-6)
	}
}

func TestRatesAreMadeFromWhatIsDeclared(t *testing.T) {
	r := runOne(t, NewRunner(quick(10, 10)...), func(g *GroupOf[int]) {
		g.Set(On(constant(time.Millisecond)), In(GPU), Bytes(1<<30), Flops(2e9), Items(5))
		g.Bench("case", nothing)
	})
	got := map[string]float64{}
	for _, rate := range r.Rates {
		got[rate.Unit] = rate.Value
	}
	require.Equal(t, map[string]float64{"op/s": 1000, "GiB/s": 1000, "TFLOP/s": 2, "item/s": 5000}, got)
}

func TestAxesRunAllPointsAndTheCommandLineReplacesThem(t *testing.T) {
	define := func(r *Runner) {
		r.Set(quick(6, 6)...)
		Group(r, "g", func(g *GroupOf[int64]) {
			g.Set(On(constant(1000)), In(GPU))
			g.Axis("size", 1, 2)
			g.Axis("type", "f32", "f64")
			g.Context(func(c *Case) (int64, error) { return c.Int("size") })
			g.Bench("c", func(int64, Iters) error { return nil })
		})
	}
	_, out, _ := command(t, define, "-list")
	require.Equal(t, "g/c/size=1/type=f32\ng/c/size=1/type=f64\ng/c/size=2/type=f32\ng/c/size=2/type=f64\n", out)
	_, out, _ = command(t, define, "-list", "-a", "size[pow2]=[4:8:2]", "-a", "type=f16")
	require.Equal(t, "g/c/size=16/type=f16\ng/c/size=64/type=f16\ng/c/size=256/type=f16\n", out)
	_, out, _ = command(t, define, "-list", "-run", "size=2/.*64")
	require.Equal(t, "g/c/size=2/type=f64\n", out)
	code, _, errOut := command(t, define, "-a", "sizes=3")
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "no group that ran has such an axis")
	code, out, _ = command(t, define, "-a", "size=many")
	require.Equal(t, 1, code)
	require.Contains(t, out, "axis size=many: not an integer")
}

func TestAxisTexts(t *testing.T) {
	for text, want := range map[string]string{
		"N=7":                "[7]",
		"N=[1,2,5]":          "[1 2 5]",
		"N=[16:64:16]":       "[16 32 48 64]",
		"N=[3:5]":            "[3 4 5]",
		"N[pow2]=[4:16:4]":   "[16 256 4096 65536]",
		"N[pow2]=[10]":       "[1024]",
		"N=[1:2:0.25]":       "[1 1.25 1.5 1.75 2]",
		"N=[0:1:0.1]":        "[0 0.1 0.2 0.30000000000000004 0.4 0.5 0.6000000000000001 0.7000000000000001 0.8 0.9 1]",
		"N=[5:1:-2]":         "[5 3 1]",
		"T=[f32, f64]":       "[f32 f64]",
		"T=a:b":              "[a:b]",
		"N = [1, 4:6, 9]":    "[1 4 5 6 9]",
		"N=":                 "",
		"N":                  "",
		"N=[1,2":             "",
		"N=[1,,2]":           "",
		"N=[1:2:0]":          "",
		"N=[2:1]":            "",
		"N=[a:b]":            "",
		"N=[1:2:3:4]":        "",
		"N=[0:1000000]":      "",
		"N[pow2]=[63]":       "",
		"N[pow2]=[1.5]":      "",
		"N=[0:NaN]":          "",
		"N=[-9e99:9e99:1e9]": "",
	} {
		a, err := parseAxis(text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, fmt.Sprint(a.values), text)
	}
}

// Setup that ran in the wrong scope was in the numbers (NVIDIA/nvbench#77,
// NVIDIA/nvbench#123, google/benchmark#743). Nothing of ours allocates between the
// readings of the clock.
func TestNothingIsAllocatedInsideAnInterval(t *testing.T) {
	b := newBed(t)
	var before, after runtime.MemStats
	var most uint64
	counted := &allocations{Backend: b.timer, before: &before}
	r := runOne(t, b.runner, func(g *GroupOf[int]) {
		g.Set(On(counted), In(GPU), Samples(50, 50), WithoutGate(), Cold(ColdNone))
		g.Bench("case", func(int, Iters) error {
			runtime.ReadMemStats(&after)
			most = max(most, after.Mallocs-before.Mallocs)
			return nil
		})
	})
	require.Equal(t, OK, r.Status)
	require.Zero(t, most, "from the end of Begin to the function")
}

// allocations reads the memory statistics as the last thing of Begin.
type allocations struct {
	Backend
	before *runtime.MemStats
}

func (a *allocations) Begin() error {
	err := a.Backend.Begin()
	runtime.ReadMemStats(a.before)
	return err
}

func TestProfileTakesExactlySoManySamples(t *testing.T) {
	b := newBed(t)
	b.runner.flags = []Option{func(s *settings) { s.profile = 7 }}
	r := b.bench(b.work(time.Microsecond))
	require.Len(t, r.Samples, 7)
	require.True(t, r.Profile)
	require.EqualValues(t, 1, b.dev.CallCount(mock.OpGateClose), "the calibration's, before the first call")
}

func TestTimeForAllCasesTogetherIsKept(t *testing.T) {
	calls := 0
	define := func(r *Runner) {
		Group(r, "g", func(g *GroupOf[int]) {
			g.Set(On(WallClock()), FixedChunk(1), Precision(1e-12))
			for i := range 5 {
				g.Bench(fmt.Sprint("case", i), func(int, Iters) error {
					calls++
					time.Sleep(20 * time.Millisecond)
					return nil
				})
			}
		})
	}
	began := time.Now()
	_, out, _ := command(t, define, "-total", "300ms", "-wall", "150ms", "-format", "csv")
	require.Less(t, time.Since(began), 5*time.Second)
	require.Contains(t, out, "skipped")
	require.Contains(t, out, "the time for all cases together is over")
	require.Positive(t, calls)
}

func TestWrongCommandLinesAreRefusedBeforeAnythingRuns(t *testing.T) {
	for _, args := range [][]string{
		{"-format", "xml"}, {"-o", "json"}, {"-o", "xml=a"}, {"-run", "("}, {"-wall", "-1s"}, {"-n", "0"}, {"extra"},
		{"-cold", "ice"}, {"-profile", "x"}, {"-a", "no"}, {"-nosuch"},
	} {
		code, out, errOut := command(t, func(*Runner) { t.Error("ran") }, args...)
		require.Equal(t, 2, code, args)
		require.Empty(t, out)
		require.NotEmpty(t, errOut, args)
	}
	code, _, errOut := command(t, func(*Runner) {})
	require.Equal(t, 1, code, "nothing ran is no success")
	require.Contains(t, errOut, "no case ran")
}

// A log keeps every line of a progress that is meant for a terminal.
func TestProgressIsForTerminals(t *testing.T) {
	require.Nil(t, progressTo(io.Discard).w)
	require.Nil(t, progressTo(&bytes.Buffer{}).w)
}
