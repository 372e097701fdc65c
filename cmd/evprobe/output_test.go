package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressIsForTerminalsOnlyAndFitsOneLine(t *testing.T) {
	require.Nil(t, newProgress(&bytes.Buffer{}, false))
	var none *progress
	none.show("nothing happens")
	none.clear()

	var b bytes.Buffer
	p := &progress{w: &b}
	p.show("[1/14] " + strings.Repeat("µ", 200))
	require.Equal(t, clearLine+"[1/14] "+strings.Repeat("µ", progressWidth-7), b.String())
	b.Reset()
	p.clear()
	require.Equal(t, clearLine, b.String())
}
