package opencl

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// hot are the calls that a profiler makes round every piece of work.
func hot(b *bench, start, end Event, s, wrapped Stream) map[string]func() error {
	return map[string]func() error{
		"record":       func() error { return b.EventRecord(start, s) },
		"record, wrap": func() error { return b.EventRecord(start, wrapped) },
		"query":        func() error { _, err := b.EventQuery(end); return err },
		"wait":         func() error { return b.EventWait(end) },
		"elapsed":      func() error { _, err := b.EventElapsed(end, end); return err },
		"stream wait":  func() error { return b.StreamWaitEvent(s, end) },
		"record and wait and read": func() error {
			if err := b.EventRecord(end, s); err != nil {
				return err
			}
			if _, err := b.EventQuery(end); err != nil {
				return err
			}
			if err := b.EventWait(end); err != nil {
				return err
			}
			_, err := b.EventElapsed(end, end)
			return err
		},
	}
}

// plain is the machine's device without the account of its references.
func plain(tb testing.TB) *bench {
	tb.Helper()
	rt, refused := enumerate(library(tb).api)
	require.Nil(tb, refused)
	b := &bench{rt: rt, ledger: newLedger(rt.api)}
	b.open(tb)
	tb.Cleanup(func() { require.NoError(tb, b.Close()) })
	return b
}

func TestHotCallsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	b := plain(t)
	s := b.stream(t)
	wrapped := b.WrapStream(b.stream(t).Handle())
	start, end := b.recorded(t, s), b.recorded(t, s)
	b.mustWait(t, end)
	const calls = 10_000
	for name, call := range hot(b, start, end, s, wrapped) {
		require.NoError(t, call())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		require.NoError(t, b.StreamSynchronize(s))
		require.NoError(t, b.StreamSynchronize(wrapped))
		require.Less(t, after.Mallocs-before.Mallocs, uint64(calls/100), name)
	}
}

func BenchmarkHotCalls(bm *testing.B) {
	b := plain(bm)
	s := b.stream(bm)
	wrapped := b.WrapStream(b.stream(bm).Handle())
	start, end := b.recorded(bm, s), b.recorded(bm, s)
	b.mustWait(bm, end)
	for name, call := range hot(b, start, end, s, wrapped) {
		bm.Run(name, func(bm *testing.B) {
			bm.ReportAllocs()
			n := 0
			for bm.Loop() {
				if err := call(); err != nil {
					bm.Fatal(err)
				}
				if n++; n%1000 == 0 { // a queue that nobody waits for grows
					bm.StopTimer()
					_ = b.StreamSynchronize(s)
					_ = b.StreamSynchronize(wrapped)
					bm.StartTimer()
				}
			}
		})
	}
}
