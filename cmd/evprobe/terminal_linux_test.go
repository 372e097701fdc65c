package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal runs evprobe on a terminal of so many columns, and gives what came there.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) (string, int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: columns}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	cmd := program(t, args...)
	cmd.Env = append(cmd.Env, append([]string{"TERM=xterm", "NO_COLOR="}, env...)...)
	cmd.Stdout, cmd.Stderr = slave, slave
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	var text strings.Builder
	for buffer := make([]byte, 4096); ; {
		n, err := master.Read(buffer)
		text.Write(buffer[:n])
		if err != nil { // of the last writer's end
			break
		}
	}
	_ = cmd.Wait()
	return text.String(), cmd.ProcessState.ExitCode()
}

const escape = "\x1b["

func TestTerminalGetsColoursUnlessTheyAreUnwanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env     []string
		colours bool
	}{{nil, true}, {[]string{"NO_COLOR=1"}, false}, {[]string{"TERM=dumb"}, false}} {
		text, code := onTerminal(t, 80, c.env, "check", "order", "-backend", "mock")
		require.Equal(t, exitPassed, code, text)
		require.Equal(t, c.colours, strings.Contains(text, escape+"32mPASS"), "%q", text)
		require.Contains(t, text, "order")
	}
	text, _ := onTerminal(t, 80, []string{"TERM=dumb"}, "check", "drift", "-backend", "mock")
	require.NotContains(t, text, escape, "progress is written over itself, which such a terminal cannot")
	text, _ = onTerminal(t, 80, nil, "check", "order", "-backend", "mock", "-json")
	require.NotContains(t, text, escape, "a document has no colours, wherever it goes")
}

// What takes longer than a second shows that it goes on, on one line that fits.
func TestTerminalShowsProgressOnOneLineThatFits(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`\r\x1b\[K(\[[^\r\n\x1b]*)`)
	for columns, progress := range map[uint16]bool{40: true, 8: false} {
		text, code := onTerminal(t, columns, []string{"NO_COLOR=1"}, "check", "drift", "-backend", "mock")
		require.Equal(t, exitPassed, code, text)
		lines := shown.FindAllStringSubmatch(text, -1)
		require.Equal(t, progress, len(lines) > 0, "%d columns: %q", columns, text)
		for _, line := range lines {
			require.Less(t, utf8.RuneCountInString(line[1]), int(columns))
		}
		require.Equal(t, progress, strings.Contains(text, "letting time pass"))
		require.Contains(t, text, "PASS  drift")
	}
	text, _ := onTerminal(t, 80, []string{"NO_COLOR=1"}, "check", "order", "-backend", "mock")
	require.NotContains(t, text, escape, "what is over at once shows no progress")
}
