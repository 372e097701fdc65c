//go:build linux && (amd64 || arm64)

package overhead_test

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/events/internal/dl"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
)

// fakeDevice is the CUDA backend over a fake runtime that answers in a few
// nanoseconds, so that what is left is the cost of the call.
func fakeDevice(tb testing.TB) (cuda.Device, *fakert.Runtime) {
	tb.Helper()
	path := fakert.Build(tb, fakert.Name("fake-cudart.so"))
	rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
	require.NoError(tb, err)
	dev, err := rt.Device(0)
	require.NoError(tb, err)
	ctl := fakert.Control(tb, path)
	ctl.Set("fast_clock", 1)
	return dev, ctl
}

// fixture is what the hot calls are made on.
type fixture struct {
	dev        cuda.Device
	api        events.EventApi[cuda.Event, cuda.Stream]
	query      events.Querier[cuda.Event]
	start, end cuda.Event
	stream     cuda.Stream
}

func newFixture(tb testing.TB, dev cuda.Device) *fixture {
	tb.Helper()
	f := &fixture{dev: dev, api: dev}
	var ok bool
	f.query, ok = events.Ability[events.Querier[cuda.Event]](f.api)
	require.True(tb, ok)
	var err error
	f.stream, err = dev.StreamCreateNonBlocking()
	require.NoError(tb, err)
	f.start, err = dev.EventCreate()
	require.NoError(tb, err)
	f.end, err = dev.EventCreate()
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, dev.EventDestroy(f.start))
		require.NoError(tb, dev.EventDestroy(f.end))
		require.NoError(tb, dev.StreamDestroy(f.stream))
	})
	require.NoError(tb, dev.EventRecord(f.start, f.stream))
	require.NoError(tb, dev.EventRecord(f.end, f.stream))
	require.NoError(tb, dev.EventWait(f.end))
	return f
}

// calls are the hot calls through the seam.
func (f *fixture) calls() map[string]func() error {
	return map[string]func() error{
		"record":  func() error { return f.api.EventRecord(f.start, f.stream) },
		"query":   func() error { _, err := f.query.EventQuery(f.start); return err },
		"wait":    func() error { return f.api.EventWait(f.start) },
		"elapsed": func() error { _, err := f.api.EventElapsed(f.start, f.end); return err },
	}
}

func mallocs(run func()) uint64 {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestHotCallsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	dev, _ := fakeDevice(t)
	f := newFixture(t, dev)
	for name, call := range f.calls() {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, call())
			got := mallocs(func() {
				for range 100_000 {
					if err := call(); err != nil {
						t.Error(err)
						return
					}
				}
			})
			require.LessOrEqual(t, got, uint64(100))
		})
		t.Run(name+" from fresh goroutines", func(t *testing.T) {
			spawn := func(calls int) func() {
				return func() {
					for range 100 {
						var wg sync.WaitGroup
						wg.Add(1)
						go func() {
							defer wg.Done()
							for range calls {
								if err := call(); err != nil {
									t.Error(err)
									return
								}
							}
						}()
						wg.Wait()
					}
				}
			}
			spawn(1)()
			idle := mallocs(spawn(0))
			require.LessOrEqual(t, mallocs(spawn(1000)), idle+100)
		})
	}
}

func TestStartAndStopDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	dev, _ := fakeDevice(t)
	f := newFixture(t, dev)
	prof, err := profiler.New(f.api)
	require.NoError(t, err)
	defer func() { require.NoError(t, prof.Close()) }()
	track := prof.Track(f.stream, "window")
	window := func() {
		if w := track.Start(); w.Err() == nil {
			track.Stop(w)
		}
	}
	// Prepared windows and the lists of stopped ones find their size first.
	for range 150 {
		for range 10_000 {
			window()
		}
		time.Sleep(2 * time.Millisecond)
	}
	// On a machine that is busy with other things the read-back falls behind further
	// than before, and the lists grow once more. What a window allocated it would
	// allocate each time.
	got := uint64(math.MaxUint64)
	for range 3 {
		got = min(got, mallocs(func() {
			for range 100_000 {
				window()
			}
		}))
	}
	require.LessOrEqual(t, got, uint64(100))
}

// The value of an out-parameter must survive the growth of a fresh goroutine's
// stack. ebitengine/purego#158, ebitengine/purego#210
func TestOutParametersSurviveFreshGoroutines(t *testing.T) {
	dev, ctl := fakeDevice(t)
	f := newFixture(t, dev)
	ctl.SetFloat("elapsed_bits", 1.25)
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			span, err := f.api.EventElapsed(f.start, f.end)
			if err != nil || span != 1250*time.Microsecond {
				t.Errorf("%v, %v", span, err)
			}
			captured, err := dev.StreamCapturing(f.stream)
			if err != nil || captured {
				t.Errorf("capturing: %v, %v", captured, err)
			}
		})
	}
	wg.Wait()
}

// bare is the least that a call can cost: SyscallN on a reused frame, not even
// looking at the result.
type bare struct {
	args [3]uintptr
	out  float32
	mode int32
}

func symbol(tb testing.TB, path, name string) uintptr {
	tb.Helper()
	lib, err := dl.OpenExact(path)
	require.NoError(tb, err)
	fn := lib.Lookup(name)
	require.NotZero(tb, fn, name)
	return fn
}

const (
	pairs     = 15
	perBatch  = 2000
	batchGPU  = 400
	roundsGPU = 60
)

func nsPerCall(n int, call func()) float64 {
	begin := time.Now()
	for range n {
		call()
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n)
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkSeam compares the hot calls through events.EventApi with bare SyscallN
// calls and with RegisterLibFunc, in interleaved batches. A query or a wait is
// three calls into C (two exchange the thread's capture mode), so it is compared
// with the same three.
func BenchmarkSeam(b *testing.B) {
	dev, _ := fakeDevice(b)
	f := newFixture(b, dev)
	path := dev.Library()
	calls := f.calls()
	fr := &bare{}
	record, query := symbol(b, path, "cudaEventRecord"), symbol(b, path, "cudaEventQuery")
	wait, elapsed := symbol(b, path, "cudaEventSynchronize"), symbol(b, path, "cudaEventElapsedTime")
	exchange := symbol(b, path, "cuThreadExchangeStreamCaptureMode")
	one := func(fn uintptr, n int, args ...uintptr) func() {
		fixed := [3]uintptr{}
		copy(fixed[:], args)
		return func() {
			fr.args = fixed
			purego.SyscallN(fn, fr.args[:n]...)
		}
	}
	relaxed := func(call func()) func() {
		swap := one(exchange, 1, uintptr(unsafe.Pointer(&fr.mode)))
		return func() {
			runtime.LockOSThread()
			fr.mode = 2
			swap()
			call()
			swap()
			runtime.UnlockOSThread()
		}
	}
	lib, err := dl.OpenExact(path)
	require.NoError(b, err)
	var regQuery, regWait func(uintptr) int32
	var regRecord func(uintptr, uintptr) int32
	var regElapsed func(*float32, uintptr, uintptr) int32
	purego.RegisterFunc(&regRecord, lib.Lookup("cudaEventRecord"))
	purego.RegisterFunc(&regQuery, lib.Lookup("cudaEventQuery"))
	purego.RegisterFunc(&regWait, lib.Lookup("cudaEventSynchronize"))
	purego.RegisterFunc(&regElapsed, lib.Lookup("cudaEventElapsedTime"))
	start, end, stream := f.start.Handle(), f.end.Handle(), f.stream.Handle()

	for _, c := range []struct {
		name       string
		bare       func()
		registered func()
	}{
		{"record", one(record, 2, start, stream), func() { regRecord(start, stream) }},
		{"elapsed", one(elapsed, 3, uintptr(unsafe.Pointer(&fr.out)), start, end), func() { regElapsed(&fr.out, start, end) }},
		{"query", relaxed(one(query, 1, start)), func() { regQuery(start) }},
		{"wait", relaxed(one(wait, 1, start)), func() { regWait(start) }},
	} {
		b.Run("call="+c.name, func(b *testing.B) {
			call := calls[c.name]
			seam := func() { _ = call() }
			var toBare, toRegistered, costs []float64
			for b.Loop() {
				for range pairs {
					s := nsPerCall(perBatch, seam)
					toBare = append(toBare, s/nsPerCall(perBatch, c.bare))
					toRegistered = append(toRegistered, s/nsPerCall(perBatch, c.registered))
					costs = append(costs, s)
				}
			}
			b.ReportMetric(median(toBare), "x-bare")
			b.ReportMetric(median(toRegistered), "x-registered")
			b.ReportMetric(median(costs), "ns/call")
			b.ReportMetric(0, "ns/op")
		})
	}
	// A runtime without a driver library beside it has no mode to exchange: the
	// same calls are then one call each.
	alone := fakert.Build(b, fakert.Name("fake-cudart.so"), fakert.RuntimeOnly())
	rtAlone, err := cuda.Open(cuda.WithLibrary(alone), cuda.WithDriverAPI(false))
	require.NoError(b, err)
	devAlone, err := rtAlone.Device(0)
	require.NoError(b, err)
	fakert.Control(b, alone).Set("fast_clock", 1)
	fa := newFixture(b, devAlone)
	for name, symbolName := range map[string]string{"query": "cudaEventQuery", "wait": "cudaEventSynchronize"} {
		b.Run("call="+name+"/exchange=no", func(b *testing.B) {
			call, plain := fa.calls()[name], one(symbol(b, alone, symbolName), 1, fa.start.Handle())
			var ratios []float64
			for b.Loop() {
				for range pairs {
					s := nsPerCall(perBatch, func() { _ = call() })
					ratios = append(ratios, s/nsPerCall(perBatch, plain))
				}
			}
			b.ReportMetric(median(ratios), "x-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("call=round-query", func(b *testing.B) {
		var ratios []float64
		plain := one(query, 1, start)
		for b.Loop() {
			for range pairs {
				round, err := dev.RoundBegin()
				require.NoError(b, err)
				s := nsPerCall(perBatch, func() { _, _ = dev.RoundQuery(round, f.start) })
				require.NoError(b, dev.RoundEnd(round))
				ratios = append(ratios, s/nsPerCall(perBatch, plain))
			}
		}
		b.ReportMetric(median(ratios), "x-bare")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkWindow compares Start and Stop with two bare record calls.
func BenchmarkWindow(b *testing.B) {
	for _, c := range []struct {
		name       string
		asks       bool
		goroutines int
	}{{"asks=no", false, 1}, {"asks=yes", true, 1}, {"asks=yes/goroutines=8", true, 8}} {
		b.Run(c.name, func(b *testing.B) {
			opts := []fakert.Option{fakert.Name("fake-cudart.so")}
			if !c.asks {
				opts = append(opts, fakert.Omit("cudaStreamIsCapturing"))
			}
			path := fakert.Build(b, opts...)
			rt, err := cuda.Open(cuda.WithLibrary(path), cuda.WithDriver(path))
			require.NoError(b, err)
			dev, err := rt.Device(0)
			require.NoError(b, err)
			fakert.Control(b, path).Set("fast_clock", 1)
			prof, err := profiler.New[cuda.Event, cuda.Stream](dev, profiler.WithWindows(1<<16))
			require.NoError(b, err)
			defer func() { require.NoError(b, prof.Close()) }()
			record := symbol(b, path, "cudaEventRecord")
			type lane struct {
				track  *profiler.Track
				frame  *bare
				f      *fixture
				window func()
				bare   func()
			}
			var lanes []*lane
			for range c.goroutines {
				f := newFixture(b, dev)
				l := &lane{track: prof.Track(f.stream, "window"), frame: &bare{}, f: f}
				l.window = func() { l.track.Stop(l.track.Start()) }
				l.bare = func() {
					l.frame.args = [3]uintptr{f.start.Handle(), f.stream.Handle()}
					purego.SyscallN(record, l.frame.args[:2]...)
					l.frame.args = [3]uintptr{f.end.Handle(), f.stream.Handle()}
					purego.SyscallN(record, l.frame.args[:2]...)
				}
				lanes = append(lanes, l)
			}
			const n = 1000 // below the bound of prepared windows
			all := func(pick func(*lane) func()) float64 {
				var wg sync.WaitGroup
				begin := time.Now()
				for _, l := range lanes[1:] {
					call := pick(l)
					wg.Go(func() { nsPerCall(n, call) })
				}
				nsPerCall(n, pick(lanes[0]))
				wg.Wait()
				return float64(time.Since(begin).Nanoseconds()) / n
			}
			// Prepared windows grow to what the batches need first.
			for last, same := uint64(0), 0; same < 20; {
				all(func(l *lane) func() { return l.window })
				time.Sleep(2 * time.Millisecond)
				if now := prof.Stats().Dropped; now != last {
					last, same = now, 0
				} else {
					same++
				}
			}
			dropped := prof.Stats().Dropped
			var ratios, costs []float64
			for b.Loop() {
				for range pairs {
					time.Sleep(2 * time.Millisecond) // the harvester catches up
					w := all(func(l *lane) func() { return l.window })
					ratios = append(ratios, w/all(func(l *lane) func() { return l.bare }))
					costs = append(costs, w)
				}
			}
			b.ReportMetric(median(ratios), "x-bare")
			b.ReportMetric(median(costs), "ns/window")
			require.Equal(b, dropped, prof.Stats().Dropped, "windows were dropped, which are cheaper than real ones")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// native is the C side of the baselines.
type native struct {
	record, window, elapsed, call1 uintptr
	failed                         *int32
}

func buildNative(tb testing.TB) *native {
	tb.Helper()
	out := gputest.Compile(tb, filepath.Join("testdata", "native.c"), "-shared", "-fPIC")
	return &native{
		record: symbol(tb, out, "native_record"), window: symbol(tb, out, "native_window"),
		elapsed: symbol(tb, out, "native_elapsed"), call1: symbol(tb, out, "native_call1"),
		failed: new(int32),
	}
}

func (n *native) run(fn uintptr, args ...uintptr) float64 {
	frame := append(slices.Clone(args), uintptr(unsafe.Pointer(n.failed)))
	r, _, _ := purego.SyscallN(fn, frame...)
	return float64(r)
}

// comparison is two costs measured in turn.
type comparison struct {
	What      string    `json:"what"`
	Batch     int       `json:"batch"`
	Device    string    `json:"device"`
	Driver    string    `json:"driver"`
	Runtime   string    `json:"runtime"`
	Date      string    `json:"date"`
	OursNs    []float64 `json:"ours_ns_per_call"`
	NativeNs  []float64 `json:"native_ns_per_call"`
	Ratios    []float64 `json:"ratios_pair_by_pair"`
	RatioP50  float64   `json:"ratio_median"`
	RatioMins float64   `json:"ratio_of_minimums"`
}

func newComparison(tb testing.TB, what string) *comparison {
	info := gputest.Runtime(tb).Info()
	return &comparison{What: what, Batch: batchGPU, Device: info.Devices[0].Name, Driver: info.Driver,
		Runtime: info.RuntimeVersionText, Date: time.Now().UTC().Format(time.DateOnly)}
}

func (c *comparison) add(ours, native float64) {
	c.OursNs = append(c.OursNs, ours)
	c.NativeNs = append(c.NativeNs, native)
	c.Ratios = append(c.Ratios, ours/native)
}

func (c *comparison) report(b *testing.B, name string) {
	c.RatioP50 = median(c.Ratios)
	c.RatioMins = slices.Min(c.OursNs) / slices.Min(c.NativeNs)
	b.ReportMetric(c.RatioP50, "x-native")
	b.ReportMetric(c.RatioMins, "x-native-min")
	b.ReportMetric(median(c.OursNs), "ns/call")
	b.ReportMetric(median(c.NativeNs), "native-ns/call")
	b.ReportMetric(0, "ns/op")
	gputest.Raw(b, name, c)
}

// BenchmarkGPUAgainstNative compares with the same calls made from C, in batches
// of 400 on a drained stream, ours and C's in turn: longer batches fill the
// device's queue, which then sets the pace of both.
func BenchmarkGPUAgainstNative(b *testing.B) {
	dev := gputest.Device(b)
	n := buildNative(b)
	f := newFixture(b, dev)
	lib := dev.Library()
	record, capturing := symbol(b, lib, "cudaEventRecord"), symbol(b, lib, "cudaStreamIsCapturing")
	handles := make([]uintptr, 64)
	all := make([]cuda.Event, len(handles))
	for i := range all {
		var err error
		all[i], err = dev.EventCreate()
		require.NoError(b, err)
		defer func() { require.NoError(b, dev.EventDestroy(all[i])) }()
		require.NoError(b, dev.EventRecord(all[i], f.stream))
		handles[i] = all[i].Handle()
	}
	pointer := uintptr(unsafe.Pointer(unsafe.SliceData(handles)))
	count := uintptr(len(handles))
	drain := func() {
		require.NoError(b, dev.StreamSynchronize(f.stream))
		time.Sleep(200 * time.Microsecond)
	}
	b.Run("call=record", func(b *testing.B) {
		c := newComparison(b, "cudaEventRecord on a drained stream: events.EventApi against C")
		for b.Loop() {
			for round := range roundsGPU {
				ours := func() float64 {
					drain()
					i := 0
					return nsPerCall(batchGPU, func() {
						if err := f.api.EventRecord(all[i%len(all)], f.stream); err != nil {
							b.Fatal(err)
						}
						i++
					})
				}
				theirs := func() float64 {
					drain()
					return n.run(n.record, record, pointer, count, f.stream.Handle(), batchGPU) / batchGPU
				}
				if round%2 == 0 {
					o := ours()
					c.add(o, theirs())
				} else {
					t := theirs()
					c.add(ours(), t)
				}
			}
		}
		require.Zero(b, *n.failed)
		c.report(b, "record")
	})
	b.Run("call=window", func(b *testing.B) {
		prof, err := profiler.New(f.api)
		require.NoError(b, err)
		defer func() { require.NoError(b, prof.Close()) }()
		track := prof.Track(f.stream, "window")
		warm := func() {
			for range batchGPU {
				track.Stop(track.Start())
			}
		}
		for range 30 {
			warm()
			drain()
			time.Sleep(3 * time.Millisecond)
		}
		dropped := prof.Stats().Dropped
		c := newComparison(b, "a window (Start and Stop, capture question included) against two cudaEventRecord from C")
		for b.Loop() {
			for round := range roundsGPU {
				ours := func() float64 {
					drain()
					time.Sleep(3 * time.Millisecond) // read back before, not during
					return nsPerCall(batchGPU, func() { track.Stop(track.Start()) })
				}
				theirs := func() float64 {
					drain()
					time.Sleep(3 * time.Millisecond)
					return n.run(n.window, record, 0, pointer, count, f.stream.Handle(), batchGPU) / batchGPU
				}
				if round%2 == 0 {
					o := ours()
					c.add(o, theirs())
				} else {
					t := theirs()
					c.add(ours(), t)
				}
			}
		}
		require.Zero(b, *n.failed)
		require.Equal(b, dropped, prof.Stats().Dropped, "windows were dropped, which are cheaper than real ones")
		c.report(b, "window")
	})
	b.Run("call=window-asking", func(b *testing.B) {
		c := newComparison(b, "the question for a capture, from C, beside two records")
		for b.Loop() {
			for range roundsGPU {
				drain()
				asking := n.run(n.window, record, capturing, pointer, count, f.stream.Handle(), batchGPU) / batchGPU
				drain()
				c.add(asking, n.run(n.window, record, 0, pointer, count, f.stream.Handle(), batchGPU)/batchGPU)
			}
		}
		c.report(b, "native-asking")
	})
}
