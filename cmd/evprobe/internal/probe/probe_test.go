package probe

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

var mockAbout = About{DeviceCount: 1}

// healthy is a full run on a device that has nothing wrong with it.
var healthy = sync.OnceValue(func() Outcome {
	return Run(context.Background(), mock.NewDevice(mock.Drift(12)), mockAbout, quick)
})

func TestHealthyDevicePassesEveryCheck(t *testing.T) {
	out := healthy()
	require.True(t, out.Complete)
	require.Nil(t, out.Unfinished)
	for _, r := range out.Results {
		if r.Name == "library" {
			require.Equal(t, Skip, r.Verdict)
			require.Contains(t, r.Reason, "loads no library")
			continue
		}
		require.Equal(t, Pass, r.Verdict, "%s: %s", r.Name, r.Reason)
		require.NotEmpty(t, r.Measurement, r.Name)
	}
	require.Equal(t, 32, number(t, byName(t, out, "tick"), "tick_ns"))
	require.Equal(t, 1, number(t, byName(t, out, "leftovers"), "clamps_provoked"))
	require.Equal(t, 1, number(t, byName(t, out, "leftovers"), "clamped_readings"))
	require.Equal(t, 1, number(t, byName(t, out, "clamp"), "counted"))
	require.Equal(t, 1000, number(t, byName(t, out, "capture"), "queries_and_waits"))
}

func TestEveryResultExplainsItself(t *testing.T) {
	unit := regexp.MustCompile(`(_ns|_ppm|_bound_ppm|_delta|_version|^events|^pending_events|^waits|^questions|^wrong_answers|^different_spans|^counted|^rounds|^queries_and_waits|^ordinal|^devices|^destroys_failed|^clamped_readings|^clamps_provoked|^fences|^waiters|^windows|^windows_finished|^windows_dropped|^anchors|^anchors_missed|^contradictions)$`)
	out := healthy()
	names := map[string]bool{}
	for _, r := range out.Results {
		require.False(t, names[r.Name], "two checks are called %s", r.Name)
		names[r.Name] = true
		require.NotEmpty(t, r.Expectation, r.Name)
		require.NotEmpty(t, r.Meaning, r.Name)
		require.NotNil(t, r.Numbers, r.Name)
		for key := range r.Numbers {
			require.Regexp(t, unit, key, "%s: a number without its unit", r.Name)
		}
		_, err := json.Marshal(r)
		require.NoError(t, err)
	}
}

// A backend without an ability is measured as far as it goes, and the probe
// says what it could not ask.
func TestMissingAbilityIsSkippedWithItsReason(t *testing.T) {
	t.Parallel()
	bare := mock.NewDevice(mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier, mock.FeatureCaptureAsker,
		mock.FeatureUntimedCreator, mock.FeatureIdentifier, mock.FeatureStatsReader, mock.FeatureStamper, mock.FeatureTimerReader, mock.FeatureGate,
		mock.FeatureScratch, mock.FeatureGraphs))
	// The brackets of a backend that can only wait are a millisecond wide here.
	out := run(t.Context(), mockAPI(bare), mockAbout, Settings{DriftSpan: 20 * time.Second},
		slices.DeleteFunc(list[mock.Event, mock.Stream](), func(c check[mock.Event, mock.Stream]) bool { return c.name == "drift" }))
	require.True(t, out.Complete)
	skipped := map[string]string{
		"library": "loads no library", "device": "Identifier", "known-work": "Scratch",
		"stream-order": "Gate", "device-timer": "TimerReader", "capture": "Graphs", "fence": "Gate", "profiler": "Scratch", "leftovers": "StatsReader",
	}
	for _, r := range out.Results {
		if reason, ok := skipped[r.Name]; ok {
			require.Equal(t, Skip, r.Verdict, "%s: %s", r.Name, r.Reason)
			require.Contains(t, r.Reason, reason, r.Name)
			continue
		}
		require.Equal(t, Pass, r.Verdict, "%s: %s", r.Name, r.Reason)
	}
	require.Contains(t, byName(t, out, "answers").Measurement, "not asked")
	require.Contains(t, byName(t, out, "handles").Measurement, "does not count")
}

// Without a gate the same things are measured behind work that lasts.
func TestSpinStandsInForAMissingGate(t *testing.T) {
	t.Parallel()
	dev := mock.NewDevice(mock.Without(mock.FeatureGate))
	for _, name := range []string{"handles", "answers", "stream-order", "fence"} {
		r := runOne(t, dev, mockAbout, name)
		require.Equal(t, Pass, r.Verdict, "%s: %s", name, r.Reason)
		require.NotContains(t, r.Measurement, "not asked")
	}
}

// noSpin has memory to fill and copy, and no work of a known length.
type noSpin struct{ *mock.Device }

func (noSpin) ScratchSpin(time.Duration, mock.Stream) (events.Spin, error) {
	return nil, events.ErrUnsupported
}

type noSpinLeaks struct{ noSpin }

func (noSpinLeaks) EventDestroy(mock.Event) error { return nil }

// Not every device has a program for work of a known length, and none may fail
// for that; what can be looked at without it still is.
func TestSpinThatIsUnsupportedIsSkippedNotFailed(t *testing.T) {
	t.Parallel()
	out := run(t.Context(), mockAPI(noSpin{mock.NewDevice(mock.Without(mock.FeatureGate))}), mockAbout, quick,
		slices.DeleteFunc(list[mock.Event, mock.Stream](), func(c check[mock.Event, mock.Stream]) bool { return c.name == "library" }))
	skipped := []string{"known-work", "stream-order", "fence", "profiler"}
	for _, r := range out.Results {
		if slices.Contains(skipped, r.Name) {
			require.Equal(t, Skip, r.Verdict, "%s: %s", r.Name, r.Reason)
			require.Contains(t, r.Reason, "ScratchSpin", r.Name)
		} else {
			require.Equal(t, Pass, r.Verdict, "%s: %s", r.Name, r.Reason)
		}
	}
	require.NotEmpty(t, byName(t, out, "fence").Measurement)
	require.NotEmpty(t, byName(t, out, "profiler").Measurement)
	r := runOne(t, noSpinLeaks{noSpin{mock.NewDevice(mock.Without(mock.FeatureGate))}}, mockAbout, "profiler")
	require.Equal(t, Fail, r.Verdict)
	require.Contains(t, r.Reason, "alive before")
}

// The checks that stand on other packages end with the run and leave nothing of
// those behind.
func TestEndOfTheRunLeavesNeitherFencesNorWindows(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]int{"fence": 22, "profiler": 30, "placement": 30} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dev := mock.NewDevice()
		dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: record, Hook: cancel})
		out := run(ctx, mockAPI(dev), mockAbout, Settings{Grace: time.Minute}, only(t, name))
		require.False(t, out.Complete, name)
		require.Equal(t, []Verdict{Skip}, verdicts(out), "%s: %s", name, out.Results[0].Reason)
		require.Contains(t, out.Results[0].Reason, "interrupted", name)
		liveEvents, liveStreams := dev.Live()
		require.Zero(t, liveEvents, name)
		require.Zero(t, liveStreams, name)
	}
}

// hangs never comes back from a wait, as a driver in trouble does, until the
// test lets it go.
type hangs struct {
	*mock.Device
	let chan struct{}
}

func (h hangs) EventWait(mock.Event) error {
	<-h.let
	return errors.New("let go")
}

// Stress and query tools hung or reported success on a dead device:
// wilicc/gpu-burn#6, canonical/checkbox#119.
func TestHangEndsTheRunWithinItsDeadlineAndNamesTheCheck(t *testing.T) {
	t.Parallel()
	api := hangs{mock.NewDevice(), make(chan struct{})}
	defer close(api.let)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	out := run(ctx, mockAPI(api), mockAbout, Settings{Grace: 20 * time.Millisecond}, only(t, "device", "record-wait", "order"))
	require.Less(t, time.Since(began), 20*time.Second)

	require.False(t, out.Complete)
	require.NotNil(t, out.Unfinished)
	require.Equal(t, "record-wait", out.Unfinished.Check)
	require.True(t, out.Unfinished.Hung)
	require.Equal(t, "waiting for event 1 of 20", out.Unfinished.Step)
	require.GreaterOrEqual(t, out.Unfinished.RunningMS, 100.0)
	require.Equal(t, []Verdict{Pass, Fail, Skip}, verdicts(out))
	require.Contains(t, out.Results[1].Reason, "hangs")
	require.Equal(t, "not run: the time ran out in check record-wait", out.Results[2].Reason)
}

func verdicts(out Outcome) []Verdict {
	var v []Verdict
	for _, r := range out.Results {
		v = append(v, r.Verdict)
	}
	return v
}

func TestSlowCheckStopsByItselfWhenTheTimeRunsOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	out := run(ctx, mockAPI(mock.NewDevice()), mockAbout, Settings{DriftSpan: time.Hour, Grace: time.Minute}, only(t, "drift", "leftovers"))
	require.False(t, out.Complete)
	require.Equal(t, "drift", out.Unfinished.Check)
	require.False(t, out.Unfinished.Hung)
	require.Contains(t, out.Unfinished.Step, "letting time pass")
	require.Equal(t, []Verdict{Skip, Skip}, verdicts(out))
	require.Contains(t, out.Results[0].Reason, "not finished: the time ran out")
}

// watcher cancels the run when a check begins.
type watcher struct {
	cancel func()
	at     string
	seen   []string
	done   []Result
}

func (w *watcher) Running(_, _ int, name, step string) {
	if step == "" {
		w.seen = append(w.seen, name)
	}
	if name == w.at {
		w.cancel()
	}
}

func (w *watcher) Done(r Result) { w.done = append(w.done, r) }

func TestInterruptIsNobodysFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &watcher{cancel: cancel, at: "drift"}
	out := run(ctx, mockAPI(mock.NewDevice()), mockAbout, Settings{Watch: w}, only(t, "device", "drift", "leftovers"))
	require.False(t, out.Complete)
	require.Equal(t, []Verdict{Pass, Skip, Skip}, verdicts(out))
	require.Contains(t, out.Results[1].Reason, "interrupted")
	require.Equal(t, []string{"device", "drift"}, w.seen)
	require.Equal(t, out.Results, w.done)
}

func TestEndedContextRunsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := run(ctx, mockAPI(mock.NewDevice()), mockAbout, Settings{}, only(t, "device", "order"))
	require.False(t, out.Complete)
	require.Nil(t, out.Unfinished)
	require.Equal(t, []Verdict{Skip, Skip}, verdicts(out))
}

type panics struct{ *mock.Device }

func (panics) EventRecord(mock.Event, mock.Stream) error { panic("nil dereference") }

func TestPanicOfABackendIsAFailedCheck(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"order", "capture"} {
		r := runOne(t, panics{mock.NewDevice()}, mockAbout, name)
		require.Equal(t, Fail, r.Verdict, name)
		require.Contains(t, r.Reason, "the backend panicked: nil dereference", name)
	}
}

// A crashed GPU must not look like fourteen separate faults, nor like success:
// pytorch/test-infra#3967.
func TestDeviceFaultStopsTheRunAndFailsOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*mock.Device){"fault": (*mock.Device).Lose, "reset": (*mock.Device).Reset} {
		dev := mock.NewDevice()
		dev.Script(mock.Fault{Op: mock.OpEventRecord, Nth: 500, Hook: func() { lose(dev) }})
		out := run(t.Context(), mockAPI(dev), mockAbout, quick, only(t, "device", "order", "tick", "leftovers"))
		require.True(t, out.Complete, name)
		require.Equal(t, []Verdict{Pass, Fail, Skip, Skip}, verdicts(out), name)
		require.Contains(t, out.Results[2].Reason, "after the fault in check order", name)
	}
}

type stuckHandles struct{ *mock.Device }

func (stuckHandles) EventDestroy(mock.Event) error {
	return &events.DriverError{Backend: "mock", Op: "EventDestroy", Code: 999}
}

func TestFailedDestroyFailsAnOtherwiseGoodCheck(t *testing.T) {
	t.Parallel()
	r := runOne(t, stuckHandles{mock.NewDevice()}, mockAbout, "order")
	require.Equal(t, Fail, r.Verdict)
	require.Contains(t, r.Reason, "handles could not be given back")
	require.Contains(t, r.Reason, "999")
}

func TestFailedCheckGivesItsHandlesBack(t *testing.T) {
	t.Parallel()
	failed := 0
	for _, c := range list[mock.Event, mock.Stream]() {
		dev := mock.NewDevice()
		dev.Script(mock.Fault{Op: mock.OpEventElapsed, Code: mock.CodeUnknown}, mock.Fault{Op: mock.OpEventWait, Nth: 3, Count: 1 << 20, Code: mock.CodeUnknown})
		if r := runOne(t, dev, mockAbout, c.name); r.Verdict == Fail {
			failed++
		}
		liveEvents, liveStreams := dev.Live()
		require.Zero(t, liveEvents, c.name)
		require.Zero(t, liveStreams, c.name)
	}
	require.GreaterOrEqual(t, failed, 8, "most checks should have failed")
}
