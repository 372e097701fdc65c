package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/schematest"
)

const benchSchema = "../docs/schema/bench.schema.json"

// The checker itself finds what is wrong.
func TestSchemaRefusesWhatIsNotAReport(t *testing.T) {
	s := schematest.Load(t, benchSchema)
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
		require.Contains(t, strings.Join(s.Check(t, []byte(text)), "\n"), part, text)
	}
}
