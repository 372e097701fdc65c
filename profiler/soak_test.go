package profiler_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/mock"
	"example.com/devevents/profiler"
)

// Windows at a service's rate keep memory and live events flat. DEVEVENTS_SOAK
// sets for how long, such as 20m.
func TestSoakKeepsMemoryFlat(t *testing.T) {
	length := time.Minute
	if testing.Short() {
		length = 2 * time.Second
	}
	if s := os.Getenv("DEVEVENTS_SOAK"); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	var sink counter
	dev := mock.NewDevice() // in real time, with the costs of a real device
	// A machine that pauses for a fifth of a second makes up for it with a burst.
	r := rigOn(t, dev, profiler.WithSink(&sink), profiler.WithPrepared(prepared))
	tr := r.track(t, "w")
	soak(t, length, func() profiler.Measurement {
		w := tr.Start()
		r.work(t, 20*us)
		return tr.Stop(w)
	}, r.prof.Stats, func() int { live, _ := dev.Live(); return live })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	require.NoError(t, r.prof.Flush(ctx))
	require.NoError(t, r.prof.Close())
	st := r.prof.Stats()
	require.Zero(t, st.Failed+st.Captured+st.Contradictions, "%+v", st)
	require.Equal(t, st.Finished, uint64(sink)+st.SinkDropped)
	require.Less(t, st.Dropped, st.Started/100, "%+v", st)
}

// prepared is for how many windows the soak has events from the start.
const prepared = 1000

// counter counts the spans that it gets. Only a sink's own goroutine writes it,
// and Close comes before the reading.
type counter uint64

func (c *counter) Spans(batch []profiler.Span) error {
	*c += counter(len(batch))
	return nil
}

// soak opens 5,000 windows a second, waits for some of them, and requires that
// memory stays what it is after a tenth of the time, and that there are no more
// events than the most windows that were unread at once need: a machine that
// pauses for a moment makes up for it with a burst.
func soak(t *testing.T, length time.Duration, window func() profiler.Measurement, stats func() profiler.Stats, live func() int) {
	t.Helper()
	const rate = 5000
	began := time.Now()
	windows, waited := 0, 0
	var memory, unread uint64
	for time.Since(began) < length {
		for due := int(time.Since(began).Seconds() * rate); windows < due; windows++ {
			m := window()
			if windows%1000 == 0 {
				// Not the test's own limit, which is shorter than a long soak.
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				if _, err := m.Wait(ctx); err == nil {
					waited++
				}
				stop()
			}
		}
		st := stats()
		unread = max(unread, st.Open+st.Pending)
		if memory == 0 && time.Since(began) > length/10 {
			memory = heap()
		}
		time.Sleep(time.Millisecond)
	}
	require.Greater(t, windows, int(length.Seconds()*rate/2))
	require.Greater(t, waited, windows/1000*9/10)
	require.Less(t, heap(), memory+(4<<20), "memory grew over %d windows", windows)
	// Two events a window; preparations double when fewer than a quarter are free.
	require.LessOrEqual(t, live(), 1024+2*prepared+6*int(unread), "events grew over %d windows", windows)
	t.Logf("%d windows in %v, at most %d unread at once, %d events at the end", windows, length, unread, live())
}
