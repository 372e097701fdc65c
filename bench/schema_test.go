package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench/internal/jsonschema"
)

// loadSchema reads the schema of reports.
func loadSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Load(filepath.Join("..", "docs", "schema", "bench.schema.json"))
	if os.IsNotExist(err) {
		t.Skip("needs the repository's docs beside the package: ", err)
	}
	require.NoError(t, err)
	return s
}

// The checker itself finds what is wrong.
func TestSchemaRefusesWhatIsNotAReport(t *testing.T) {
	s := loadSchema(t)
	for text, part := range map[string]string{
		`{}`: "schema is missing",
		`{"schema":"other/1","provenance":{},"results":[]}`:               "other/1 is not devevents.bench/1",
		`{"schema":"devevents.bench/1","provenance":{},"results":[{}]}`:   "group is missing",
		`{"schema":"devevents.bench/1","results":3}`:                      "is no array",
		`{"schema":"devevents.bench/1","more":1}`:                         "more is not in the schema",
		`{"schema":"devevents.bench/1","results":[{"chunk":-1}]}`:         "out of range",
		`{"schema":"devevents.bench/1","results":[{"chunk":1.5}]}`:        "is no integer",
		`{"schema":"devevents.bench/1","results":[{"status":"perhaps"}]}`: "is none of",
	} {
		require.Contains(t, strings.Join(s.Check([]byte(text)), "\n"), part, text)
	}
}
