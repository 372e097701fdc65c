package probe

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// A check that cannot fail proves nothing, so each is shown a backend that is
// broken in the way that it exists to find.
func TestEachCheckFailsOnABackendThatIsBrokenInItsWay(t *testing.T) {
	scripted := func(faults ...mock.Fault) mockAPI {
		dev := mock.NewDevice()
		dev.Script(faults...)
		return dev
	}
	covered := map[string]bool{"library": true} // which has a test of its own
	for _, broken := range []struct {
		name   string
		check  string
		api    mockAPI
		about  About
		reason string
	}{
		{"another device than asked for", "device", mock.New(mock.Devices(2)).Device(1), About{}, "device 0 was asked for and device 1 answers"},
		{"device without a name", "device", mock.NewDevice(mock.Named("")), About{}, "no name"},
		{"garbage in the PCI bus id", "device", identity{mock.NewDevice(), events.Identity{Name: "x", PCIBusID: "0000:4E:00"}}, About{}, "PCI bus id"},
		{"garbage in the UUID", "device", identity{mock.NewDevice(), events.Identity{Name: "x", UUID: "GPU-"}}, About{}, "not a UUID"},

		{"destroy does nothing", "handles", leaks{mock.NewDevice()}, About{}, "streams were alive before"},
		{"second destroy refused", "handles", strict{mock.NewDevice(), &sync.Map{}}, About{}, "time 2"},
		{"pending event cannot be destroyed", "handles", scripted(mock.Fault{Op: mock.OpEventDestroy, Nth: 1001, Code: mock.CodeNotReady}), About{}, "has not reached"},
		{"events run out", "handles", scripted(mock.Fault{Op: mock.OpEventCreate, Nth: 800, Code: mock.CodeOutOfMemory}), About{}, "making event 800 of 1000"},

		{"wait that does not wait", "record-wait", noWait{mock.NewDevice()}, About{}, "a query says that the event is not reached"},
		{"wait that does not wait, seen by the device's timer", "record-wait", noWait{mock.NewDevice(mock.Without(mock.FeatureQuerier))}, About{}, "still running"},
		{"work that is done at once", "record-wait", noWork{mock.NewDevice()}, About{}, "the work before the event took 5ms"},
		{"query that never says reached", "record-wait", neverReached{mock.NewDevice()}, About{}, "a query says that the event is not reached"},

		// ROCm/hip#3383, eyalroz/cuda-api-wrappers#226
		{"never recorded reads as reached", "answers", vacuous{mock.NewDevice()}, About{}, `query of an event that is never recorded: expected "event was never recorded", got success`},
		// NVIDIA/cuda-python#556, cupy/cupy#5678
		{"one answer for every mistake", "answers", oneAnswer{mock.NewDevice()}, About{}, `expected "event was never recorded"`},
		{"answer that names no event", "answers", nameless{mock.NewDevice()}, About{}, "the text to name the end event"},
		{"everything has a span", "answers", alwaysSpan{mock.NewDevice()}, About{}, "got success"},
		{"span beside an error", "answers", spanWithError{mock.NewDevice()}, About{}, "and yet a span of 1s"},
		{"pending reads as reached", "answers", alwaysReached{mock.NewDevice()}, About{}, "query of an event that is"},

		// csarofeen/pytorch#2521, JuliaGPU/AMDGPU.jl#471
		{"elapsed of the host's clock", "known-work", &hostClock{Device: mock.NewDevice()}, About{}, "away from the device's own timer"},
		// huggingface/optimum-nvidia#9
		{"microseconds taken for milliseconds", "known-work", scaled(1e-3), About{}, "away from the device's own timer"},
		{"both clocks ten times too fast", "known-work", fastTimer{scaled(10).(*mock.Device), 10}, About{}, "by the host's clock"},
		{"timer that stands still", "known-work", fastTimer{mock.NewDevice(), 0}, About{}, "timer says only 0s"},
		{"work that starts late on the host's processors", "known-work", kind{addsTo(150 * time.Microsecond), events.KindCPU}, About{}, "away from the device's own timer"},
		{"launch in the span", "known-work", scripted(mock.Fault{Op: mock.OpEventElapsed, Reading: func(ms float32) float32 { return ms + 0.006 }}), About{}, "10µs of work reads +7.28µs away"},

		{"events out of order", "order", scripted(mock.Fault{Op: mock.OpEventElapsed, Every: 100, Reading: func(ms float32) float32 { return ms / 2 }}), About{}, "recorded later"},
		// ROCm/rocm-systems#9375
		{"negative spans", "order", scripted(mock.Fault{Op: mock.OpEventElapsed, Nth: 101, Reading: mock.Reads(-0.5)}), About{}, "1 readings were negative"},
		// gfx-rs/wgpu#9414
		{"all zeros", "order", scripted(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(0)}), About{}, "all events read the same time"},
		// cpc/hipcl#5
		{"spans longer than the run", "order", scaled(1e4), About{}, "recording and reaching all of them took"},
		{"spans that do not add up", "order", scripted(mock.Fault{Op: mock.OpEventElapsed, Nth: 3, Reading: func(ms float32) float32 { return ms + 0.02 }}), About{}, "add up to"},
		{"NaN", "order", scripted(mock.Fault{Op: mock.OpEventElapsed, Nth: 7, Reading: mock.Reads(float32(math.NaN()))}), About{}, "not a duration"},

		{"stamps of another clock", "device-timer", otherClock{mock.NewDevice(), time.Second}, About{}, "is stamped 1."},
		{"stamps of another origin", "device-timer", otherClock{mock.NewDevice(), -time.Minute}, About{}, "is stamped -"},
		{"stamps of another scale", "device-timer", otherClock{mock.NewDevice(), 240 * time.Hour}, About{}, "another scale"},
		{"host timer that runs backwards", "device-timer", backwards{mock.NewDevice()}, About{}, "went back by"},
		{"timer refused", "device-timer", scripted(mock.Fault{Op: mock.OpDeviceAndHostTimer, Nth: 3, Code: mock.CodeUnknown}), About{}, "mockErrorUnknown"},
		{"stamp refused", "device-timer", scripted(mock.Fault{Op: mock.OpEventStamp, Code: mock.CodeUnknown}), About{}, "reading the stamp"},

		{"coarse stamps", "tick", mock.NewDevice(mock.Tick(2 * time.Microsecond)), About{}, "multiples of 2µs"},
		{"one span for all", "tick", scripted(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(1.28)}), About{}, "too few to find a step"},

		// CHIP-SPV/chipStar#116
		{"negative span let through", "clamp", swapped{mock.NewDevice(), -1}, About{}, "not 0"},
		{"sign dropped", "clamp", swapped{mock.NewDevice(), 1}, About{}, "not 0"},
		{"clamp not counted", "clamp", swapped{mock.NewDevice(), 0}, About{}, "counted 0 times"},
		{"swapped is an error", "clamp", scripted(mock.Fault{Op: mock.OpEventElapsed, Nth: 2, Code: mock.CodeInvalidValue}), About{}, "reading swapped events"},

		{"stream wait that is dropped", "stream-order", dropsWait{mock.NewDevice()}, About{}, "while the other one was held back"},
		{"stream wait that is dropped, seen in the stamps", "stream-order", dropsWait{mock.NewDevice(mock.Without(mock.FeatureQuerier))}, About{}, "before the event that it waited for"},

		{"slow record", "cost", scripted(mock.Fault{Op: mock.OpEventRecord, After: 2 * time.Millisecond}), About{}, "queueing a record takes"},
		{"slow wait", "cost", scripted(mock.Fault{Op: mock.OpEventWait, After: 120 * time.Millisecond}), About{}, "a record and the wait for it take"},

		// pytorch/pytorch#104487, ROCm/hip#3876
		{"queries kill captures", "capture", mock.NewDevice(mock.Unrelaxed(true)), About{}, "did not survive"},
		{"capture is denied", "capture", denies{mock.NewDevice()}, About{}, "says that it is not"},
		{"graph cannot run", "capture", scripted(mock.Fault{Op: mock.OpGraphLaunch, Code: mock.CodeUnknown}), About{}, "launching the graph"},
		{"trouble beside the capture only", "capture", scripted(mock.Fault{Op: mock.OpRoundQuery, Nth: 5, Code: mock.CodeUnknown}), About{}, "beside the capture"},

		// NVIDIA/numba-cuda#747, smol-machines/smolvm#932
		{"query that is always yes", "fence", eager{mock.NewDevice()}, About{}, "before the event was still running"},
		{"query that is always yes, behind a gate", "fence", eager{mock.NewDevice(mock.Without(mock.FeatureScratch))}, About{}, "the fence behind held work was reached while the stream was held back"},
		{"wait that does not wait", "fence", noWait{mock.NewDevice(mock.Without(mock.FeatureQuerier, mock.FeatureRoundQuerier))}, About{}, "before the event was still running"},
		{"stream wait that is dropped", "fence", dropsWait{mock.NewDevice()}, About{}, "a fence on the stream that waits for it was reached"},
		{"events that stay", "fence", leaks{mock.NewDevice()}, About{}, "were alive before"},
		{"destroy refused", "fence", scripted(mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Code: mock.CodeUnknown}), About{}, "close of the source"},
		{"device that fails while it is waited for", "fence", scripted(mock.Fault{Op: mock.OpRoundQuery, Nth: 20, Code: mock.CodeUnknown}), About{}, "mockErrorUnknown"},

		// csarofeen/pytorch#2521, JuliaGPU/AMDGPU.jl#471
		{"windows of the host's clock", "profiler", &hostClock{Device: mock.NewDevice()}, About{}, "away from the device's own timer"},
		{"windows a fifth too short", "profiler", scaled(0.8), About{}, "away from the device's own timer|set apart"},
		{"windows longer than those around them", "profiler", scripted(mock.Fault{Op: mock.OpEventElapsed, Every: 7, Reading: func(ms float32) float32 { return ms / 2 }}), About{}, "read longer than those|contradicted each other|set apart"},
		{"record refused", "profiler", scripted(mock.Fault{Op: mock.OpEventRecord, Nth: 100, Count: 20, Code: mock.CodeUnknown}), About{}, "mockErrorUnknown"},
		{"stream that is always captured", "profiler", captures{mock.NewDevice()}, About{}, "its timestamps went into the graph"},
		{"destroy refused", "profiler", scripted(mock.Fault{Op: mock.OpEventDestroy, Nth: 1, Code: mock.CodeUnknown}), About{}, "mockErrorUnknown"},

		{"streams with clocks of their own", "placement", &skewed{Device: mock.NewDevice()}, About{}, "and the host saw it begin between|set apart"},
		{"clock that stands still", "placement", scripted(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(0)}), About{}, "the host"},

		{"clock of another rate", "drift", mock.NewDevice(mock.Drift(100_000)), About{}, "while the host counted"},
		{"clock that stands still", "drift", scripted(mock.Fault{Op: mock.OpEventElapsed, Reading: mock.Reads(0)}), About{}, "the device counted 0s"},

		{"destroys that failed unseen", "leftovers", &failsUnseen{Device: mock.NewDevice()}, About{}, "could not be destroyed"},
	} {
		covered[broken.check] = true
		t.Run(broken.check+"/"+broken.name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, broken.api, broken.about, broken.check)
			require.Equal(t, Fail, r.Verdict, "measured: %s; reason: %s", r.Measurement, r.Reason)
			// Where chance decides which of two things is seen first, either will do.
			require.True(t, slices.ContainsFunc(strings.Split(broken.reason, "|"), func(want string) bool {
				return strings.Contains(r.Reason, want)
			}), "%q lacks %q", r.Reason, broken.reason)
		})
	}
	for _, name := range Names() {
		require.True(t, covered[name], "no broken backend for check %s", name)
	}
}

type identity struct {
	*mock.Device
	id events.Identity
}

func (d identity) Identity() events.Identity { return d.id }

type leaks struct{ *mock.Device }

func (leaks) EventDestroy(mock.Event) error { return nil }

type strict struct {
	*mock.Device
	gone *sync.Map
}

func (d strict) EventDestroy(e mock.Event) error {
	if _, again := d.gone.LoadOrStore(e, true); again {
		return events.ErrDestroyed
	}
	return d.Device.EventDestroy(e)
}

type noWait struct{ *mock.Device }

func (noWait) EventWait(mock.Event) error { return nil }

type noWork struct{ *mock.Device }

type instantly time.Duration

func (d instantly) Measured() (time.Duration, error) { return time.Duration(d), nil }

func (noWork) ScratchSpin(d time.Duration, _ mock.Stream) (events.Spin, error) {
	return instantly(d), nil
}

type neverReached struct{ *mock.Device }

func (neverReached) EventQuery(mock.Event) (bool, error) { return false, nil }

type alwaysReached struct{ *mock.Device }

func (alwaysReached) EventQuery(mock.Event) (bool, error) { return true, nil }

type vacuous struct{ *mock.Device }

func (d vacuous) EventQuery(e mock.Event) (bool, error) {
	reached, err := d.Device.EventQuery(e)
	if err != nil {
		return true, nil
	}
	return reached, nil
}

type oneAnswer struct{ *mock.Device }

func (d oneAnswer) EventElapsed(start, end mock.Event) (time.Duration, error) {
	span, err := d.Device.EventElapsed(start, end)
	if err != nil {
		return 0, &events.DriverError{Backend: "mock", Op: "EventElapsed", Code: 400, Kind: events.ErrInvalid}
	}
	return span, nil
}

type nameless struct{ *mock.Device }

func (d nameless) EventElapsed(start, end mock.Event) (time.Duration, error) {
	span, err := d.Device.EventElapsed(start, end)
	for _, kind := range []error{events.ErrNotReady, events.ErrNotRecorded, events.ErrTimingDisabled} {
		if errors.Is(err, kind) {
			return 0, kind
		}
	}
	return span, err
}

type alwaysSpan struct{ *mock.Device }

func (d alwaysSpan) EventElapsed(start, end mock.Event) (time.Duration, error) {
	span, _ := d.Device.EventElapsed(start, end)
	return span, nil
}

type spanWithError struct{ *mock.Device }

func (d spanWithError) EventElapsed(start, end mock.Event) (time.Duration, error) {
	span, err := d.Device.EventElapsed(start, end)
	if err != nil {
		span = time.Second
	}
	return span, err
}

// hostClock measures when the host asked for the record.
type hostClock struct {
	*mock.Device
	mu sync.Mutex
	at map[mock.Event]time.Time
}

func (d *hostClock) EventRecord(e mock.Event, s mock.Stream) error {
	d.mu.Lock()
	if d.at == nil {
		d.at = map[mock.Event]time.Time{}
	}
	d.at[e] = time.Now()
	d.mu.Unlock()
	return d.Device.EventRecord(e, s)
}

func (d *hostClock) EventElapsed(start, end mock.Event) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at[end].Sub(d.at[start]), nil
}

func scaled(by float32) mockAPI {
	dev := mock.NewDevice()
	dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: func(ms float32) float32 { return ms * by }})
	return dev
}

type fastTimer struct {
	*mock.Device
	by time.Duration
}

type fastSpin struct {
	events.Spin
	by time.Duration
}

func (s fastSpin) Measured() (time.Duration, error) {
	d, err := s.Spin.Measured()
	return s.by * d, err
}

func (d fastTimer) ScratchSpin(length time.Duration, s mock.Stream) (events.Spin, error) {
	spin, err := d.Device.ScratchSpin(length, s)
	return fastSpin{spin, d.by}, err
}

// swapped answers swapped events with what it should not: 0 stands for a clamp
// that nobody counts.
type swapped struct {
	*mock.Device
	sign time.Duration
}

func (d swapped) EventElapsed(start, end mock.Event) (time.Duration, error) {
	forward, err := d.Device.EventElapsed(start, end)
	if err != nil || forward > 0 {
		return forward, err
	}
	backward, err := d.Device.EventElapsed(end, start)
	return d.sign * backward, err
}

func (d swapped) EventStats() events.Stats {
	s := d.Device.EventStats()
	if d.sign == 0 {
		s.Clamped = 0
	}
	return s
}

type dropsWait struct{ *mock.Device }

func (dropsWait) StreamWaitEvent(mock.Stream, mock.Event) error { return nil }

type eager struct{ *mock.Device }

func (eager) RoundQuery(events.Round, mock.Event) (bool, error) { return true, nil }

type captures struct{ *mock.Device }

func (captures) StreamCapturing(mock.Stream) (bool, error) { return true, nil }

// skewed stamps events of all streams but the first with a clock that is behind.
type skewed struct {
	*mock.Device
	mu     sync.Mutex
	first  mock.Stream
	behind map[mock.Event]bool
}

func (d *skewed) EventRecord(e mock.Event, s mock.Stream) error {
	d.mu.Lock()
	if d.behind == nil {
		d.first, d.behind = s, map[mock.Event]bool{}
	}
	d.behind[e] = s != d.first
	d.mu.Unlock()
	return d.Device.EventRecord(e, s)
}

func (d *skewed) EventElapsed(start, end mock.Event) (time.Duration, error) {
	span, err := d.Device.EventElapsed(start, end)
	d.mu.Lock()
	defer d.mu.Unlock()
	const by = 300 * time.Microsecond
	switch {
	case d.behind[end] && !d.behind[start]:
		span = max(span-by, 0)
	case d.behind[start] && !d.behind[end]:
		span += by
	}
	return span, err
}

type denies struct{ *mock.Device }

func (denies) StreamCapturing(mock.Stream) (bool, error) { return false, nil }

type failsUnseen struct {
	*mock.Device
	asked uint64
}

func (d *failsUnseen) EventStats() events.Stats {
	d.asked++
	return events.Stats{DestroyFailed: d.asked}
}

// A stream that is never destroyed shows at the end of the run, in whichever
// check it was made.
type leaksStreams struct{ *mock.Device }

func (leaksStreams) StreamDestroy(mock.Stream) error { return nil }

func TestLeftoversLooksBackAtAllChecks(t *testing.T) {
	t.Parallel()
	out := run(t.Context(), mockAPI(leaksStreams{mock.NewDevice()}), About{}, quick, only(t, "order", "tick", "leftovers"))
	require.Equal(t, []Verdict{Pass, Pass, Fail}, verdicts(out))
	require.Equal(t, 2, number(t, out.Results[2], "live_streams_delta"))
}

// Two copies of a library, one of them reported and the other one answering:
// NVIDIA/cudnn-frontend#211, ROCm/rocm-systems#1872.
func TestLibraryThatIsNotMappedFails(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("which files are mapped can be read on linux only")
	}
	mapped, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "link.so")
	require.NoError(t, os.Symlink(mapped, link))
	const version = 13000
	for _, tc := range []struct {
		name    string
		lib     Library
		runtime int
		verdict Verdict
		reason  string
	}{
		{"mapped", Library{Path: mapped}, version, Pass, ""},
		{"through a link", Library{Path: link, Driver: mapped}, version, Pass, ""},
		{"bare name", Library{Path: filepath.Base(mapped)}, version, Pass, ""},
		{"not mapped", Library{Path: "/opt/lib/libcudart.so.13"}, version, Fail, "/opt/lib/libcudart.so.13 is not mapped"},
		{"driver not mapped", Library{Path: mapped, Driver: "/opt/lib/libcuda.so.1"}, version, Fail, "/opt/lib/libcuda.so.1 is not mapped"},
		{"named like a mapped one", Library{Path: filepath.Join("/opt", filepath.Base(mapped))}, version, Fail, mapped},
		{"no version", Library{Path: mapped}, 0, Fail, "runtime version 0"},
	} {
		about := About{Library: &tc.lib, RuntimeVersion: tc.runtime, DriverVersion: version}
		r := runOne(t, mock.NewDevice(), about, "library")
		require.Equal(t, tc.verdict, r.Verdict, "%s: %s", tc.name, r.Reason)
		require.Contains(t, r.Reason, tc.reason, tc.name)
	}
}

// Not every vendor numbers its versions.
func TestVersionIsANumberOrAText(t *testing.T) {
	mapped, err := os.Executable()
	require.NoError(t, err)
	about := About{Library: &Library{Path: mapped}, RuntimeText: "OpenCL 3.0 PoCL 3.1", DriverText: "3.1"}
	r := runOne(t, mock.NewDevice(), about, "library")
	if runtime.GOOS == "linux" {
		require.Equal(t, Pass, r.Verdict, r.Reason)
	}
	require.Contains(t, r.Measurement, "OpenCL 3.0 PoCL 3.1")
	require.NotContains(t, r.Numbers, "runtime_version", "what is no number is not reported as 0")
	about.DriverText = ""
	r = runOne(t, mock.NewDevice(), about, "library")
	require.Equal(t, Fail, r.Verdict)
	require.Contains(t, r.Reason, "driver version 0")
}

// kind is a device of another kind.
type kind struct {
	*mock.Device
	is events.DeviceKind
}

func (k kind) Identity() events.Identity { return events.Identity{Kind: k.is, Name: "x"} }

// addsTo is a device whose spans are longer than the work in them.
func addsTo(more time.Duration) *mock.Device {
	dev := mock.NewDevice()
	dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: func(ms float32) float32 { return ms + float32(more.Seconds()*1e3) }})
	return dev
}

// Work that follows other work on the host's processors starts when a thread has
// been woken for it; a GPU that needs as long is one whose spans mislead.
func TestHandingOverIsAllowedToTakeLongerOnTheHostsProcessors(t *testing.T) {
	t.Parallel()
	for is, want := range map[events.DeviceKind]Verdict{events.KindCPU: Pass, events.KindGPU: Fail, "": Fail} {
		r := runOne(t, kind{addsTo(30 * time.Microsecond), is}, About{}, "known-work")
		require.Equal(t, want, r.Verdict, "%q: %s", is, r.Reason)
	}
}

// A driver that stamps the beginning and the end of every command does it inside the
// span: that much more is no fault of its events, and no more than that.
func TestStampsOfTheDriversOwnAreAllowedForWhereItMakesThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		more    time.Duration
		stamped bool
		want    Verdict
	}{{6 * time.Microsecond, true, Pass}, {6 * time.Microsecond, false, Fail}, {12 * time.Microsecond, true, Fail}} {
		dev := mock.NewDevice()
		dev.Script(mock.Fault{Op: mock.OpEventElapsed, Reading: func(ms float32) float32 {
			if ms < 0.005 { // nothing in it
				return ms + 0.001
			}
			return ms + float32(c.more.Seconds()*1e3)
		}})
		r := runOne(t, dev, About{CommandsStamped: c.stamped}, "known-work")
		require.Equal(t, c.want, r.Verdict, "%v, stamped %t: %s", c.more, c.stamped, r.Reason)
	}
}

type backwards struct{ *mock.Device }

func (b backwards) DeviceAndHostTimer() (device, host uint64, err error) {
	device, host, err = b.Device.DeviceAndHostTimer()
	return device, -host, err
}

// otherClock has a timer that is not the clock of its stamps.
type otherClock struct {
	*mock.Device
	ahead time.Duration
}

func (o otherClock) EventStamp(e mock.Event) (uint64, error) {
	stamp, err := o.Device.EventStamp(e)
	return stamp + uint64(o.ahead), err
}

type forever struct{ *mock.Device }

func (forever) RoundQuery(events.Round, mock.Event) (bool, error) { return false, nil }

// What never comes is a failure of its check, not the end of the run.
func TestNeverReachedFailsItsCheckAndTheRunGoesOn(t *testing.T) {
	t.Parallel()
	out := run(t.Context(), mockAPI(forever{mock.NewDevice()}), About{}, Settings{Patience: 200 * time.Millisecond}, only(t, "fence", "leftovers"))
	require.True(t, out.Complete)
	require.Equal(t, []Verdict{Fail, Pass}, verdicts(out))
	require.Contains(t, out.Results[0].Reason, "gave up after")
}

// A busy host is no fault of the device.
func TestDriftOnABusyHostIsSkippedNotFailed(t *testing.T) {
	t.Parallel()
	dev := mock.NewDevice()
	dev.Script(mock.Fault{Op: mock.OpEventQuery, After: time.Millisecond})
	r := runOne(t, dev, About{}, "drift")
	require.Equal(t, Skip, r.Verdict, r.Reason)
	require.Contains(t, r.Reason, "too busy")
}
