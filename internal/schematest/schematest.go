// Package schematest checks JSON against the schemas of docs/schema. It is for tests, and
// knows as much of JSON Schema as those use.
package schematest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Schema is a schema, or a part of one.
type Schema struct {
	Ref                  string             `json:"$ref"`
	Schema               string             `json:"$schema"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
	AnyOf                []*Schema          `json:"anyOf"`
	Type                 string             `json:"type"`
	Enum                 []any              `json:"enum"`
	Const                any                `json:"const"`
	Minimum              *float64           `json:"minimum"`
	Required             []string           `json:"required"`
	Properties           map[string]*Schema `json:"properties"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Items                *Schema            `json:"items"`
	Defs                 map[string]*Schema `json:"$defs"`
}

// Load reads a schema, given by its path from the package of the test. A keyword that is
// not known here would be a rule that nobody checks, so it fails the test. Where the
// file is not there, as beside a test that was carried to another machine, the test is
// skipped.
func Load(t *testing.T, path string) *Schema {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		t.Skip("needs the repository's docs beside the package: ", path, " is not there")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var s Schema
	if err := dec.Decode(&s); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return &s
}

// check gives what is wrong with a value, with its path.
func (s *Schema) check(root *Schema, v any, path string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, path+": "+fmt.Sprintf(format, args...)) }
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, v, path)
	}
	if s.AnyOf != nil {
		var all []string
		for _, one := range s.AnyOf {
			this := one.check(root, v, path)
			if len(this) == 0 {
				all = nil
				break
			}
			all = append(all, this...)
		}
		wrong = append(wrong, all...)
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
				p = &Schema{}
				if s.AdditionalProperties == nil {
					continue // anything may be there
				}
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
	case "null":
		if v != nil {
			say("%v is not null", v)
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

// Check gives what is wrong with a text of JSON, each with its path; nothing if it is as
// the schema says.
func (s *Schema) Check(t *testing.T, text []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return s.check(s, v, "$")
}
