package gpupprof

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"time"
)

// The numbers of fields in pprof's profile.proto
// (https://github.com/google/pprof/blob/main/proto/profile.proto).
const (
	profileSampleType    = 1
	profileSample        = 2
	profileLocation      = 4
	profileFunction      = 5
	profileStrings       = 6
	profileTimeNanos     = 9
	profileDurationNanos = 10
	profilePeriodType    = 11
	profilePeriod        = 12
	profileComment       = 13
	profileDefaultType   = 14

	valueTypeType = 1
	valueTypeUnit = 2

	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3

	labelKey  = 1
	labelText = 2

	locationID   = 1
	locationLine = 4

	lineFunction = 1
	lineNumber   = 2

	functionID     = 1
	functionName   = 2
	functionSystem = 3
	functionFile   = 4
	functionStart  = 5
)

// message is a protobuf message being written.
type message []byte

func (m *message) number(field int, value uint64) {
	if value == 0 {
		return
	}
	*m = binary.AppendUvarint(*m, uint64(field)<<3)
	*m = binary.AppendUvarint(*m, value)
}

func (m *message) bytes(field int, value []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(value)))
	*m = append(*m, value...)
}

// packed writes a list of numbers, zeros included.
func (m *message) packed(field int, values ...uint64) {
	var list []byte
	for _, v := range values {
		list = binary.AppendUvarint(list, v)
	}
	m.bytes(field, list)
}

// encoder builds one profile. Strings, functions and locations are written once each.
type encoder struct {
	out       message
	strings   map[string]uint64
	texts     []string
	functions map[frame]uint64 // by name, file and first line
	locations map[frame]uint64
}

func newEncoder() *encoder {
	e := &encoder{strings: map[string]uint64{}, functions: map[frame]uint64{}, locations: map[frame]uint64{}}
	e.text("") // the format wants it first
	return e
}

func (e *encoder) text(s string) uint64 {
	i, ok := e.strings[s]
	if !ok {
		i = uint64(len(e.texts))
		e.strings[s] = i
		e.texts = append(e.texts, s)
	}
	return i
}

func (e *encoder) valueType(field int, kind, unit string) {
	var m message
	m.number(valueTypeType, e.text(kind))
	m.number(valueTypeUnit, e.text(unit))
	e.out.bytes(field, m)
}

func (e *encoder) sample(at *sample) {
	var m message
	var stack []uint64
	for _, f := range framesOf(at) {
		stack = append(stack, e.location(f))
	}
	m.packed(sampleLocation, stack...)
	m.packed(sampleValue, uint64(at.count), uint64(at.time))
	for _, l := range at.labels {
		var pair message
		pair.number(labelKey, e.text(l.key))
		pair.number(labelText, e.text(l.value))
		m.bytes(sampleLabel, pair)
	}
	e.out.bytes(profileSample, m)
}

func (e *encoder) comment(text string) { e.out.packed(profileComment, e.text(text)) }

func (e *encoder) location(f frame) uint64 {
	if id, ok := e.locations[f]; ok {
		return id
	}
	id := uint64(len(e.locations) + 1)
	e.locations[f] = id
	var line, m message
	line.number(lineFunction, e.function(f))
	line.number(lineNumber, uint64(f.line))
	m.number(locationID, id)
	m.bytes(locationLine, line)
	e.out.bytes(profileLocation, m)
	return id
}

func (e *encoder) function(f frame) uint64 {
	f.line = 0
	if id, ok := e.functions[f]; ok {
		return id
	}
	id := uint64(len(e.functions) + 1)
	e.functions[f] = id
	var m message
	m.number(functionID, id)
	m.number(functionName, e.text(f.function))
	m.number(functionSystem, e.text(f.function))
	m.number(functionFile, e.text(f.file))
	m.number(functionStart, uint64(f.began))
	e.out.bytes(profileFunction, m)
	return id
}

func (e *encoder) finish(began time.Time, took time.Duration) []byte {
	e.valueType(profileSampleType, "windows", "count")
	e.valueType(profileSampleType, "gpu", "nanoseconds")
	e.valueType(profilePeriodType, "gpu", "nanoseconds")
	e.out.number(profilePeriod, 1)
	e.out.number(profileTimeNanos, uint64(began.UnixNano()))
	e.out.number(profileDurationNanos, uint64(took))
	e.out.number(profileDefaultType, e.text("gpu"))
	for _, s := range e.texts {
		e.out.bytes(profileStrings, []byte(s))
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(e.out) // into memory
	_ = w.Close()
	return zipped.Bytes()
}
