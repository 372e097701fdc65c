// Package gpuprom offers to Prometheus what package profiler measures. It is a module of
// its own, so that only its users get Prometheus' modules.
//
//	metrics, err := gpuprom.New("gpu0")                         // a name for the profiler
//	prof, err := profiler.New(dev, profiler.WithSink(metrics))
//	err = metrics.Watch(prof)
//	err = registry.Register(metrics)                            // yours, or prometheus.DefaultRegisterer
//
// # Metrics
//
// All have a label profiler, the name given to New, so that several profilers of one
// program share a registry.
//
//	gpu_window_duration_seconds{device,window}   histogram, classic (1 us to 10 s) and native
//	gpu_windows_started_total                    calls of Start
//	gpu_windows_total{outcome}                   finished, failed, abandoned, captured, dropped
//	gpu_windows_open, gpu_windows_pending        at this moment
//	gpu_sink_spans_dropped_total                 spans that a sink lost, of all sinks
//	gpu_sink_failures_total                      calls of sinks that failed
//	gpu_event_destroy_failures_total             events that the driver would not destroy
//	gpu_clock_anchors_total, _missed_total       comparisons of the clocks, and those given up
//	gpu_clock_contradictions_total               times that the clocks were set apart
//	gpu_clock_drift_ppm, _drift_uncertainty_ppm  the host's clock against the device's
//	gpu_clock_best_bracket_seconds, _last_...    host time round the comparisons of the clocks
//	gpu_clock_tick_seconds                       the step of the device's stamps
//	gpu_window_bound_seconds                     widest bound of the starts in the last batch
//	gpu_device_info{device,name,vendor,...}      1; appears with a device's first window
//
// device is the UUID as the vendor writes it, so that series join with those of other
// exporters; where there is none it is the PCI address or the number of the device.
//
// # Names
//
// A service that puts a request's number into a track's name would make a series of each.
// So the first 256 names are kept (WithMaxNames) and others are "other"; names longer than
// 128 bytes are cut, what is no UTF-8 is replaced, and an empty name is "unnamed".
//
// # When not to use it
//
// A histogram says nothing of a single request: package contrib/otel makes spans. Native
// histograms travel in Prometheus' protobuf format alone, which its server asks for when it is
// told to scrape them; others get the classic buckets.
//
// # Concurrency and ownership
//
// Everything is safe for concurrent use, and nothing blocks. A scrape takes a snapshot of
// counters and makes no call of the driver. After the profiler's Close the last values
// stay, until the collector is unregistered.
package gpuprom
