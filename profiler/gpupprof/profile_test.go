package gpupprof_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
	"example.com/devevents/internal/gputest"
	"example.com/devevents/profiler"
	"example.com/devevents/profiler/gpupprof"
)

type service struct {
	dev    *mock.Device
	prof   *profiler.Profiler[mock.Stream]
	stream mock.Stream
}

func newService(t testing.TB, opts ...profiler.Option) *service {
	t.Helper()
	dev := mock.NewDevice(mock.Ideal(), mock.AutoAdvance())
	stream, err := dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	prof, err := profiler.New(dev, append([]profiler.Option{profiler.WithStacks(true)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, prof.Close())
		require.NoError(t, dev.StreamDestroy(stream))
		dev.System().Close()
	})
	return &service{dev, prof, stream}
}

func (s *service) track(name string) *profiler.Track { return s.prof.Track(s.stream, name) }

func (s *service) flush(t testing.TB) {
	t.Helper()
	require.NoError(t, s.dev.StreamSynchronize(s.stream))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.prof.Flush(ctx))
}

// window opens one of d, with what inside does in it.
func (s *service) window(ctx context.Context, tr *profiler.Track, d time.Duration, inside func(context.Context)) {
	err := profiler.Do(ctx, tr, func(ctx context.Context) error {
		if inside != nil {
			inside(ctx)
		}
		return s.dev.Work(s.stream, d)
	})
	if err != nil {
		panic(err) // also on goroutines that are not the test's
	}
}

//go:noinline
func prefill(ctx context.Context, s *service, tr *profiler.Track) {
	s.window(ctx, tr, 3*time.Millisecond, nil)
}

//go:noinline
func decode(ctx context.Context, s *service, tr, inner *profiler.Track) {
	s.window(ctx, tr, time.Millisecond, func(ctx context.Context) {
		s.window(ctx, inner, time.Millisecond, nil)
	})
}

// tool is pprof, of the go command or by itself: a machine with a GPU may have no Go.
func tool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("go"); err == nil {
		return exec.Command("go", append([]string{"tool", "pprof"}, args...)...)
	}
	if _, err := exec.LookPath("pprof"); err != nil {
		if gputest.Required() {
			t.Fatal("a GPU is required, and what reads its profile is missing: pprof must be on the path, as scripts/gpu-run puts it")
		}
		t.Skip("needs go tool pprof, or pprof on the path")
	}
	return exec.Command("pprof", args...)
}

// row is a line of go tool pprof -top.
type row struct{ flat, cum time.Duration }

var lines = regexp.MustCompile(`(?m)^ *(\S+) +\S+% +\S+% +(\S+) +\S+% +(.+)$`)

// top reads a profile as people do, from a file or an address.
func top(t *testing.T, from string, flags ...string) map[string]row {
	t.Helper()
	cmd := tool(t, append(append([]string{"-top", "-cum", "-nodecount=500", "-nodefraction=0", "-unit=ns"}, flags...), from)...)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, complaints.String())
	rows := map[string]row{}
	for _, m := range lines.FindAllStringSubmatch(string(out), -1) {
		if m[1] == "flat" { // the heading
			continue
		}
		name := m[3]
		if i := strings.LastIndex(name, "/"); i >= 0 {
			name = name[i+1:]
		}
		rows[name] = row{value(t, m[1]), value(t, m[2])}
	}
	require.NotEmpty(t, rows, "%s", out)
	return rows
}

func value(t *testing.T, text string) time.Duration {
	t.Helper()
	ns, err := strconv.ParseFloat(strings.TrimSuffix(text, "ns"), 64)
	require.NoError(t, err, text)
	return time.Duration(ns)
}

const here = "gpupprof_test."

// The tool that Go people have shows which Go code the device worked for.
func TestPprofShowsDeviceTimeByGoFunction(t *testing.T) {
	s := newService(t)
	p := gpupprof.New()
	_, err := s.prof.AddSink(p)
	require.NoError(t, err)
	request, layer := s.track("request"), s.track("layer")
	const n = 50
	for range n {
		prefill(context.Background(), s, request)
		decode(context.Background(), s, request, layer)
		s.flush(t)
	}
	require.NoError(t, s.prof.Close())
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))

	rows := top(t, file)
	within := func(want, got time.Duration) { t.Helper(); require.InEpsilon(t, want, got, 0.02) }
	within(n*3*time.Millisecond, rows[here+"prefill"].cum)
	within(n*2*time.Millisecond, rows[here+"decode"].cum)
	within(n*4*time.Millisecond, rows["gpu:request"].flat)
	within(n*5*time.Millisecond, rows["gpu:request"].cum)
	within(n*time.Millisecond, rows["gpu:layer"].cum)
	within(n*5*time.Millisecond, rows[here+"TestPprofShowsDeviceTimeByGoFunction"].cum)
	require.Zero(t, rows[here+"decode"].flat)
	for name := range rows {
		require.NotContains(t, name, "profiler.Do", "what lies between is nobody's code")
	}
	counts := top(t, file, "-sample_index=windows", "-unit=minimum")
	require.Equal(t, row{2 * n, 2*n + n}, row{counts["gpu:request"].flat, counts["gpu:request"].cum})
}

func TestProfileCarriesLabels(t *testing.T) {
	s := newService(t)
	p := gpupprof.New()
	_, err := s.prof.AddSink(p)
	require.NoError(t, err)
	tr := s.track("request")
	for i, tenant := range []string{"a", "b", "b"} {
		pprof.Do(context.Background(), pprof.Labels("tenant", tenant), func(ctx context.Context) {
			s.window(ctx, tr, time.Duration(i+1)*time.Millisecond, nil)
		})
	}
	s.flush(t)
	require.NoError(t, s.prof.Close())
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	for _, x := range []struct {
		focus string
		want  time.Duration
	}{
		{"tenant=^a$", time.Millisecond},
		{"tenant=^b$", 5 * time.Millisecond},
		{"window=^request$", 6 * time.Millisecond},
		{"stream=^1$", 6 * time.Millisecond},
		{"device=^" + s.dev.Identity().UUID + "$", 6 * time.Millisecond},
	} {
		require.InEpsilon(t, x.want, top(t, file, "-tagfocus="+x.focus)["gpu:request"].flat, 0.02, x.focus)
	}
}

// Without stacks a profile still says which window took how long.
func TestProfileWithoutStacksShowsWindows(t *testing.T) {
	s := newService(t, profiler.WithStacks(false))
	p := gpupprof.New()
	_, err := s.prof.AddSink(p)
	require.NoError(t, err)
	s.window(context.Background(), s.track("w"), time.Millisecond, nil)
	s.flush(t)
	require.NoError(t, s.prof.Close())
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	rows := top(t, file)
	require.Len(t, rows, 1)
	require.InEpsilon(t, time.Millisecond, rows["gpu:w"].flat, 0.02)
}

func TestEmptyProfileIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, gpupprof.New().WriteFile(file))
	out, err := tool(t, "-raw", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "gpu/nanoseconds")
}

// More distinct names than there is room for cost no more memory, and no time is lost.
func TestTooManySamplesAreCountedAsOther(t *testing.T) {
	p := gpupprof.New()
	const n = 1<<16 + 1000
	batch := make([]profiler.Span, n)
	for i := range batch {
		batch[i] = profiler.Span{ID: 1<<40 + uint64(i), Name: strconv.Itoa(i), Duration: time.Millisecond}
	}
	require.NoError(t, p.Spans(batch))
	file := filepath.Join(t.TempDir(), "gpu.pb.gz")
	require.NoError(t, p.WriteFile(file))
	require.Equal(t, 1000*time.Millisecond, top(t, file, "-focus=gpu:other")["gpu:other"].flat)
}

func TestProfileIsServed(t *testing.T) {
	s := newService(t)
	server := httptest.NewServer(gpupprof.Handler(s.prof))
	defer server.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	request, layer := s.track("request"), s.track("layer")
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				prefill(context.Background(), s, request)
				decode(context.Background(), s, request, layer)
				_ = s.dev.StreamSynchronize(s.stream)
			}
		}
	}()
	defer func() { <-stopped }()
	defer close(stop)
	rows := top(t, server.URL+"/debug/pprof/gpu?seconds=1")
	share := float64(rows[here+"prefill"].cum) / float64(rows[here+"prefill"].cum+rows[here+"decode"].cum)
	require.InDelta(t, 0.6, share, 0.02)
}

func TestProfileRequestsAreBoundedAndEnd(t *testing.T) {
	s := newService(t)
	server := httptest.NewServer(gpupprof.Handler(s.prof))
	defer server.Close()
	get := func(ctx context.Context, query string) (int, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+query, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, bad := range []string{"0", "-1", "NaN", "Inf", "601", "x", "1e9"} {
		code, text, err := get(ctx, "?seconds="+bad)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, code, bad)
		require.Contains(t, text, "from 0.001 to 600")
	}
	results := make(chan error)
	for range 4 {
		go func() {
			for { // the one that looks below may be in the way
				if code, _, err := get(ctx, "?seconds=15"); code != http.StatusServiceUnavailable {
					results <- err
					return
				}
			}
		}()
	}
	require.Eventually(t, func() bool {
		code, text, err := get(context.Background(), "?seconds=0.001")
		return err == nil && code == http.StatusServiceUnavailable && strings.Contains(text, "4 requests are in progress")
	}, time.Minute, time.Millisecond)
	cancel()
	for range 4 {
		require.ErrorIs(t, <-results, context.Canceled)
	}
	require.Eventually(t, func() bool {
		code, _, err := get(context.Background(), "?seconds=0.001")
		return err == nil && code == http.StatusOK
	}, time.Minute, time.Millisecond)

	require.NoError(t, s.prof.Close())
	code, text, err := get(context.Background(), "?seconds=0.001")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, events.ErrClosed.Error())
}

func TestProfileOfANilProfilerIsEmpty(t *testing.T) {
	var none *profiler.Profiler[mock.Stream]
	p, err := gpupprof.Collect(context.Background(), time.Millisecond, none)
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = p.WriteTo(&out)
	require.NoError(t, err)
	require.Positive(t, out.Len())
}

func TestProfileIsWrittenAsAWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	err := gpupprof.New().WriteFile(filepath.Join(dir, "absent", "gpu.pb.gz"))
	require.ErrorIs(t, err, os.ErrNotExist)
	broken := errors.New("full")
	_, err = gpupprof.New().WriteTo(failing{broken})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func BenchmarkSpans(b *testing.B) {
	p := gpupprof.New()
	stack := make([]uintptr, 20)
	for i := range stack {
		stack[i] = uintptr(i)
	}
	batch := make([]profiler.Span, 100)
	for i := range batch {
		batch[i] = profiler.Span{ID: 1<<40 + uint64(i), Name: "w", Stack: stack, Duration: time.Microsecond}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Spans(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/window")
}
