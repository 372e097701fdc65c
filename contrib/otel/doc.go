// Package gpuotel makes OpenTelemetry spans and a histogram of the windows that package
// profiler measures. It is a module of its own, so that only its users get
// OpenTelemetry's modules.
//
//	sink, err := gpuotel.New()                               // the global providers
//	prof, err := profiler.New(dev, profiler.WithSink(sink))
//	decode := prof.Track(stream, "decode")
//	w := decode.StartContext(ctx)                            // ctx carries the request's span
//	enqueue()
//	decode.Stop(w)
//
//	prof.Close(); sink.Shutdown(ctx); provider.Shutdown(ctx) // in this order
//
// # Spans
//
// A finished window becomes a span named after its track, from where the window began on
// the host's clock to that plus its duration. The duration is as exact as the device's
// stamps; the start is right give or take gpu.window.bound, so a span may seem to begin
// some microseconds before or after what it followed.
//
// Its parent is the window that it lies in (profiler.Span.Parent), if both were started
// with the same span in their contexts or the inner one with none; otherwise the span in its
// own context; otherwise none. A window that was opened when that span had ended already
// starts a trace of its own with a link to it, as far as the span tells its end, which the
// SDK's do. Inner windows end first, and wait for the outer one (WithHold).
//
// Windows get here about half a second after they ended, mostly when the request is over.
// The span's parent is then complete, which OpenTelemetry allows; a sampler that decides at
// the end of a trace has to wait as long.
//
// Windows that failed have no time and become nothing here: profiler.Stats counts them.
//
// Attributes of a span: hw.id, hw.name and hw.vendor of the semantic conventions, and
// gpu.window.name, .id, .parent (numbers of windows), .bound (seconds), .epoch, .quality
// and .stream, which the conventions have nothing for. hw.id is the device's UUID, as
// NVIDIA writes it (GPU-...), so that it joins with other exporters' series.
//
// # Metric
//
// gpu.window.duration is a histogram in seconds, from 1 us to 10 s, by gpu.window.name,
// hw.id, hw.name and hw.vendor. Its points carry the spans as exemplars. It counts windows
// of traces that are not sampled, too.
//
// # Names
//
// A service that puts a request's number into a track's name would make a series of each.
// So the first 256 names are kept (WithMaxNames) and others are "other"; names longer than
// 128 bytes are cut, what is no UTF-8 is replaced, and an empty name is "unnamed".
//
// # When not to use it
//
// A span is made, kept and sent for every window. For windows by the ten thousand each
// second, sample the requests in the SDK, which leaves the histogram whole; sample the
// windows (profiler.Sample); or take the histogram alone (WithTracerProvider with the no-op
// provider).
//
// # Concurrency and ownership
//
// Everything is safe for concurrent use. One sink serves one profiler. Spans that are held
// keep their contexts alive, at most 4096 of them. The providers are the caller's.
package gpuotel
