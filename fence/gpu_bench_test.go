//go:build linux

package fence_test

import (
	"bufio"
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/fence"
	"example.com/devevents/internal/gputest"
)

// What waits cost on a real device, for docs/measurements. Each benchmark is one run of
// many samples: -benchtime 1x.

var (
	waitRounds = 200
	waitDelays = []time.Duration{0, 100 * us, time.Millisecond, 20 * time.Millisecond}
)

// latencies are the samples of one kind of wait at one delay.
type latencies struct {
	Kind  string  `json:"kind"`
	Delay float64 `json:"delay_us"`
	Ns    []int64 `json:"ns"`
}

func (l latencies) quantile(p float64) float64 {
	sorted := slices.Clone(l.Ns)
	slices.Sort(sorted)
	return float64(sorted[int(p*float64(len(sorted)-1))]) / 1e3
}

func (l latencies) report(b *testing.B) {
	b.Logf("%-40s %8.0f us: p50 %8.1f us  p99 %8.1f us  (%d)", l.Kind, l.Delay, l.quantile(0.5), l.quantile(0.99), len(l.Ns))
}

// From just before the stream is let go to the return of the wait, beside C and PyTorch
// in the same run.
func BenchmarkGPUWakeUp(b *testing.B) {
	dev := gputest.Device(b)
	var all []latencies
	program := gputest.Compile(b, filepath.Join("testdata", "native_wait.c"), "-ldl", "-lpthread")
	for range b.N {
		for _, kind := range []struct {
			name string
			busy bool
			opts []fence.Option
		}{
			{"fence", false, nil},
			{"fence, polled only", false, []fence.Option{fence.WithBlockingThreads(0)}},
			{"fence, polled only, Go timers", false, []fence.Option{fence.WithBlockingThreads(0), fence.Coarse()}},
			{"fence, threads from the start", false, []fence.Option{fence.WithBlockingAfter(0)}},
			{"fence, processors busy", true, nil},
			{"fence, threads from the start, p's busy", true, []fence.Option{fence.WithBlockingAfter(0)}},
		} {
			stop, rounds := func() {}, waitRounds
			if kind.busy {
				stop, rounds = busyProcessors(), waitRounds/4
			}
			for _, delay := range waitDelays {
				l := wakeUps(b, dev, rounds, kind.opts, delay)
				l.Kind = kind.name
				l.report(b)
				all = append(all, l)
			}
			stop()
		}
		args := []string{strconv.Itoa(waitRounds)}
		for _, d := range waitDelays {
			args = append(args, strconv.FormatInt(d.Microseconds(), 10))
		}
		for _, l := range slices.Concat(ran(b, exec.Command(program, args...)), torch(b, args)) {
			l.report(b)
			all = append(all, l)
		}
	}
	gputest.Raw(b, "wake-up", all)
}

// busyProcessors has as many goroutines compute as there are processors.
func busyProcessors() (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for x := uint64(1); ; x = x*6364136223846793005 + 1 {
				if x%(1<<20) == 0 {
					select {
					case <-over:
						return
					default:
					}
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

func wakeUps(b *testing.B, dev cuda.Device, rounds int, opts []fence.Option, delay time.Duration) latencies {
	fences, err := fence.New(dev, opts...)
	require.NoError(b, err)
	defer func() { require.NoError(b, fences.Close()) }()
	s, err := dev.StreamCreateNonBlocking()
	require.NoError(b, err)
	defer func() { require.NoError(b, dev.StreamDestroy(s)) }()
	l := latencies{Delay: float64(delay.Microseconds())}
	if delay > 5*time.Millisecond {
		rounds /= 5
	}
	for range rounds {
		gate, err := dev.GateClose(s, 10*time.Second)
		require.NoError(b, err)
		f, err := fences.Record(s)
		require.NoError(b, err)
		started, woke := make(chan struct{}), make(chan time.Time)
		go func() {
			close(started)
			_ = f.Wait(context.Background())
			woke <- time.Now()
		}()
		<-started
		for fences.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		for until := time.Now().Add(delay); time.Now().Before(until); {
			runtime.Gosched()
		}
		opened := time.Now()
		require.NoError(b, gate.Open())
		l.Ns = append(l.Ns, int64((<-woke).Sub(opened)))
		require.NoError(b, f.Err())
	}
	return l
}

func torch(b *testing.B, args []string) []latencies {
	if exec.Command("python3", "-c", "import torch").Run() != nil {
		b.Log("no PyTorch: none of its waits")
		return nil
	}
	return ran(b, exec.Command("python3", append([]string{"testdata/torch_wait.py"}, args...)...))
}

func ran(b *testing.B, c *exec.Cmd) []latencies {
	var failed bytes.Buffer
	c.Stderr = &failed
	text, err := c.Output()
	require.NoError(b, err, "%s", failed.String())
	var all []latencies
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		l := latencies{Kind: fields[0]}
		l.Delay, err = strconv.ParseFloat(fields[1], 64)
		require.NoError(b, err)
		for _, f := range fields[2:] {
			ns, err := strconv.ParseInt(f, 10, 64)
			require.NoError(b, err)
			l.Ns = append(l.Ns, ns)
		}
		all = append(all, l)
	}
	return all
}

// The processor time of this process while it waits a second for 16 streams, in percent
// of one core.
func BenchmarkGPUWaitCPU(b *testing.B) {
	dev := gputest.Device(b)
	for name, opts := range map[string][]fence.Option{
		"default": nil, "polled": {fence.WithBlockingThreads(0)}, "threads": {fence.WithBlockingAfter(0)},
	} {
		b.Run(name, func(b *testing.B) {
			fences, err := fence.New(dev, opts...)
			require.NoError(b, err)
			defer func() { require.NoError(b, fences.Close()) }()
			streams := manyStreams(b, dev)
			runtime.GC() // not during the wait
			var used, waited time.Duration
			for range b.N {
				var all []*fence.Fence
				for _, s := range streams {
					_, err := dev.ScratchSpin(time.Second, s)
					require.NoError(b, err)
					f, err := fences.Record(s)
					require.NoError(b, err)
					all = append(all, f)
				}
				began, before := time.Now(), processTime(b)
				require.NoError(b, fence.All(context.Background(), all...))
				used += processTime(b) - before
				waited += time.Since(began)
			}
			b.ReportMetric(100*used.Seconds()/waited.Seconds(), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func manyStreams(b *testing.B, dev cuda.Device) []cuda.Stream {
	var streams []cuda.Stream
	for range 16 {
		streams = append(streams, gputest.Stream(b, dev))
		_, err := dev.ScratchSpin(time.Microsecond, streams[len(streams)-1])
		require.NoError(b, err)
		require.NoError(b, dev.StreamSynchronize(streams[len(streams)-1]))
	}
	return streams
}

func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	batchGPU  = 400
	roundsGPU = 15
)

// What a default fence costs to record beside an event with a timestamp, in turn on a
// drained stream.
func BenchmarkGPURecord(b *testing.B) {
	dev := gputest.Device(b)
	fences, err := fence.New(dev)
	require.NoError(b, err)
	defer func() { require.NoError(b, fences.Close()) }()
	s := gputest.Stream(b, dev)
	r := recorder{b: b, dev: dev, fences: fences, stream: s}
	r.batch()
	var timed []cuda.Event
	for range 64 {
		timed = append(timed, gputest.Event(b, dev))
	}
	var ours, theirs, ratios []float64
	for range b.N {
		for range roundsGPU {
			o := r.batch()
			require.NoError(b, dev.StreamSynchronize(s))
			began := time.Now()
			for i := range batchGPU {
				if err := dev.EventRecord(timed[i%len(timed)], s); err != nil {
					b.Fatal(err)
				}
			}
			t := float64(time.Since(began)) / batchGPU
			ours, theirs, ratios = append(ours, o), append(theirs, t), append(ratios, o/t)
		}
	}
	b.ReportMetric(middle(ours), "ns/fence")
	b.ReportMetric(middle(theirs), "ns/timed")
	b.ReportMetric(middle(ratios), "x-timed")
	b.ReportMetric(0, "ns/op")
	gputest.Raw(b, "fence-record", map[string]any{"what": "Source.Record of a default fence against EventRecord of a timed event through EventApi, ns a call, batches of 400 in turn on a drained stream", "fence_ns": ours, "timed_ns": theirs})
}

// What a thousand waits that are pending elsewhere do to a goroutine that records. The
// streams that they are for are busy in both cases.
func BenchmarkGPURecordBesideWaits(b *testing.B) {
	dev := gputest.Device(b)
	fences, err := fence.New(dev)
	require.NoError(b, err)
	defer func() { require.NoError(b, fences.Close()) }()
	r := recorder{b: b, dev: dev, fences: fences, stream: gputest.Stream(b, dev)}
	r.batch()
	streams := manyStreams(b, dev)
	const fencesEach, waitsEach = 10, 7
	measure := func(waiting bool) (all []float64) {
		var waits sync.WaitGroup
		for _, of := range streams {
			_, err := dev.ScratchSpin(300*time.Millisecond, of)
			require.NoError(b, err)
			for range fencesEach {
				f, err := fences.Record(of)
				require.NoError(b, err)
				for range waitsEach {
					if waiting {
						waits.Go(func() { _ = f.Wait(context.Background()) })
					}
				}
			}
		}
		for waiting && fences.Stats().Waiting < len(streams)*fencesEach*waitsEach {
			runtime.Gosched()
		}
		time.Sleep(10 * time.Millisecond) // until threads have taken them over
		for range roundsGPU {
			all = append(all, r.batch())
		}
		if waiting {
			require.GreaterOrEqual(b, fences.Stats().Waiting, 1000, "they ended too early")
		}
		for _, of := range streams {
			require.NoError(b, dev.StreamSynchronize(of))
		}
		waits.Wait()
		return all
	}
	var alone, beside, ratios []float64
	for range b.N {
		for range 8 {
			a := measure(false)
			c := measure(true)
			alone, beside, ratios = append(alone, a...), append(beside, c...), append(ratios, middle(c)/middle(a))
		}
	}
	b.ReportMetric(middle(alone), "ns/alone")
	b.ReportMetric(middle(beside), "ns/beside")
	b.ReportMetric(middle(ratios), "x-alone")
	b.ReportMetric(0, "ns/op")
	gputest.Raw(b, "fence-record-beside-waits", map[string]any{"what": "Source.Record while 16 other streams are busy, without a wait and beside 1120 pending waits on those, ns a call, batches of 400 on a drained stream", "alone_ns": alone, "beside_ns": beside})
}

// recorder records batches of fences.
type recorder struct {
	b      *testing.B
	dev    cuda.Device
	fences *fence.Source[cuda.Stream]
	stream cuda.Stream
}

// batch records a batch on a drained stream, gives the nanoseconds for one, and waits
// for the last, after which all of their events are free again.
func (r recorder) batch() float64 {
	require.NoError(r.b, r.dev.StreamSynchronize(r.stream))
	var last *fence.Fence
	began := time.Now()
	for range batchGPU {
		f, err := r.fences.Record(r.stream)
		if err != nil {
			r.b.Fatal(err)
		}
		last = f
	}
	took := time.Since(began)
	require.NoError(r.b, last.Wait(context.Background()))
	return float64(took) / batchGPU
}

func middle(all []float64) float64 {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// What a record of a default fence is made of.
func BenchmarkGPURecordParts(b *testing.B) {
	dev := gputest.Device(b)
	s := gputest.Stream(b, dev)
	var untimed []cuda.Event
	for range 512 {
		e, err := dev.EventCreateUntimed(true)
		require.NoError(b, err)
		defer func() { require.NoError(b, dev.EventDestroy(e)) }()
		untimed = append(untimed, e)
	}
	pool := events.NewPool(dev, 4096, true)
	defer func() { require.NoError(b, pool.Close()) }()
	own, err := events.NewUntimed(dev, true)
	require.NoError(b, err)
	defer func() { require.NoError(b, own.Close()) }()
	fences, err := fence.New(dev)
	require.NoError(b, err)
	defer func() { require.NoError(b, fences.Close()) }()
	part := func(name string, call func(i int) error, after func()) {
		b.Run(name, func(b *testing.B) {
			var all []float64
			for range b.N {
				require.NoError(b, dev.StreamSynchronize(s))
				began := time.Now()
				for i := range batchGPU {
					if err := call(i); err != nil {
						b.Fatal(err)
					}
				}
				all = append(all, float64(time.Since(began))/batchGPU)
				after()
			}
			b.ReportMetric(middle(all), "ns/call")
			b.ReportMetric(slices.Min(all), "ns/call-min")
			b.ReportMetric(0, "ns/op")
		})
	}
	nothing := func() {}
	part("record-one", func(int) error { return dev.EventRecord(untimed[0], s) }, nothing)
	part("record", func(i int) error { return dev.EventRecord(untimed[i], s) }, nothing)
	spinning, err := dev.EventCreateUntimed(false)
	require.NoError(b, err)
	defer func() { require.NoError(b, dev.EventDestroy(spinning)) }()
	part("record-not-blocking", func(int) error { return dev.EventRecord(spinning, s) }, nothing)
	timed := gputest.Event(b, dev)
	part("record-timed", func(int) error { return dev.EventRecord(timed, s) }, nothing)
	part("capturing", func(int) error { _, err := dev.StreamCapturing(s); return err }, nothing)
	part("both", func(i int) error {
		if err := dev.EventRecord(untimed[i], s); err != nil {
			return err
		}
		_, err := dev.StreamCapturing(s)
		return err
	}, nothing)
	part("event", func(int) error { return own.Record(s) }, nothing)
	var held []*events.Event[cuda.Event, cuda.Stream]
	part("get", func(int) error {
		e, err := pool.Get()
		held = append(held, e)
		return err
	}, func() {
		for _, e := range held {
			require.NoError(b, e.Release())
		}
		held = held[:0]
	})
	part("query", func(int) error { _, err := dev.EventQuery(untimed[0]); return err }, nothing)
	part("round", func(int) error {
		r, err := dev.RoundBegin()
		if err != nil {
			return err
		}
		return dev.RoundEnd(r)
	}, nothing)
	var last *fence.Fence
	part("fence", func(int) (err error) { last, err = fences.Record(s); return err }, func() { require.NoError(b, wait(last)) })
	part("fence-rested", func(int) (err error) { last, err = fences.Record(s); return err }, func() {
		require.NoError(b, wait(last))
		time.Sleep(time.Millisecond)
	})
	b.Logf("%+v", fences.Stats())
}
