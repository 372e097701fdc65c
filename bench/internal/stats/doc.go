// Package stats holds the statistics of a device benchmark: what is said about
// the samples of one case, when enough samples were taken, and how two cases
// compare.
//
// Device timings are quantised (the clock moves in ticks of, say, 32 ns), skewed
// to the right, sometimes of two modes, and not quite independent. So the median
// comes first, with an interval that assumes no distribution; nothing is removed
// as an outlier; and whatever could mistake a tick for an effect takes the tick
// as its floor. The tick is called the quantum here, and is in the unit of the
// samples: of a sample that is a span divided by 16 operations, it is a 16th of
// the clock's tick. Below 2^-23 of the median nothing counts as an effect either,
// because vendors hand spans out as float32 milliseconds.
//
// # Numbers
//
// A sample is a float64 in nanoseconds. NaN, the infinities and anything beyond
// [MaxMagnitude] are refused: left out and counted. Zero and negative samples are
// numbers like any other; [Summary] counts them. No result is ever NaN or
// infinite: what cannot be said is absent (a nil pointer, a false beside it), and
// a ratio that float64 cannot hold is the largest one it can. Arguments are never
// modified. An argument named sorted is ascending, as [Sorted] returns it.
//
// # Sources
//
// Quantiles are type 7 of Hyndman and Fyfe (1996), the default of R and NumPy.
// Intervals of quantiles are pairs of order statistics (Conover, Practical
// Nonparametric Statistics, 3.2), fences those of Tukey (1977), the drift test
// that of Mann (1945) and Kendall with its correction for ties, the test for two
// modes the dip of Hartigan and Hartigan (1985), the correction for many
// comparisons that of Holm (1979). Blocks are compared by the signed ranks of Wilcoxon
// (1945) with the interval of Hodges and Lehmann (1963), medians of two runs by batches
// and the method of Zou and Donner (2008). testdata/vectors.R and testdata/compare.py
// make the vectors that the tests compare with, in R and with SciPy.
//
// # Limits
//
// All intervals speak of the run they come from. Samples of one process share its
// clocks, its memory layout and its neighbours, and their interval does not cover
// what another process would have measured.
//
// Functions are pure and may be called from many goroutines at once; a [Stopper]
// and a [Rule] belong to one goroutine at a time. Nothing blocks, starts
// goroutines or reads a clock.
package stats
