package bench_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"example.com/devevents/bench"
	"example.com/devevents/events/mock"
)

// A device's work, on a simulated device whose numbers are always the same. The median
// is longer than the work by what a pair of events costs: the floor says how much.
func Example() {
	dev := mock.NewDevice(mock.AutoAdvance())
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	timer := bench.NewDeviceEvents(dev, stream)
	r := bench.NewRunner()
	defer r.Release(timer)

	bench.Group(r, "kernels", func(g *bench.GroupOf[mock.Stream]) {
		g.Set(bench.On(timer), bench.In(bench.GPU))
		g.Context(func(*bench.Case) (mock.Stream, error) { return stream, nil })
		g.Bench("ten microseconds", func(s mock.Stream, it bench.Iters) error {
			return dev.Work(s, time.Duration(it.N)*9984*time.Nanosecond)
		})
	})

	row := r.Report().Results[0]
	fmt.Println(row.Label)
	fmt.Printf("%s: %.0f ns, floor %.0f ns, gate %s, %d of %d leaked, %s\n", row.Case,
		row.Latency.Median, row.FloorNS, row.Gate, row.Leak.Count, row.Leak.Of, row.Verdict)
	// Output:
	// timing + mock events
	// ten microseconds: 11264 ns, floor 1280 ns, gate held, 0 of 20 leaked, converged
}

// Host work: the table goes to standard output, everything with the raw samples
// to a file.
func ExampleRunner() {
	r := bench.NewRunner(bench.WallBudget(50*time.Millisecond), bench.WarmUp(time.Millisecond, 5*time.Millisecond))
	bench.Group(r, "hash", func(g *bench.GroupOf[[]byte]) {
		g.Axis("bytes", 64, 4096)
		g.Context(func(c *bench.Case) ([]byte, error) {
			n, err := c.Int("bytes")
			c.Set(bench.Bytes(n))
			return make([]byte, n), err
		})
		g.Bench("crc32", func(data []byte, it bench.Iters) error {
			for range it.N {
				crc32.ChecksumIEEE(data)
			}
			return nil
		})
	})
	path := os.TempDir() + "/hash.json"
	defer os.Remove(path)
	fmt.Println(bench.WriteFile(path, r.Report().WriteJSON))
	for _, row := range r.Report().Results {
		fmt.Println(row.Name(), row.Status, row.Latency.Median > 0)
	}
	// Output:
	// <nil>
	// hash/crc32/bytes=64 ok true
	// hash/crc32/bytes=4096 ok true
}

// Two kernels measured in turn and compared. The first one named is the base.
func ExampleGroupOf_Compare() {
	dev := mock.NewDevice(mock.AutoAdvance())
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	timer := bench.NewDeviceEvents(dev, stream)
	r := bench.NewRunner(bench.BlockSeed(1))
	defer r.Release(timer)

	bench.Group(r, "sum", func(g *bench.GroupOf[int]) {
		g.Set(bench.On(timer), bench.In(bench.GPU))
		kernel := func(span time.Duration) func(int, bench.Iters) error {
			return func(_ int, it bench.Iters) error { return dev.Work(stream, time.Duration(it.N)*span) }
		}
		g.Bench("rows", kernel(2*time.Millisecond))
		g.Bench("columns", kernel(2100*time.Microsecond))
		g.Bench("tiles", kernel(2*time.Millisecond))
		g.Compare("rows", "columns", "tiles")
	})
	for _, c := range r.Report().Comparisons {
		fmt.Printf("%s against %s: %s, %.3f of its time, in %d blocks of %d samples of each\n", c.Other, c.Base, c.Change, c.Ratio, c.N, c.PerBlock)
	}
	// Output:
	// sum/columns against sum/rows: slower, 1.050 of its time, in 30 blocks of 3 samples of each
	// sum/tiles against sum/rows: same, 1.000 of its time, in 30 blocks of 3 samples of each
}
