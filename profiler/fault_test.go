package profiler_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// lattice/quda#693, NVIDIA/TensorRT#1469, NVIDIA/cudf#22130
func TestStickyFaultResolvesEverythingOnceAndIsToldOnce(t *testing.T) {
	for name, x := range map[string]struct {
		lose   func(*mock.Device)
		target error
	}{
		"device fault": {(*mock.Device).Lose, events.ErrDeviceFault},
		"context lost": {(*mock.Device).Reset, events.ErrContextLost},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			r := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithLogger(zap.New(core)))
			r.broken = true
			tr := r.track(t, "w")
			other := r.prof.Track(newStream(t, r), "other")
			done := tr.Stop(open(t, tr))
			r.flushed(t)
			var left, elsewhere, pending []profiler.Window
			var ms []profiler.Measurement
			for range 10 {
				left = append(left, open(t, tr))
				elsewhere = append(elsewhere, open(t, other))
				pending = append(pending, open(t, tr))
			}
			r.work(t, time.Hour)
			for _, w := range pending {
				ms = append(ms, tr.Stop(w))
			}
			reader := make(chan error, 1)
			go func() {
				_, err := ms[0].Wait(limited(t))
				reader <- err
			}()
			x.lose(r.dev)
			require.ErrorIs(t, <-reader, x.target)
			for _, m := range ms {
				refused(t, m, x.target)
			}
			eventually(t, func() bool { return quiet(r.dev) })
			calls := r.dev.CallCount(mock.OpAny)
			m, next := tr.Lap(left[0])
			refused(t, m, x.target)
			require.ErrorIs(t, next.Err(), x.target)
			for _, w := range left[1:] {
				refused(t, tr.Stop(w), x.target)
			}
			for _, w := range elsewhere {
				refused(t, other.Stop(w), x.target)
				refused(t, other.Stop(w), events.ErrInvalid) // once is enough
			}
			for range 100 {
				w := tr.Start()
				require.ErrorIs(t, w.Err(), x.target)
				refused(t, tr.Stop(w), x.target)
				require.ErrorIs(t, r.prof.Start(r.stream).Err(), x.target)
				require.ErrorIs(t, r.prof.Track(r.stream, "late").Err(), x.target)
			}
			require.NoError(t, r.prof.Flush(limited(t)))
			require.Equal(t, calls, r.dev.CallCount(mock.OpAny), "calls on a lost device")
			st := r.prof.Stats()
			require.Equal(t, uint64(30), st.Failed)
			require.Equal(t, uint64(1), st.Finished)
			require.Zero(t, st.Open)
			span(t, done)

			err := r.prof.Close()
			require.ErrorIs(t, err, x.target)
			require.NotContains(t, err.Error(), "\n", "one report, not one for each event")
			require.NotZero(t, r.prof.Stats().DestroyFailed)
			require.Equal(t, 1, logs.Len(), "%v", logs.All())
			require.Equal(t, zap.ErrorLevel, logs.All()[0].Level)
		})
	}
}

// life is everything that a program does with a profiler. It goes on whatever
// fails, but without a profiler.
func life(t *testing.T, dev *mock.Device) (prof, error) {
	t.Helper()
	s, err := dev.StreamCreateNonBlocking()
	if err != nil {
		return nil, err
	}
	other, err := dev.StreamCreateNonBlocking()
	if err != nil {
		_ = dev.StreamDestroy(s)
		return nil, err
	}
	defer func() {
		// The program's own; a refused destroy may be tried again.
		for _, mine := range []mock.Stream{s, other} {
			if dev.StreamDestroy(mine) != nil {
				_ = dev.StreamDestroy(mine)
			}
		}
	}()
	p, err := profiler.New(dev, profiler.WithWindows(16), profiler.WithCloseTimeout(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	a, b := p.Track(s, "a"), p.Track(other, "b")
	outer := a.Start()
	var ms []profiler.Measurement
	for range 3 {
		w := a.Start()
		_ = dev.Work(s, time.Microsecond)
		m, w := a.Lap(w)
		ms = append(ms, m, a.Stop(w))
		_ = b.Abandon(b.Start())
	}
	_ = dev.StreamSynchronize(s)
	_ = p.Flush(ctx)
	if dev.BeginCapture(s, events.CaptureGlobal) == nil {
		ms = append(ms, a.Stop(a.Start()))
		_, _ = dev.EndCapture(s)
	}
	b.Start()
	b.Close()
	ms = append(ms, a.Stop(outer))
	_ = dev.StreamSynchronize(s)
	for _, m := range ms {
		if got, err := m.Wait(ctx); err == nil && got.ID != m.ID() {
			t.Error("another window's span")
		}
	}
	a.Start()
	_ = p.Close()
	return p, nil
}

// Whatever call the device is lost at, no handle, no goroutine and no window is
// lost with it.
func TestDeviceLostAtEachStep(t *testing.T) {
	eachStep(t, func(n int) mock.Fault { return mock.Fault{Op: mock.OpAny, Nth: n, Lose: true} },
		func(t *testing.T, dev *mock.Device, _ prof) {
			nothingLeft(t, dev)
		})
}

// The same for a call that is refused once, with codes of each kind.
func TestCallRefusedAtEachStep(t *testing.T) {
	for _, code := range []int32{mock.CodeUnknown, mock.CodeOutOfMemory, mock.CodeCaptureImplicit} {
		eachStep(t, func(n int) mock.Fault { return mock.Fault{Op: mock.OpAny, Nth: n, Code: code} },
			func(t *testing.T, dev *mock.Device, p prof) {
				events, streams := dev.Live()
				if p == nil { // New has destroyed what it had made
					require.Zero(t, events)
					return
				}
				require.Equal(t, int(p.Stats().DestroyFailed), events+streams, "what is left is what the library would not destroy")
			})
	}
}

func eachStep(t *testing.T, fault func(n int) mock.Fault, check func(t *testing.T, dev *mock.Device, p prof)) {
	t.Helper()
	stride := count(7, 1)
	for n := 1; ; n += stride {
		dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
		dev.Script(fault(n))
		p, created := life(t, dev)
		calls := dev.CallCount(mock.OpAny)
		if p != nil {
			accounted(t, p)
		}
		check(t, dev, p)
		require.False(t, p == nil && created == nil)
		dev.System().Close()
		if int(calls) < n {
			require.Greater(t, n, 100, "the life has many steps")
			return
		}
	}
}

// A hang of the device ends with Close, within its limit.
func TestCloseDoesNotWaitForAHangingDevice(t *testing.T) {
	for name, off := range map[string]mock.Feature{
		"with queries":    0,
		"without queries": mock.FeatureQuerier | mock.FeatureRoundQuerier,
	} {
		t.Run(name, func(t *testing.T) {
			dev := mock.NewDevice(mock.Without(off))
			r := rigOn(t, dev, profiler.WithCloseTimeout(30*time.Millisecond))
			tr := r.track(t, "w")
			w := open(t, tr)
			require.NoError(t, dev.Hang(r.stream))
			m := tr.Stop(w)
			began := time.Now()
			err := r.prof.Close()
			require.Less(t, time.Since(began), 30*time.Second)
			if off == 0 {
				require.NoError(t, err)
			} else { // a goroutine of ours is in the driver
				r.broken = true
				require.ErrorIs(t, err, events.ErrExpired)
				require.ErrorContains(t, err, "1 calls wait in mock's driver")
			}
			refused(t, m, events.ErrClosed)
			dev.ReleaseHangs() // or a goroutine would wait in the driver for ever
			eventually(t, func() bool { live, _ := dev.Live(); return live == 0 })
		})
	}
}

// A call into the driver that does not return cannot be ended. Close says so and
// comes back, and so does everybody else.
func TestCloseDoesNotWaitForAHangingDriver(t *testing.T) {
	for _, op := range []mock.Op{mock.OpRoundBegin, mock.OpRoundQuery, mock.OpEventElapsed} {
		t.Run(op.String(), func(t *testing.T) {
			dev := mock.NewDevice(mock.Ideal())
			s, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			delivered := make(chan struct{}, 10)
			p, err := profiler.New(dev, profiler.WithCloseTimeout(20*time.Millisecond),
				profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { delivered <- struct{}{}; return nil })))
			require.NoError(t, err)
			tr := p.Track(s, "w")
			release := make(chan struct{})
			held := make(chan struct{})
			once := sync.OnceFunc(func() { close(held) })
			dev.Script(mock.Fault{Op: op, Hook: func() { once(); <-release }})
			m := tr.Stop(open(t, tr))
			<-held
			got := make(chan error, 2)
			go func() {
				_, err := m.Wait(limited(t))
				got <- err
			}()
			go func() { got <- p.Flush(limited(t)) }()
			time.Sleep(2 * time.Millisecond)
			require.ErrorIs(t, p.Close(), events.ErrExpired)
			require.ErrorIs(t, <-got, events.ErrClosed)
			require.ErrorIs(t, <-got, events.ErrClosed)
			refused(t, m, events.ErrClosed)
			st := p.Stats()
			require.Equal(t, uint64(1), st.Pending)
			close(release)
			require.NoError(t, dev.StreamDestroy(s))
		})
	}
}

// What an event says is believed only if it can be a duration.
// ROCm/rocm-systems#9375, ROCm/rocm-libraries#6379
func TestBadReadingsAreNeverBelieved(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, x := range map[string]struct {
		reads func(float32) float32
		want  error
	}{
		"nothing written":  {mock.Reads(nan), events.ErrBadReading},
		"infinite":         {mock.Reads(inf), events.ErrBadReading},
		"minus infinite":   {mock.Reads(-inf), events.ErrBadReading},
		"beyond 292 years": {mock.Reads(1e20), events.ErrBadReading},
		"a month":          {mock.Reads(2.6e9), events.ErrBadReading},
		"microseconds":     {func(ms float32) float32 { return 1000 * ms }, events.ErrBadReading},
		"minus 0.1 ns":     {mock.Reads(-0.0001), nil},
		"minus 1.78 ms":    {mock.Reads(-1.78), nil},
		"minus 133 ms":     {mock.Reads(-133), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, []mock.Option{mock.HostCost(800, 250, 20)})
			tr := r.track(t, "w")
			good := tr.Stop(open(t, tr))
			r.flushed(t)
			r.dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: x.reads})
			var ms []profiler.Measurement
			for range 20 {
				w := open(t, tr)
				r.work(t, time.Millisecond)
				m := tr.Stop(w)
				r.flushed(t)
				ms = append(ms, m)
			}
			for _, m := range ms {
				s, err := m.Wait(limited(t))
				if x.want != nil {
					require.ErrorIs(t, err, x.want)
					require.Zero(t, s)
					continue
				}
				// Comparisons of the clocks read as badly, so that no window may be left.
				require.Zero(t, s.Duration)
				if err == nil {
					require.Positive(t, s.Bound)
				} else {
					require.ErrorIs(t, err, events.ErrBadReading)
				}
			}
			r.dev.ClearScript()
			m := tr.Stop(open(t, tr))
			r.flushed(t)
			span(t, m)
			span(t, good)
			require.Equal(t, x.want == nil, r.dev.EventStats().Clamped > 0)
		})
	}
}

func TestNewFailsCleanly(t *testing.T) {
	for _, op := range []mock.Op{mock.OpStreamCreate, mock.OpEventCreate, mock.OpEventRecord, mock.OpEventWait, mock.OpEventElapsed} {
		dev := mock.NewDevice(mock.AutoAdvance())
		dev.Script(mock.Fault{Op: op, Nth: 1, Code: mock.CodeUnknown})
		p, err := profiler.New(dev)
		require.ErrorContains(t, err, "(999)", op)
		require.ErrorContains(t, err, fmt.Sprint(op))
		require.Nil(t, p)
		nothingLeft(t, dev)
	}
}
