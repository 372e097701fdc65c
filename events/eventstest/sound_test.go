package eventstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

type mockApi = events.EventApi[mock.Event, mock.Stream] //revive:disable-line:var-naming // the seam's own spelling

// simulated is what the suite needs to know of a simulated device. of finds the
// device in what Open gave, which may be a wrapper.
func simulated(open func(dev *mock.Device) mockApi, of func(api mockApi) *mock.Device, opts ...mock.Option) Backend[mock.Event, mock.Stream] {
	var sys *mock.System
	script := func(api mockApi, fault mock.Fault) func() {
		of(api).Script(fault)
		return of(api).ClearScript
	}
	return Backend[mock.Event, mock.Stream]{
		Open: func(t testing.TB) mockApi {
			sys = mock.New(append([]mock.Option{mock.Devices(2)}, opts...)...)
			t.Cleanup(sys.Close)
			return open(sys.Device(0))
		},
		Second: func(testing.TB) mockApi { return open(sys.Device(1)) },
		FailRecord: func(api mockApi) func() {
			return script(api, mock.Fault{Op: mock.OpEventRecord, Code: mock.CodeInvalidHandle})
		},
		FakeMilliseconds: func(api mockApi, ms float32) func() {
			return script(api, mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(ms)})
		},
		LoseDevice: func(api mockApi) { of(api).Lose() },
	}
}

func itself(dev *mock.Device) mockApi   { return dev }
func isDevice(api mockApi) *mock.Device { return api.(*mock.Device) }

func advance(api mockApi, d time.Duration) { isDevice(api).System().Advance(d) }

func TestMockKeepsTheContract(t *testing.T) {
	Run(t, simulated(itself, isDevice))
}

// sound are backends that have nothing wrong with them.
func sound() map[string]Backend[mock.Event, mock.Stream] {
	manual := simulated(itself, isDevice, mock.Manual())
	auto := func(opts ...mock.Option) Backend[mock.Event, mock.Stream] {
		b := simulated(itself, isDevice, append([]mock.Option{mock.AutoAdvance()}, opts...)...)
		b.Advance = advance
		return b
	}
	manual.Advance = advance
	list := map[string]Backend[mock.Event, mock.Stream]{
		"manual":         manual,
		"auto":           auto(),
		"auto, ideal":    auto(mock.Ideal()),
		"auto, drifting": auto(mock.Drift(200), mock.Wander(5, 1)),
	}
	for name, feature := range features() {
		list["auto, no "+name] = auto(mock.Without(feature))
	}
	work := func(api mockApi, s mock.Stream, d time.Duration) error { return isDevice(api).Work(s, d) }
	bare := auto(mock.Without(mock.FeatureGate, mock.FeatureScratch))
	bare.Work = work
	list["auto, own work"] = bare
	none := auto(mock.Without(^mock.Feature(0)))
	none.Work = work
	list["auto, no ability"] = none
	own := simulated(itself, isDevice, mock.Without(mock.FeatureGate, mock.FeatureScratch))
	own.Work = work
	list["real time, own work"] = own
	return list
}

func features() map[string]mock.Feature {
	return map[string]mock.Feature{
		"Querier":        mock.FeatureQuerier,
		"RoundQuerier":   mock.FeatureRoundQuerier,
		"CaptureAsker":   mock.FeatureCaptureAsker,
		"UntimedCreator": mock.FeatureUntimedCreator,
		"Identifier":     mock.FeatureIdentifier,
		"StreamWrapper":  mock.FeatureStreamWrapper,
		"StatsReader":    mock.FeatureStatsReader,
		"Stamper":        mock.FeatureStamper,
		"TimerReader":    mock.FeatureTimerReader,
		"Gate":           mock.FeatureGate,
		"Scratch":        mock.FeatureScratch,
		"Graphs":         mock.FeatureGraphs,
		"Cache":          mock.FeatureCache,
		"Versioned":      mock.FeatureVersioned,
		"EmptyKernel":    mock.FeatureEmptyKernel,
		"ReadKernel":     mock.FeatureReadKernel,

		"DeviceSynchronizer": mock.FeatureDeviceSynchronizer,

		"Telemetry":       mock.FeatureTelemetry,
		"ProfilerControl": mock.FeatureProfilerControl,
	}
}

func TestSoundBackendsPass(t *testing.T) {
	for name, b := range sound() {
		t.Run(name, func(t *testing.T) {
			for mode, all := range map[string]map[string]result{
				"direct": outcomes(t, direct(b)),
				"erased": outcomes(t, erased(b)),
			} {
				for rule, got := range all {
					require.Empty(t, got.failure, "%s, %s", mode, rule)
				}
			}
		})
	}
}

// outcomes runs all rules.
func outcomes[E any, S comparable](t *testing.T, s subject[E, S]) map[string]result {
	all := map[string]result{}
	for _, r := range rules[E, S]() {
		all[r.Name] = s.run(t, r)
	}
	return all
}
