package gpuotel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// On a real device: a span lies between the moment its work could begin and the moment it
// was seen to be done, on the wall clock, and names the device as other exporters do.
func TestGPUSpansLieWhereTheWorkWas(t *testing.T) {
	dev := gputest.Device(t)
	s := gputest.Stream(t, dev)
	r := newRig(t)
	p, err := profiler.New(dev, profiler.WithSink(r))
	require.NoError(t, err)
	outer, inner := p.Track(s, "outer"), p.Track(s, "inner")

	ctx, request := r.request(background)
	gate, err := dev.GateClose(s, 5*time.Second)
	require.NoError(t, err)
	w := outer.StartContext(ctx)
	in := inner.StartContext(ctx)
	spin, err := dev.ScratchSpin(time.Millisecond, s)
	require.NoError(t, err)
	inner.Stop(in)
	outer.Stop(w)
	request.End()
	opened := time.Now()
	require.NoError(t, gate.Open())
	require.NoError(t, dev.StreamSynchronize(s))
	done := time.Now()
	took, err := spin.Measured()
	require.NoError(t, err)
	require.NoError(t, p.Close())

	got := r.got()
	require.Equal(t, request.SpanContext().SpanID(), got["outer"].Parent.SpanID(), "though the work began when the request was over")
	require.Equal(t, got["outer"].SpanContext.SpanID(), got["inner"].Parent.SpanID())
	for _, name := range []string{"outer", "inner"} {
		span, said := got[name], attributes(got[name].Attributes)
		bound := time.Duration(said["gpu.window.bound"].(float64) * float64(time.Second))
		t.Logf("%s: %v to %v after the gate was opened, give or take %v", name, span.StartTime.Sub(opened), span.EndTime.Sub(opened), bound)
		require.GreaterOrEqual(t, span.EndTime.Sub(span.StartTime), took)
		require.False(t, span.StartTime.Add(bound).Before(opened.Round(0)))
		require.False(t, span.EndTime.Add(-bound).After(done.Round(0)))
		require.Regexp(t, `^(GPU|MIG)-[0-9a-f-]{36}$`, said["hw.id"])
		require.Equal(t, dev.Identity().Name, said["hw.name"])
		require.Contains(t, said["hw.vendor"], "NVIDIA")
	}
}
