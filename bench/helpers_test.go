package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/events/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a simulated device with what measures it.
type bed struct {
	*testing.T
	sys    *mock.System
	dev    *mock.Device
	stream mock.Stream
	timer  *DeviceEvents[mock.Event, mock.Stream]
	runner *Runner
}

// newBed makes a bed in simulated time, on a stream of its own.
func newBed(t *testing.T, opts ...mock.Option) *bed {
	t.Helper()
	sys := mock.New(append([]mock.Option{mock.AutoAdvance(), mock.HostCost(1300, 270, 25)}, opts...)...)
	t.Cleanup(sys.Close)
	b := &bed{T: t, sys: sys, dev: sys.Device(0)}
	var err error
	b.stream, err = b.dev.StreamCreateNonBlocking()
	require.NoError(t, err)
	b.timer = NewDeviceEvents(b.dev, b.stream)
	b.runner = NewRunner(WarmUp(10*time.Microsecond, 200*time.Millisecond))
	return b
}

// bench measures fn on the bed's device, and checks what must hold of any result.
func (b *bed) bench(fn func(it Iters) error, opts ...Option) *Result {
	b.Helper()
	return runOne(b.T, b.runner, func(g *GroupOf[int]) {
		g.Set(On(b.timer), In(GPU))
		g.Set(opts...)
		g.Bench("case", func(_ int, it Iters) error { return fn(it) })
	})
}

// work queues operations of a given length.
func (b *bed) work(d time.Duration) func(it Iters) error {
	return func(it Iters) error {
		for range it.N {
			if err := b.dev.Work(b.stream, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// runOne runs a group and gives its last result.
func runOne[C any](t *testing.T, r *Runner, define func(g *GroupOf[C])) *Result {
	t.Helper()
	began := time.Now()
	Group(r, "group", define)
	require.Less(t, time.Since(began), 20*time.Second, "a case must end within its budgets")
	results := r.Report().Results
	require.NotEmpty(t, results)
	checkOutputs(t, r.Report())
	return &results[len(results)-1]
}

// checkOutputs writes a report in every format: nothing may be NaN or infinite, and
// every result says why it ended.
func checkOutputs(t *testing.T, report *Report) {
	t.Helper()
	for name, write := range formats {
		var out bytes.Buffer
		require.NoError(t, write(report, &out), name)
		for _, word := range []string{"NaN", "Inf", "inf ", "%!"} {
			require.NotContains(t, out.String(), word, name)
		}
	}
	var table bytes.Buffer
	require.NoError(t, report.WriteTable(&table))
	t.Log("\n" + table.String())
	for i := range report.Results {
		require.NotEmpty(t, report.Results[i].Stop, "every row says why it stopped")
		require.NotEmpty(t, report.Results[i].Status)
	}
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.True(t, json.Valid(text))
}

func hasNote(r *Result, part string) bool {
	for _, n := range r.Notes {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}

// scripted is a backend that says what a test wants.
type scripted struct {
	begin, end func(n int) error
	collect    func(n int, iv Interval) (Sample, error)
	cpu        bool
	quantum    time.Duration
	n          int // samples begun
	open       int // begun and not ended
}

func (s *scripted) Label() string             { return "scripted" }
func (s *scripted) EmitsCPUDiagnostics() bool { return s.cpu }
func (s *scripted) Clock() Clock              { return Clock{Name: "script", Quantum: s.quantum} }

func (s *scripted) Begin() error {
	s.n++
	if s.begin != nil {
		if err := s.begin(s.n); err != nil {
			return err
		}
	}
	s.open++
	return nil
}

func (s *scripted) End() error {
	s.open--
	if s.end != nil {
		return s.end(s.n)
	}
	return nil
}

func (s *scripted) Collect(iv Interval) (Sample, error) {
	return s.collect(s.n, iv)
}

// constant is a scripted backend of which every sample takes d.
func constant(d time.Duration) *scripted {
	return &scripted{collect: func(int, Interval) (Sample, error) { return Sample{Duration: d}, nil }}
}

func nothing(int, Iters) error { return nil }

// quick is a case without warm-up, so that calls can be counted.
func quick(smallest, largest int) []Option {
	return []Option{WarmUp(0, 0), Samples(smallest, largest)}
}

var nan = math.NaN()
