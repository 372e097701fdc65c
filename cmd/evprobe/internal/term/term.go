// Package term tells what is known of the terminal that a stream leads to.
package term

import (
	"io"
	"os"
)

// Width is the number of columns of the terminal that w leads to, 0 where it is not
// a terminal. A terminal that does not say how wide it is counts as 80.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, terminal := size(f)
	switch {
	case !terminal:
		return 0
	case columns <= 0:
		return 80
	}
	return columns
}

// Redrawn is Width for lines that are written over again: 0 too on a terminal that cannot.
func Redrawn(w io.Writer) int {
	if dumb(os.LookupEnv) {
		return 0
	}
	return Width(w)
}

// Colour tells whether w may be sent colours: it is a terminal that knows them, and
// the user has not asked for none (NO_COLOR, see no-color.org).
func Colour(w io.Writer) bool {
	return Width(w) > 0 && wanted(os.LookupEnv) && enable(w.(*os.File))
}

func wanted(lookup func(string) (string, bool)) bool {
	if none, _ := lookup("NO_COLOR"); none != "" {
		return false
	}
	return !dumb(lookup)
}

func dumb(lookup func(string) (string, bool)) bool {
	kind, _ := lookup("TERM")
	return kind == "dumb"
}
