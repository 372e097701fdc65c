// Package gpupprof turns a profiler's windows into a profile that go tool pprof reads: the
// device's time and the number of windows by the Go code that opened them.
//
//	prof, err := profiler.New(dev, profiler.WithStacks(true))
//	mux.Handle("/debug/pprof/gpu", gpupprof.Handler(prof))
//
//	go tool pprof -http=: 'http://host/debug/pprof/gpu?seconds=10'
//
// # What a sample is
//
// A sample's stack is, from the leaf: the window as a frame "gpu:NAME", the windows it lay in,
// and the Go calls that led to Start, where the profiler was made with WithStacks(true).
// Its labels are device, stream and window, and those that the window's context carries of
// runtime/pprof (pprof.Do, pprof.WithLabels).
//
// A window's own value is its duration less that of the windows in it on the same stream, so
// that what is nested counts once, and the value of a frame with what is below it is the
// window's duration. A nested window that outlives the one it was opened in counts twice. Windows
// in one on another stream keep their time: both streams worked.
//
// What has no span is not in a profile: windows that were abandoned, failed, captured or
// dropped (profiler.Stats counts them).
//
// # Overlap
//
// Streams run side by side. Their windows' times add up, so a profile of ten seconds can
// hold thirty seconds of device time, and pprof's percentages are of that sum. Two
// windows that overlap on one stream without lying in one another count twice, too.
// Tag by stream (-tagfocus, -tagroot=stream) to see each alone.
//
// # What it costs
//
// Start takes the stack (see profiler.WithStacks); nothing else happens on the hot path. The
// sink takes about 0.1 us for a window on its own goroutine, and memory for each
// distinct stack, name, stream and set of labels, of which there are at most 65,536.
package gpupprof
