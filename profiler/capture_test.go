package profiler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

var captureModes = []events.CaptureMode{events.CaptureGlobal, events.CaptureThreadLocal, events.CaptureRelaxed}

// captureRig is a rig with a call log, whose end checks that no event that was
// recorded into a capture was ever asked about or waited for afterwards.
func captureRig(t *testing.T, opts ...mock.Option) *rig {
	t.Helper()
	r := newRig(t, append([]mock.Option{mock.Ideal(), mock.CallLog(1 << 16)}, opts...))
	t.Cleanup(func() { neverAsked(t, r) })
	return r
}

func neverAsked(t *testing.T, r *rig) {
	t.Helper()
	capturing := map[uint64]bool{} // streams
	captured := map[uint64]bool{}  // events
	seen := 0
	for _, c := range r.dev.Calls() {
		switch c.Op {
		case mock.OpCaptureBegin:
			capturing[c.Stream] = true
		case mock.OpCaptureEnd:
			delete(capturing, c.Stream)
		case mock.OpEventRecord:
			captured[c.Event] = capturing[c.Stream]
			if capturing[c.Stream] {
				seen++
			}
		case mock.OpEventQuery, mock.OpRoundQuery, mock.OpEventWait:
			require.False(t, captured[c.Event], "an event that was recorded in a capture was asked about: %+v", c)
		}
	}
	require.NotZero(t, seen, "the test has recorded nothing in a capture")
}

// peak-team/peak#84, NVIDIA/warp#556, ROCm/rocm-systems#2380
func TestWindowInACaptureResolvesAndHarmsNothing(t *testing.T) {
	for _, mode := range captureModes {
		for name, run := range map[string]func(t *testing.T, r *rig, tr *profiler.Track) []profiler.Measurement{
			"whole window": func(_ *testing.T, _ *rig, tr *profiler.Track) []profiler.Measurement {
				return []profiler.Measurement{tr.Stop(tr.Start())}
			},
			"nested": func(_ *testing.T, _ *rig, tr *profiler.Track) []profiler.Measurement {
				a, b := tr.Start(), tr.Start()
				return []profiler.Measurement{tr.Stop(b), tr.Stop(a)}
			},
			"laps": func(t *testing.T, r *rig, tr *profiler.Track) []profiler.Measurement {
				m, next := tr.Lap(tr.Start())
				require.ErrorIs(t, next.Err(), events.ErrCapturing)
				refused(t, tr.Stop(next), events.ErrCapturing)
				require.Equal(t, uint64(2), r.prof.Stats().Captured)
				return []profiler.Measurement{m}
			},
		} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				r := captureRig(t)
				tr := r.track(t, "w")
				before := tr.Stop(open(t, tr))
				require.NoError(t, r.dev.BeginCapture(r.stream, mode))
				ms := run(t, r, tr)
				for _, m := range ms {
					refused(t, m, events.ErrCapturing) // at Stop already
				}
				require.NoError(t, r.prof.Flush(limited(t)))
				graph, err := r.dev.EndCapture(r.stream)
				require.NoError(t, err, "the capture was harmed")
				require.NoError(t, graph.Launch(r.stream))
				span(t, before)
				after := tr.Stop(open(t, tr))
				r.flushed(t)
				span(t, after)
				require.Equal(t, uint64(2), r.prof.Stats().Finished)
			})
		}
	}
}

// A guard that knows only active captures misses those that were invalidated.
// tracel-ai/cubecl#1580, microsoft/onnxruntime#29584
func TestInvalidatedCaptureCountsAsCapture(t *testing.T) {
	r := captureRig(t)
	tr := r.track(t, "w")
	w := open(t, tr)
	require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
	inside := open(t, tr)
	require.True(t, r.dev.InvalidateCapture(r.stream))
	for _, w := range []profiler.Window{inside, w} {
		_, err := tr.Stop(w).Wait(limited(t))
		require.ErrorIs(t, err, events.ErrCapturing) // the record is refused already
	}
	require.ErrorIs(t, tr.Start().Err(), events.ErrCapturing)
	_, err := r.dev.EndCapture(r.stream)
	require.Error(t, err)
	m := tr.Stop(open(t, tr))
	r.flushed(t)
	span(t, m)
}

func TestCaptureThatBeginsOrEndsInsideTheWindow(t *testing.T) {
	t.Run("begins", func(t *testing.T) {
		r := captureRig(t)
		tr := r.track(t, "w")
		w := open(t, tr)
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
		m, next := tr.Lap(w)
		refused(t, m, events.ErrCapturing)
		require.ErrorIs(t, next.Err(), events.ErrCapturing)
		_, err := r.dev.EndCapture(r.stream)
		require.NoError(t, err)
	})
	t.Run("ends", func(t *testing.T) {
		r := captureRig(t)
		tr := r.track(t, "w")
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
		w := open(t, tr)
		_, err := r.dev.EndCapture(r.stream)
		require.NoError(t, err)
		m := tr.Stop(w) // only the end has a time
		r.flushed(t)
		refused(t, m, events.ErrCapturing)
		require.Equal(t, uint64(1), r.prof.Stats().Captured)
	})
	t.Run("between two laps", func(t *testing.T) {
		r := captureRig(t)
		tr := r.track(t, "w")
		m, w := tr.Lap(open(t, tr)) // the shared stamp is good
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
		refused(t, tr.Stop(w), events.ErrCapturing)
		_, err := r.dev.EndCapture(r.stream)
		require.NoError(t, err)
		r.flushed(t)
		span(t, m)
	})
	t.Run("ends before it is asked for", func(t *testing.T) {
		// Nobody can know then that the end was captured before it is read.
		r := newRig(t, []mock.Option{mock.Ideal()})
		tr := r.track(t, "w")
		w := open(t, tr)
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
		var ended error
		r.dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Nth: 1, Hook: func() { _, ended = r.dev.EndCapture(r.stream) }})
		m := tr.Stop(w)
		require.NoError(t, ended)
		r.flushed(t)
		refused(t, m, events.ErrCapturing)
		require.Equal(t, uint64(1), r.prof.Stats().Captured)
		// A graph may still hold the event, so that it must not be used again.
		eventually(t, func() bool { return r.dev.CallCount(mock.OpEventDestroy) == 2 })
	})
}

// Some runtimes answer the question itself with a capture error.
func TestUnclearAnswerIsACapture(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal(), mock.CallLog(1000)})
	tr := r.track(t, "w")
	w := open(t, tr)
	r.dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Nth: 1, Code: mock.CodeCaptureImplicit})
	refused(t, tr.Stop(w), events.ErrCapturing)

	// One that means nothing in particular is the window's own error, and its
	// events may not be asked about either.
	w = open(t, tr)
	r.dev.Script(mock.Fault{Op: mock.OpStreamCapturing, Nth: 1, Code: mock.CodeUnknown})
	_, err := tr.Stop(w).Wait(limited(t))
	require.ErrorContains(t, err, "(999)")
	require.NotErrorIs(t, err, events.ErrCapturing)
	m := tr.Stop(open(t, tr))
	r.flushed(t)
	span(t, m)
	st := r.prof.Stats()
	require.Equal(t, [...]uint64{1, 1, 1}, [...]uint64{st.Captured, st.Failed, st.Finished})
	var last uint64 // recorded on the stream
	unclear := map[uint64]bool{}
	for _, c := range r.dev.Calls() {
		switch {
		case c.Op == mock.OpEventRecord && c.Stream == r.stream.ID():
			last = c.Event
		case c.Op == mock.OpStreamCapturing && c.Err != nil:
			unclear[last] = true
		case c.Op == mock.OpEventQuery || c.Op == mock.OpRoundQuery:
			require.False(t, unclear[c.Event], "%+v", c)
		}
	}
	require.Len(t, unclear, 2)
}

// The events of a captured window are replaced, not used again.
func TestCapturedEventsAreRetired(t *testing.T) {
	r := captureRig(t)
	tr := r.track(t, "w")
	base, _ := r.dev.Live()
	for range count(100, 2000) {
		require.NoError(t, r.dev.BeginCapture(r.stream, events.CaptureGlobal))
		destroyed, made := r.dev.CallCount(mock.OpEventDestroy), r.dev.CallCount(mock.OpEventCreate)
		refused(t, tr.Stop(open(t, tr)), events.ErrCapturing)
		_, err := r.dev.EndCapture(r.stream)
		require.NoError(t, err)
		eventually(t, func() bool {
			return r.dev.CallCount(mock.OpEventDestroy) >= destroyed+2 && r.dev.CallCount(mock.OpEventCreate) >= made+2
		})
	}
	eventually(t, func() bool { live, _ := r.dev.Live(); return live == base })
}

// pytorch/pytorch#148594, pytorch/pytorch#176251
func TestCaptureOfANeighbourSurvivesProfiling(t *testing.T) {
	for _, mode := range captureModes {
		dev := mock.NewDevice() // in real time, with a harvester that polls all the while
		r := rigOn(t, dev, profiler.WithAnchorInterval(time.Millisecond))
		neighbour := newStream(t, r)
		tr := r.track(t, "w")
		for range count(5, 50) {
			require.NoError(t, dev.BeginCapture(neighbour, mode))
			var ms []profiler.Measurement
			for range 20 {
				w := open(t, tr)
				r.work(t, 50*us)
				ms = append(ms, tr.Stop(w))
			}
			for _, m := range ms {
				span(t, m)
			}
			require.NoError(t, r.prof.Flush(limited(t)))
			graph, err := dev.EndCapture(neighbour)
			require.NoError(t, err, mode)
			require.NoError(t, graph.Launch(neighbour))
		}
	}
}

// staleDevice reads older stamps for an event that was recorded in a capture, as
// one vendor's runtime does.
type staleDevice struct{ *mock.Device }

const staleReading = 42 * time.Nanosecond

func (staleDevice) ElapsedAfterCapture() bool { return true }

func (d staleDevice) EventElapsed(start, end mock.Event) (time.Duration, error) {
	took, err := d.Device.EventElapsed(start, end)
	if errors.Is(err, events.ErrCapturing) {
		return staleReading, nil
	}
	return took, err
}

func TestStaleReadersAreAskedAtBothEnds(t *testing.T) {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	p, err := profiler.New(staleDevice{dev})
	require.NoError(t, err)
	tr := p.Track(s, "w")

	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	w := open(t, tr)
	_, err = dev.EndCapture(s)
	require.NoError(t, err)
	refused(t, tr.Stop(w), events.ErrCapturing)

	require.NoError(t, dev.BeginCapture(s, events.CaptureGlobal))
	w = open(t, tr)
	_, err = dev.EndCapture(s)
	require.NoError(t, err)
	m, next := tr.Lap(w)
	refused(t, m, events.ErrCapturing)
	require.ErrorIs(t, next.Err(), events.ErrCapturing)

	// Outside of captures nothing changes.
	w = open(t, tr)
	require.NoError(t, dev.Work(s, time.Millisecond))
	m, next = tr.Lap(w)
	require.NoError(t, next.Err())
	require.NoError(t, dev.StreamSynchronize(s))
	require.Equal(t, time.Millisecond, span(t, m).Duration)
	require.NoError(t, tr.Abandon(next))
	require.NoError(t, p.Close())
	require.NoError(t, dev.StreamDestroy(s))
	nothingLeft(t, dev)
	accounted(t, p)
	require.Equal(t, uint64(3), p.Stats().Captured)
}
