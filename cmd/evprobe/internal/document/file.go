package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
)

// listOfNumbers is a list as MarshalIndent breaks it, one number a line.
var listOfNumbers = regexp.MustCompile(`\[\n\s*-?[0-9][-+0-9.eE,\s]*\]`)

var space = regexp.MustCompile(`\s+`)

// Marshal is v as indented JSON with lists of numbers on one line each.
func Marshal(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	// A string can hold no line break, so what is matched is a list.
	text = listOfNumbers.ReplaceAllFunc(text, func(list []byte) []byte { return space.ReplaceAll(list, nil) })
	return append(text, '\n'), nil
}

// largest is more than any document has, so that a wrong file does not fill the memory.
const largest = 64 << 20

// Read reads a document from a file. The error says which file and what is wrong.
func Read(path string) (*Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > largest {
		return nil, fmt.Errorf("%s: larger than %d MiB, so it is no document of evprobe", path, largest>>20)
	}
	var d Document
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("%s: not a document of evprobe -json: %w", path, err)
	}
	if d.Schema != Schema || d.Outcome == "" {
		return nil, fmt.Errorf("%s: not a document of evprobe -json that this evprobe can read: schema %d, outcome %q; schema %d is needed", path, d.Schema, d.Outcome, Schema)
	}
	return &d, nil
}
