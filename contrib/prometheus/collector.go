package gpuprom

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/devevents/events"
	"example.com/devevents/internal/labels"
	"example.com/devevents/profiler"
)

// buckets of the classic histograms go from 1 us to 10 s.
var buckets = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
	1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10,
}

const mostDevices = 64 // a profiler has one

// Source is what a collector reads at each scrape: any *profiler.Profiler.
type Source interface {
	// Stats are the counters.
	Stats() profiler.Stats
	// ClockStats is what is known of the device's clock.
	ClockStats() profiler.ClockStats
}

// Collector is a prometheus.Collector of one profiler, and a profiler.Sink. Make it with
// New. It is safe for concurrent use.
type Collector struct {
	source  atomic.Pointer[Source]
	names   *labels.Set
	devices *labels.Set

	durations *prometheus.HistogramVec
	info      *prometheus.GaugeVec
	bound     *prometheus.GaugeVec // without labels: it is absent until a window was placed
	figures   []figure
}

// New makes a collector for the profiler of that name, which must be unique in the
// registry: it is the label profiler of every metric. It registers nothing and looks at no device.
// Names and labels that Prometheus would refuse, and options out of range, are
// events.ErrInvalid.
func New(name string, opts ...Option) (*Collector, error) {
	cfg := config{names: 256, labels: prometheus.Labels{}}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("gpuprom: %w: option %d is nil", events.ErrInvalid, i)
		}
		o.apply(&cfg)
	}
	if name == "" {
		return nil, fmt.Errorf("gpuprom: %w: the profiler needs a name", events.ErrInvalid)
	}
	if cfg.names < 1 {
		return nil, fmt.Errorf("gpuprom: %w: at most %d names; at least 1", events.ErrInvalid, cfg.names)
	}
	if _, taken := cfg.labels["profiler"]; taken {
		return nil, fmt.Errorf("gpuprom: %w: the label profiler is the name given to New", events.ErrInvalid)
	}
	if _, taken := cfg.labels["le"]; taken {
		return nil, fmt.Errorf("gpuprom: %w: the label le is that of a histogram's buckets", events.ErrInvalid)
	}
	cfg.labels["profiler"] = name
	c := &Collector{
		names: labels.NewSet(cfg.names), devices: labels.NewSet(mostDevices),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:        "gpu_window_duration_seconds",
			Help:        "Time between the two ends of a window of device work, on the device's clock.",
			ConstLabels: cfg.labels,
			Buckets:     buckets,

			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"device", "window"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpu_device_info", Help: "What is known of the device of a profiler; always 1.", ConstLabels: cfg.labels,
		}, []string{"device", "backend", "vendor", "name", "pci"}),
		bound: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpu_window_bound_seconds", Help: "The widest bound of where a window began, of those delivered last.", ConstLabels: cfg.labels,
		}, nil),
		figures: figures(cfg.labels),
	}
	if err := prometheus.NewPedanticRegistry().Register(c); err != nil {
		return nil, fmt.Errorf("gpuprom: %w: name %q and labels: %w", events.ErrInvalid, name, err)
	}
	return c, nil
}

// Watch has the counters and the clock of a profiler read at each scrape. Before that
// there is the histogram alone. A profiler that takes the place of another, say after a
// device was lost, may be watched in its turn: its counters begin at 0, as after a restart.
func (c *Collector) Watch(source Source) error {
	if source == nil {
		return fmt.Errorf("gpuprom: %w: no profiler to watch", events.ErrInvalid)
	}
	c.source.Store(&source)
	return nil
}

// Spans implements profiler.Sink. It does not block, and its error is nil.
func (c *Collector) Spans(batch []profiler.Span) error {
	var widest time.Duration
	for i := range batch {
		s := &batch[i]
		c.durations.WithLabelValues(c.device(s.Device), c.names.Bound(labels.Clean(s.Name))).Observe(s.Duration.Seconds())
		widest = max(widest, s.Bound)
	}
	if len(batch) > 0 {
		c.bound.WithLabelValues().Set(widest.Seconds())
	}
	return nil
}

// device is the label of a device, which is known by an info metric from then on.
func (c *Collector) device(d *profiler.Device) string {
	if d == nil {
		return ""
	}
	label := c.devices.Bound(labels.Device(d.Backend, d.Identity))
	if label != labels.Other {
		c.info.WithLabelValues(label, known(d.Backend), known(d.Vendor), known(d.Name), known(d.PCIBusID)).Set(1)
	}
	return label
}

// known keeps what is unknown empty, which Prometheus takes for absent.
func known(s string) string {
	if s == "" {
		return ""
	}
	return labels.Clean(s)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	c.durations.Describe(to)
	c.info.Describe(to)
	c.bound.Describe(to)
	for _, f := range c.figures {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector. It makes no call of the driver.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.durations.Collect(to)
	c.info.Collect(to)
	c.bound.Collect(to)
	source := c.source.Load()
	if source == nil {
		return
	}
	stats, clock := (*source).Stats(), (*source).ClockStats()
	for _, f := range c.figures {
		if !f.clock || clock.Anchors > 0 { // nothing is known of a clock that was never looked at
			f.collect(to, stats, clock)
		}
	}
}
