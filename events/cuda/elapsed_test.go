package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/fakert"
)

// CUDA gave elapsed a second version. Both are there here, and answer differently.
// ROCm/HIPIFY#2071, openxla/xla#30427
func TestElapsedIsThePlainFunction(t *testing.T) {
	for _, driver := range []bool{false, true} {
		r := open(t, 1, driver, fakert.ElapsedV2())
		s := r.stream(t)
		a, b := r.complete(t, s), r.complete(t, s)
		span, err := r.dev.EventElapsed(a, b)
		require.NoError(t, err)
		require.Less(t, span, time.Second, "the second version answers 7 s more")
		require.Zero(t, r.ctl.Get("calls_EventElapsedTime_v2"))
	}
}

// cpc/hipcl#5, gfx-rs/wgpu#9414, pytorch/pytorch#14287, triton-lang/triton#10700
func TestReadingsThatAreNoDurationsAreRefused(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s := r.stream(t)
		a, b := r.complete(t, s), r.complete(t, s)
		for _, ms := range []float32{
			float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, -1e30, math.MaxFloat32, 9.3e12,
		} {
			r.ctl.SetFloat("elapsed_bits", ms)
			_, err := r.dev.EventElapsed(a, b)
			require.ErrorIs(t, err, events.ErrBadReading, "%v", ms)
			var reading *events.ReadingError
			require.ErrorAs(t, err, &reading)
			require.Equal(t, fmt.Sprint(ms, " ms"), reading.Read)
			require.ErrorContains(t, err, r.fn("EventElapsedTime"))
		}
		require.Zero(t, r.dev.EventStats().Clamped)
		for ms, want := range map[float32]time.Duration{
			0: 0, 0.0005: 500, 1.5: 1500 * time.Microsecond, 3.2e-5: 32, math.SmallestNonzeroFloat32: 0, 9e12: 9_000_000_061_440 * time.Millisecond,
		} {
			r.ctl.SetFloat("elapsed_bits", ms)
			span, err := r.dev.EventElapsed(a, b)
			require.NoError(t, err)
			require.InEpsilon(t, 1+float64(want), 1+float64(span), 1e-7, "%v ms", ms)
			if want < time.Second {
				require.Equal(t, want, span)
			}
		}
		require.Zero(t, r.dev.EventStats().Clamped)
		for n, ms := range []float32{-0.0001, -1.78, -133, -1e12} {
			r.ctl.SetFloat("elapsed_bits", ms)
			span, err := r.dev.EventElapsed(a, b)
			require.NoError(t, err)
			require.Zero(t, span)
			require.Equal(t, uint64(n+1), r.dev.EventStats().Clamped, "%v", ms)
		}
		r.ctl.SetFloat("elapsed_bits", float32(math.Copysign(0, -1)))
		span, err := r.dev.EventElapsed(a, b)
		require.NoError(t, err)
		require.Zero(t, span)
		require.Equal(t, uint64(4), r.dev.EventStats().Clamped, "minus zero is zero")

		r.ctl.Set("elapsed_bits", -1)
		r.ctl.Set("elapsed_untouched", 1)
		for range 2 {
			_, err = r.dev.EventElapsed(a, b)
			require.ErrorIs(t, err, events.ErrBadReading, "success that wrote nothing")
		}
	})
}

// The driver answers all of it with two numbers, and says of neither event which it
// means. NVIDIA/cuda-python#556, pytorch/pytorch#85796, cupy/cupy#5678,
// pytorch/pytorch#151404
func TestElapsedTellsThreeMistakesApart(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, held := r.stream(t), r.stream(t)
		gate, err := r.dev.GateClose(held, time.Minute)
		require.NoError(t, err)
		create := map[string]func() (cuda.Event, error){
			"timed":   r.dev.EventCreate,
			"untimed": func() (cuda.Event, error) { return r.dev.EventCreateUntimed(false) },
		}
		states := map[string]cuda.Event{}
		for timed, create := range create {
			for state, on := range map[string]*cuda.Stream{"fresh": nil, "pending": &held, "complete": &s} {
				for _, side := range []string{"start", "end"} {
					e, err := create()
					require.NoError(t, err)
					if on != nil {
						require.NoError(t, r.dev.EventRecord(e, *on))
					}
					states[timed+" "+state+" "+side] = e
				}
			}
		}
		require.NoError(t, r.dev.StreamSynchronize(s))
		tried := 0
		for startName, start := range states {
			for endName, end := range states {
				if !strings.HasSuffix(startName, " start") || !strings.HasSuffix(endName, " end") {
					continue
				}
				tried++
				span, err := r.dev.EventElapsed(start, end)
				is := func(word string) (bool, bool) {
					return strings.Contains(startName, word), strings.Contains(endName, word)
				}
				want, number, text := error(nil), "", ""
				for _, mistake := range []struct {
					word, number string
					kind         error
				}{{"untimed", "(400)", events.ErrTimingDisabled}, {"fresh", "(400)", events.ErrNotRecorded}, {"pending", "(600)", events.ErrNotReady}} {
					first, second := is(mistake.word)
					if want != nil || !first && !second {
						continue
					}
					want, number = mistake.kind, mistake.number
					text = map[[2]bool]string{{true, true}: "start and end event ", {true, false}: ": start event ", {false, true}: ": end event "}[[2]bool{first, second}]
				}
				if want == nil {
					require.NoError(t, err, "%s to %s", startName, endName)
					require.GreaterOrEqual(t, span, time.Duration(0))
					continue
				}
				require.Zero(t, span)
				for _, kind := range []error{events.ErrTimingDisabled, events.ErrNotRecorded, events.ErrNotReady} {
					require.Equal(t, errors.Is(want, kind), errors.Is(err, kind), "%s to %s: %v", startName, endName, err)
				}
				for _, part := range []string{text, number, r.fn("EventElapsedTime")} {
					require.ErrorContains(t, err, part)
				}
			}
		}
		require.Equal(t, 36, tried)

		// One event as both ends is one mistake.
		_, err = r.dev.EventElapsed(states["timed pending start"], states["timed pending start"])
		require.ErrorIs(t, err, events.ErrNotReady)
		require.NotContains(t, err.Error(), "and end")
		span, err := r.dev.EventElapsed(states["timed complete start"], states["timed complete start"])
		require.NoError(t, err)
		require.Zero(t, span)

		require.NoError(t, gate.Open())
		require.NoError(t, r.dev.StreamSynchronize(held))
		_, err = r.dev.EventElapsed(states["timed pending start"], states["timed complete end"])
		require.NoError(t, err)
	})
}

// A record between the reading and its check must not turn a refusal into a span of
// nothing. NVIDIA/cuda-python#556
func TestElapsedBesideTheFirstRecordIsASpanOrAnError(t *testing.T) {
	r := open(t, 1, false)
	r.ctl.Set("manual_clock", 1)
	s := r.stream(t)
	start := r.complete(t, s)
	r.ctl.Set("advance_ns", 32_000)
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		end := r.event(t)
		together(1,
			func() {
				if err := r.dev.EventRecord(end, s); err != nil {
					t.Error(err)
				}
			},
			func() {
				for range 20 {
					span, err := r.dev.EventElapsed(start, end)
					if err != nil && !errors.Is(err, events.ErrNotRecorded) || err == nil && span != 32*time.Microsecond {
						t.Errorf("%v, %v", span, err)
					}
				}
			})
		require.NoError(t, r.dev.EventDestroy(end))
	}
}

// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226
func TestNeverRecordedIsRefusedWithoutAskingTheDriver(t *testing.T) {
	onFakes(t, 1, func(t *testing.T, r *rig) {
		s, other, e := r.stream(t), r.stream(t), r.event(t)
		untimed, err := r.dev.EventCreateUntimed(true)
		require.NoError(t, err)
		ask := func(e cuda.Event) {
			t.Helper()
			round, err := r.dev.RoundBegin()
			require.NoError(t, err)
			r.quiet(t, func() {
				for _, ask := range []func() error{
					func() error { _, err := r.dev.EventQuery(e); return err },
					func() error { _, err := r.dev.RoundQuery(round, e); return err },
					func() error { return r.dev.EventWait(e) },
					func() error { return r.dev.StreamWaitEvent(other, e) },
				} {
					err := ask()
					require.ErrorIs(t, err, events.ErrNotRecorded)
					require.ErrorContains(t, err, "refused")
				}
			})
			require.NoError(t, r.dev.RoundEnd(round))
			_, err = r.dev.EventElapsed(e, e)
			require.Error(t, err)
		}
		ask(e)
		ask(untimed)

		// A record that fails makes the event one that was never recorded, for
		// whatever reason it fails.
		good := r.complete(t, s)
		dead := r.stream(t)
		require.NoError(t, r.dev.StreamDestroy(dead))
		for name, record := range map[string]func() error{
			"refused": func() error {
				defer r.fail("EventRecord", 400)()
				return r.dev.EventRecord(e, s)
			},
			"refused with flags": func() error {
				defer r.fail("EventRecordWithFlags", 1)()
				return r.dev.EventRecordExternal(e, s)
			},
			"zero stream":      func() error { return r.dev.EventRecord(e, cuda.Stream{}) },
			"destroyed stream": func() error { return r.dev.EventRecord(e, dead) },
		} {
			require.NoError(t, r.dev.EventRecord(e, s))
			require.NoError(t, r.dev.EventWait(e))
			require.Error(t, record(), name)
			ask(e)
			_, err = r.dev.EventElapsed(good, e)
			require.ErrorIs(t, err, events.ErrNotRecorded, name)
			require.ErrorContains(t, err, "end event")
		}
		require.NoError(t, r.dev.EventRecord(e, s))
		require.NoError(t, r.dev.EventWait(e))
		_, err = r.dev.EventElapsed(good, e)
		require.NoError(t, err)
	})
}

// What C writes must not land where a goroutine's stack was, nor be collected.
// ebitengine/purego#158, ebitengine/purego#210
func TestWhatCWritesSurvivesFreshGoroutinesAndTheCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	onFakes(t, 2, func(t *testing.T, r *rig) {
		s := r.stream(t)
		a, b := r.complete(t, s), r.complete(t, s)
		r.ctl.SetFloat("elapsed_bits", 1.25)
		n := 1000
		if testing.Short() {
			n = 200
		}
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				deep(i%60, func() {
					span, err := r.dev.EventElapsed(a, b)
					if err != nil || span != 1250*time.Microsecond {
						t.Errorf("elapsed: %v, %v", span, err)
					}
					captured, err := r.dev.StreamCapturing(s)
					if err != nil || captured {
						t.Errorf("capturing: %v, %v", captured, err)
					}
					e, err := r.dev.EventCreate()
					if err != nil {
						t.Error(err)
						return
					}
					for _, err := range []error{r.dev.EventRecord(e, s), r.dev.EventWait(e), r.dev.EventDestroy(e)} {
						if err != nil {
							t.Error(err) // a handle that was lost on its way is unknown to the library
						}
					}
					buffer, err := r.dev.ScratchAlloc(int64(i + 1))
					if err != nil {
						t.Error(err)
						return
					}
					if err := r.dev.ScratchFree(buffer); err != nil {
						t.Error(err)
					}
					if active, known := r.rt.Initialized(0); !active || !known {
						t.Errorf("initialised: %v, %v", active, known)
					}
				})
			})
		}
		wg.Wait()
		require.Zero(t, r.ctl.Get("bad_handles"))
		require.Zero(t, r.ctl.Get("live_allocations"))
	})
}

// deep calls f with n more frames on the stack, so that the stack grows in another
// place for each n.
//
//go:noinline
func deep(n int, f func()) byte {
	var pad [64]byte
	pad[n%len(pad)] = byte(n)
	if n > 0 {
		return pad[0] + deep(n-1, f)
	}
	f()
	return pad[0]
}
