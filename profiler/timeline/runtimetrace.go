package timeline

import (
	"context"
	"runtime/trace"
	"strconv"

	"example.com/devevents/profiler"
)

// RuntimeTrace is a sink that tells windows to runtime/trace while a trace is being
// taken, as log lines of the category "gpu" under the task of the window's context: the name,
// where it began and how long it took on the device. The line comes when the window is known,
// half a second after its end; go tool trace shows it there. While no trace is being taken it
// does nothing.
func RuntimeTrace() profiler.Sink {
	return profiler.SinkFunc(func(batch []profiler.Span) error {
		if !trace.IsEnabled() {
			return nil
		}
		for i := range batch {
			s := &batch[i]
			ctx := s.Context
			if ctx == nil {
				ctx = context.Background()
			}
			trace.Log(ctx, "gpu", s.Name+" window="+strconv.FormatUint(s.ID, 10)+" stream="+strconv.FormatUint(s.Stream(), 10)+
				" start="+s.Start.Format("15:04:05.000000000")+" bound="+s.Bound.String()+" duration="+s.Duration.String())
		}
		return nil
	})
}
