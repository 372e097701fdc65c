package compare_test

import (
	"fmt"
	"time"

	"example.com/devevents/bench"
	"example.com/devevents/bench/compare"
	"example.com/devevents/events/mock"
)

// Two runs on a simulated device, the second with a longer kernel.
func ExampleReports() {
	run := func(kernel time.Duration) *bench.Report {
		dev := mock.NewDevice(mock.AutoAdvance())
		stream, err := dev.StreamCreateNonBlocking()
		if err != nil {
			fmt.Println(err)
		}
		timer := bench.NewDeviceEvents(dev, stream)
		r := bench.NewRunner(bench.Samples(40, 40))
		defer r.Release(timer)
		bench.Group(r, "kernels", func(g *bench.GroupOf[int]) {
			g.Set(bench.On(timer), bench.In(bench.GPU))
			g.Bench("sum", func(_ int, it bench.Iters) error {
				return dev.Work(stream, time.Duration(it.N)*kernel)
			})
		})
		return r.Report()
	}
	report, err := compare.Reports(run(2*time.Millisecond), run(2100*time.Microsecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range report.Rows {
		fmt.Printf("%s: %s, %.2f times the old time\n", row.Name, row.Change, row.Ratio)
	}
	// Output:
	// kernels/sum: slower, 1.05 times the old time
}
