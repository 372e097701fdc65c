// Package eventstest is the contract of events.EventApi as a test suite. Any
// backend runs it, whoever wrote it; it needs nothing but the standard library.
//
//	func TestContract(t *testing.T) {
//		eventstest.Run(t, eventstest.Backend[toy.Event, toy.Stream]{
//			Open: func(t testing.TB) events.EventApi[toy.Event, toy.Stream] {
//				dev := toy.Open()
//				t.Cleanup(dev.Close)
//				return dev
//			},
//			Work: func(api events.EventApi[toy.Event, toy.Stream], s toy.Stream, d time.Duration) error {
//				return api.(*toy.Device).Sleep(s, d)
//			},
//		})
//	}
//
// Each rule is a subtest with a name, run once on the backend itself and once
// through events.Erase. A broken rule prints one sentence that says what must
// hold, and below it what was seen instead. Rules about an ability that the
// backend does not offer are skipped, and the skip says so.
//
// # What it is not for
//
// It does not measure how fast or how exact a backend is, and a device that
// passes can still be slow. Limits of time in it only tell a call that waits
// from one that does not.
//
// # Concurrency
//
// Run uses the backend from many goroutines, and is worth running under the race
// detector too. It expects to be the only user of its opening's counters, and the
// number of the process's other goroutines to stay as it is. Storm is such company,
// on another opening of the library. Where something else uses the same opening, put
// the rules "leaks", "leaks-after-errors", "live-counts", "concurrent-use",
// "concurrent-destroy" and "goroutines" on the Skip list.
package eventstest
