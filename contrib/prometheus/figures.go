package gpuprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"example.com/devevents/profiler"
)

// figure is a metric that is read off a profiler at each scrape.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label string // the value of its variable label, if it has one
	clock bool   // it says something of the device's clock
	of    func(profiler.Stats, profiler.ClockStats) float64
}

func (f figure) collect(to chan<- prometheus.Metric, stats profiler.Stats, clock profiler.ClockStats) {
	var labels []string
	if f.label != "" {
		labels = append(labels, f.label)
	}
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(stats, clock), labels...)
}

func figures(labels prometheus.Labels) []figure {
	var list []figure
	count := func(name, help string, of func(profiler.Stats) uint64) {
		list = append(list, figure{
			desc: prometheus.NewDesc(name, help, nil, labels), kind: prometheus.CounterValue,
			of: func(s profiler.Stats, _ profiler.ClockStats) float64 { return float64(of(s)) },
		})
	}
	now := func(name, help string, of func(profiler.Stats) uint64) {
		count(name, help, of)
		list[len(list)-1].kind = prometheus.GaugeValue
	}
	clock := func(name, help string, of func(profiler.ClockStats) float64) {
		list = append(list, figure{
			desc: prometheus.NewDesc(name, help, nil, labels), kind: prometheus.GaugeValue, clock: true,
			of: func(_ profiler.Stats, c profiler.ClockStats) float64 { return of(c) },
		})
	}

	ended := prometheus.NewDesc("gpu_windows_total",
		"Windows that ended: finished (measured), failed, abandoned, captured into a graph, dropped since too many were open or unread.",
		[]string{"outcome"}, labels)
	for outcome, of := range map[string]func(profiler.Stats) uint64{
		"finished":  func(s profiler.Stats) uint64 { return s.Finished },
		"failed":    func(s profiler.Stats) uint64 { return s.Failed },
		"abandoned": func(s profiler.Stats) uint64 { return s.Abandoned },
		"captured":  func(s profiler.Stats) uint64 { return s.Captured },
		"dropped":   func(s profiler.Stats) uint64 { return s.Dropped },
	} {
		list = append(list, figure{
			desc: ended, kind: prometheus.CounterValue, label: outcome,
			of: func(s profiler.Stats, _ profiler.ClockStats) float64 { return float64(of(s)) },
		})
	}
	count("gpu_windows_started_total", "Windows that were started.", func(s profiler.Stats) uint64 { return s.Started })
	now("gpu_windows_open", "Windows that are open.", func(s profiler.Stats) uint64 { return s.Open })
	now("gpu_windows_pending", "Windows that were stopped and are not read back yet.", func(s profiler.Stats) uint64 { return s.Pending })
	count("gpu_sink_spans_dropped_total", "Finished windows that a sink lost, over all sinks.", func(s profiler.Stats) uint64 { return s.SinkDropped })
	count("gpu_sink_failures_total", "Calls of sinks that returned an error or panicked.", func(s profiler.Stats) uint64 { return s.SinkFailed })
	count("gpu_event_destroy_failures_total", "Events that could not be destroyed.", func(s profiler.Stats) uint64 { return s.DestroyFailed })

	count("gpu_clock_anchors_total", "Comparisons of the device's clock with the host's.", func(s profiler.Stats) uint64 { return s.Anchors })
	count("gpu_clock_anchors_missed_total", "Comparisons of the clocks given up because the device did not answer in time.", func(s profiler.Stats) uint64 { return s.AnchorsMissed })
	count("gpu_clock_contradictions_total", "Times that the clocks were set apart (suspend, reset).", func(s profiler.Stats) uint64 { return s.Contradictions })
	clock("gpu_clock_drift_ppm", "By how many millionths the host's clock is faster than the device's.", func(c profiler.ClockStats) float64 { return c.DriftPPM })
	clock("gpu_clock_drift_uncertainty_ppm", "How far off the drift may be, in millionths.", func(c profiler.ClockStats) float64 { return c.DriftUncertaintyPPM })
	clock("gpu_clock_best_bracket_seconds", "Host time round the narrowest of the last comparisons of the clocks.", func(c profiler.ClockStats) float64 { return c.BestBracket.Seconds() })
	clock("gpu_clock_last_bracket_seconds", "Host time round the last comparison of the clocks.", func(c profiler.ClockStats) float64 { return c.LastBracket.Seconds() })
	clock("gpu_clock_tick_seconds", "The step of the device's stamps, as far as it shows.", func(c profiler.ClockStats) float64 { return c.Tick.Seconds() })
	return list
}
