package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

// BenchmarkErase compares erased calls with direct ones. Nanoseconds of a shared
// machine say little, so batches of both alternate and their ratio is reported.
func BenchmarkErase(b *testing.B) {
	dev := device(b, mock.EventCost(0), mock.LaunchLatency(0))
	api := events.Erase(dev)
	stream := newStream(b, dev)
	anyStream, err := events.EraseStream(api, stream)
	require.NoError(b, err)
	start, end, anyStart, anyEnd := handle(b, dev, stream), handle(b, dev, stream), handle(b, api, anyStream), handle(b, api, anyStream)
	querier, _ := events.Ability[events.Querier[events.AnyEvent]](api)
	require.NoError(b, dev.StreamSynchronize(stream))
	compare(b, "record",
		func() error { return dev.EventRecord(end, stream) },
		func() error { return api.EventRecord(anyEnd, anyStream) })
	compare(b, "query",
		func() error { _, err := dev.EventQuery(end); return err },
		func() error { _, err := querier.EventQuery(anyEnd); return err })
	compare(b, "wait",
		func() error { return dev.EventWait(end) },
		func() error { return api.EventWait(anyEnd) })
	compare(b, "elapsed",
		func() error { _, err := dev.EventElapsed(start, end); return err },
		func() error { _, err := api.EventElapsed(anyStart, anyEnd); return err })
}

// BenchmarkEvent compares the owning Event with the backend's own calls. A
// record asks whether the stream is being captured, which is a second call; a
// query or wait of what is known to be complete is none.
func BenchmarkEvent(b *testing.B) {
	dev := device(b, mock.EventCost(0), mock.LaunchLatency(0))
	stream := newStream(b, dev)
	start, end := handle(b, dev, stream), handle(b, dev, stream)
	first, second := recorded(b, dev, stream), recorded(b, dev, stream)
	require.NoError(b, second.Wait())
	compare(b, "record",
		func() error { return dev.EventRecord(end, stream) },
		func() error { return second.Record(stream) })
	require.NoError(b, second.Wait())
	compare(b, "query",
		func() error { _, err := dev.EventQuery(end); return err },
		func() error { _, err := second.Query(); return err })
	compare(b, "elapsed",
		func() error { _, err := dev.EventElapsed(start, end); return err },
		func() error { _, err := events.Elapsed(first, second); return err })
}

func BenchmarkPool(b *testing.B) {
	pool := newPool(b, device(b), 1)
	b.ReportAllocs()
	for b.Loop() {
		e, err := pool.Get()
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

func handle[E any, S comparable](tb testing.TB, api events.EventApi[E, S], stream S) E {
	tb.Helper()
	e, err := api.EventCreate()
	require.NoError(tb, err)
	require.NoError(tb, api.EventRecord(e, stream))
	require.NoError(tb, api.EventWait(e))
	return e
}

func compare(b *testing.B, name string, direct, through func() error) {
	b.Run(name, func(b *testing.B) {
		const batch = 1000
		var spent [2]time.Duration
		b.ReportAllocs()
		for b.Loop() {
			for i, call := range [2]func() error{direct, through} {
				began := time.Now()
				for range batch {
					if err := call(); err != nil {
						b.Fatal(err)
					}
				}
				spent[i] += time.Since(began)
			}
		}
		calls := float64(b.N) * batch
		b.ReportMetric(float64(spent[0])/calls, "direct-ns/call")
		b.ReportMetric(float64(spent[1])/calls, "through-ns/call")
		b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
		b.ReportMetric(0, "ns/op")
	})
}
