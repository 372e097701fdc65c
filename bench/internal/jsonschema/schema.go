// Package jsonschema checks documents against schemas, for the tests of this repository: as
// much of JSON Schema as the schemas under docs/schema use, and an error for any other
// keyword, which would be a rule that nobody checks.
//
// Functions are pure but for the file that Load reads.
package jsonschema

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Schema is a schema, or a part of one.
type Schema struct {
	Ref                  string             `json:"$ref"`
	Dialect              string             `json:"$schema"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
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

// Load reads a schema.
func Load(path string) (*Schema, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var s Schema
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &s, nil
}

// Check gives what is wrong with a document, each with its path; none if nothing is.
func (s *Schema) Check(document []byte) []string {
	dec := json.NewDecoder(strings.NewReader(string(document)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	return s.check(s, v, "report")
}

// check gives what is wrong with a value, with its path.
func (s *Schema) check(root *Schema, v any, path string) (wrong []string) {
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
				p = &Schema{}
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
