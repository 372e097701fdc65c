package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
)

// A library that counts no devices without a code leaves the same question as code 100.
func TestNoDeviceWithoutACodeHasTheHintToo(t *testing.T) {
	r := Refused(&events.UnavailableError{Backend: "hip", Cause: events.CauseNoDevice})
	require.Equal(t, "no-device", r.Hint.ID)
	require.Zero(t, r.Hint.Code)
	require.Nil(t, Refused(&events.UnavailableError{Backend: "opencl", Cause: events.CauseNoDevice}).Hint)
	require.Nil(t, Refused(&events.UnavailableError{Backend: "cuda", Cause: events.CauseLibraryMissing}).Hint)
	require.NotNil(t, r.Candidates)
	require.NotNil(t, r.Near)
}

func TestListsOfNumbersTakeOneLineAndTextsAreLeftAlone(t *testing.T) {
	text, err := Marshal(map[string]any{
		"values": []float64{1, -2.5, 1e21}, "empty": []float64{}, "text": "[ 1,  2 ]\n[\n 3 ]", "words": []string{"1", "2"},
	})
	require.NoError(t, err)
	require.Contains(t, string(text), `"values": [1,-2.5,1e+21]`)
	require.Contains(t, string(text), `"text": "[ 1,  2 ]\n[\n 3 ]"`)
	require.Contains(t, string(text), "\"1\",\n")
}

func TestDocumentIsReadBackAsItWasWritten(t *testing.T) {
	d := New("probe", time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC))
	d.End(Passed, 0, "all well")
	text, err := Marshal(d)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "a.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	back, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, d, back)
	require.Len(t, d.Environment.Variables, 9)
}

func TestFileThatIsNoDocumentIsNamedWithWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for text, wrong := range map[string]string{
		"":                                   "not a document of evprobe -json: EOF",
		"<html>":                             "not a document of evprobe -json: invalid character",
		`{"schema": 1`:                       "unexpected EOF",
		`{"schema": 2, "outcome": "passed"}`: "schema 2",
		`{"schema": "devevents.bench/1"}`:    "cannot unmarshal",
		`{}`:                                 "schema 0",
		`[1]`:                                "cannot unmarshal",
	} {
		path := filepath.Join(dir, "x.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(path)
		require.ErrorContains(t, err, wrong, text)
		require.ErrorContains(t, err, path)
	}
	_, err := Read(filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Read(dir)
	require.Error(t, err)
	large := filepath.Join(dir, "large.json")
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat(" ", 10)), 0o600))
	require.NoError(t, os.Truncate(large, largest+1))
	_, err = Read(large)
	require.ErrorContains(t, err, "larger than 64 MiB")
}
