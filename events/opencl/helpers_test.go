package opencl

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/clapi"
)

// patience is after how long something that must happen counts as not happening.
const patience = 10 * time.Second

var opened = sync.OnceValues(func() (*Runtime, error) { return Open() })

// library is the machine's OpenCL, or a skip with the reason. With
// DEVEVENTS_REQUIRE_OPENCL=1 in the environment there has to be one.
func library(t testing.TB) *Runtime {
	t.Helper()
	rt, err := opened()
	if err != nil {
		if os.Getenv("DEVEVENTS_REQUIRE_OPENCL") == "1" {
			t.Fatalf("DEVEVENTS_REQUIRE_OPENCL is set and there is no OpenCL device: %v", err)
		}
		reason, _, _ := strings.Cut(err.Error(), "\n")
		t.Skip("needs an OpenCL device: " + reason)
	}
	return rt
}

// bench is a device with the account of its references.
type bench struct {
	Device
	*ledger
	rt     *Runtime
	driver *driver // nil on the machine's own OpenCL
}

// over enumerates an API that keeps account.
func over(t testing.TB, api clapi.API) *bench {
	t.Helper()
	l := newLedger(api)
	rt, refused := enumerate(l)
	require.Nil(t, refused)
	return &bench{ledger: l, rt: rt}
}

func (b *bench) open(t testing.TB) *bench {
	t.Helper()
	var err error
	b.Device, err = b.rt.Device(0)
	require.NoError(t, err)
	return b
}

// imitated is a device of an imitated driver. The end of the test closes it, and
// fails if references are left.
func imitated(t testing.TB, change ...func(f *driver)) *bench {
	t.Helper()
	f := newDriver()
	for _, c := range change {
		c(f)
	}
	b := over(t, f)
	b.driver = f
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// doomed is a device of an imitated driver that the test makes fail: what is left
// to it is abandoned, but nothing may be misused.
func doomed(t testing.TB) *bench {
	t.Helper()
	f := newDriver()
	b := over(t, f)
	b.driver = f
	t.Cleanup(func() { require.Empty(t, b.wrong) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// installed is the first device of the machine's OpenCL, likewise.
func installed(t testing.TB) *bench {
	t.Helper()
	b := over(t, library(t).api)
	t.Cleanup(func() { b.balanced(t) })
	b.open(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// everywhere runs a test on an imitated driver and on the machine's own.
func everywhere(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Run("imitated", func(t *testing.T) { test(t, imitated(t)) })
	t.Run("installed", func(t *testing.T) { test(t, installed(t)) })
}

func (b *bench) stream(t testing.TB) Stream {
	t.Helper()
	s, err := b.StreamCreateNonBlocking()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.StreamDestroy(s)) })
	return s
}

func (b *bench) event(t testing.TB) Event {
	t.Helper()
	e, err := b.EventCreate()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.EventDestroy(e)) })
	return e
}

func (b *bench) mustWait(t testing.TB, e Event) {
	t.Helper()
	require.NoError(t, b.EventWait(e))
}

func (b *bench) recorded(t testing.TB, s Stream) Event {
	t.Helper()
	e := b.event(t)
	require.NoError(t, b.EventRecord(e, s))
	return e
}

// shut closes a gate on a stream, which the end of the test opens.
func (b *bench) shut(t testing.TB, s Stream) events.GateHandle {
	t.Helper()
	g, err := b.GateClose(s, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Open() })
	return g
}

// foreignQueue is a queue in a context of its own, as another library makes it.
func (b *bench) foreignQueue(t testing.TB) uintptr {
	t.Helper()
	return b.foreignQueueWith(t, clapi.QueueProfiling)
}

func (b *bench) foreignQueueWith(t testing.TB, properties uint64) uintptr {
	t.Helper()
	c, code := b.CreateContext(b.id)
	require.Zero(t, code)
	q, code := b.CreateQueue(c, b.id, properties, false)
	require.Zero(t, code)
	t.Cleanup(func() {
		require.Zero(t, b.ReleaseQueue(q))
		require.Zero(t, b.ReleaseContext(c))
	})
	return uintptr(q)
}
