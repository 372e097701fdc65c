package probe

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/events"
	"example.com/devevents/events/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type mockAPI = events.EventApi[mock.Event, mock.Stream]

// quick is enough for drift to show and short enough for a test.
var quick = Settings{DriftSpan: 50 * time.Millisecond}

// only gives some of the checks, in their order.
func only(t *testing.T, names ...string) []check[mock.Event, mock.Stream] {
	t.Helper()
	checks := slices.DeleteFunc(list[mock.Event, mock.Stream](), func(c check[mock.Event, mock.Stream]) bool {
		return !slices.Contains(names, c.name)
	})
	require.Len(t, checks, len(names), "a check of that name is missing")
	return checks
}

// runOne runs one check, with no limit that a working machine can reach.
func runOne(t *testing.T, api mockAPI, about About, name string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := run(ctx, api, about, quick, only(t, name))
	require.True(t, out.Complete)
	require.Len(t, out.Results, 1)
	return out.Results[0]
}

// number is a measured whole number.
func number(t *testing.T, r Result, key string) int {
	t.Helper()
	require.Contains(t, r.Numbers, key)
	return int(r.Numbers[key].(float64))
}

// byName finds a result.
func byName(t *testing.T, out Outcome, name string) Result {
	t.Helper()
	i := slices.IndexFunc(out.Results, func(r Result) bool { return r.Name == name })
	require.GreaterOrEqual(t, i, 0, "no result of %s", name)
	return out.Results[i]
}
