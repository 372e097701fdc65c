package term

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsNoTerminalHasNoWidthAndNoColours(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer file.Close()
	require.Zero(t, Width(&bytes.Buffer{}))
	require.Zero(t, Width(null), "a character device, and no terminal")
	require.Zero(t, Width(file))
	require.False(t, Colour(file))
}

func TestNoColorAndDumbTerminalsAreHonoured(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{nil, true},
		{map[string]string{"NO_COLOR": "1", "TERM": "xterm"}, false},
		{map[string]string{"NO_COLOR": "", "TERM": "xterm"}, true}, // empty counts as not set
		{map[string]string{"TERM": "dumb"}, false},
	} {
		require.Equal(t, c.want, wanted(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }), c.env)
	}
}
