//go:build !race

package profiler

// RaceDetector is for the tests of both packages here.
const RaceDetector = false
