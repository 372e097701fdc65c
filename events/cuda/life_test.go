package cuda_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// taskflow/taskflow#546, harrism/cuda_event_benchmark#2, lupinemachines/lupine#526, PaddlePaddle/Paddle#34285
func TestNoStaleHandleReachesTheLibraryHowever(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		r.ctl.Set("reuse_handles", 1)
		rounds := 200
		if testing.Short() {
			rounds = 30
		}
		dev, other := r.dev, r.stream(t)
		two := r.device(t, 1)
		elsewhere, err := two.StreamCreateNonBlocking()
		require.NoError(t, err)
		refused := func(err error) {
			// Never recorded is what a record on the destroyed stream makes of an event.
			if err != nil && !errors.Is(err, events.ErrDestroyed) && !errors.Is(err, events.ErrNotReady) && !errors.Is(err, events.ErrNotRecorded) {
				t.Error(err)
			}
		}
		for range rounds {
			s, e, end := r.stream(t), r.event(t), r.event(t)
			require.NoError(t, dev.EventRecord(e, s))
			require.NoError(t, dev.EventRecord(end, s))
			together(4,
				func() { _, err := dev.EventQuery(e); refused(err) },
				func() { refused(dev.EventRecord(e, other)) },
				func() {
					if err := dev.EventRecordExternal(e, other); !outsideACapture(err) {
						refused(err)
					}
				},
				func() { refused(dev.EventWait(e)) },
				func() { _, err := dev.EventElapsed(e, end); refused(err) },
				func() { refused(dev.StreamWaitEvent(other, e)) },
				func() { refused(two.StreamWaitEvent(elsewhere, e)) },
				func() { _ = dev.EventRecord(end, s) },
				func() { refused(dev.StreamSynchronize(s)) },
				func() { _, err := dev.StreamCapturing(s); refused(err) },
				func() {
					round, err := dev.RoundBegin()
					if err != nil {
						t.Error(err)
						return
					}
					_, err = dev.RoundQuery(round, e)
					refused(err)
					if err := dev.RoundEnd(round); err != nil {
						t.Error(err)
					}
				},
				func() {
					made, err := dev.EventCreate() // which may get the address that was freed last
					if err != nil {
						t.Error(err)
						return
					}
					if err := dev.EventDestroy(made); err != nil {
						t.Error(err)
					}
				},
				func() {
					if err := dev.EventDestroy(e); err != nil {
						t.Error(err)
					}
				},
				func() {
					if err := dev.StreamDestroy(s); err != nil {
						t.Error(err)
					}
				},
			)
			require.ErrorIs(t, dev.EventRecord(e, other), events.ErrDestroyed)
			require.Zero(t, e.Handle())
			require.NoError(t, dev.EventDestroy(end))
		}
		require.NoError(t, dev.StreamDestroy(other))
		require.NoError(t, two.StreamDestroy(elsewhere))
		r.leavesNothing(t)
	})
}

// One call and one destroy at the same moment: whichever comes second sees the other.
// The library looks at the handle late, so that a call that slipped through is found.
// PaddlePaddle/Paddle#34285, lupinemachines/lupine#526
func TestDestroyAtTheMomentOfACall(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	r := open(t, 1, false)
	dev, s := r.dev, r.stream(t)
	good := r.complete(t, s)
	for _, c := range []struct {
		function string
		use      func(e cuda.Event, s cuda.Stream) error
	}{
		{"EventRecord", func(e cuda.Event, _ cuda.Stream) error { return dev.EventRecord(e, s) }},
		{"EventQuery", func(e cuda.Event, _ cuda.Stream) error { _, err := dev.EventQuery(e); return err }},
		{"EventSynchronize", func(e cuda.Event, _ cuda.Stream) error { return dev.EventWait(e) }},
		{"EventElapsedTime", func(e cuda.Event, _ cuda.Stream) error { _, err := dev.EventElapsed(good, e); return err }},
		{"StreamWaitEvent", func(e cuda.Event, _ cuda.Stream) error { return dev.StreamWaitEvent(s, e) }},
		{"StreamSynchronize", func(_ cuda.Event, s cuda.Stream) error { return dev.StreamSynchronize(s) }},
		{"StreamIsCapturing", func(_ cuda.Event, s cuda.Stream) error { _, err := dev.StreamCapturing(s); return err }},
	} {
		for i := range rounds {
			r.ctl.Set("slow_us_"+r.fn(c.function), 0)
			mine, e := r.stream(t), r.complete(t, s)
			r.ctl.Set("slow_us_"+r.fn(c.function), 5)
			var ready atomic.Int32
			meet := func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
			}
			done := make(chan error, 1)
			go func() {
				meet()
				done <- c.use(e, mine)
			}()
			meet()
			for range i % 128 { // the moment moves
				ready.Load()
			}
			require.NoError(t, dev.EventDestroy(e))
			require.NoError(t, dev.StreamDestroy(mine))
			if err := <-done; err != nil {
				require.ErrorIs(t, err, events.ErrDestroyed)
			}
		}
		r.ctl.Set("slow_us_"+r.fn(c.function), 0)
	}
	require.NoError(t, dev.EventDestroy(good))
	require.NoError(t, dev.StreamDestroy(s))
	r.leavesNothing(t)
}

// PaddlePaddle/Paddle#34285, lupinemachines/lupine#526
func TestUseAfterDestroyNeverReachesTheLibrary(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		dev, s := r.dev, r.stream(t)
		good, e, fresh, dead := r.complete(t, s), r.complete(t, s), r.event(t), r.stream(t)
		buffer, err := dev.ScratchAlloc(64)
		require.NoError(t, err)
		require.NoError(t, dev.CaptureBegin(dead, events.CaptureRelaxed))
		graph, err := dev.CaptureEnd(dead)
		require.NoError(t, err)
		_, err = dev.ScratchSpin(1, s) // what scratch work needs is there
		require.NoError(t, err)
		require.NoError(t, dev.StreamSynchronize(s))
		round, err := dev.RoundBegin()
		require.NoError(t, err)

		require.NoError(t, dev.EventDestroy(e))
		require.NoError(t, dev.StreamDestroy(dead))
		r.quiet(t, func() {
			require.NoError(t, dev.EventDestroy(e))
			require.NoError(t, dev.StreamDestroy(dead))
			for name, use := range map[string]func() error{
				"EventRecord":         func() error { return dev.EventRecord(e, s) },
				"EventRecordExternal": func() error { return dev.EventRecordExternal(e, s) },
				"EventQuery":          func() error { _, err := dev.EventQuery(e); return err },
				"RoundQuery":          func() error { _, err := dev.RoundQuery(round, e); return err },
				"EventWait":           func() error { return dev.EventWait(e) },
				"elapsed from":        func() error { _, err := dev.EventElapsed(e, good); return err },
				"elapsed to":          func() error { _, err := dev.EventElapsed(good, e); return err },
				"StreamWaitEvent":     func() error { return dev.StreamWaitEvent(s, e) },

				"record on":         func() error { return dev.EventRecord(fresh, dead) },
				"external on":       func() error { return dev.EventRecordExternal(fresh, dead) },
				"StreamSynchronize": func() error { return dev.StreamSynchronize(dead) },
				"StreamCapturing":   func() error { _, err := dev.StreamCapturing(dead); return err },
				"wait on":           func() error { return dev.StreamWaitEvent(dead, good) },
				"CaptureBegin":      func() error { return dev.CaptureBegin(dead, events.CaptureRelaxed) },
				"CaptureEnd":        func() error { _, err := dev.CaptureEnd(dead); return err },
				"Launch":            func() error { return graph.Launch(dead) },
				"ScratchMemset":     func() error { return dev.ScratchMemset(buffer, 0, 64, dead) },
				"ScratchCopy":       func() error { return dev.ScratchCopy(buffer, buffer, 64, dead) },
				"ScratchSpin":       func() error { _, err := dev.ScratchSpin(1, dead); return err },
				"GateClose":         func() error { _, err := dev.GateClose(dead, time.Second); return err },
			} {
				require.ErrorIs(t, use(), events.ErrDestroyed, name)
			}
		})
		require.NoError(t, dev.RoundEnd(round))
		require.NoError(t, graph.Close())
		require.NoError(t, dev.ScratchFree(buffer))
		require.NoError(t, dev.EventDestroy(good))
		require.NoError(t, dev.EventDestroy(fresh))
		require.NoError(t, dev.StreamDestroy(s))
		require.NoError(t, dev.Close())
		r.leavesNothing(t)
	})
}

// taskflow/taskflow#546
func TestZeroHandlesNeverReachTheLibrary(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		dev, s := r.dev, r.stream(t)
		e := r.complete(t, s)
		buffer, err := dev.ScratchAlloc(64)
		require.NoError(t, err)
		var noEvent cuda.Event
		var noStream cuda.Stream
		r.quiet(t, func() {
			for name, use := range map[string]func() error{
				"EventDestroy":        func() error { return dev.EventDestroy(noEvent) },
				"EventRecord":         func() error { return dev.EventRecord(noEvent, s) },
				"record on":           func() error { return dev.EventRecord(e, noStream) },
				"EventRecordExternal": func() error { return dev.EventRecordExternal(noEvent, s) },
				"EventQuery":          func() error { _, err := dev.EventQuery(noEvent); return err },
				"RoundQuery":          func() error { _, err := dev.RoundQuery(events.Round{Open: true}, noEvent); return err },
				"query out of round":  func() error { _, err := dev.RoundQuery(events.Round{}, e); return err },
				"RoundEnd":            func() error { return dev.RoundEnd(events.Round{}) },
				"EventWait":           func() error { return dev.EventWait(noEvent) },
				"elapsed from":        func() error { _, err := dev.EventElapsed(noEvent, e); return err },
				"elapsed to":          func() error { _, err := dev.EventElapsed(e, noEvent); return err },
				"StreamWaitEvent":     func() error { return dev.StreamWaitEvent(s, noEvent) },
				"wait on":             func() error { return dev.StreamWaitEvent(noStream, e) },
				"StreamSynchronize":   func() error { return dev.StreamSynchronize(noStream) },
				"StreamDestroy":       func() error { return dev.StreamDestroy(noStream) },
				"StreamCapturing":     func() error { _, err := dev.StreamCapturing(noStream); return err },
				"CaptureBegin":        func() error { return dev.CaptureBegin(noStream, events.CaptureGlobal) },
				"capture mode":        func() error { return dev.CaptureBegin(s, 3) },
				"CaptureEnd":          func() error { _, err := dev.CaptureEnd(noStream); return err },
				"ScratchFree":         func() error { return dev.ScratchFree(events.Buffer{}) },
				"no bytes":            func() error { _, err := dev.ScratchAlloc(0); return err },
				"bytes below 0":       func() error { _, err := dev.ScratchAlloc(-1); return err },
				"memset of nothing":   func() error { return dev.ScratchMemset(events.Buffer{}, 0, 1, s) },
				"memset beyond":       func() error { return dev.ScratchMemset(buffer, 0, 65, s) },
				"memset below 0":      func() error { return dev.ScratchMemset(buffer, 0, -1, s) },
				"memset on":           func() error { return dev.ScratchMemset(buffer, 0, 1, noStream) },
				"copy beyond":         func() error { return dev.ScratchCopy(buffer, buffer, 65, s) },
				"copy of nothing":     func() error { return dev.ScratchCopy(buffer, events.Buffer{}, 1, s) },
				"spin of nothing":     func() error { _, err := dev.ScratchSpin(0, s); return err },
				"spin backwards":      func() error { _, err := dev.ScratchSpin(-1, s); return err },
				"spin too long":       func() error { _, err := dev.ScratchSpin(10*time.Second+1, s); return err },
				"spin on":             func() error { _, err := dev.ScratchSpin(1, noStream); return err },
				"gate on":             func() error { _, err := dev.GateClose(noStream, time.Second); return err },
				"gate for ever":       func() error { _, err := dev.GateClose(s, 0); return err },
			} {
				require.ErrorIs(t, use(), events.ErrInvalid, name)
			}
		})
		require.NoError(t, dev.ScratchFree(buffer))
	})
}

// A destroy while a wait is in the library is left to the wait.
func TestDestroyDuringAWaitIsDoneByTheWait(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, e := r.stream(t), r.event(t)
		require.NoError(t, r.dev.EventRecord(e, s))
		release := r.block(t, "EventSynchronize")
		done := make(chan error, 2)
		go func() { done <- r.dev.EventWait(e) }()
		r.blocked(t, "EventSynchronize", 1)
		live := r.ctl.Get("live_events")
		require.NoError(t, r.dev.EventDestroy(e))
		require.NoError(t, r.dev.EventDestroy(e))
		require.ErrorIs(t, r.dev.EventWait(e), events.ErrDestroyed)
		require.Equal(t, live, r.ctl.Get("live_events"), "the wait still uses it")
		require.Equal(t, live, r.dev.EventStats().LiveEvents)
		release()
		require.NoError(t, <-done)
		require.Equal(t, live-1, r.ctl.Get("live_events"))
		require.Equal(t, live-1, r.dev.EventStats().LiveEvents)

		release = r.block(t, "StreamSynchronize")
		go func() { done <- r.dev.StreamSynchronize(s) }()
		r.blocked(t, "StreamSynchronize", 1)
		require.NoError(t, r.dev.StreamDestroy(s))
		require.Equal(t, int64(1), r.ctl.Get("live_streams"))
		release()
		require.NoError(t, <-done)
		r.leavesNothing(t)
	})
}

// A destroy that fails when it can no longer be told to anyone is counted.
func TestDestroyThatFailsLateIsCounted(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, e := r.stream(t), r.event(t)
		require.NoError(t, r.dev.EventRecord(e, s))
		release := r.block(t, "EventSynchronize")
		done := make(chan error, 1)
		go func() { done <- r.dev.EventWait(e) }()
		r.blocked(t, "EventSynchronize", 1)
		require.NoError(t, r.dev.EventDestroy(e))
		restore := r.fail("EventDestroy", 999)
		release()
		require.NoError(t, <-done, "the wait went well")
		require.Equal(t, uint64(1), r.dev.EventStats().DestroyFailed)

		second := r.complete(t, s)
		err := r.dev.EventDestroy(second)
		require.ErrorContains(t, err, r.fn("EventDestroy"))
		require.ErrorContains(t, err, "(999)")
		require.NoError(t, r.dev.EventDestroy(second), "it is gone, whatever the library said")
		require.Equal(t, uint64(1), r.dev.EventStats().DestroyFailed, "this one was told")
		restore()

		// While the process ends, the library refuses everything, and nothing is lost.
		last := r.event(t)
		defer r.fail("EventDestroy", 4)()
		require.NoError(t, r.dev.EventDestroy(last))
		require.Zero(t, r.dev.EventStats().LiveEvents)
	})
}

// Short calls announce their handles in one of a few slots, and more of them than
// there are slots are as safe.
func TestMoreCallsThanSlotsAreSafe(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		const n = 80
		type window struct {
			s          cuda.Stream
			start, end cuda.Event
		}
		windows := make([]window, n)
		for i := range windows {
			s := r.stream(t)
			windows[i] = window{s, r.complete(t, s), r.complete(t, s)}
		}
		var wg sync.WaitGroup
		calls := func(function string, call func(w window) error) (release func()) {
			release = r.block(t, function)
			for _, w := range windows {
				wg.Go(func() {
					if err := call(w); err != nil {
						t.Error(err)
					}
				})
			}
			r.blocked(t, function, n)
			return release
		}
		release := calls("EventElapsedTime", func(w window) error { _, err := r.dev.EventElapsed(w.start, w.end); return err })
		releaseMore := calls("EventRecord", func(w window) error { return r.dev.EventRecord(w.end, w.s) })
		for _, w := range windows {
			require.NoError(t, r.dev.EventDestroy(w.start))
			require.NoError(t, r.dev.EventDestroy(w.end))
			require.NoError(t, r.dev.StreamDestroy(w.s))
		}
		require.Equal(t, int64(2*n), r.ctl.Get("live_events"))
		require.Equal(t, int64(n), r.ctl.Get("live_streams"))
		release()
		releaseMore()
		wg.Wait()
		r.leavesNothing(t)
	})
}

// rapidsai/rmm#1306, NVIDIA/cuCascade#189, pytorch/pytorch#52611
func TestHandlesOfOtherDevicesAndOpeningsAreRefused(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		zero, one, twin := r.device(t, 0), r.device(t, 1), open(t, 1, r.driver)
		again := *r
		again.reopen(t) // the same library, opened again
		type handles struct {
			dev  cuda.Device
			s    cuda.Stream
			e    cuda.Event
			text string
		}
		of := func(dev cuda.Device, text string) handles {
			s, err := dev.StreamCreateNonBlocking()
			require.NoError(t, err)
			e, err := dev.EventCreate()
			require.NoError(t, err)
			require.NoError(t, dev.EventRecord(e, s))
			require.NoError(t, dev.EventWait(e))
			return handles{dev, s, e, text}
		}
		ours := of(zero, "")
		round, err := zero.RoundBegin()
		require.NoError(t, err)
		defer func() { require.NoError(t, zero.RoundEnd(round)) }()
		for _, them := range []handles{
			of(one, `of device 1, the call is on device 0`),
			of(twin.dev, `another opening.*device 0, `+twin.path+`.*device 0, `+r.path),
			of(again.dev, `another opening.*device 0, `+r.path+`.*device 0, `+r.path),
		} {
			uses := map[string]func() error{
				"EventRecord":         func() error { return zero.EventRecord(them.e, ours.s) },
				"record on":           func() error { return zero.EventRecord(ours.e, them.s) },
				"EventRecordExternal": func() error { return zero.EventRecordExternal(them.e, ours.s) },
				"external on":         func() error { return zero.EventRecordExternal(ours.e, them.s) },
				"EventQuery":          func() error { _, err := zero.EventQuery(them.e); return err },
				"RoundQuery":          func() error { _, err := zero.RoundQuery(round, them.e); return err },
				"EventWait":           func() error { return zero.EventWait(them.e) },
				"elapsed from":        func() error { _, err := zero.EventElapsed(them.e, ours.e); return err },
				"elapsed to":          func() error { _, err := zero.EventElapsed(ours.e, them.e); return err },
				"EventDestroy":        func() error { return zero.EventDestroy(them.e) },
				"wait on":             func() error { return zero.StreamWaitEvent(them.s, ours.e) },
				"StreamSynchronize":   func() error { return zero.StreamSynchronize(them.s) },
				"StreamDestroy":       func() error { return zero.StreamDestroy(them.s) },
				"StreamCapturing":     func() error { _, err := zero.StreamCapturing(them.s); return err },
				"CaptureBegin":        func() error { return zero.CaptureBegin(them.s, events.CaptureGlobal) },
				"ScratchSpin":         func() error { _, err := zero.ScratchSpin(1, them.s); return err },
				"GateClose":           func() error { _, err := zero.GateClose(them.s, time.Second); return err },
				"wrapped stream":      func() error { return zero.StreamSynchronize(them.dev.WrapStream(them.s.Handle())) },
			}
			if them.dev != one {
				uses["StreamWaitEvent"] = func() error { return zero.StreamWaitEvent(ours.s, them.e) }
			}
			r.quiet(t, func() {
				for name, use := range uses {
					err := use()
					require.ErrorIs(t, err, events.ErrDeviceMismatch, name)
					require.Regexp(t, them.text, err.Error(), name)
				}
			})
			require.NoError(t, them.dev.EventRecord(them.e, them.s), "it is unharmed")
			require.NoError(t, them.dev.EventWait(them.e))
		}
		require.NoError(t, zero.EventRecord(ours.e, ours.s))
		there := of(one, "")
		require.NoError(t, one.StreamWaitEvent(there.s, ours.e), "waiting for another device's event is legal")
		require.NoError(t, one.EventDestroy(there.e))
		require.ErrorIs(t, zero.StreamWaitEvent(ours.s, there.e), events.ErrDestroyed)
	})
}

func TestWrappedStreamsAreTheirMakers(t *testing.T) {
	onFakes(t, 2, func(t *testing.T, r *rig) {
		made := r.stream(t)
		wrapped := r.dev.WrapStream(made.Handle())
		require.Equal(t, wrapped, r.dev.WrapStream(made.Handle()))
		require.NotEqual(t, wrapped, made)
		require.NotEqual(t, wrapped, r.dev.WrapStream(0))
		require.NotEqual(t, wrapped, r.device(t, 1).WrapStream(made.Handle()))
		require.Equal(t, made.Handle(), wrapped.Handle())
		r.quiet(t, func() {
			for _, s := range []cuda.Stream{wrapped, r.dev.WrapStream(0)} {
				err := r.dev.StreamDestroy(s)
				require.ErrorIs(t, err, events.ErrInvalid)
				require.ErrorContains(t, err, "wrapped")
			}
		})
		for name, s := range map[string]cuda.Stream{
			"made elsewhere": wrapped, "default": r.dev.WrapStream(0), "legacy": r.dev.WrapStream(1), "per thread": r.dev.WrapStream(2),
		} {
			start, end := r.event(t), r.event(t)
			require.NoError(t, r.dev.EventRecord(start, s), name)
			require.NoError(t, r.dev.EventRecord(end, s))
			require.NoError(t, r.dev.StreamSynchronize(s))
			done, err := r.dev.EventQuery(end)
			require.NoError(t, err)
			require.True(t, done)
			span, err := r.dev.EventElapsed(start, end)
			require.NoError(t, err)
			require.GreaterOrEqual(t, span, time.Duration(0))
			require.NoError(t, r.dev.StreamWaitEvent(s, end))
			captured, err := r.dev.StreamCapturing(s)
			require.NoError(t, err)
			require.False(t, captured)
			require.NoError(t, r.dev.EventDestroy(start))
			require.NoError(t, r.dev.EventDestroy(end))
		}
		require.NoError(t, r.dev.StreamDestroy(made))
		r.leavesNothing(t)
	})
}

// The flags decide whether a wait burns a core and whether an event costs the device
// a stamp. pytorch/pytorch#82061, cupy/cupy#7911
func TestEventsAreMadeWithTheFlagsThatWereAskedFor(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		r.event(t)
		require.Equal(t, int64(0), r.ctl.Get("last_create_flags"))
		_, err := r.dev.EventCreateUntimed(false)
		require.NoError(t, err)
		require.Equal(t, int64(2), r.ctl.Get("last_create_flags"), "no timing")
		_, err = r.dev.EventCreateUntimed(true)
		require.NoError(t, err)
		require.Equal(t, int64(3), r.ctl.Get("last_create_flags"), "no timing, blocking wait")
		s := r.stream(t)
		require.Equal(t, int64(1), r.ctl.Get("last_stream_flags"), "non-blocking")
		require.NoError(t, r.dev.StreamWaitEvent(s, r.complete(t, s)))
		require.Equal(t, int64(0), r.ctl.Get("last_wait_flags"))
		_, err = r.capturing(t, events.CaptureRelaxed, func(s cuda.Stream) {
			require.NoError(t, r.dev.EventRecordExternal(r.event(t), s))
		})
		require.NoError(t, err)
		require.Equal(t, int64(1), r.ctl.Get("last_record_flags"), "external")
	})
}

// golang/go#49057: every call blocked in C is an OS thread, and all of them end.
func TestManyBlockedWaitsAllReturn(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		n := 500
		if testing.Short() {
			n = 60
		}
		var wg sync.WaitGroup
		release := r.block(t, "EventSynchronize")
		for range n {
			wg.Go(func() {
				e, err := r.dev.EventCreate()
				if err == nil {
					err = r.dev.EventRecord(e, s)
				}
				if err == nil {
					err = r.dev.EventWait(e)
				}
				if err == nil {
					err = r.dev.EventDestroy(e)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		r.blocked(t, "EventSynchronize", int64(n))
		// What does not wait is not held up.
		done, err := r.dev.EventQuery(r.recorded(t, s))
		require.NoError(t, err)
		require.True(t, done)
		r.ctl.Set("slow_us_"+r.fn("EventSynchronize"), 5000)
		release()
		wg.Wait()
		require.NoError(t, r.dev.StreamDestroy(s))
		require.NoError(t, r.dev.Close())
		require.Equal(t, int64(1), r.ctl.Get("live_events"))
		require.Equal(t, int64(1), r.dev.EventStats().LiveEvents)
		require.Zero(t, r.ctl.Get("live_streams"))
		require.Zero(t, r.ctl.Get("live_allocations"))
	})
}

// ebitengine/purego#451, ebitengine/purego#453
func TestReturnedPointersDoNotCross(t *testing.T) {
	_, ctl := build(t)
	length := time.Second
	if testing.Short() {
		length = 200 * time.Millisecond
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := uintptr(0); time.Now().Before(end); i++ {
				want := uintptr(g+1)<<32 | i
				if got := ctl.Echo(want); got != want {
					t.Errorf("sent %x and got %x", want, got)
					return
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
}
