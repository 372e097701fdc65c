// Command testcount turns the event stream of "go test -json" into something a
// person can read and a count that is honest.
//
//	go test -json ./... | testcount -into results
//	testcount -close results
//
// The first form prints one line for each package, the whole output of what
// failed and the reason of every skip, and appends one line for each test to
// the results file. The second reads that file, which may hold several runs of
// the same tests, and prints the closing line "N passed, N failed, N skipped".
//
// What counts: a test that has subtests is not counted beside them, unless it
// fails while they pass. A test that was run more than once counts once, and as
// failed if it failed once. A package that does not build, or whose process
// dies, is a failure of its own. Benchmarks are not tests.
package main
