//go:build linux || darwin || freebsd || openbsd || netbsd || dragonfly

package term

import (
	"os"

	"golang.org/x/sys/unix"
)

func size(f *os.File) (columns int, terminal bool) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(ws.Col), true
}

func enable(*os.File) bool { return true }
