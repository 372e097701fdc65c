// Command custom_backend measures with a backend of its own. The backend stands for
// any device API: it says how much of the host's time the device took, the runner does
// the rest.
//
//	go run ./examples/custom_backend
package main

import (
	"flag"
	"io"
	"os"
	"time"

	"example.com/devevents/bench"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// claimed is a backend that claims that the device took 0.85 of the host's time. A
// real one would ask the device in Begin, End and Collect, and pass its errors on.
type claimed struct{ metrics []bench.Metric }

func (*claimed) Label() string             { return "timing + custom device events" }
func (*claimed) EmitsCPUDiagnostics() bool { return false }
func (*claimed) Clock() bench.Clock        { return bench.Clock{Name: "host monotonic"} }
func (*claimed) Begin() error              { return nil }
func (*claimed) End() error                { return nil }

func (c *claimed) Collect(iv bench.Interval) (bench.Sample, error) {
	host := float64(iv.Host) / float64(time.Millisecond)
	device := 0.85 * host
	c.metrics = append(c.metrics[:0],
		bench.Metric{Name: "cuda_event_ms", Unit: "ms", Value: bench.Float(device)},
		bench.Metric{Name: "host_overhead_ms", Unit: "ms", Value: bench.Float(host - device)})
	return bench.Sample{Duration: iv.Host, Metrics: c.metrics}, nil
}

// gemm is a small matrix product; real work would be the device's.
type gemm struct {
	n       int
	a, b, c []float32
}

func newGemm(*bench.Case) (*gemm, error) {
	const n = 64
	g := &gemm{n: n, a: make([]float32, n*n), b: make([]float32, n*n), c: make([]float32, n*n)}
	for i := range g.a {
		g.a[i], g.b[i] = float32(i%7), float32(i%5)
	}
	return g, nil
}

func (g *gemm) flops() float64 { return 2 * float64(g.n) * float64(g.n) * float64(g.n) }

func (g *gemm) multiply() {
	for i := range g.n {
		row := g.c[i*g.n : (i+1)*g.n]
		clear(row)
		for k := range g.n {
			x := g.a[i*g.n+k]
			for j, y := range g.b[k*g.n : (k+1)*g.n] {
				row[j] += x * y
			}
		}
	}
}

func run(args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("custom_backend", flag.ContinueOnError)
	return bench.Run(flags, args, out, errOut, func(r *bench.Runner) {
		bench.Group(r, "custom", func(g *bench.GroupOf[*gemm]) {
			g.Set(bench.On(&claimed{}), bench.In(bench.GPU), bench.FixedChunk(4))
			g.Context(newGemm)
			g.BenchSample("fp4_gemm", func(m *gemm, it bench.Iters) (bench.Done, error) {
				began := time.Now()
				for range it.N {
					m.multiply()
				}
				tflops := m.flops() * float64(it.N) / time.Since(began).Seconds() / 1e12
				return bench.Done{Metrics: []bench.Metric{
					{Name: "tflops", Unit: "TFLOP/s", Value: bench.Float(tflops)},
				}}, nil
			})
		})
	})
}
