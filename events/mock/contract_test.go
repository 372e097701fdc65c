package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// One code stands for three mistakes in several runtimes, and nobody could tell
// what to fix: NVIDIA/cuda-python#556, pytorch/pytorch#85796, cupy/cupy#5678.
func TestElapsedTellsThreeMistakesApart(t *testing.T) {
	dev, s := device(t, mock.Manual())
	busy := stream(t, dev)
	require.NoError(t, dev.Hang(busy))
	made := map[string]func() mock.Event{
		"fresh":    func() mock.Event { return event(t, dev) },
		"pending":  func() mock.Event { return recorded(t, dev, busy) },
		"complete": func() mock.Event { return recorded(t, dev, s) },
		"untimed": func() mock.Event {
			e, err := dev.EventCreateUntimed(true)
			require.NoError(t, err)
			require.NoError(t, dev.EventRecord(e, s))
			return e
		},
	}
	wrong := map[string]error{
		"fresh":   events.ErrNotRecorded,
		"pending": events.ErrNotReady,
		"untimed": events.ErrTimingDisabled,
	}
	for start, makeStart := range made {
		for end, makeEnd := range made {
			t.Run(start+" to "+end, func(t *testing.T) {
				a, b := makeStart(), makeEnd()
				dev.System().Advance(time.Millisecond)
				_, err := dev.EventElapsed(a, b)
				want, which := wrong[start], "start event"
				if want == nil {
					want, which = wrong[end], "end event"
				}
				if want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, which)
				require.Regexp(t, `\(code \d+\)$`, err.Error())
			})
		}
	}
}

// Query right after create reported success, and pollers took it for work done:
// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226.
func TestNeverRecordedIsNotDone(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	e := event(t, dev)
	_, err := dev.EventQuery(e)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.ErrorIs(t, dev.EventWait(e), events.ErrNotRecorded)
	require.ErrorIs(t, dev.StreamWaitEvent(s, e), events.ErrNotRecorded)
	r, err := dev.RoundBegin()
	require.NoError(t, err)
	_, err = dev.RoundQuery(r, e)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	require.NoError(t, dev.RoundEnd(r))
}

// A stale stamp must not be read as the new one.
func TestFailedRecordCountsAsNeverRecorded(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	e := recorded(t, dev, s)
	require.NoError(t, dev.EventWait(e))
	dev.Script(mock.Fault{Op: mock.OpEventRecord, Code: mock.CodeUnknown})
	require.Error(t, dev.EventRecord(e, s))
	_, err := dev.EventQuery(e)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	_, err = dev.EventElapsed(e, e)
	require.ErrorIs(t, err, events.ErrNotRecorded)
	_, ok := dev.TrueHostTime(e)
	require.False(t, ok)
}

// Null, double and late use of handles: taskflow/taskflow#546,
// harrism/cuda_event_benchmark#2.
func TestNoWrongHandleReachesTheLibrary(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.Manual(), mock.CallLog(200))
	t.Cleanup(sys.Close)
	dev, other := sys.Device(0), sys.Device(1)
	foreign := mock.NewDevice()
	s, good := stream(t, dev), event(t, dev)
	deadEvent, deadStream := event(t, dev), stream(t, dev)
	require.NoError(t, dev.EventRecord(good, s))
	require.NoError(t, dev.EventDestroy(deadEvent))
	require.NoError(t, dev.StreamDestroy(deadStream))
	kinds := []struct {
		name   string
		event  mock.Event
		stream mock.Stream
		want   error
		text   string
	}{
		{"zero", mock.Event{}, mock.Stream{}, events.ErrInvalid, "zero"},
		{"destroyed", deadEvent, deadStream, events.ErrDestroyed, ""},
		// rapidsai/rmm#1306, ROCm/hip#1992: both device numbers in the text.
		{"other device", event(t, other), stream(t, other), events.ErrDeviceMismatch, "belongs to device 1, this is device 0"},
		{"other instance", event(t, foreign), stream(t, foreign), events.ErrDeviceMismatch, "device 0 of another system"},
	}
	for _, k := range kinds {
		dev.ResetCalls()
		got := map[string]error{
			"record event":  dev.EventRecord(k.event, s),
			"record stream": dev.EventRecord(good, k.stream),
			"external":      dev.EventRecordExternal(k.event, s),
			"wait":          dev.EventWait(k.event),
			"wait stream":   dev.StreamWaitEvent(k.stream, good),
			"synchronize":   dev.StreamSynchronize(k.stream),
			"work":          dev.Work(k.stream, us),
			"capture":       dev.CaptureBegin(k.stream, events.CaptureGlobal),
		}
		_, got["query"] = dev.EventQuery(k.event)
		_, got["elapsed start"] = dev.EventElapsed(k.event, good)
		_, got["elapsed end"] = dev.EventElapsed(good, k.event)
		_, got["capturing"] = dev.StreamCapturing(k.stream)
		_, got["gate"] = dev.GateClose(k.stream, time.Second)
		_, got["spin"] = dev.ScratchSpin(us, k.stream)
		_, got["end capture"] = dev.CaptureEnd(k.stream)
		if k.name != "destroyed" {
			got["destroy event"] = dev.EventDestroy(k.event)
			got["destroy stream"] = dev.StreamDestroy(k.stream)
		}
		if k.name != "other device" {
			got["stream wait"] = dev.StreamWaitEvent(s, k.event)
		}
		for name, err := range got {
			require.ErrorIs(t, err, k.want, "%s, %s", k.name, name)
			require.ErrorContains(t, err, k.text, "%s, %s", k.name, name)
		}
		for _, c := range dev.Calls() {
			require.False(t, c.Reached, "%s: %v", k.name, c)
		}
	}
}

func TestSecondDestroyDoesNothing(t *testing.T) {
	dev, s := device(t, mock.CallLog(10))
	e := event(t, dev)
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	dev.ResetCalls()
	require.NoError(t, dev.EventDestroy(e))
	require.NoError(t, dev.StreamDestroy(s))
	for _, c := range dev.Calls() {
		require.False(t, c.Reached)
	}
	liveEvents, liveStreams := dev.Live()
	require.Zero(t, liveEvents)
	require.Zero(t, liveStreams)
}

// The legal case of mixing devices: a stream waits for another device's event.
func TestStreamWaitsForAnotherDevice(t *testing.T) {
	sys := mock.New(mock.Devices(2), mock.Manual(), mock.Ideal())
	t.Cleanup(sys.Close)
	a, b := sys.Device(0), sys.Device(1)
	sa, sb := stream(t, a), stream(t, b)
	require.NoError(t, a.Work(sa, 10*us))
	first := recorded(t, a, sa)
	require.NoError(t, b.StreamWaitEvent(sb, first))
	second := recorded(t, b, sb)
	sys.Advance(10*us - 1)
	require.False(t, done(t, b, second))
	sys.Advance(1)
	require.True(t, done(t, b, second))
}

// A wait queued before a second record keeps the record that it saw:
// ComputationalRadiationPhysics/picongpu#1189, torch/cutorch#222.
func TestWaitKeepsTheRecordThatItSaw(t *testing.T) {
	dev, a := device(t, mock.Manual(), mock.Ideal())
	b, blocked := stream(t, dev), stream(t, dev)
	require.NoError(t, dev.Work(blocked, time.Second))
	require.NoError(t, dev.Hang(a))
	e := recorded(t, dev, a)
	require.NoError(t, dev.StreamWaitEvent(b, e))
	after := recorded(t, dev, b)
	require.NoError(t, dev.EventRecord(e, blocked)) // would be over after a second
	dev.System().Advance(us)
	require.False(t, done(t, dev, after))
	dev.ReleaseHangs()
	require.True(t, done(t, dev, after))
	require.False(t, done(t, dev, e))
}

func TestHostWaitKeepsTheRecordThatItSaw(t *testing.T) {
	dev, a := device(t, mock.Manual(), mock.Ideal())
	b := stream(t, dev)
	require.NoError(t, dev.Work(a, 10*us))
	require.NoError(t, dev.Work(b, time.Hour))
	e := recorded(t, dev, a)
	waited := make(chan error)
	go func() { waited <- dev.EventWait(e) }()
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	require.NoError(t, dev.EventRecord(e, b))
	dev.System().Advance(10 * us)
	require.NoError(t, <-waited)
	require.False(t, done(t, dev, e))
}

// The last user frees: a destroy beside a blocked wait neither fails nor blocks.
func TestDestroyBesideAWait(t *testing.T) {
	dev, s := device(t, mock.Manual())
	require.NoError(t, dev.Hang(s))
	e := recorded(t, dev, s)
	waited := make(chan error)
	go func() { waited <- dev.EventWait(e) }()
	eventually(t, func() bool { return dev.System().Blocked() == 1 })
	require.NoError(t, dev.EventDestroy(e))
	live, _ := dev.Live()
	require.Equal(t, 1, live)
	dev.ReleaseHangs()
	dev.System().Advance(time.Second)
	require.NoError(t, <-waited)
	live, _ = dev.Live()
	require.Zero(t, live)
	require.ErrorIs(t, dev.EventWait(e), events.ErrDestroyed)
}

func TestDestroyedStreamStillRunsItsWork(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	require.NoError(t, dev.Work(s, time.Second))
	e := recorded(t, dev, s)
	require.NoError(t, dev.StreamDestroy(s))
	require.NoError(t, dev.EventWait(e))
	require.GreaterOrEqual(t, dev.System().Now(), time.Second)
}

func TestWrappedStreams(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance(), mock.Ideal())
	w := dev.WrapStream(0xabc)
	require.Equal(t, w, dev.WrapStream(0xabc))
	require.NotEqual(t, w, dev.WrapStream(0))
	require.NotEqual(t, mock.Stream{}, dev.WrapStream(0))
	require.ErrorIs(t, dev.StreamDestroy(w), events.ErrInvalid)
	_, streams := dev.Live()
	require.Equal(t, 1, streams)

	same := dev.WrapStream(s.Handle())
	require.NotEqual(t, s, same)
	require.NoError(t, dev.Work(s, time.Second))
	require.NoError(t, dev.StreamSynchronize(same))
	require.Equal(t, time.Second, dev.System().Now())
	require.ErrorIs(t, dev.StreamDestroy(same), events.ErrInvalid)
}

// Every ability can be absent; a plain type assertion would believe the methods.
func TestSwitchedOffAbilities(t *testing.T) {
	all := map[mock.Feature]func(d *mock.Device) (bool, error){
		mock.FeatureQuerier: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Querier[mock.Event]](d)
			_, err := d.EventQuery(mock.Event{})
			return ok, err
		},
		mock.FeatureRoundQuerier: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.RoundQuerier[mock.Event]](d)
			_, err := d.RoundBegin()
			return ok, err
		},
		mock.FeatureCaptureAsker: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.CaptureAsker[mock.Stream]](d)
			_, err := d.StreamCapturing(mock.Stream{})
			return ok, err
		},
		mock.FeatureUntimedCreator: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.UntimedCreator[mock.Event]](d)
			_, err := d.EventCreateUntimed(true)
			return ok, err
		},
		mock.FeatureGate: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Gate[mock.Stream]](d)
			_, err := d.GateClose(mock.Stream{}, time.Second)
			return ok, err
		},
		mock.FeatureScratch: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Scratch[mock.Stream]](d)
			_, err := d.ScratchAlloc(1)
			return ok, err
		},
		mock.FeatureGraphs: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Graphs[mock.Event, mock.Stream]](d)
			return ok, d.EventRecordExternal(mock.Event{}, mock.Stream{})
		},
		mock.FeatureCache: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Cache](d)
			_, err := d.CacheBytes()
			return ok, err
		},
		mock.FeatureDeviceSynchronizer: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.DeviceSynchronizer](d)
			return ok, d.DeviceSynchronize()
		},
		mock.FeatureVersioned: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Versioned](d)
			driver, _ := d.Versions()
			return ok, absentIf(driver == "")
		},
		mock.FeatureEmptyKernel: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.EmptyKernel[mock.Stream]](d)
			return ok, d.LaunchEmpty(mock.Stream{})
		},
		mock.FeatureReadKernel: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.ReadKernel[mock.Stream]](d)
			return ok, d.LaunchRead(events.Buffer{}, 1, mock.Stream{})
		},
		mock.FeatureTimerReader: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.TimerReader](d)
			_, _, err := d.DeviceAndHostTimer()
			return ok, err
		},
		mock.FeatureStamper: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Stamper[mock.Event]](d)
			_, err := d.EventStamp(mock.Event{})
			return ok, err
		},
		mock.FeatureTelemetry: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Telemetry](d)
			_, err := d.TelemetryRead()
			return ok, err
		},
		mock.FeatureProfilerControl: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.ProfilerControl](d)
			return ok, d.ProfilerStart()
		},
		mock.FeatureIdentifier: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.Identifier](d)
			return ok, absentIf(d.Identity() == events.Identity{})
		},
		mock.FeatureStreamWrapper: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.StreamWrapper[mock.Stream]](d)
			return ok, absentIf(d.WrapStream(7) == mock.Stream{})
		},
		mock.FeatureStatsReader: func(d *mock.Device) (bool, error) {
			_, ok := events.Ability[events.StatsReader](d)
			_, err := d.EventCreate()
			if err != nil {
				return ok, err
			}
			return ok, absentIf(d.EventStats() == events.Stats{})
		},
	}
	require.Len(t, all, 19)
	for f, try := range all {
		ok, err := try(mock.NewDevice())
		require.True(t, ok, "feature %d", f)
		require.NotErrorIs(t, err, events.ErrUnsupported, "feature %d", f)
		ok, err = try(mock.NewDevice(mock.Without(f)))
		require.False(t, ok, "feature %d", f)
		require.ErrorIs(t, err, events.ErrUnsupported, "feature %d", f)
	}
}

func absentIf(absent bool) error {
	if absent {
		return events.ErrUnsupported
	}
	return nil
}

func TestIdentityAndDevices(t *testing.T) {
	sys := mock.New(mock.Devices(3), mock.ForDevice(2, mock.Named("odd one")))
	require.Equal(t, 3, sys.Devices())
	require.Nil(t, sys.Device(3))
	require.Nil(t, sys.Device(-1))
	require.Equal(t, "mock", sys.Device(0).Backend())
	require.Same(t, sys, sys.Device(1).System())
	seen := map[string]bool{}
	for i := range 3 {
		id := sys.Device(i).Identity()
		require.Equal(t, i, id.Ordinal)
		require.Regexp(t, `^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, id.UUID)
		seen[id.UUID], seen[id.PCIBusID] = true, true
	}
	require.Len(t, seen, 6)
	require.Equal(t, "odd one", sys.Device(2).Identity().Name)
	require.NotEqual(t, "odd one", sys.Device(1).Identity().Name)
}

func TestRoundsMustBeOpen(t *testing.T) {
	dev, s := device(t, mock.AutoAdvance())
	e := recorded(t, dev, s)
	_, err := dev.RoundQuery(events.Round{}, e)
	require.ErrorIs(t, err, events.ErrInvalid)
	require.ErrorIs(t, dev.RoundEnd(events.Round{}), events.ErrInvalid)
	r, err := dev.RoundBegin()
	require.NoError(t, err)
	require.Equal(t, 1, dev.OpenRounds())
	ok, err := dev.RoundQuery(r, e)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, dev.RoundEnd(r))
	require.Zero(t, dev.OpenRounds())
	require.ErrorIs(t, dev.RoundEnd(r), events.ErrInvalid)
}
