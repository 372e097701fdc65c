//go:build race

package overhead_test

const raceEnabled = true
