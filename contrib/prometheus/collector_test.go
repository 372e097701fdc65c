package gpuprom_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	gpuprom "example.com/devevents/contrib/prometheus"
	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

const us = time.Microsecond

// rig is a profiler on a simulated device, watched by a collector in a registry.
type rig struct {
	*gpuprom.Collector
	dev    *mock.Device
	stream mock.Stream
	prof   *profiler.Profiler[mock.Stream]
}

func newRig(t testing.TB, registry *prometheus.Registry, name string, opts ...profiler.Option) *rig {
	t.Helper()
	c, err := gpuprom.New(name)
	require.NoError(t, err)
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	p, err := profiler.New(dev, append(opts, profiler.WithSink(c))...)
	require.NoError(t, err)
	require.NoError(t, c.Watch(p))
	require.NoError(t, registry.Register(c))
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, dev.StreamDestroy(s))
		dev.System().Close()
	})
	return &rig{c, dev, s, p}
}

// measure opens and closes a window of that length.
func (r *rig) measure(t testing.TB, tr *profiler.Track, length time.Duration) {
	t.Helper()
	w := tr.Start()
	require.NoError(t, r.dev.Work(r.stream, length))
	tr.Stop(w)
}

// finish has every window delivered.
func (r *rig) finish(t testing.TB) {
	t.Helper()
	require.NoError(t, r.dev.StreamSynchronize(r.stream))
	require.NoError(t, r.prof.Close())
}

// scrape reads the registry over HTTP, in the format that is asked for, with the parser
// that belongs to it.
func scrape(t testing.TB, registry *prometheus.Registry, format expfmt.Format) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	request, err := http.NewRequest(http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", string(format))
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	answered := expfmt.ResponseFormat(response.Header)
	require.Equal(t, format.FormatType(), answered.FormatType())
	decoder := expfmt.NewDecoder(response.Body, answered)
	found := map[string]*dto.MetricFamily{}
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		found[family.GetName()] = &family
	}
}

var (
	text     = expfmt.NewFormat(expfmt.TypeTextPlain)
	protobuf = expfmt.NewFormat(expfmt.TypeProtoDelim)
)

// one is the metric of a family that has these labels, among others.
func one(t testing.TB, family *dto.MetricFamily, labels prometheus.Labels) *dto.Metric {
	t.Helper()
	require.NotNil(t, family)
	var found []*dto.Metric
	for _, m := range family.GetMetric() {
		matched := 0
		for _, l := range m.GetLabel() {
			if want, asked := labels[l.GetName()]; asked && want == l.GetValue() {
				matched++
			}
		}
		if matched == len(labels) {
			found = append(found, m)
		}
	}
	require.Len(t, found, 1, "%s %v", family.GetName(), labels)
	return found[0]
}

func value(t testing.TB, family *dto.MetricFamily, labels prometheus.Labels) float64 {
	t.Helper()
	switch m := one(t, family, labels); {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	default:
		require.NotNil(t, m.GetGauge())
		return m.GetGauge().GetValue()
	}
}

func TestScrapeSaysWhatTheProfilerCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, registry, "gpu0", profiler.WithWindows(4),
		profiler.WithSink(profiler.SinkFunc(func([]profiler.Span) error { return errors.New("broken") })))
	decode, prefill := r.prof.Track(r.stream, "decode"), r.prof.Track(r.stream, "prefill")
	for range 3 {
		r.measure(t, decode, 3*time.Millisecond)
		require.NoError(t, r.dev.StreamSynchronize(r.stream))
		require.NoError(t, r.prof.Flush(t.Context()))
	}
	r.measure(t, prefill, 40*us)
	require.NoError(t, decode.Abandon(decode.Start()))
	failing := decode.Start()
	r.prof.Fail(errors.New("an error of the program's"))
	decode.Stop(failing)
	for range 6 {
		decode.Start()
	}
	during := scrape(t, registry, text)
	require.InDelta(t, float64(r.prof.Stats().Open), value(t, during["gpu_windows_open"], nil), 0)
	require.Positive(t, value(t, during["gpu_windows_open"], nil))
	r.finish(t)

	st, clock := r.prof.Stats(), r.prof.ClockStats()
	require.NotZero(t, st.Dropped)
	require.NotZero(t, st.Failed)
	families := scrape(t, registry, text)
	for outcome, want := range map[string]uint64{"finished": st.Finished, "failed": st.Failed, "abandoned": st.Abandoned, "captured": st.Captured, "dropped": st.Dropped} {
		require.InDelta(t, float64(want), value(t, families["gpu_windows_total"], prometheus.Labels{"outcome": outcome, "profiler": "gpu0"}), 0, outcome)
	}
	for name, want := range map[string]float64{
		"gpu_windows_started_total":        float64(st.Started),
		"gpu_windows_open":                 0,
		"gpu_windows_pending":              0,
		"gpu_sink_spans_dropped_total":     float64(st.SinkDropped),
		"gpu_sink_failures_total":          float64(st.SinkFailed),
		"gpu_event_destroy_failures_total": 0,
		"gpu_clock_anchors_total":          float64(st.Anchors),
		"gpu_clock_anchors_missed_total":   0,
		"gpu_clock_contradictions_total":   0,
		"gpu_clock_drift_ppm":              clock.DriftPPM,
		"gpu_clock_drift_uncertainty_ppm":  clock.DriftUncertaintyPPM,
		"gpu_clock_best_bracket_seconds":   clock.BestBracket.Seconds(),
		"gpu_clock_last_bracket_seconds":   clock.LastBracket.Seconds(),
		"gpu_clock_tick_seconds":           clock.Tick.Seconds(),
	} {
		require.InDelta(t, want, value(t, families[name], prometheus.Labels{"profiler": "gpu0"}), 1e-12, name)
	}
	require.NotZero(t, st.SinkFailed)
	require.NotZero(t, st.Anchors)

	id := r.dev.Identity()
	h := one(t, families["gpu_window_duration_seconds"], prometheus.Labels{"window": "decode", "device": id.UUID}).GetHistogram()
	require.Equal(t, uint64(3), h.GetSampleCount())
	require.InDelta(t, 0.009, h.GetSampleSum(), 1e-12)
	h = one(t, families["gpu_window_duration_seconds"], prometheus.Labels{"window": "prefill", "profiler": "gpu0"}).GetHistogram()
	require.InDelta(t, 40e-6, h.GetSampleSum(), 1e-12)
	for _, b := range h.GetBucket() {
		require.Equal(t, b.GetUpperBound() >= 40e-6, b.GetCumulativeCount() == 1, "%v", b)
	}
	one(t, families["gpu_device_info"], prometheus.Labels{
		"device": id.UUID, "backend": "mock", "vendor": id.Vendor, "name": id.Name, "pci": id.PCIBusID, "profiler": "gpu0",
	})
	require.Positive(t, value(t, families["gpu_window_bound_seconds"], nil))
}

// The classic buckets reach from 1 us to 10 s; the native ones, which a server asks for in
// the protobuf format, are as fine as 10 %.
func TestHistogramsHaveTheScaleOfAGPU(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, registry, "gpu0")
	lengths := []time.Duration{0, us, 20 * us, 21 * us, 23 * us, 3 * time.Millisecond, time.Second, time.Minute}
	sum := 0.0
	var batch []profiler.Span
	for _, d := range lengths {
		batch = append(batch, profiler.Span{Name: "w", Duration: d})
		sum += d.Seconds()
	}
	require.NoError(t, r.Spans(batch))

	h := scrape(t, registry, protobuf)["gpu_window_duration_seconds"].GetMetric()[0].GetHistogram()
	require.Equal(t, uint64(len(lengths)), h.GetSampleCount())
	require.InDelta(t, sum, h.GetSampleSum(), 1e-9)
	classic := h.GetBucket()
	require.InDelta(t, 1e-6, classic[0].GetUpperBound(), 0)
	require.Equal(t, uint64(2), classic[0].GetCumulativeCount(), "0 and 1 us")
	last := classic[len(classic)-1]
	if math.IsInf(last.GetUpperBound(), 1) {
		last = classic[len(classic)-2]
	}
	require.InDelta(t, 10, last.GetUpperBound(), 0)
	require.Equal(t, uint64(len(lengths)-1), last.GetCumulativeCount())

	require.Equal(t, int32(3), h.GetSchema(), "2^(1/8), the coarsest one within 1.1")
	require.Equal(t, uint64(1), h.GetZeroCount())
	buckets := 0
	for _, span := range h.GetPositiveSpan() {
		buckets += int(span.GetLength())
	}
	require.GreaterOrEqual(t, buckets, len(lengths)-2, "20 and 21 us may share one")
}

// promlint is what Prometheus thinks of names, units and texts.
func TestNamesAreThoseThatPrometheusWants(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	r := newRig(t, registry, "gpu0")
	r.measure(t, r.prof.Track(r.stream, "w"), us)
	r.finish(t)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	count, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 22, count, "none was left out")
}

func TestSeveralProfilersShareARegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, b := newRig(t, registry, "gpu0"), newRig(t, registry, "gpu1")
	for i, r := range []*rig{a, b} {
		tr := r.prof.Track(r.stream, "w")
		for range i + 1 {
			r.measure(t, tr, time.Millisecond)
		}
		r.finish(t)
	}
	families := scrape(t, registry, text)
	for i, name := range []string{"gpu0", "gpu1"} {
		require.InDelta(t, float64(i+1), value(t, families["gpu_windows_total"], prometheus.Labels{"profiler": name, "outcome": "finished"}), 0)
		h := one(t, families["gpu_window_duration_seconds"], prometheus.Labels{"profiler": name}).GetHistogram()
		require.Equal(t, uint64(i+1), h.GetSampleCount())
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)

	again, err := gpuprom.New("gpu1")
	require.NoError(t, err)
	var taken prometheus.AlreadyRegisteredError
	require.ErrorAs(t, registry.Register(again), &taken)
	require.True(t, registry.Unregister(b))
	require.NoError(t, registry.Register(again))
}

// open-telemetry/opentelemetry-ebpf-instrumentation#1230
func TestNamesStayFewAndValid(t *testing.T) {
	c, err := gpuprom.New("gpu0", gpuprom.WithMaxNames(2))
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	var batch []profiler.Span
	for i := range 1000 {
		id := "GPU-" + strconv.Itoa(i)
		batch = append(batch, profiler.Span{Name: "request " + strconv.Itoa(i) + "\xff", Device: &profiler.Device{Identity: events.Identity{UUID: id, Name: "\xff"}}})
	}
	require.NoError(t, c.Spans(batch))
	families := scrape(t, registry, text)
	require.Len(t, families["gpu_device_info"].GetMetric(), 64)
	windows := map[string]uint64{}
	for _, m := range families["gpu_window_duration_seconds"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "window" {
				windows[l.GetValue()] += m.GetHistogram().GetSampleCount()
			}
		}
	}
	require.Equal(t, map[string]uint64{"request 0\uFFFD": 1, "request 1\uFFFD": 1, "other": 998}, windows)
}

func TestWhatPrometheusWouldRefuseIsRefused(t *testing.T) {
	for what, of := range map[string]struct {
		name string
		opt  gpuprom.Option
	}{
		"no name":              {"", gpuprom.WithMaxNames(1)},
		"a name of no UTF-8":   {"\xff", gpuprom.WithMaxNames(1)},
		"a nil option":         {"gpu0", nil},
		"no names of windows":  {"gpu0", gpuprom.WithMaxNames(0)},
		"a label of ours":      {"gpu0", gpuprom.WithConstLabels(prometheus.Labels{"window": "x"})},
		"the profiler's label": {"gpu0", gpuprom.WithConstLabels(prometheus.Labels{"profiler": "x"})},
		"a label of no UTF-8":  {"gpu0", gpuprom.WithConstLabels(prometheus.Labels{"rack": "\xff"})},
		"a bucket's label":     {"gpu0", gpuprom.WithConstLabels(prometheus.Labels{"le": "x"})},
		"a reserved label":     {"gpu0", gpuprom.WithConstLabels(prometheus.Labels{"__rack": "x"})},
	} {
		_, err := gpuprom.New(of.name, of.opt)
		require.ErrorIs(t, err, events.ErrInvalid, what)
	}
	c, err := gpuprom.New("gpu0", gpuprom.WithConstLabels(prometheus.Labels{"rack": "r7"}))
	require.NoError(t, err)
	require.ErrorIs(t, c.Watch(nil), events.ErrInvalid)
}

// What is not known is absent, and not 0.
func TestCollectorSaysNothingOfWhatItDoesNotKnow(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c, err := gpuprom.New("gpu0")
	require.NoError(t, err)
	require.NoError(t, registry.Register(c))
	require.Empty(t, scrape(t, registry, text))

	var off *profiler.Profiler[mock.Stream] // what WithDisabled makes
	require.NoError(t, c.Watch(off))
	families := scrape(t, registry, text)
	require.InDelta(t, 0, value(t, families["gpu_windows_started_total"], nil), 0)
	require.NotContains(t, families, "gpu_clock_drift_ppm")
	require.NotContains(t, families, "gpu_window_bound_seconds")

	require.NoError(t, c.Spans([]profiler.Span{{Name: "w"}}))
	one(t, scrape(t, registry, text)["gpu_window_duration_seconds"], prometheus.Labels{"window": "w", "device": ""})
}

// A scrape takes what is there; a driver that hangs does not hang it.
func TestScrapeMakesNoCallOfTheDriver(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, registry, "gpu0", profiler.WithAnchorInterval(time.Hour))
	r.finish(t)
	before := len(r.dev.Calls())
	scrape(t, registry, text)
	require.Len(t, r.dev.Calls(), before)
}

// Scrapes, sinks and changes of the profiler at the same time.
func TestCollectorHammer(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	r := newRig(t, registry, "gpu0")
	const each, batches = 5, 200
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range batches {
				batch := make([]profiler.Span, each)
				for k := range batch {
					batch[k] = profiler.Span{Name: strconv.Itoa((g*batches + i) % 300), Duration: time.Duration(i) * us, Bound: us}
				}
				if err := r.Spans(batch); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
				if err := r.Watch(r.prof); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := uint64(0)
	families := scrape(t, registry, protobuf)["gpu_window_duration_seconds"].GetMetric()
	for _, m := range families {
		total += m.GetHistogram().GetSampleCount()
	}
	require.Equal(t, uint64(4*batches*each), total)
	require.LessOrEqual(t, len(families), 257)
}
