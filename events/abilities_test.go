package events_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// reluctant has the methods of every ability and offers those in its list.
type reluctant struct {
	*mock.Device
	offers []any
}

func (r *reluctant) Offers(ability any) bool {
	for _, o := range r.offers {
		if o == ability {
			return true
		}
	}
	return false
}

// An old library lacks a function that the Go type has a method for; a type
// assertion believed the method, and the call failed days later:
// chelsea0x3b/cudarc#422, NVIDIA/go-nvlib#87.
func TestAbilityAsksTheDeviceAndNotTheType(t *testing.T) {
	dev := &reluctant{device(t), []any{(*events.Querier[mock.Event])(nil)}}
	_, ok := any(dev).(events.Identifier)
	require.True(t, ok, "the type has the method")
	id, ok := events.Ability[events.Identifier](dev)
	require.False(t, ok)
	require.Nil(t, id, "what is not offered is not handed out either")
	q, ok := events.Ability[events.Querier[mock.Event]](dev)
	require.True(t, ok)
	require.Same(t, dev, q)

	erased := events.Erase[mock.Event, mock.Stream](dev)
	_, ok = events.Ability[events.Identifier](erased)
	require.False(t, ok)
	_, ok = events.Ability[events.Querier[events.AnyEvent]](erased)
	require.True(t, ok)
}

func TestAbilityOfSomethingElseIsAbsent(t *testing.T) {
	dev := device(t)
	_, ok := events.Ability[events.Querier[events.AnyEvent]](dev)
	require.False(t, ok, "another vendor's events")
	_, ok = events.Ability[events.Querier[mock.Event]](events.Erase[mock.Event, mock.Stream](dev))
	require.False(t, ok, "an erased api speaks of AnyEvent")
	_, ok = events.Ability[events.StatsReader](nil)
	require.False(t, ok)
	_, ok = events.Ability[events.StatsReader](plain{mockApi: dev, name: "plain"})
	require.False(t, ok)
	_, ok = events.Ability[mockApi](plain{mockApi: dev, name: "plain"})
	require.True(t, ok, "without a Limiter the methods decide")
}

// answer is what one ability says of itself.
type answer struct {
	offered  bool
	believed bool  // a plain type assertion would have said yes
	err      error // of a call of its method with good arguments
}

func ask[T any](api any, call func(T) error) answer {
	var a answer
	_, a.offered = events.Ability[T](api)
	method, ok := api.(T)
	if a.believed = ok; ok {
		a.err = call(method)
	}
	return a
}

func absentIf(absent bool) error {
	if absent {
		return events.ErrUnsupported
	}
	return nil
}

func answers[E any, S comparable](t *testing.T, api events.EventApi[E, S]) map[mock.Feature]answer {
	t.Helper()
	s := newStream(t, api)
	e, err := api.EventCreate()
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(e, s))
	var noStream S
	return map[mock.Feature]answer{
		mock.FeatureQuerier: ask(api, func(q events.Querier[E]) error {
			_, err := q.EventQuery(e)
			return err
		}),
		mock.FeatureRoundQuerier: ask(api, func(q events.RoundQuerier[E]) error {
			r, err := q.RoundBegin()
			_, err2 := q.RoundQuery(r, e)
			return alike(t, err, err2, q.RoundEnd(r))
		}),
		mock.FeatureCaptureAsker: ask(api, func(a events.CaptureAsker[S]) error {
			_, err := a.StreamCapturing(s)
			return err
		}),
		mock.FeatureUntimedCreator: ask(api, func(c events.UntimedCreator[E]) error {
			_, err := c.EventCreateUntimed(true)
			return err
		}),
		mock.FeatureStamper: ask(api, func(r events.Stamper[E]) error {
			require.NoError(t, api.EventWait(e))
			stamp, err := r.EventStamp(e)
			require.Equal(t, err == nil, stamp > 0)
			return err
		}),
		mock.FeatureTimerReader: ask(api, func(r events.TimerReader) error {
			device, _, err := r.DeviceAndHostTimer()
			require.Equal(t, err == nil, device > 0)
			return err
		}),
		mock.FeatureTelemetry: ask(api, func(r events.Telemetry) error {
			reading, err := r.TelemetryRead()
			require.Equal(t, err == nil, reading.Knows(events.TelemetrySMClock))
			return err
		}),
		mock.FeatureProfilerControl: ask(api, func(p events.ProfilerControl) error {
			return alike(t, p.ProfilerStart(), p.ProfilerStop())
		}),
		mock.FeatureIdentifier: ask(api, func(i events.Identifier) error {
			return absentIf(i.Identity().UUID == "")
		}),
		mock.FeatureStreamWrapper: ask(api, func(w events.StreamWrapper[S]) error {
			return absentIf(w.WrapStream(7) == noStream)
		}),
		mock.FeatureStatsReader: ask(api, func(r events.StatsReader) error {
			return absentIf(r.EventStats() == events.Stats{})
		}),
		mock.FeatureGate: ask(api, func(g events.Gate[S]) error {
			h, err := g.GateClose(s, time.Second)
			if err == nil {
				err = h.Open()
			}
			return err
		}),
		mock.FeatureScratch: ask(api, func(m events.Scratch[S]) error {
			b, err := m.ScratchAlloc(4096)
			_, err2 := m.ScratchSpin(us, s)
			return alike(t, err, err2, m.ScratchMemset(b, 0xff, 4096, s), m.ScratchCopy(b, b, 4096, s), m.ScratchFree(b))
		}),
		mock.FeatureCache: ask(api, func(k events.Cache) error {
			bytes, err := k.CacheBytes()
			require.Equal(t, err == nil, bytes > 0)
			return alike(t, err, k.CacheResetPersisting())
		}),
		mock.FeatureDeviceSynchronizer: ask(api, func(d events.DeviceSynchronizer) error { return d.DeviceSynchronize() }),
		mock.FeatureVersioned: ask(api, func(v events.Versioned) error {
			driver, runtime := v.Versions()
			require.Equal(t, driver == "", runtime == "")
			return absentIf(driver == "")
		}),
		mock.FeatureEmptyKernel: ask(api, func(k events.EmptyKernel[S]) error { return k.LaunchEmpty(s) }),
		mock.FeatureReadKernel: ask(api, func(k events.ReadKernel[S]) error {
			b, noMemory := api.(events.Scratch[S]).ScratchAlloc(64)
			err := k.LaunchRead(b, 64, s)
			if noMemory != nil && errors.Is(err, events.ErrInvalid) {
				return nil // Scratch is what is switched off
			}
			return err
		}),
		mock.FeatureGraphs: ask(api, func(g events.Graphs[E, S]) error {
			err := g.CaptureBegin(s, events.CaptureRelaxed)
			err2 := g.EventRecordExternal(e, s)
			graph, err3 := g.CaptureEnd(s)
			if err = alike(t, err, err2, err3); err == nil {
				require.NoError(t, graph.Launch(s))
				require.NoError(t, graph.Close())
			}
			return err
		}),
	}
}

// alike gives the first error after a look that the others say the same: an
// ability is there as a whole or not at all.
func alike(t *testing.T, err error, others ...error) error {
	t.Helper()
	for _, other := range others {
		if err == nil {
			require.NoError(t, other)
		} else {
			require.ErrorIs(t, other, events.ErrUnsupported)
		}
	}
	return err
}

// Each ability is switched off on its own: the others must not notice, Ability
// must say so directly and through Erase, and the method must not do something
// else instead: smol-machines/smolvm#932, NVIDIA/numba-cuda#747.
func TestSwitchedOffAbilityIsRefusedDirectlyAndErased(t *testing.T) {
	check := func(t *testing.T, off mock.Feature, got map[mock.Feature]answer) {
		for f, a := range got {
			require.True(t, a.believed, "feature %d", f)
			require.Equal(t, f != off, a.offered, "feature %d with %d switched off", f, off)
			if f == off {
				require.ErrorIs(t, a.err, events.ErrUnsupported, "feature %d", f)
			} else {
				require.NoError(t, a.err, "feature %d with %d switched off", f, off)
			}
		}
	}
	all := answers(t, device(t))
	check(t, 0, all)
	for off := range all {
		dev := device(t, mock.Without(off))
		check(t, off, answers(t, dev))
		check(t, off, answers(t, events.Erase(dev)))
	}
}

// stale is a device of a vendor that reads old stamps of a captured event.
type stale struct{ *mock.Device }

func (stale) ElapsedAfterCapture() bool { return true }

func TestErasedDeviceSaysWhatIsOddAboutItsVendor(t *testing.T) {
	dev := device(t, mock.Manual())
	odd := events.Erase[mock.Event, mock.Stream](stale{dev})
	reader, ok := events.Ability[events.StaleReader](odd)
	require.True(t, ok)
	require.True(t, reader.ElapsedAfterCapture())
	host, ok := events.Ability[events.HostClocker](odd)
	require.True(t, ok)
	dev.System().Advance(time.Second)
	require.Equal(t, int64(time.Second), host.HostClock()())

	ordinary := events.Erase[mock.Event, mock.Stream](plain{mockApi: dev, name: "plain"})
	_, ok = events.Ability[events.StaleReader](ordinary)
	require.False(t, ok)
	_, ok = events.Ability[events.HostClocker](ordinary)
	require.False(t, ok)
	require.False(t, ordinary.(events.StaleReader).ElapsedAfterCapture())
	require.Nil(t, ordinary.(events.HostClocker).HostClock())
	require.Equal(t, "plain", fmt.Sprint(ordinary))
}

func TestCaptureModesHaveNames(t *testing.T) {
	for mode, name := range map[events.CaptureMode]string{
		events.CaptureGlobal: "global", events.CaptureThreadLocal: "thread-local", events.CaptureRelaxed: "relaxed", 7: "unknown capture mode",
	} {
		require.Equal(t, name, mode.String())
	}
}
