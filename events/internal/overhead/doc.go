// Package overhead holds no code, only benchmarks and tests of what a call costs:
// the seam against bare calls on a fake runtime, and against the same calls from
// C on a real device. They live here because they need purego and the layers
// above the seam at once.
package overhead
