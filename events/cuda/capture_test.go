package cuda_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// capturing captures a new stream on the calling thread while body runs.
func (r *rig) capturing(t testing.TB, mode events.CaptureMode, body func(s cuda.Stream)) (events.Graph[cuda.Stream], error) {
	t.Helper()
	s := r.stream(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, r.dev.CaptureBegin(s, mode))
	body(s)
	return r.dev.CaptureEnd(s)
}

// What is asked of a device by whoever has no part in a capture leaves the capture
// alone, and the thread as it was. pytorch/pytorch#104487, pytorch/pytorch#148594,
// pytorch/pytorch#176251, ROCm/hip#3876
func TestGlobalCaptureSurvivesOurCallsAndNotPlainOnes(t *testing.T) {
	for _, devices := range []int{1, 2} {
		t.Run(fmt.Sprintf("devices=%d", devices), func(t *testing.T) {
			onFakes(t, devices, func(t *testing.T, r *rig) {
				other, held := r.stream(t), r.stream(t)
				done := r.complete(t, other)
				_, err := r.dev.ScratchSpin(1, other)
				require.NoError(t, err)
				gate, err := r.dev.GateClose(held, time.Minute)
				require.NoError(t, err)
				pending := r.recorded(t, held)
				ours := func(mode byte) error {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					r.setMode(t, mode)
					defer r.setMode(t, 0)
					for name, do := range r.uninvolved(other, done, pending) {
						if err := do(); err != nil {
							return fmt.Errorf("%s: %w", name, err)
						}
						if got := r.ctl.Get("capture_mode"); got != int64(mode) {
							return fmt.Errorf("%s left the thread in mode %d", name, got)
						}
					}
					return nil
				}
				for _, mode := range []events.CaptureMode{events.CaptureGlobal, events.CaptureThreadLocal, events.CaptureRelaxed} {
					graph, err := r.capturing(t, mode, func(s cuda.Stream) {
						for mode := range byte(3) {
							together(4, func() {
								if err := ours(mode); err != nil {
									t.Error(err)
								}
							})
						}
						require.NoError(t, ours(0), "on the capturing thread itself")
						captured, err := r.dev.StreamCapturing(s)
						require.NoError(t, err)
						require.True(t, captured)
					})
					require.NoError(t, err, "%v", mode)
					require.NoError(t, graph.Launch(other))
					require.NoError(t, graph.Close())
				}
				require.NoError(t, gate.Open())
				require.Zero(t, r.ctl.Get("invalidated_captures"))

				// The same calls made plainly show what is kept from the capture.
				m := fakert.Bytes(8)
				for name, args := range map[string][]uintptr{
					r.fn("EventQuery"):        {done.Handle()},
					r.fn("EventSynchronize"):  {done.Handle()},
					r.fn("StreamSynchronize"): {other.Handle()},
					"cuMemAlloc_v2":           {m.Addr(), 64},
				} {
					_, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {
						together(1, func() {
							runtime.LockOSThread()
							defer runtime.UnlockOSThread()
							r.ctl.Call("cudaSetDevice", 0)
							if code := r.ctl.Call(name, args...); code != 900 {
								t.Errorf("%s: %d", name, code)
							}
						})
					})
					require.ErrorIs(t, err, events.ErrCapturing, name)
					require.ErrorContains(t, err, "(901)")
				}
				runtime.KeepAlive(m)
			})
		})
	}
}

// uninvolved is every call that may be made during a capture of another stream.
func (r *rig) uninvolved(s cuda.Stream, done, pending cuda.Event) map[string]func() error {
	dev := r.dev
	answer := func(got bool, err error, want bool) error {
		if err == nil && got != want {
			return fmt.Errorf("answered %v", got)
		}
		return err
	}
	return map[string]func() error{
		"query of a reached event": func() error { got, err := dev.EventQuery(done); return answer(got, err, true) },
		"query of a pending event": func() error { got, err := dev.EventQuery(pending); return answer(got, err, false) },
		"wait":                     func() error { return dev.EventWait(done) },
		"stream synchronize":       func() error { return dev.StreamSynchronize(s) },
		"elapsed":                  func() error { _, err := dev.EventElapsed(done, done); return err },
		"elapsed of a pending event": func() error {
			_, err := dev.EventElapsed(done, pending)
			if err == nil {
				return errors.New("there is no span yet")
			}
			return nil
		},
		"capturing": func() error { got, err := dev.StreamCapturing(s); return answer(got, err, false) },
		"round": func() error {
			round, err := dev.RoundBegin()
			if err != nil {
				return err
			}
			for range 3 {
				got, err := dev.RoundQuery(round, done)
				if err := answer(got, err, true); err != nil {
					return err
				}
				got, err = dev.RoundQuery(round, pending)
				if err := answer(got, err, false); err != nil {
					return err
				}
			}
			return dev.RoundEnd(round)
		},
		"scratch memory": func() error {
			buffer, err := dev.ScratchAlloc(64)
			if err != nil {
				return err
			}
			return dev.ScratchMemset(buffer, 0, 64, s)
		},
		"spin": func() error { _, err := dev.ScratchSpin(1, s); return err },
		"gate": func() error {
			gate, err := dev.GateClose(s, time.Minute)
			if err != nil {
				return err
			}
			return gate.Open()
		},
		"events and streams": func() error {
			e, err := dev.EventCreate()
			if err != nil {
				return err
			}
			mine, err := dev.StreamCreateNonBlocking()
			if err != nil {
				return err
			}
			for _, err := range []error{
				dev.EventRecord(e, mine), dev.StreamWaitEvent(s, e), dev.EventWait(e), dev.EventDestroy(e), dev.StreamDestroy(mine),
			} {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// The kernel is loaded and the memory is pinned at the first use, which may fall into
// a capture. pytorch/pytorch#148594
func TestFirstScratchWorkDuringACaptureLeavesItAlone(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		other := r.stream(t)
		graph, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {
			together(4, func() {
				if _, err := r.dev.ScratchSpin(time.Microsecond, other); err != nil {
					t.Error(err)
				}
			})
		})
		require.NoError(t, err)
		require.NoError(t, graph.Close())
		require.NoError(t, r.dev.StreamSynchronize(other))
		require.NoError(t, r.dev.Close())
	})
}

// An event whose record went into a capture has no time and no answer; asking
// invalidates the capture, and the code says so. NVIDIA/warp#556, peak-team/peak#84
func TestCapturedEventHasNoAnswer(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		before, e := r.complete(t, s), r.complete(t, s)
		_, err := r.capturing(t, events.CaptureGlobal, func(s cuda.Stream) {
			require.NoError(t, r.dev.EventRecord(e, s), "a record is taken up by the capture")
			// Elapsed leaves the capture alone, the stamp from before is not given.
			_, err := r.dev.EventElapsed(before, e)
			require.Error(t, err)
			_, err = r.dev.EventElapsed(e, e)
			require.Error(t, err)
			require.Zero(t, r.ctl.Get("invalidated_captures"))
			done, err := r.dev.EventQuery(e)
			require.ErrorIs(t, err, events.ErrCapturing)
			require.ErrorContains(t, err, "(907)")
			require.ErrorContains(t, err, "record again")
			require.False(t, done)
			require.Equal(t, int64(1), r.ctl.Get("invalidated_captures"))
		})
		require.ErrorIs(t, err, events.ErrCapturing)
		require.ErrorContains(t, err, "(901)")

		// The capture is over; the event still has no time, until it is recorded anew.
		for name, ask := range map[string]func() error{
			"query":   func() error { _, err := r.dev.EventQuery(e); return err },
			"wait":    func() error { return r.dev.EventWait(e) },
			"elapsed": func() error { _, err := r.dev.EventElapsed(before, e); return err },
			"span":    func() error { _, err := r.dev.EventElapsed(e, e); return err },
		} {
			require.ErrorContains(t, ask(), "(1)", name)
		}
		require.NoError(t, r.dev.EventRecord(e, s))
		require.NoError(t, r.dev.EventWait(e))
		_, err = r.dev.EventElapsed(before, e)
		require.NoError(t, err)
	})
}

// 0 is no, 1 and 2 (invalidated, and not ended) are yes, and so is the refusal to
// answer for a default stream beside a capturing stream that it waits for.
// microsoft/onnxruntime#29584, tracel-ai/cubecl#1580
func TestEveryAnswerToCapturingIsUnderstood(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		is := func(s cuda.Stream, want bool) {
			t.Helper()
			got, err := r.dev.StreamCapturing(s)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s, legacy := r.stream(t), r.dev.WrapStream(0)
		wrapped := r.dev.WrapStream(s.Handle())
		done := r.complete(t, s)
		is(s, false)
		is(legacy, false)
		require.NoError(t, r.dev.CaptureBegin(s, events.CaptureGlobal))
		is(s, true)
		is(wrapped, true)
		is(legacy, false)
		together(1, func() { r.ctl.Call("cudaEventQuery", done.Handle()) })
		require.Equal(t, int64(1), r.ctl.Get("invalidated_captures"))
		is(s, true)
		is(wrapped, true)
		_, err := r.dev.CaptureEnd(s)
		require.ErrorIs(t, err, events.ErrCapturing)
		is(s, false)

		// A stream that waits for the default stream, as most that are made elsewhere do.
		m := fakert.Bytes(8)
		require.Zero(t, r.ctl.Call("cudaStreamCreateWithFlags", m.Addr(), 0))
		blocking := r.dev.WrapStream(m.Handle(0))
		runtime.KeepAlive(m)
		require.NoError(t, r.dev.EventRecord(done, legacy)) // it is in use
		require.NoError(t, r.dev.CaptureBegin(blocking, events.CaptureThreadLocal))
		is(blocking, true)
		is(legacy, true)
		require.Zero(t, r.ctl.Get("last_error"), "the code 906 was an answer")
		graph, err := r.dev.CaptureEnd(blocking)
		require.NoError(t, err, "asking has not harmed it")
		require.NoError(t, graph.Close())
		is(legacy, false)

		restore := r.fail("StreamIsCapturing", 1)
		_, err = r.dev.StreamCapturing(s)
		restore()
		require.ErrorIs(t, err, events.ErrInvalid)
		require.ErrorContains(t, err, r.fn("StreamIsCapturing"))
	})
}

// outsideACapture tells CUDA's answer to an external record that is not in a
// capture: 401, measured on hardware.
func outsideACapture(err error) bool {
	var driver *events.DriverError
	return errors.As(err, &driver) && driver.Code == 401
}

// CUDA takes external records in captures only, and whoever goes on after the
// refusal must not read the stamps from before it.
func TestExternalRecordOutsideACaptureIsRefusedAndLeavesNoTime(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		start, end := r.complete(t, s), r.complete(t, s)
		err := r.dev.EventRecordExternal(end, s)
		require.True(t, outsideACapture(err), "%v", err)
		require.ErrorContains(t, err, r.fn("EventRecordWithFlags")+": ")
		require.ErrorContains(t, err, map[bool]string{false: "cudaErrorIllegalState (401)", true: "CUDA_ERROR_ILLEGAL_STATE (401)"}[r.driver])
		_, err = r.dev.EventElapsed(start, end)
		require.ErrorIs(t, err, events.ErrNotRecorded)
		require.ErrorIs(t, r.dev.EventWait(end), events.ErrNotRecorded)

		require.NoError(t, r.dev.EventRecord(end, s))
		require.NoError(t, r.dev.EventWait(end))
		_, err = r.dev.EventElapsed(start, end)
		require.NoError(t, err)
	})
}

// A graph's events are stamped at each launch.
func TestGraphStampsExternalEventsAtEachLaunch(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		before, start, end := r.complete(t, s), r.event(t), r.event(t)
		_, err := r.dev.ScratchSpin(1, s) // the kernel is loaded
		require.NoError(t, err)
		var spin events.Spin
		graph, err := r.capturing(t, events.CaptureThreadLocal, func(s cuda.Stream) {
			require.NoError(t, r.dev.EventRecordExternal(start, s))
			spin, err = r.dev.ScratchSpin(time.Millisecond, s)
			require.NoError(t, err)
			require.NoError(t, r.dev.EventRecordExternal(end, s))
		})
		require.NoError(t, err)
		_, err = spin.Measured()
		require.ErrorIs(t, err, events.ErrNotReady)
		_, err = r.dev.EventElapsed(start, end)
		require.Error(t, err, "not launched yet")
		last := time.Duration(-1)
		for range 3 {
			require.NoError(t, graph.Launch(s))
			require.NoError(t, r.dev.StreamSynchronize(s))
			span, err := r.dev.EventElapsed(start, end)
			require.NoError(t, err)
			require.GreaterOrEqual(t, span, time.Millisecond)
			at, err := r.dev.EventElapsed(before, end)
			require.NoError(t, err)
			require.Greater(t, at, last)
			last = at
		}
		took, err := spin.Measured()
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, took)
		require.Equal(t, int64(2), r.ctl.Get("live_graphs"))
		require.NoError(t, graph.Close())
		r.quiet(t, func() {
			require.NoError(t, graph.Close())
			require.ErrorIs(t, graph.Launch(s), events.ErrClosed)
		})
		require.Zero(t, r.ctl.Get("live_graphs"))
		require.NoError(t, r.dev.Close())
		require.Zero(t, r.ctl.Get("live_allocations"))
	})
}

// Closing waits for launches, and launches do not wait for each other.
func TestGraphClosedBesideLaunchesIsNotUsedAfterwards(t *testing.T) {
	r := open(t, 1, false)
	s := r.stream(t)
	for range 20 {
		graph, err := r.capturing(t, events.CaptureRelaxed, func(cuda.Stream) {})
		require.NoError(t, err)
		together(3,
			func() { _ = graph.Launch(s) },
			func() {
				if err := graph.Close(); err != nil {
					t.Error(err)
				}
			})
		require.ErrorIs(t, graph.Launch(s), events.ErrClosed)
	}
	require.Zero(t, r.ctl.Get("live_graphs"))
	require.Zero(t, r.ctl.Get("bad_handles"))

	graph, err := r.capturing(t, events.CaptureRelaxed, func(cuda.Stream) {})
	require.NoError(t, err)
	release := r.block(t, "GraphLaunch")
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- graph.Launch(s) }()
	}
	r.blocked(t, "GraphLaunch", 2)
	release()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.NoError(t, graph.Close())
}

// A graph that was captured and cannot be made executable is given back.
func TestGraphThatCannotBeInstantiatedIsFreed(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		restore := r.fail("GraphInstantiateWithFlags", 801)
		_, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {})
		restore()
		require.ErrorIs(t, err, events.ErrUnsupported)
		require.ErrorContains(t, err, "instantiating")
		require.Zero(t, r.ctl.Get("live_graphs"))

		graph, err := r.capturing(t, events.CaptureGlobal, func(cuda.Stream) {})
		require.NoError(t, err)
		defer r.fail("GraphExecDestroy", 999)()
		require.ErrorContains(t, graph.Close(), "(999)")
		require.Equal(t, int64(1), r.ctl.Get("live_graphs"), "the other half is freed all the same")
		require.NoError(t, graph.Close())
	})
}
