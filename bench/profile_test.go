package bench

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/schematest"
)

// A profiler's run was cold, of a number of calls that nobody had asked for, and its
// ranges were hard to find (NVIDIA/nvbench#273, NVIDIA/nvbench#188, NVIDIA/nvbench#45).
func TestProfileRunsExactlySoManyMarkedIterations(t *testing.T) {
	for _, opts := range [][]Option{nil, {CalibratedChunk()}, {Samples(100, 100)}} {
		b := newBed(t, mock.CallLog(100_000))
		var outside, inside []int64
		r := b.bench(func(it Iters) error {
			if b.dev.Profiling() {
				require.Len(t, inside, it.Index)
				inside = append(inside, it.N)
			} else {
				outside = append(outside, it.N)
			}
			return b.work(time.Microsecond)(it)
		}, append(opts, Profile(7))...)
		require.Equal(t, OK, r.Status)
		require.Equal(t, []int64{1, 1, 1, 1, 1, 1, 1}, inside)
		require.Greater(t, len(outside), 10, "it is warm")
		require.False(t, b.dev.Profiling())
		require.Equal(t, "7 iterations for a profiler, marked by the backend's profiler control", r.Stop)

		require.True(t, r.Profile)
		require.Len(t, r.Samples, 7)
		require.Nil(t, r.Latency, "nothing is computed from them")
		require.Nil(t, r.Rates)
		require.Nil(t, r.Telemetry)
		require.Zero(t, b.dev.CallCount(mock.OpTelemetryRead))
		require.EqualValues(t, 1, b.dev.CallCount(mock.OpGateClose), "the calibration's, before the first call")
		var stopped bool
		for _, c := range b.dev.Calls() {
			if c.Op == mock.OpProfilerStop {
				stopped = true
			}
			require.False(t, stopped && c.Op == mock.OpEventWait, "the device is done before the end is marked")
		}
		require.True(t, stopped)
		var text bytes.Buffer
		require.NoError(t, b.runner.Report().WriteJSON(&text))
		require.Empty(t, schematest.Load(t, benchSchema).Check(t, text.Bytes()))
		text.Reset()
		require.NoError(t, b.runner.Report().WriteTable(&text))
		require.Contains(t, text.String(), "profiled")
	}
}

func TestProfileOfAFixedChunkKeepsIt(t *testing.T) {
	b := newBed(t)
	var asked []int64
	b.bench(func(it Iters) error {
		if b.dev.Profiling() {
			asked = append(asked, it.N)
		}
		return nil
	}, FixedChunk(4), Profile(2))
	require.Equal(t, []int64{4, 4}, asked)
}

func TestProgramsOwnMarksReplaceTheDevices(t *testing.T) {
	b := newBed(t)
	var told []string
	calls := 0
	r := b.bench(func(Iters) error {
		if len(told) == 1 {
			calls++
		}
		return nil
	}, Profile(3), ProfileMarks(
		func(name string) error { told = append(told, "begin "+name); return nil },
		func(name string) error { told = append(told, "end "+name); return nil },
	))
	require.Equal(t, []string{"begin group/case", "end group/case"}, told)
	require.Equal(t, 3, calls)
	require.Contains(t, r.Stop, "marked by the program")
	require.Zero(t, b.dev.CallCount(mock.OpProfilerStart))
}

func TestProfileWithoutAnyMarksSaysSo(t *testing.T) {
	b := newBed(t, mock.Without(mock.FeatureProfilerControl))
	r := b.bench(b.work(time.Microsecond), Profile(3))
	require.Equal(t, OK, r.Status)
	require.Len(t, r.Samples, 3)
	require.Contains(t, r.Stop, "not marked")

	r = runOne(t, NewRunner(Profile(3)), func(g *GroupOf[int]) {
		g.Set(On(WallClock()), WarmUp(0, 0))
		g.Bench("host", nothing)
	})
	require.Len(t, r.Samples, 3)
	require.Contains(t, r.Stop, "not marked")
}

// Whatever happens between them, a beginning has its end.
func TestMarksEndWhateverHappens(t *testing.T) {
	bad := errors.New("bad")
	for name, fn := range map[string]func(it Iters) error{
		"error": func(Iters) error { return bad },
		"panic": func(Iters) error { panic("bad") },
		"fault": func(Iters) error { return events.ErrDeviceFault },
	} {
		b := newBed(t)
		calls := 0
		r := b.bench(func(it Iters) error {
			if !b.dev.Profiling() {
				return nil
			}
			calls++
			return fn(it)
		}, Profile(5))
		require.Equal(t, Failed, r.Status, name)
		require.EqualValues(t, 1, b.dev.CallCount(mock.OpProfilerStop), name)
		require.False(t, b.dev.Profiling(), name)
		require.LessOrEqual(t, calls, 5, name)
	}
}

func TestMarkThatFailsFailsTheCase(t *testing.T) {
	for op, text := range map[mock.Op]string{
		mock.OpProfilerStart: "marking the beginning", mock.OpProfilerStop: "marking the end",
	} {
		b := newBed(t)
		b.dev.Script(mock.Fault{Op: op, Code: mock.CodeInvalidValue})
		r := b.bench(b.work(time.Microsecond), Profile(5))
		require.Equal(t, Failed, r.Status)
		require.Contains(t, r.Stop, text)
		require.Contains(t, r.Errors[0].Text, text)
	}
	b := newBed(t)
	r := b.bench(b.work(time.Microsecond), Profile(5), ProfileMarks(func(string) error { panic("no tool") }, nil))
	require.Equal(t, Failed, r.Status)
	require.Contains(t, r.Stop, "no tool")
}

func TestFailuresBeforeTheMarksTakeNoIteration(t *testing.T) {
	b := newBed(t)
	fails := 3
	marked := 0
	r := b.bench(func(Iters) error {
		if b.dev.Profiling() {
			marked++
		} else if fails > 0 {
			fails--
			return errors.New("not yet")
		}
		return nil
	}, Profile(5))
	require.Equal(t, OK, r.Status)
	require.Equal(t, 3, r.FailedCount)
	require.Equal(t, 5, marked)
}
