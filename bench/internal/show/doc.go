// Package show writes numbers and tables for people to read: what the reports of package
// bench and those of bench/compare have in common.
//
// Functions are pure but for what they write, and may be called from many goroutines.
package show
