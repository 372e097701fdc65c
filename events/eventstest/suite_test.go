package eventstest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func (b breaker) backend(t testing.TB) Backend[mock.Event, mock.Stream] {
	open := func(dev *mock.Device) mockApi {
		if b.flaw == nil {
			return dev
		}
		return &broken{dev, b.flaw(dev, t)}
	}
	of := func(api mockApi) *mock.Device {
		if x, ok := api.(*broken); ok {
			return x.Device
		}
		return isDevice(api)
	}
	opts := b.opts
	if !b.real {
		opts = append([]mock.Option{mock.AutoAdvance()}, opts...)
	}
	x := simulated(open, of, opts...)
	if !b.real {
		x.Advance = func(api mockApi, d time.Duration) { of(api).System().Advance(d) }
	}
	x.Patience = 300 * time.Millisecond
	x.Timeout = 5 * time.Second
	if b.hang > 0 {
		x.Timeout = b.hang
	}
	return x
}

// New backends answered "fine" to everything, measured the host's spacing of
// calls, allowed cross-device use: smol-machines/smolvm#932,
// NVIDIA/numba-cuda#747, CHIP-SPV/chipStar#128, ROCm/hrx-system#57,
// pytorch/pytorch#169052.
func TestEveryBrokenBackendFailsItsOwnRule(t *testing.T) {
	table := matrix{}
	for _, b := range breakers() {
		t.Run(b.name, func(t *testing.T) {
			x := b.backend(t)
			own := runRule(t, direct(x), b.rule)
			require.NotEmpty(t, own.failure, "the rule %s does not see it (%s)", b.rule, own.skipped)
			t.Logf("%s: %s", b.rule, firstLine(own.failure))
			hidden := runRule(t, erased(x), b.rule)
			require.Empty(t, hidden.skipped)
			require.Equal(t, b.over, hidden.failure == "", "through Erase: %s", hidden.failure)
			if b.real || b.hang > 0 { // slow with the other rules
				table.add(b.name, map[string]result{b.rule: own})
				return
			}
			table.add(b.name, outcomes(t, direct(x)))
		})
	}
	t.Log("\n" + table.String())
}

func TestEveryRuleIsBrokenByABackend(t *testing.T) {
	broken := map[string]bool{}
	for _, b := range breakers() {
		broken[b.rule] = true
	}
	for _, r := range Rules() {
		require.True(t, broken[r.Name], "no backend breaks %s, so nothing shows that it would be seen", r.Name)
		delete(broken, r.Name)
	}
	require.Empty(t, broken, "rules that do not exist")
}

func runRule[E any, S comparable](t *testing.T, s subject[E, S], name string) result {
	for _, r := range rules[E, S]() {
		if r.Name == name {
			return s.run(t, r)
		}
	}
	t.Fatalf("there is no rule %q", name)
	return result{}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// matrix is backend by rule.
type matrix []matrixRow

type matrixRow struct {
	backend string
	results map[string]result
}

func (m *matrix) add(backend string, results map[string]result) {
	*m = append(*m, matrixRow{backend, results})
}

func (m matrix) String() string {
	var b strings.Builder
	b.WriteString("x: failed, -: skipped, blank: not run, columns in the order of the rules:\n")
	for i, r := range Rules() {
		fmt.Fprintf(&b, "%3d %s\n", i+1, r.Name)
	}
	fmt.Fprintf(&b, "%40s ", "")
	for i := range Rules() {
		fmt.Fprintf(&b, "%d", (i+1)%10)
	}
	b.WriteByte('\n')
	for _, row := range m {
		fmt.Fprintf(&b, "%40s ", row.backend)
		for _, r := range Rules() {
			mark := byte('.')
			switch got, run := row.results[r.Name]; {
			case !run:
				mark = ' '
			case got.failure != "":
				mark = 'x'
			case got.skipped != "":
				mark = '-'
			}
			b.WriteByte(mark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestRulesHaveNamesAndSentences(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, r.Name)
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		require.Regexp(t, `^[A-Z].*[^.]$`, r.Sentence)
	}
}

// inside is set for the copy of this test binary that the test below starts,
// because only a whole process shows what a failing suite prints.
const inside = "EVENTSTEST_INSIDE"

func TestFailurePrintsTheSentenceAndWhatWasSeen(t *testing.T) {
	if os.Getenv(inside) != "" {
		x := breaker{flaw: reads(events.ErrNotRecorded, 0)}.backend(t)
		x.Skip = map[string]string{"elapsed-pending": "it was left out on purpose", "no-such-rule": "a slip of the pen"}
		Run(t, x)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	printed, err := cmd.CombinedOutput()
	require.Error(t, err)
	for _, want := range []string{
		"--- FAIL: TestFailurePrintsTheSentenceAndWhatWasSeen/direct/elapsed-never-recorded",
		"--- FAIL: TestFailurePrintsTheSentenceAndWhatWasSeen/erased/elapsed-never-recorded",
		"rule elapsed-never-recorded: EventElapsed on an event that was never recorded must be ErrNotRecorded.",
		"EventElapsed from one that is never recorded to one that was reached: want ErrNotRecorded; got 0s and no error.",
		"--- PASS: TestFailurePrintsTheSentenceAndWhatWasSeen/direct/elapsed-self",
		"left out by the backend: it was left out on purpose",
		`Skip names the rule "no-such-rule", which does not exist`,
	} {
		require.Contains(t, string(printed), want)
	}
}

// A hang or a panic in one rule must not take the others with it.
func TestHangsAndPanicsAreFailures(t *testing.T) {
	end := untilEnd(t)
	x := breaker{hang: 100 * time.Millisecond, flaw: func(*mock.Device, testing.TB) flaws {
		return flaws{
			wait: func(mock.Event) error { <-end; return nil },
			sync: func(mock.Stream) error { panic("out of order") },
		}
	}}.backend(t)
	got := runRule(t, direct(x), "wait-again")
	require.Contains(t, got.failure, "panic: out of order")
	require.Contains(t, got.failure, "suite_test.go")
	x.Work = func(api mockApi, s mock.Stream, d time.Duration) error { return api.(*broken).Work(s, d) }
	x.Open = breaker{flaw: func(*mock.Device, testing.TB) flaws {
		return flaws{wait: func(mock.Event) error { <-end; return nil }}
	}}.backend(t).Open
	got = runRule(t, direct(x), "wait-again")
	require.Contains(t, got.failure, "Not finished after 100ms")
}

// A suite for strangers asks for nothing that they do not have.
func TestHooksAndSecondDeviceAreOptional(t *testing.T) {
	x := breaker{}.backend(t)
	x.Second, x.FailRecord, x.FakeMilliseconds, x.LoseDevice = nil, nil, nil, nil
	skipped := map[string]bool{}
	for name, got := range outcomes(t, direct(x)) {
		require.Empty(t, got.failure, name)
		if got.skipped != "" {
			skipped[name] = true
		}
	}
	for _, name := range []string{"foreign-handles", "failed-record", "reading-refused", "fault-sticky"} {
		require.True(t, skipped[name], name)
	}
	// Through Erase the second instance is there all the same.
	require.Empty(t, runRule(t, erased(x), "foreign-handles"))
}
