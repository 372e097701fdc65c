package benchtest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/bench"
	"example.com/devevents/bench/benchtest"
	"example.com/devevents/events/mock"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The benchmarks below are about what is reported, not about how long.
	if err := flag.Set("test.benchtime", "50x"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// simulated is a device without costs, and what measures it. Work takes 10 us.
func simulated(t testing.TB) (*mock.Device, mock.Stream, *bench.DeviceEvents[mock.Event, mock.Stream]) {
	sys := mock.New(mock.AutoAdvance(), mock.Ideal())
	t.Cleanup(sys.Close)
	dev := sys.Device(0)
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	timer := bench.NewDeviceEvents(dev, stream)
	t.Cleanup(func() { require.NoError(t, timer.Close()) })
	return dev, stream, timer
}

func TestDeviceTimeStandsBesideTheHosts(t *testing.T) {
	dev, stream, timer := simulated(t)
	for _, shape := range []struct {
		name string
		run  func(b *testing.B)
	}{
		{"b.Loop", func(b *testing.B) {
			benchtest.Device(b, timer)
			for b.Loop() {
				require.NoError(b, dev.Work(stream, 10*time.Microsecond))
			}
		}},
		{"b.N", func(b *testing.B) {
			benchtest.Device(b, timer)
			for range b.N {
				require.NoError(b, dev.Work(stream, 10*time.Microsecond))
			}
		}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			r := testing.Benchmark(shape.run)
			require.Equal(t, 50, r.N)
			require.InDelta(t, 10_000, r.Extra["device-ns/op"], 1)
			require.NotContains(t, r.Extra, "ns/op")
			require.Positive(t, r.T)
		})
	}
}

func TestDeviceTimeCanBeTheBenchmarksOwn(t *testing.T) {
	dev, stream, timer := simulated(t)
	r := testing.Benchmark(func(b *testing.B) {
		benchtest.Device(b, timer, benchtest.AsNsPerOp())
		for b.Loop() {
			require.NoError(b, dev.Work(stream, 10*time.Microsecond))
		}
	})
	require.InDelta(t, 10_000, r.Extra["ns/op"], 1)
	require.Positive(t, r.Extra["host-ns/op"])
	require.NotContains(t, r.Extra, "device-ns/op")
}

// The number of a failed measurement would be that of nothing.
func TestFailedMeasurementFailsTheBenchmark(t *testing.T) {
	for _, op := range []mock.Op{mock.OpEventRecord, mock.OpEventWait, mock.OpEventElapsed} {
		dev, _, timer := simulated(t)
		_, err := timer.Stream() // events are made before anything fails
		require.NoError(t, err)
		dev.Script(mock.Fault{Op: op, Err: errors.New("refused"), Count: 1})
		failed := false
		r := testing.Benchmark(func(b *testing.B) {
			defer func() { failed = b.Failed() }()
			b.Cleanup(func() { failed = failed || b.Failed() }) // runs after Device's own
			benchtest.Device(b, timer)
			for b.Loop() {
			}
		})
		require.True(t, failed, op)
		require.NotContains(t, r.Extra, "device-ns/op", op)
	}
}

// A benchmark gets the device's time by one line. On a device that works without the
// host the time is exactly that of the work.
func ExampleDevice() {
	dev := mock.NewDevice(mock.AutoAdvance(), mock.Ideal())
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		fmt.Println(err)
		return
	}
	timer := bench.NewDeviceEvents(dev, stream)
	result := testing.Benchmark(func(b *testing.B) {
		benchtest.Device(b, timer)
		for b.Loop() {
			if err := dev.Work(stream, 10*time.Microsecond); err != nil {
				b.Fatal(err)
			}
		}
	})
	fmt.Printf("%.0f device-ns/op\n", result.Extra["device-ns/op"])
	fmt.Println(timer.Close())
	// Output:
	// 10000 device-ns/op
	// <nil>
}
