package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schema is as much of JSON Schema as docs/schema/bench.schema.json uses.
type schema struct {
	Ref                  string             `json:"$ref"`
	Schema               string             `json:"$schema"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
	Type                 string             `json:"type"`
	Enum                 []any              `json:"enum"`
	Const                any                `json:"const"`
	Minimum              *float64           `json:"minimum"`
	Required             []string           `json:"required"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Defs                 map[string]*schema `json:"$defs"`
}

// loadSchema reads the schema of reports. A keyword that the checker does not know
// would be a rule that nobody checks, so it is an error.
func loadSchema(t *testing.T) *schema {
	t.Helper()
	path := filepath.Join("..", "docs", "schema", "bench.schema.json")
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		t.Skip("needs the repository's docs beside the package: ", path, " is not there")
	}
	require.NoError(t, err)
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var s schema
	require.NoError(t, dec.Decode(&s))
	return &s
}

// check gives what is wrong with a value, with its path.
func (s *schema) check(root *schema, v any, path string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, path+": "+fmt.Sprintf(format, args...)) }
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, v, path)
	}
	if s.Const != nil && v != s.Const {
		say("%v is not %v", v, s.Const)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		say("%v is none of %v", v, s.Enum)
	}
	switch s.Type {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			say("%T is no object", v)
			return wrong
		}
		for _, name := range s.Required {
			if _, ok := m[name]; !ok {
				say("%s is missing", name)
			}
		}
		for name, value := range m {
			p, known := s.Properties[name]
			if !known {
				if string(s.AdditionalProperties) == "false" {
					say("%s is not in the schema", name)
					continue
				}
				p = &schema{}
				if err := json.Unmarshal(s.AdditionalProperties, p); err != nil {
					say("%v", err)
				}
			}
			wrong = append(wrong, p.check(root, value, path+"."+name)...)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			say("%T is no array", v)
		}
		for i, item := range list {
			wrong = append(wrong, s.Items.check(root, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case "string":
		if _, ok := v.(string); !ok {
			say("%v is no string", v)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			say("%v is no boolean", v)
		}
	case "integer", "number":
		n, ok := v.(json.Number)
		if !ok {
			say("%v is no number", v)
			return wrong
		}
		if _, err := n.Int64(); err != nil && s.Type == "integer" {
			say("%v is no integer", v)
		}
		if f, err := n.Float64(); err != nil || s.Minimum != nil && f < *s.Minimum {
			say("%v is out of range", v)
		}
	}
	return wrong
}

// valid checks a report against the schema.
func valid(t *testing.T, s *schema, text []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return s.check(s, v, "report")
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
		require.Contains(t, strings.Join(valid(t, s, []byte(text)), "\n"), part, text)
	}
}
