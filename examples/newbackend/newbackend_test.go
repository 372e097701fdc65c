package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/events"
	"example.com/devevents/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestToyKeepsTheContract(t *testing.T) {
	for name, version := range map[string]int{"with query": 2, "without query": 1} {
		t.Run(name, func(t *testing.T) {
			eventstest.Run(t, eventstest.Backend[Event, Stream]{
				Open:   func(testing.TB) events.EventApi[Event, Stream] { return Open(0, version) },
				Second: func(testing.TB) events.EventApi[Event, Stream] { return Open(1, version) },
				Work: func(api events.EventApi[Event, Stream], s Stream, d time.Duration) error {
					return api.(*Toy).Sleep(s, d)
				},
			})
		})
	}
}

func TestProgramPrintsItsSpans(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Regexp(t, `^(work of (5|10|20)ms read as [0-9.]+m?s\n){3}$`, out.String())
}
