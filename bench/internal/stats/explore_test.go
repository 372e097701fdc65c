package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type world struct {
	name string
	make func(r *rand.Rand) func() float64 // relative factor
}

func worlds() []world {
	ar := func(phi, sd float64) func(r *rand.Rand) func() float64 {
		return func(r *rand.Rand) func() float64 {
			x := sd * r.NormFloat64()
			return func() float64 {
				x = phi*x + math.Sqrt(1-phi*phi)*sd*r.NormFloat64()
				return math.Exp(x)
			}
		}
	}
	return []world{
		{"white", ar(0, 0.01)}, {"ar.5", ar(.5, 0.01)}, {"ar.7", ar(.7, 0.01)}, {"ar.9", ar(.9, 0.01)}, {"ar.99", ar(.99, 0.05)},
		{"spikes", func(r *rand.Rand) func() float64 {
			return func() float64 {
				f := math.Exp(0.01 * r.NormFloat64())
				if r.Float64() < 0.05 {
					f *= 1 + 3*r.Float64()
				}
				return f
			}
		}},
		{"exp", func(r *rand.Rand) func() float64 { return func() float64 { return 1 + 0.01*r.ExpFloat64() } }},
		{"drift", func(r *rand.Rand) func() float64 {
			i := 0.0
			return func() float64 { i++; return math.Exp(0.01*r.NormFloat64() + 0.0005*i) }
		}},
	}
}

func blocksOf(r *rand.Rand, next func() float64, n int, shift, q float64) (a, b [][]float64) {
	for range n {
		o := []int{0, 1, 1, 0}
		if r.IntN(2) == 1 {
			o = []int{1, 0, 0, 1}
		}
		var s [2][]float64
		for _, v := range o {
			x := 10000 * next()
			if v == 1 {
				x *= shift
			}
			if q > 0 {
				x = math.Round(x/q) * q
			}
			s[v] = append(s[v], x)
		}
		a, b = append(a, s[0]), append(b, s[1])
	}
	return
}

func TestExplore(t *testing.T) {
	for _, w := range worlds() {
		for _, th := range []float64{} {
			for _, n := range []int{10, 30} {
				var alarms, cover int
				for i := range 1000 {
					r := rand.New(rand.NewPCG(uint64(i), 7))
					a, b := blocksOf(r, w.make(r), n, 1, 32)
					f := Judge([]Effect{CompareBlocks(a, b, Question{Threshold: th, Quantum: 32})}, 1)[0]
					if f.Change == Slower || f.Change == Faster {
						alarms++
					}
					if f.CI.Lo <= 1 && f.CI.Hi >= 1 {
						cover++
					}
				}
				fmt.Println("blocks null", w.name, th, n, "alarms", alarms, "cover", cover)
			}
		}
		for _, n := range []int{20, 60, 200, 1000} {
			var alarms, cover, same int
			for i := range 1000 {
				r := rand.New(rand.NewPCG(uint64(i), 8))
				x, y := w.make(r), w.make(r)
				f := Judge([]Effect{CompareMedians(draw(n, x), draw(n, y), Question{Threshold: 0})}, 1)[0]
				if f.Change == Slower || f.Change == Faster {
					alarms++
				}
				if f.Change == Same {
					same++
				}
				if f.CI != nil && f.Needed != nil && f.CI.Lo <= 1 && f.CI.Hi >= 1 {
					cover++
				}
			}
			fmt.Println("medians null", w.name, n, "alarms", alarms, "cover", cover)
		}
	}
}
