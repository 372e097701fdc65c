package probe

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
)

func TestChecksKeepTheReadingsThatPicturesAreMadeOf(t *testing.T) {
	t.Parallel()
	for check, name := range map[string]string{"order": "event_deltas", "cost": "round_trips", "drift": "clock_residual"} {
		r := byName(t, healthy(), check)
		require.Len(t, r.Series, 1, check)
		s := r.Series[0]
		require.Equal(t, name, s.Name)
		require.Equal(t, "ns", s.Unit)
		require.GreaterOrEqual(t, len(s.Values), 20)
		require.LessOrEqual(t, len(s.Values), maxReadings)
		if s.At != nil {
			require.Len(t, s.At, len(s.Values))
		}
	}
}

func TestResidualsAreZeroOnAStraightLineAndShowABend(t *testing.T) {
	second := time.Second
	at, off := residuals([]place{{second, second + 4000}, {2 * second, 2*second + 8000}, {4 * second, 4*second + 16000}})
	require.Equal(t, []float64{0, 1, 2, 4}, at)
	require.Equal(t, []time.Duration{0, 0, 0, 0}, off)
	_, off = residuals([]place{{second, second + 600}, {2 * second, 2 * second}})
	require.Equal(t, []time.Duration{-200, 400, -200}, off)
	_, off = residuals([]place{{0, 600}})
	require.Equal(t, []time.Duration{-300, 300}, off, "a host's clock that stands still has no rate")
}

func TestStepLimitCountsFromTheLastChangeOfStep(t *testing.T) {
	l := stepLimit{limit: time.Second}
	begin := time.Unix(100, 0)
	require.False(t, l.exceeded("a", begin))
	require.False(t, l.exceeded("a", begin.Add(999*time.Millisecond)))
	require.False(t, l.exceeded("b", begin.Add(time.Second)))
	require.False(t, l.exceeded("b", begin.Add(1999*time.Millisecond)))
	require.True(t, l.exceeded("b", begin.Add(2*time.Second)))
	none := stepLimit{}
	none.exceeded("a", begin)
	require.False(t, none.exceeded("a", begin.Add(time.Hour)))
}

// A driver that hangs is named after the limit of one step, not after that of the
// whole run, which may be long.
func TestStepThatHangsEndsTheRunAndIsNamed(t *testing.T) {
	t.Parallel()
	api := hangs{mock.NewDevice(), make(chan struct{})}
	defer close(api.let)
	out := run(t.Context(), mockAPI(api), mockAbout, Settings{Grace: 20 * time.Millisecond, StepLimit: 200 * time.Millisecond}, only(t, "device", "record-wait", "order"))
	require.False(t, out.Complete)
	require.True(t, out.Unfinished.StepLimit)
	require.True(t, out.Unfinished.Hung)
	require.Equal(t, "waiting for event 1 of 20", out.Unfinished.Step)
	require.Equal(t, []Verdict{Pass, Fail, Skip}, verdicts(out))
	require.Equal(t, "not run: one step took too long in check record-wait", out.Results[2].Reason)
}

func TestOnlyTheNamedChecksRun(t *testing.T) {
	t.Parallel()
	out := Run(context.Background(), mockAPI(mock.NewDevice()), mockAbout, Settings{Only: []string{"tick", "device"}})
	require.Len(t, out.Results, 2)
	require.Equal(t, "device", out.Results[0].Name)
	require.Equal(t, "tick", out.Results[1].Name)
}

func TestFailureByACodeKeepsTheCode(t *testing.T) {
	t.Parallel()
	dev := mock.NewDevice()
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Code: mock.CodeUnknown})
	r := runOne(t, dev, mockAbout, "order")
	require.Equal(t, Fail, r.Verdict)
	require.Equal(t, int32(999), r.Code)
	require.Equal(t, "mockErrorUnknown", r.CodeName)
	require.Zero(t, byName(t, healthy(), "order").Code)
}

func TestCheckThatDidNotRunStillExplainsItself(t *testing.T) {
	for _, name := range Names() {
		r := NotRun(name, Skip, "interrupted")
		require.NotEmpty(t, r.Meaning, name)
		require.Equal(t, r.Expectation, Expectation(name))
		require.Equal(t, "interrupted", r.Reason)
	}
	require.Empty(t, Expectation("no such check"))
}
