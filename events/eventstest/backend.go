package eventstest

import (
	"slices"
	"testing"
	"time"

	"example.com/devevents/events"
)

// Backend is what the suite needs to know of a backend. Only Open is needed
// always, and Work where the backend offers neither Scratch nor Gate.
type Backend[E any, S comparable] struct {
	// Open gives a device for one rule: a fresh one, or the same each time. What
	// has to be closed afterwards is registered with t.Cleanup.
	Open func(t testing.TB) events.EventApi[E, S]

	// Second gives another device of the same vendor, or another instance of
	// it, for the rules about handles that meet the wrong device. It is called
	// right after Open. Without it foreign handles are only tried through Erase,
	// as those of a second erasure.
	Second func(t testing.TB) events.EventApi[E, S]

	// Work queues something that keeps the stream busy for at least d by the
	// device's clock and not much longer, and returns at once. Without it the
	// suite uses the Scratch ability's spin, or else a Gate.
	Work func(api events.EventApi[E, S], stream S, d time.Duration) error

	// Advance lets d pass on a device whose time does not pass by itself. Nil
	// means that time is real.
	Advance func(api events.EventApi[E, S], d time.Duration)

	// Resolution is how far one reading may be off: the device's tick and the
	// rounding of its readings. The default is 1 us.
	Resolution time.Duration
	// Overhead is how much more than the work between them two events may read,
	// with the device idle before. The default is 1 ms.
	Overhead time.Duration
	// Patience is after how long a call that must not wait counts as waiting,
	// and something that must happen counts as not happening. The default is 5 s.
	Patience time.Duration
	// Timeout is after how long a rule is given up. The default is 60 s.
	Timeout time.Duration

	// FailRecord makes the vendor's library refuse every EventRecord until
	// restore is called. Optional: real libraries cannot do that.
	FailRecord func(api events.EventApi[E, S]) (restore func())
	// FakeMilliseconds makes a library whose readings are float32 milliseconds
	// answer every EventElapsed with ms until restore is called. Optional likewise,
	// and for no other kind of library.
	FakeMilliseconds func(api events.EventApi[E, S], ms float32) (restore func())
	// LoseDevice makes the device fail for good, as an illegal address does.
	// Optional; with it Open has to give a fresh device each time.
	LoseDevice func(api events.EventApi[E, S])

	// Skip names rules that are not run, each with the reason, which is printed.
	Skip map[string]string
}

// Rule is one sentence of the contract.
type Rule struct {
	Name     string // what Skip and subtests call it
	Sentence string // what must hold
}

// Rules lists the rules in the order in which they run.
func Rules() []Rule {
	var list []Rule
	for _, r := range rules[events.AnyEvent, events.AnyStream]() {
		list = append(list, r.Rule)
	}
	return list
}

// Run runs the whole contract against a backend, direct and through
// events.Erase.
func Run[E any, S comparable](t *testing.T, b Backend[E, S]) {
	t.Helper()
	for name := range b.Skip {
		if !slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Name == name }) {
			t.Errorf("Skip names the rule %q, which does not exist", name)
		}
	}
	t.Run("direct", func(t *testing.T) { runAll(t, direct(b), b.Skip) })
	t.Run("erased", func(t *testing.T) { runAll(t, erased(b), b.Skip) })
}

func runAll[E any, S comparable](t *testing.T, s subject[E, S], skip map[string]string) {
	for _, r := range rules[E, S]() {
		t.Run(r.Name, func(t *testing.T) {
			if reason, ok := skip[r.Name]; ok {
				t.Skip("left out by the backend: " + reason)
			}
			got := s.run(t, r)
			switch {
			case got.failure != "":
				t.Errorf("rule %s: %s.\n%s", r.Name, r.Sentence, got.failure)
			case got.skipped != "":
				t.Skip(got.skipped)
			}
		})
	}
}
