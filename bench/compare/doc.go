// Package compare says what has become faster or slower from one report of package bench
// to another: two commits, two drivers, two settings.
//
//	report, err := compare.Files("old.json", "new.json")
//	if err == nil {
//		err = report.WriteTable(os.Stdout)
//	}
//
// Rows are compared that both reports have, each by the medians of its samples, with an
// interval that allows for samples which resemble their neighbours. A difference below
// the threshold, 1 %, is none. The more rows there are, the surer each answer must be:
// the chance that even one row which is the same is called slower or faster stays at 5 %.
// Reports of another machine, device, driver, or of rows measured with another
// instrument, are refused.
//
// # When not to use it
//
// Two runs of one binary differ by more than their samples show: by the memory's layout,
// by the clocks and the temperature of the hour. Nothing in the files tells. Where the
// question is a percent, measure both in one run with GroupOf.Compare of package bench,
// where they share all that. What two files show reliably is what is larger than the
// difference between two runs of one commit; find that out first, and set the threshold
// above it.
//
// # Concurrency
//
// Functions may be called from many goroutines at once. They read files, where they are
// given paths, start no goroutines, and wait for nothing else.
package compare
