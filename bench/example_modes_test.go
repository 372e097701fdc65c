package bench_test

import (
	"fmt"

	"example.com/devevents/bench"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// One copy, with a cold and with a hot cache, and as a graph. The simulated cache is four
// times as fast as memory.
func ExampleAsGraph() {
	sys := mock.New(mock.AutoAdvance(), mock.CacheOf(60<<20, 4))
	defer sys.Close()
	dev := sys.Device(0)
	timer := bench.NewDeviceEvents(dev)
	stream, err := timer.Stream()
	if err != nil {
		fmt.Println(err)
		return
	}
	runner := bench.NewRunner(bench.On(timer), bench.In(bench.GPU))
	defer runner.Release(timer)
	const bytes = 16 << 20
	bench.Group(runner, "copy", func(g *bench.GroupOf[[2]events.Buffer]) {
		g.Set(bench.Bytes(2 * bytes))
		g.Context(func(*bench.Case) (b [2]events.Buffer, err error) {
			for i := range b {
				if b[i], err = dev.ScratchAlloc(bytes); err != nil {
					return b, err
				}
			}
			return b, nil
		})
		copied := func(b [2]events.Buffer, it bench.Iters) error {
			for range it.N {
				if err := dev.ScratchCopy(b[1], b[0], bytes, stream); err != nil {
					return err
				}
			}
			return nil
		}
		g.Bench("cold", copied)
		g.Bench("hot", copied, bench.Cold(bench.ColdNone))
		g.Bench("graph", copied, bench.AsGraph())
	})
	for _, r := range runner.Report().Results {
		fmt.Printf("%-5s %.1f us, %s\n", r.Case, r.Latency.Median/1000, r.Mode)
	}
	// Output:
	// cold  10.1 us, cold (verified)
	// hot   7.4 us, hot
	// graph 10.1 us, graph, cold (verified)
}
