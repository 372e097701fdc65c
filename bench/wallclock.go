package bench

import (
	"slices"
	"time"
)

// WallClock measures with the host's monotonic clock and nothing else. It is right
// for work that is done when the function returns.
func WallClock() Backend { return &wallClock{} }

type wallClock struct{ cal Calibration }

func (w *wallClock) Label() string             { return "timing only" }
func (w *wallClock) EmitsCPUDiagnostics() bool { return false }
func (w *wallClock) Clock() Clock {
	return Clock{Name: "host monotonic", Quantum: w.cal.Quantum}
}
func (w *wallClock) Begin() error { return nil }
func (w *wallClock) End() error   { return nil }
func (w *wallClock) Collect(iv Interval) (Sample, error) {
	return Sample{Duration: iv.Host}, nil
}

func (w *wallClock) calibration(now func() int64) Calibration {
	if w.cal.Pairs == 0 {
		w.cal = hostCalibration(now)
	}
	return w.cal
}

// hostCalibration reads the clock in pairs.
func hostCalibration(now func() int64) Calibration {
	const pairs = 1000
	spans, since := make([]time.Duration, pairs), make([]time.Duration, pairs)
	origin := now()
	for i := range spans {
		before := now()
		spans[i] = time.Duration(now() - before)
		since[i] = time.Duration(before - origin)
	}
	step := quantum(spans, since)
	slices.Sort(spans)
	return Calibration{Quantum: step, Empty: spans[pairs/2], EmptyP95: spans[pairs*95/100], Pairs: pairs}
}
