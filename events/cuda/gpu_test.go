package cuda_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/internal/alone"
	"example.com/devevents/internal/gputest"
)

// The tests of this file need a real device. They skip where there is none and
// fail there with DEVEVENTS_REQUIRE_GPU=1.

// Open and enumeration must not initialise a device: that takes memory on it
// and makes a context that nobody asked for. A process of its own, because every
// other test of this one initialises the device.
func TestGPUOpenInitialisesNoDevice(t *testing.T) {
	gputest.Runtime(t)
	if !alone.Run(t) {
		return
	}
	rt, err := cuda.Open()
	require.NoError(t, err)
	info := rt.Info()
	require.NotEmpty(t, info.Devices)
	for i := range info.Devices {
		_, err := rt.Device(i)
		require.NoError(t, err)
		active, known := rt.Initialized(i)
		require.True(t, known)
		require.False(t, active, "device %d has a context", i)
	}
	t.Logf("%+v", info)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	e := gputest.Event(t, dev)
	require.NotZero(t, e.Handle())
	active, _ := rt.Initialized(0)
	require.True(t, active, "the question must be able to answer yes")
}

// onBothAPIs runs a test on the device through the runtime library and through
// the driver library alone.
func onBothAPIs(t *testing.T, test func(t *testing.T, dev cuda.Device)) {
	t.Helper()
	t.Run("api=runtime", func(t *testing.T) { test(t, gputest.Device(t)) })
	t.Run("api=driver", func(t *testing.T) { test(t, gputest.DriverDevice(t)) })
}

// What one opening made is of no use to another, though both speak for the same
// device.
func TestGPUEventsOfOneAPIAreRefusedByTheOther(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		other := gputest.DriverDevice(t)
		if other == dev {
			other = gputest.Device(t)
		}
		s, e := gputest.Stream(t, dev), gputest.Event(t, other)
		require.ErrorIs(t, dev.EventRecord(e, s), events.ErrDeviceMismatch)
		require.ErrorIs(t, other.EventRecord(e, s), events.ErrDeviceMismatch)
		require.ErrorIs(t, dev.EventWait(e), events.ErrDeviceMismatch)
		require.ErrorIs(t, dev.EventDestroy(e), events.ErrDeviceMismatch)
	})
}

// gated queues work behind a closed gate, so that the time of queueing stays
// out of it, and waits for it.
func gated(t testing.TB, dev cuda.Device, s cuda.Stream, queue func()) {
	t.Helper()
	gate, err := dev.GateClose(s, 5*time.Second)
	require.NoError(t, err)
	queue()
	require.NoError(t, gate.Open())
	require.NoError(t, dev.StreamSynchronize(s))
}

func TestGPUElapsedAgreesWithTheDeviceTimer(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		start, end := gputest.Event(t, dev), gputest.Event(t, dev)
		for _, length := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
			var off []time.Duration
			for range 50 {
				var spin events.Spin
				gated(t, dev, s, func() {
					var err error
					require.NoError(t, dev.EventRecord(start, s))
					spin, err = dev.ScratchSpin(length, s)
					require.NoError(t, err)
					require.NoError(t, dev.EventRecord(end, s))
				})
				took, err := spin.Measured()
				require.NoError(t, err)
				require.GreaterOrEqual(t, took, length)
				span, err := dev.EventElapsed(start, end)
				require.NoError(t, err)
				off = append(off, span-took)
			}
			slices.Sort(off)
			t.Logf("%v: events read %v more than the device timer (median of 50; %v to %v)", length, off[25], off[0], off[49])
			require.LessOrEqual(t, off[25], 5*time.Microsecond)
			require.GreaterOrEqual(t, off[25], time.Duration(0), "events cannot read less than what ran between them")
		}
	})
}

func TestGPUThousandEventsInOrder(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		all := make([]cuda.Event, 1000)
		for i := range all {
			all[i] = gputest.Event(t, dev)
			require.NoError(t, dev.EventRecord(all[i], s))
		}
		require.NoError(t, dev.StreamSynchronize(s))
		var tick time.Duration
		last := time.Duration(-1)
		for i := range all {
			at, err := dev.EventElapsed(all[0], all[i])
			require.NoError(t, err)
			require.Greater(t, at, last, "event %d", i)
			if i > 0 {
				step, err := dev.EventElapsed(all[i-1], all[i])
				require.NoError(t, err)
				tick = gcd(tick, step)
			}
			last = at
		}
		require.Equal(t, 32*time.Nanosecond, tick)
	})
}

func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// NVIDIA/cuda-python#556, pytorch/pytorch#85796, cupy/cupy#5678
func TestGPUElapsedTellsThreeMistakesApart(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		type maker func(t *testing.T) (cuda.Event, func() error)
		states := map[string]maker{
			"fresh": func(t *testing.T) (cuda.Event, func() error) { return gputest.Event(t, dev), nil },
			"pending": func(t *testing.T) (cuda.Event, func() error) {
				e := gputest.Event(t, dev)
				gate, err := dev.GateClose(s, 5*time.Second)
				require.NoError(t, err)
				require.NoError(t, dev.EventRecord(e, s))
				return e, gate.Open
			},
			"complete": func(t *testing.T) (cuda.Event, func() error) {
				e := gputest.Event(t, dev)
				own := gputest.Stream(t, dev)
				require.NoError(t, dev.EventRecord(e, own))
				require.NoError(t, dev.EventWait(e))
				return e, nil
			},
		}
		for startName, makeStart := range states {
			for endName, makeEnd := range states {
				t.Run(startName+" to "+endName, func(t *testing.T) {
					start, openStart := makeStart(t)
					end, openEnd := makeEnd(t)
					span, err := dev.EventElapsed(start, end)
					for _, open := range []func() error{openStart, openEnd} {
						if open != nil {
							require.NoError(t, open())
						}
					}
					require.NoError(t, dev.StreamSynchronize(s))
					switch {
					case startName == "fresh" || endName == "fresh":
						require.ErrorIs(t, err, events.ErrNotRecorded)
						require.NotErrorIs(t, err, events.ErrNotReady)
						require.ErrorContains(t, err, "(400)")
						if startName != endName {
							side := "end event"
							if startName == "fresh" {
								side = "start event"
							}
							require.ErrorContains(t, err, side)
						}
					case startName == "pending" || endName == "pending":
						require.ErrorIs(t, err, events.ErrNotReady)
						require.NotErrorIs(t, err, events.ErrNotRecorded)
						require.ErrorContains(t, err, "(600)")
						if startName != endName {
							side := "end event"
							if startName == "pending" {
								side = "start event"
							}
							require.ErrorContains(t, err, side)
						}
					default:
						require.NoError(t, err)
						require.GreaterOrEqual(t, span, time.Duration(0))
					}
				})
			}
		}
		t.Run("untimed", func(t *testing.T) {
			untimed, err := dev.EventCreateUntimed(true)
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.EventDestroy(untimed)) }()
			timed, _ := states["complete"](t)
			own := gputest.Stream(t, dev)
			require.NoError(t, dev.EventRecord(untimed, own))
			require.NoError(t, dev.EventWait(untimed))
			_, err = dev.EventElapsed(timed, untimed)
			require.ErrorIs(t, err, events.ErrTimingDisabled)
			require.ErrorContains(t, err, "end event")
			require.ErrorContains(t, err, "(400)")
			_, err = dev.EventElapsed(untimed, timed)
			require.ErrorIs(t, err, events.ErrTimingDisabled)
			require.ErrorContains(t, err, "start event")
		})
	})
}

// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226
func TestGPUNeverRecordedIsNotComplete(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		e := gputest.Event(t, dev)
		done, err := dev.EventQuery(e)
		require.False(t, done)
		require.ErrorIs(t, err, events.ErrNotRecorded)
		require.ErrorIs(t, dev.EventWait(e), events.ErrNotRecorded)
		require.ErrorIs(t, dev.StreamWaitEvent(s, e), events.ErrNotRecorded)
	})
}

// ROCm/rocm-systems#9375
func TestGPUSwappedElapsedIsClampedAndCounted(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		start, end := gputest.Event(t, dev), gputest.Event(t, dev)
		require.NoError(t, dev.EventRecord(start, s))
		_, err := dev.ScratchSpin(time.Millisecond, s)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(end, s))
		require.NoError(t, dev.EventWait(end))
		before := dev.EventStats().Clamped
		span, err := dev.EventElapsed(end, start)
		require.NoError(t, err)
		require.Zero(t, span)
		require.Equal(t, before+1, dev.EventStats().Clamped)
	})
}

// pytorch/pytorch#104487, pytorch/pytorch#148594, pytorch/pytorch#176251
func TestGPUGlobalCaptureSurvivesQueriesAndWaitsElsewhere(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		capturing, other := gputest.Stream(t, dev), gputest.Stream(t, dev)
		e, captured := gputest.Event(t, dev), gputest.Event(t, dev)
		require.NoError(t, dev.EventRecord(e, other))
		require.NoError(t, dev.EventWait(e))
		buffer, err := dev.ScratchAlloc(4096)
		require.NoError(t, err)
		defer func() { require.NoError(t, dev.ScratchFree(buffer)) }()

		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, dev.CaptureBegin(capturing, events.CaptureGlobal))
		require.NoError(t, dev.ScratchMemset(buffer, 1, 4096, capturing))
		require.NoError(t, dev.EventRecord(captured, capturing))
		is, err := dev.StreamCapturing(capturing)
		require.NoError(t, err)
		require.True(t, is)
		is, err = dev.StreamCapturing(other)
		require.NoError(t, err)
		require.False(t, is)

		var wg sync.WaitGroup
		failed := make(chan error, 8)
		for g := range 8 {
			wg.Go(func() {
				mine, err := dev.EventCreate()
				if err != nil {
					failed <- err
					return
				}
				defer func() { _ = dev.EventDestroy(mine) }()
				for i := range 125 {
					err := dev.EventRecord(mine, other)
					if err == nil {
						_, err = dev.EventQuery(e)
					}
					if err == nil {
						err = dev.EventWait(mine)
					}
					if err == nil && i%25 == 0 {
						err = dev.StreamSynchronize(other)
					}
					if err != nil {
						failed <- fmt.Errorf("goroutine %d, round %d: %w", g, i, err)
						return
					}
				}
				round, err := dev.RoundBegin()
				if err != nil {
					failed <- err
					return
				}
				if done, err := dev.RoundQuery(round, e); err != nil || !done {
					failed <- fmt.Errorf("round query: %v, %w", done, err)
				}
				_ = dev.RoundEnd(round)
			})
		}
		wg.Wait()
		close(failed)
		for err := range failed {
			t.Error(err)
		}
		_, err = dev.EventQuery(e) // also on the capturing thread itself
		require.NoError(t, err)

		graph, err := dev.CaptureEnd(capturing)
		require.NoError(t, err)
		require.NoError(t, graph.Launch(capturing))
		require.NoError(t, dev.StreamSynchronize(capturing))
		require.NoError(t, graph.Close())

		// The captured event has no time. Once the capture has ended, asking is a
		// plain error.
		_, err = dev.EventElapsed(captured, e)
		require.Error(t, err)
	})
}

func TestGPUExternalEventsInAGraphAreStampedAtEachLaunch(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		start, end := gputest.Event(t, dev), gputest.Event(t, dev)
		_, err := dev.ScratchSpin(time.Microsecond, s) // the kernel is loaded before the capture
		require.NoError(t, err)
		require.NoError(t, dev.StreamSynchronize(s))

		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, dev.CaptureBegin(s, events.CaptureThreadLocal))
		require.NoError(t, dev.EventRecordExternal(start, s))
		_, err = dev.ScratchSpin(time.Millisecond, s)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecordExternal(end, s))
		graph, err := dev.CaptureEnd(s)
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, graph.Launch(s))
			require.NoError(t, dev.StreamSynchronize(s))
			span, err := dev.EventElapsed(start, end)
			require.NoError(t, err)
			require.GreaterOrEqual(t, span, time.Millisecond)
		}
		require.NoError(t, graph.Close())
	})
}

func TestGPUGateHoldsTheStreamUntilOpened(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		e := gputest.Event(t, dev)
		gate, err := dev.GateClose(s, 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		time.Sleep(20 * time.Millisecond)
		done, err := dev.EventQuery(e)
		require.NoError(t, err)
		require.False(t, done)
		require.NoError(t, gate.Open())
		require.NoError(t, dev.EventWait(e))

		gate, err = dev.GateClose(s, 20*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventWait(e), "the watchdog must let the stream go")
		require.ErrorIs(t, gate.Open(), events.ErrExpired)
	})
}

// taskflow/taskflow#546, lupinemachines/lupine#526
func TestGPUDestroyedAndZeroHandlesNeverReachTheDriver(t *testing.T) {
	onBothAPIs(t, func(t *testing.T, dev cuda.Device) {
		s := gputest.Stream(t, dev)
		e, err := dev.EventCreate()
		require.NoError(t, err)
		require.NoError(t, dev.EventRecord(e, s))
		require.NoError(t, dev.EventDestroy(e))
		require.NoError(t, dev.EventDestroy(e))
		require.ErrorIs(t, dev.EventRecord(e, s), events.ErrDestroyed)
		_, err = dev.EventQuery(e)
		require.ErrorIs(t, err, events.ErrDestroyed)
		require.ErrorIs(t, dev.EventRecord(cuda.Event{}, s), events.ErrInvalid)
		require.ErrorIs(t, dev.EventRecord(e, cuda.Stream{}), events.ErrInvalid)

		var wg sync.WaitGroup
		for range 200 {
			racy, err := dev.EventCreate()
			require.NoError(t, err)
			require.NoError(t, dev.EventRecord(racy, s))
			for range 4 {
				wg.Go(func() {
					if _, err := dev.EventQuery(racy); err != nil {
						require.ErrorIs(t, err, events.ErrDestroyed)
					}
				})
			}
			wg.Go(func() { _ = dev.EventDestroy(racy) })
			wg.Wait()
		}
	})
}

// The device's own timer, read between two moments of the host's choosing, without an
// event: what placements by events are held against.
func TestGPUTimerAnswersBetweenTwoHostReadings(t *testing.T) {
	dev := gputest.Device(t)
	s := gputest.Stream(t, dev)
	var last uint64
	var narrowest time.Duration
	for range 50 {
		q, err := dev.TimerAsk(s)
		require.NoError(t, err)
		require.Eventually(t, q.Running, 10*time.Second, 10*time.Microsecond)
		_, answered := q.Answer()
		require.False(t, answered, "before it was asked")
		before := time.Now()
		q.Ask()
		var timer uint64
		for !answered {
			timer, answered = q.Answer()
			require.Less(t, time.Since(before), 10*time.Second)
		}
		width := time.Since(before)
		require.Greater(t, timer, last)
		last = timer
		if narrowest == 0 || width < narrowest {
			narrowest = width
		}
	}
	t.Logf("narrowest bracket %v", narrowest)
	spin, err := dev.ScratchSpin(10*time.Microsecond, s)
	require.NoError(t, err)
	times, ok := spin.(interface {
		Times() (first, last uint64, err error)
	})
	require.True(t, ok)
	require.NoError(t, dev.StreamSynchronize(s))
	first, end, err := times.Times()
	require.NoError(t, err)
	require.Greater(t, first, last)
	took, err := spin.Measured()
	require.NoError(t, err)
	require.Equal(t, uint64(took), end-first)

	var open []*cuda.TimerQuestion
	for {
		q, err := dev.TimerAsk(gputest.Stream(t, dev))
		if err != nil {
			require.ErrorIs(t, err, events.ErrFull)
			break
		}
		open = append(open, q)
	}
	require.Len(t, open, 8)
	for _, q := range open {
		q.Ask()
	}
}
