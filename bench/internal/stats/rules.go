package stats

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Rule decides by samples alone whether enough were taken. [Stopper] gives it the
// samples and keeps the budgets. A Rule belongs to one case and one goroutine.
type Rule interface {
	// Add takes the next sample, in ns, finite.
	Add(sample float64)
	// Done says whether the samples so far are enough, and why, in words that
	// follow "because".
	Done() (done bool, why string)
}

// Count is the rule that n samples are enough.
func Count(n int) Rule { return &count{want: n} }

type count struct{ want, have int }

func (c *count) Add(float64) { c.have++ }

func (c *count) Done() (bool, string) {
	return c.have >= c.want, fmt.Sprintf("%d samples were asked for", c.want)
}

// Total is the rule that samples which add up to d are enough.
func Total(d time.Duration) Rule { return &total{want: d} }

type total struct {
	want time.Duration
	have float64
}

func (t *total) Add(sample float64) { t.have += sample }

func (t *total) Done() (bool, string) {
	return t.have >= float64(t.want), fmt.Sprintf("the samples add up to the %v asked for", t.want)
}

// StdRel is NVBench's rule "stdrel", kept to compare with it: the samples add up to
// more than minTime, and their relative standard deviation is below noise (0.005
// there), or, at every 16th sample, hardly moved while the last 512 were taken. The
// deviation does not shrink as samples are added, so the first of these is a
// property of the case and not of the effort (NVIDIA/nvbench#61).
func StdRel(noise float64, minTime time.Duration) Rule {
	return &stdRel{limit: noise, minTime: float64(minTime), noises: window{size: 512}}
}

type stdRel struct {
	limit, minTime float64
	n              int
	mean, squares  float64 // of the samples, by Welford's recurrence
	total          float64
	noises         window
}

// Samples that NVBench asks for before it takes a standard deviation, noises
// before it asks whether they still move, and how often it asks.
const (
	stdRelMin     = 5
	stdRelNoises  = 64
	stdRelEvery   = 16
	stdRelSettled = 0.05
)

func (r *stdRel) Add(sample float64) {
	r.n++
	r.total += sample
	away := sample - r.mean
	r.mean += away / float64(r.n)
	r.squares += away * (sample - r.mean)
	if r.n < stdRelMin {
		return
	}
	if noise := math.Sqrt(r.squares/float64(r.n-1)) / r.mean; usable(noise) {
		r.noises.push(noise)
	}
}

func (r *stdRel) Done() (bool, string) {
	if r.total <= r.minTime || len(r.noises.values) == 0 {
		return false, ""
	}
	noise := r.noises.last()
	if noise < r.limit {
		return true, fmt.Sprintf("the relative standard deviation of %s is below %s", percent(noise), percent(r.limit))
	}
	if len(r.noises.values) <= stdRelNoises || r.n%stdRelEvery != 0 {
		return false, ""
	}
	// The spread is taken round the current noise, not round the mean.
	spread := math.Sqrt(squares(r.noises.values, noise) / float64(len(r.noises.values)-1))
	return spread < stdRelSettled*noise, "the relative standard deviation settled at " + percent(noise)
}

// Entropy is NVBench's rule "entropy" with its own settings (0.048 degrees, R² of
// 0.36), kept to compare with it: the entropy of the distinct values seen no
// longer grows, judged at every second sample by the slope of a line through its
// last 299 values. It needs samples that repeat, as quantised ones do.
func Entropy() Rule {
	return &entropy{seen: map[float64]int{}, entropies: window{size: 299}}
}

type entropy struct {
	seen      map[float64]int
	n         int
	weighted  float64 // the sum of c log2 c over the counts c
	entropies window
}

const (
	entropyAngle = 0.048 // degrees
	entropyR2    = 0.36
	float64Step  = 0x1p-52
)

func (e *entropy) Add(sample float64) {
	e.n++
	c := e.seen[sample]
	e.seen[sample] = c + 1
	e.weighted += timesLog(c+1) - timesLog(c)
	e.entropies.push(math.Log2(float64(e.n)) - e.weighted/float64(e.n))
}

func timesLog(c int) float64 {
	if c == 0 {
		return 0
	}
	return float64(c) * math.Log2(float64(c))
}

func (e *entropy) Done() (bool, string) {
	if e.n < 2 || e.n%2 != 0 {
		return false, ""
	}
	slope, r2 := regress(e.entropies.inOrder())
	done := math.Atan(slope)*180/math.Pi <= entropyAngle && r2 >= entropyR2
	return done, fmt.Sprintf("the entropy of the samples settled at %.2f bits", e.entropies.last())
}

// regress fits a line through y over 0, 1, 2 ... and returns its slope and the
// share of the variance that it explains, 1 where there is none.
func regress(y []float64) (slope, r2 float64) {
	n := float64(len(y))
	middle, mean := (n-1)/2, sum(y)/n
	var xy, xx float64
	for i, v := range y {
		x := float64(i) - middle
		xy += x * (v - mean)
		xx += x * x
	}
	slope = xy / xx
	all := squares(y, mean)
	if all < float64Step {
		return slope, 1
	}
	var left float64
	for i, v := range y {
		off := v - mean - slope*(float64(i)-middle)
		left += off * off
	}
	return slope, 1 - left/all
}

// window keeps the last size values.
type window struct {
	size   int
	values []float64
	oldest int
}

func (w *window) push(x float64) {
	if len(w.values) < w.size {
		w.values = append(w.values, x)
		return
	}
	w.values[w.oldest] = x
	w.oldest = (w.oldest + 1) % w.size
}

func (w *window) last() float64 {
	return w.values[(w.oldest+len(w.values)-1)%len(w.values)]
}

func (w *window) inOrder() []float64 {
	return slices.Concat(w.values[w.oldest:], w.values[:w.oldest])
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }
