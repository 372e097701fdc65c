package timeline_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// event is one event of the format.
type event struct {
	Ph   string      `json:"ph"`
	Name string      `json:"name"`
	Cat  string      `json:"cat"`
	Bp   string      `json:"bp"`
	ID   json.Number `json:"id"`
	S    string      `json:"s"`
	Pid  int         `json:"pid"`
	Tid  int         `json:"tid"`
	Ts   json.Number `json:"ts"`
	Dur  json.Number `json:"dur"`
	Args args        `json:"args"`

	from int64 // Ts in nanoseconds
}

// args is what events of all kinds have for arguments.
type args struct {
	Window string      `json:"window"`
	Parent string      `json:"parent"`
	Bound  json.Number `json:"bound_us"`
	Placed string      `json:"placed"`
}

// ns reads microseconds with three decimals without rounding.
func ns(t testing.TB, n json.Number) int64 {
	t.Helper()
	whole, part, ok := strings.Cut(n.String(), ".")
	v, err := strconv.ParseInt(whole+part, 10, 64)
	if !ok || len(part) != 3 || err != nil {
		require.Fail(t, "not microseconds with three decimals", "%v: %v", n, err)
	}
	return v
}

type key struct{ pid, tid int }

// drawn is a slice on its thread.
type drawn struct {
	event
	to int64
}

// parsed checks a trace by the rules of the format and of its viewers, and gives its events.
// What is checked of slices and arrows is how Perfetto's trace processor reads them: sorted by
// time, with the order in the file among equals; on a thread a slice that overlaps the open one in
// part is dropped, and an arrow's end belongs to the innermost open slice.
func parsed(t testing.TB, text []byte) []event {
	t.Helper()
	var all []event
	require.NoError(t, json.Unmarshal(text, &all))
	named, processes := map[key]bool{}, map[int]bool{}
	var timed []event
	for _, e := range all {
		switch k := (key{e.Pid, e.Tid}); e.Ph {
		case "M":
			switch e.Name {
			case "thread_name":
				require.False(t, named[k], "a thread is named once")
				require.Greater(t, e.Tid, 1000, "a thread with the number of a process")
				named[k] = true
			case "process_name":
				processes[e.Pid] = true
			}
		case "X", "s", "f", "i":
			e.from = ns(t, e.Ts)
			timed = append(timed, e)
		default:
			require.Fail(t, "an event of a kind that is not written", e.Ph)
		}
	}
	slices.SortStableFunc(timed, func(a, b event) int { return cmp.Compare(a.from, b.from) })
	open := map[key][]drawn{}
	arrows := map[uint64]string{} // where each begins, until it ends
	for _, e := range timed {
		k := key{e.Pid, e.Tid}
		if !named[k] || !processes[e.Pid] {
			require.Fail(t, "a thread or a process without a name", "%v", e)
		}
		switch e.Ph {
		case "X":
			open[k] = push(t, open[k], e)
		case "i":
			require.Equal(t, "p", e.S)
		default:
			id, err := strconv.ParseUint(e.ID.String(), 10, 64)
			require.NoError(t, err)
			if len(open[k]) == 0 {
				require.Fail(t, "an arrow's end is at no slice", "%v", e)
			}
			window := open[k][len(open[k])-1].Args.Window
			from, begun := arrows[id]
			if e.Ph == "s" {
				require.False(t, begun, "arrow %d begins twice", id)
				arrows[id] = window
			} else {
				if !begun || from != window {
					require.Fail(t, "an arrow leads from one window to another", "%d: from %q to %q", id, from, window)
				}
				delete(arrows, id)
			}
		}
	}
	require.Empty(t, arrows, "arrows without an end")
	return all
}

// push puts a slice on its thread.
func push(t testing.TB, open []drawn, e event) []drawn {
	t.Helper()
	d := drawn{e, e.from + ns(t, e.Dur)}
	if d.to < d.from {
		require.Fail(t, "a negative duration", "%v", e)
	}
	for len(open) > 0 {
		last := open[len(open)-1]
		instants := last.from == last.to && d.from == d.to
		if last.to > d.from || last.to == d.from && instants {
			break
		}
		open = open[:len(open)-1]
	}
	if n := len(open); n > 0 && d.to > open[n-1].to {
		require.Fail(t, "slices overlap in part", "%v ends behind what it lies in, %v", e, open[n-1].event)
	}
	return append(open, d)
}

func count(all []event, ph, cat string) (n int) {
	for _, e := range all {
		if e.Ph == ph && (cat == "" || e.Cat == cat) {
			n++
		}
	}
	return n
}
