package profiler_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// A request's windows belong together by its context, whatever other requests have open on
// the streams they share.
func TestParentIsThatOfTheContextOnAnyStream(t *testing.T) {
	sink := &gathered{}
	r := newRig(t, nil, profiler.WithSink(sink))
	second, err := r.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.dev.StreamDestroy(second)) }()
	request, stranger := r.track(t, "request"), r.track(t, "stranger")
	decode, copying := r.prof.Track(second, "decode"), r.track(t, "copy")

	ctx, outer := request.Begin(context.Background())
	other := open(t, stranger) // of somebody else, on the same stream, later
	ctx, inner := decode.Begin(ctx)
	leaf := copying.StartContext(ctx)
	byStream := open(t, r.prof.Track(r.stream, "by stream"))
	copying.Stop(leaf)
	r.prof.Stop(r.stream, byStream)
	decode.Stop(inner)
	stranger.Stop(other)
	request.Stop(outer)
	r.sync(t)
	require.NoError(t, r.dev.StreamSynchronize(second))
	r.flushed(t)

	spans := sink.byName(t, 5)
	for _, x := range []struct {
		name, parent string
		within       []string
	}{
		{"request", "", nil},
		{"stranger", "request", []string{"request"}}, // nothing but the stream says otherwise
		{"decode", "request", []string{"request"}},
		{"copy", "decode", []string{"request", "decode"}},
		{"by stream", "copy", []string{"request", "decode", "copy"}},
	} {
		s := spans[x.name]
		require.Equal(t, spans[x.parent].ID, s.Parent, x.name)
		require.Equal(t, x.within, s.Within, x.name)
		require.Len(t, x.within, s.Depth, x.name)
		require.Equal(t, spans["request"].ID, s.Root, x.name)
	}
}

func TestContextOfAnotherProfilerIsNoParent(t *testing.T) {
	a, b := newRig(t, nil), newRig(t, nil)
	ta, tb := a.track(t, "a"), b.track(t, "b")
	ctx, w := ta.Begin(context.Background())
	m := tb.Stop(tb.StartContext(ctx))
	ta.Stop(w)
	b.flushed(t)
	s := span(t, m)
	require.Zero(t, s.Parent)
	require.Equal(t, s.ID, s.Root)
}

// Of a deep nest the innermost names are kept, and the depth is still told.
func TestDeepNestKeepsItsInnermostNames(t *testing.T) {
	r := newRig(t, nil)
	ctx := context.Background()
	var ms []profiler.Measurement
	var windows []profiler.Window
	var tracks []*profiler.Track
	for i := range 12 {
		tr := r.track(t, string(rune('a'+i)))
		var w profiler.Window
		ctx, w = tr.Begin(ctx)
		tracks, windows = append(tracks, tr), append(windows, w)
	}
	for i := range windows {
		ms = append(ms, tracks[i].Stop(windows[i]))
	}
	r.flushed(t)
	s := span(t, ms[11])
	require.Equal(t, 11, s.Depth)
	require.Equal(t, []string{"d", "e", "f", "g", "h", "i", "j", "k"}, s.Within)
	require.Equal(t, ms[10].ID(), s.Parent)
	require.Equal(t, ms[0].ID(), s.Root)
}

// Work that broke off is never a short time.
func TestDoMeasuresOnlyWhatCameToItsEnd(t *testing.T) {
	sink := &gathered{}
	r := newRig(t, nil, profiler.WithSink(sink))
	tr, inside := r.track(t, "request"), r.track(t, "inside")
	ctx := context.Background()
	require.NoError(t, profiler.Do(ctx, tr, func(ctx context.Context) error {
		r.work(t, time.Millisecond)
		return profiler.Do(ctx, inside, func(context.Context) error { r.work(t, time.Millisecond); return nil })
	}))
	broke := errors.New("broke off")
	require.ErrorIs(t, profiler.Do(ctx, tr, func(context.Context) error { return broke }), broke)
	require.PanicsWithValue(t, "at the disco", func() {
		_ = profiler.Do(ctx, tr, func(context.Context) error { panic("at the disco") })
	})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = profiler.Do(ctx, tr, func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-over
	r.flushed(t)
	spans := sink.byName(t, 2)
	require.Equal(t, 2*time.Millisecond, spans["request"].Duration.Truncate(time.Millisecond))
	require.Equal(t, spans["request"].ID, spans["inside"].Parent)
	require.Equal(t, uint64(3), r.prof.Stats().Abandoned)
}

func TestDoRunsWithoutAProfiler(t *testing.T) {
	var none *profiler.Track
	ran := 0
	run := func(context.Context) error { ran++; return nil }
	require.NoError(t, profiler.Do(context.Background(), none, run))
	full := newRig(t, []mock.Option{mock.Ideal()}, profiler.WithWindows(1))
	tr := full.track(t, "w")
	w := open(t, tr)
	require.NoError(t, profiler.Do(context.Background(), tr, run))
	tr.Stop(w)
	require.Equal(t, 2, ran)
}

func TestBeginTakesNoContextForTheBackground(t *testing.T) {
	r := newRig(t, []mock.Option{mock.Ideal()})
	ctx, w := r.track(t, "w").Begin(nil) //nolint:staticcheck // nil is what is tested
	require.NoError(t, w.Err())
	require.NotNil(t, ctx)
	require.NoError(t, ctx.Err())
	require.NoError(t, r.track(t, "w").Abandon(w))
}
