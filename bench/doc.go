// Package bench measures how long work takes, on a device or on the host, and says
// how far the number can be believed.
//
//	func main() {
//		bench.Main(func(r *bench.Runner) {
//			bench.Group(r, "hash", func(g *bench.GroupOf[[]byte]) {
//				g.Axis("bytes", 64, 4096)
//				g.Context(func(c *bench.Case) ([]byte, error) {
//					n, err := c.Int("bytes")
//					c.Set(bench.Bytes(n))
//					return make([]byte, n), err
//				})
//				g.Bench("crc32", func(data []byte, it bench.Iters) error {
//					for range it.N {
//						crc32.ChecksumIEEE(data)
//					}
//					return nil
//				})
//			})
//		})
//	}
//
// On a device one line more says what measures:
//
//	timer := bench.NewDeviceEvents(dev, stream)      // any events.EventApi
//	g.Set(bench.On(timer), bench.In(bench.GPU))
//
// # What is measured
//
// A sample is one call of the function, which does it.N operations. A Backend
// brackets it and decides what its duration is: WallClock and CPUCounters take the
// host's time, DeviceEvents the device's between two events. A case passes through four
// scopes: the process, the case (Context), the sample (PerSample, Round) and the
// iteration (the function), and only the last one is timed.
//
// A case calls the function once before anything else, then finds the number of
// operations of a sample where that is not fixed, warms up until the times stand
// still, and takes samples until the interval of the median is narrow enough, or a
// budget is spent, or it is clear that no budget would do. The row says which.
//
// # Comparing
//
// One line more compares cases, measured in turn so that they share what comes and goes:
//
//	g.Compare("crc32", "adler32") // the first one is the base
//
// The answer is Same, Faster, Slower or Unclear against a threshold, with the ratio, its
// interval, the smallest effect that would have been seen, and, if unclear, the number of
// samples that would settle it. Package compare, below this one, and the program
// benchcompare do what can be done with two files.
//
// # Why to believe it
//
//   - The stream is held back (events.Gate) until everything is queued, and the
//     start event is asked before it is let go: the row says in how many samples launch
//     latency may lie. A hold never lasts longer than its watchdog; a function that
//     waits for the device in one is measured again without.
//   - What the instrument reads with nothing in it is measured first and printed as a
//     floor. It is never subtracted.
//   - Three clocks a sample: until the work was queued, on the device, until it was
//     known to be done.
//   - A sample that failed is left out, counted and explained. It never becomes a
//     fast one.
//   - The median comes first, with an interval that assumes no distribution. Outliers
//     are counted and kept; drift, two modes and correlated neighbours are noted. Raw
//     samples are in the JSON in the order in which they were taken.
//   - A row is called cold only after a check: hot samples are faster, a larger fill makes
//     none slower, and the bytes fit memory's rate. Cold, rotating, hot and graph rows are
//     never set beside each other.
//   - A rate above 105 % of a declared peak is flagged, and so is work that goes on
//     after the window's end, on backends that can wait for a whole device.
//   - The device's clocks, what held them back, its temperature and energy are read over
//     exactly the window of the samples and in none of them (events.Telemetry). Samples
//     of a throttled device are tagged, and taken again if asked for.
//   - Cases run in a random order with a seed that is printed (Shuffle), with a cool-down
//     between them (CoolDown, CoolTo), if asked for.
//
// docs/bench.md has the whole list, with the test that shows each point.
//
// # When not to use it
//
// To time parts of a running program use package profiler. For host code of which a
// number is enough, package testing is simpler; package benchtest puts device time
// into a Go benchmark. Intervals speak of one process: another one may have another
// median.
//
// # Concurrency
//
// A Runner and its groups belong to one goroutine, which is locked to its OS thread
// while a case is measured. Goroutines are started only for calls that may never return:
// waits for a device that is not asked over and over, and readings of its state. Nothing
// of the package ends the process but Main.
package bench
