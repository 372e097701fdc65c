package stats_test

import (
	"fmt"
	"time"

	"example.com/devevents/bench/internal/stats"
)

// A case takes samples until they are enough, then says what they are.
func Example() {
	stopper := stats.NewStopper(stats.Plan{Quantum: 32}) // the clock ticks every 32 ns
	var samples []float64
	var spent stats.Spent
	for {
		// A kernel of 10 µs, now and then a tick longer.
		sample := 10_016.0
		if len(samples)%3 == 0 {
			sample += 32
		}
		samples = append(samples, sample)
		spent.Device += time.Duration(sample)
		spent.Wall += 15 * time.Microsecond
		if stopper.Add(sample, spent).Stop() {
			break
		}
	}
	fmt.Println(stopper.Decision().Verdict+":", stopper.Decision().Reason)

	s := stats.Summarize(samples, stats.Options{Quantum: 32})
	fmt.Printf("median %.0f ns, %.1f %% interval %.0f to %.0f ns\n", s.Median, 100*s.MedianCI.Level, s.MedianCI.Lo, s.MedianCI.Hi)
	fmt.Println("outliers", s.Outliers.Total(), "two modes", s.Modes.Two, "drift", s.Drift.Verdict, "p95 known", s.P95 != nil)
	// Output:
	// converged: the median's 95 % interval is ±16 ns after 20 samples, within the ±0.5 % asked for
	// median 10016 ns, 95.9 % interval 10016 to 10048 ns
	// outliers 0 two modes false drift none p95 known false
}

// What is measured in turn, block by block, is compared block by block.
func ExampleCompareBlocks() {
	base := [][]float64{{100, 104}, {98, 101}, {99, 103}, {100, 102}, {105, 108}, {109, 110}, {101, 99}, {100, 103}}
	other := [][]float64{{110, 115}, {107, 112}, {109, 113}, {111, 112}, {116, 118}, {121, 119}, {110, 110}, {111, 112}}
	effect := stats.CompareBlocks(base, other, stats.Question{Threshold: 0.01})
	f := stats.Judge([]stats.Effect{effect}, 1)[0]
	fmt.Printf("%s: %.3f times base, from %.3f to %.3f\n", f.Change, f.Ratio, f.CI.Lo, f.CI.Hi)
	// Output:
	// slower: 1.100 times base, from 1.097 to 1.102
}
