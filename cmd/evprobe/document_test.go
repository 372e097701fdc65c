package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/internal/schematest"
)

var update = flag.Bool("update", false, "rewrite testdata/schema1.txt")

// Whoever reads schema 1 relies on these keys and types: lines may be added to
// the file, and none may change or go.
func TestShapeOfSchema1(t *testing.T) {
	t.Parallel()
	var passed bytes.Buffer
	require.Equal(t, exitPassed, command{backends: backends(), stdout: &passed, stderr: &passed, settings: quick}.
		run(t.Context(), []string{"-backend", "mock", "-json"}))
	tooLate := func(_ context.Context, s probe.Settings) probe.Outcome {
		s.Watch.Done(probe.Result{Name: "order", Verdict: probe.Fail, Reason: "late", Numbers: map[string]any{}})
		return probe.Outcome{Unfinished: &probe.Unfinished{Check: "order"}}
	}
	late := func(int) (*opened, error) { return &opened{check: tooLate}, nil }
	lateWithLibrary := func(ordinal int) (*opened, error) {
		o, err := openLoaded(ordinal)
		o.check = tooLate
		return o, err
	}

	var b strings.Builder
	for _, part := range []struct{ title, text string }{
		{"passed", passed.String()},
		{"unavailable", evprobe(t.Context(), refusing(missing), nil, "-json").stdout},
		{"timed out", evprobe(t.Context(), late, nil, "-json").stdout},
		{"with a library", evprobe(t.Context(), lateWithLibrary, nil, "-json").stdout},
		{"usage", evprobe(t.Context(), late, nil, "-json", "-frob").stdout},
	} {
		var doc any
		require.NoError(t, json.Unmarshal([]byte(part.text), &doc))
		require.Empty(t, validate(t, part.text), part.title)
		fmt.Fprintf(&b, "# %s\n", part.title)
		shape(&b, "", doc)
	}
	const golden = "testdata/schema1.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), b.String())
}

// shape writes each key with the type of its value. Elements of a list that
// have a name are told apart by it.
func shape(b *strings.Builder, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		fmt.Fprintf(b, "%s object\n", path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			shape(b, path+"."+key, v[key])
		}
	case []any:
		fmt.Fprintf(b, "%s list\n", path)
		for i, element := range v {
			if _, plain := element.(float64); plain && i > 0 {
				continue // one reading is like the others
			}
			name := ""
			if object, ok := element.(map[string]any); ok && object["name"] != nil {
				name = object["name"].(string)
			}
			shape(b, path+"["+name+"]", element)
		}
	case nil:
		fmt.Fprintf(b, "%s null\n", path)
	default:
		fmt.Fprintf(b, "%s %T\n", path, v)
	}
}

// validate gives what is wrong with a document, by docs/schema/evprobe.schema.json.
func validate(t *testing.T, text string) []string {
	t.Helper()
	return schematest.Load(t, "../../docs/schema/evprobe.schema.json").Check(t, []byte(text))
}

func TestSchemaRefusesWhatIsNoDocument(t *testing.T) {
	require.Contains(t, validate(t, `{"schema": 0, "outcome": "fine"}`), "$.schema: 0 is out of range")
	require.Contains(t, validate(t, `{"schema": 1, "outcome": "fine"}`), "$: checks is missing")
	require.Contains(t, strings.Join(validate(t, `{"device": 3}`), "\n"), "$.device")
	require.Contains(t, strings.Join(validate(t, `{"outcome": "fine"}`), "\n"), "fine is none of")
}

// validateDiff is validate for what evprobe diff prints.
func validateDiff(t *testing.T, text string) []string {
	t.Helper()
	return schematest.Load(t, "../../docs/schema/evprobe-diff.schema.json").Check(t, []byte(text))
}
