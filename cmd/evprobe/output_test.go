package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
)

func TestProgressIsForTerminalsOnlyAndFitsOneLine(t *testing.T) {
	require.Nil(t, newProgress(&bytes.Buffer{}))
	var none *progress
	none.begin(time.Now())
	none.show("nothing happens")
	none.clear()

	var b bytes.Buffer
	columns := 80
	p := &progress{w: &b, width: func() int { return columns }}
	p.begin(time.Now())
	p.show("[1/14] " + strings.Repeat("µ", 200))
	require.Equal(t, clearLine+"[1/14] "+strings.Repeat("µ", 79-7), b.String())
	b.Reset()
	columns = 10 // made smaller meanwhile
	p.show("[1/14] something")
	require.Equal(t, clearLine+"[1/14] so", b.String())
	b.Reset()
	p.clear()
	p.clear()
	require.Equal(t, clearLine, b.String())
}

func TestWhatIsOverWithinASecondIsNotShown(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, width: func() int { return 80 }, after: time.Hour}
	p.begin(time.Now())
	p.show("soon over")
	p.clear()
	require.Empty(t, b.String())
	p.begin(time.Now().Add(-2 * time.Hour))
	p.show("takes long")
	require.Contains(t, b.String(), "takes long")
}

func TestColoursAreThereOnlyWhereTheyAreWanted(t *testing.T) {
	for colour, want := range map[bool]string{true: "\x1b[31mFAIL\x1b[0m  order         late\n", false: "FAIL  order         late\n"} {
		var b bytes.Buffer
		p := &printer{w: &b, colour: colour}
		p.result(probe.Result{Name: "order", Verdict: probe.Fail, Reason: "late"})
		require.Equal(t, want, b.String())
		b.Reset()
		p.backend(&document.Backend{Name: "cuda", Status: document.StatusHangs})
		require.Equal(t, colour, strings.Contains(b.String(), "\x1b["))
	}
}
