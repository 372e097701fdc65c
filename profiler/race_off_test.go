//go:build !race

package profiler_test

const raceDetector = false
