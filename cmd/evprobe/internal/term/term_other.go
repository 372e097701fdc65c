//go:build !linux && !darwin && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package term

import "os"

func size(*os.File) (columns int, terminal bool) { return 0, false }
func enable(*os.File) bool                       { return false }
