package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/page"
)

func reportFlags(fs *flag.FlagSet, o *options) {
	largestFlag(fs, o)
	fs.Func("from", "make the page from this `document` and open no device; may be given again, for the ladder of a bench", func(path string) error {
		o.from = append(o.from, path)
		return nil
	})
}

// writable tells before anything is measured that the page will have no place.
func writable(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("the page cannot be written: %s is no regular file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".evprobe-*")
	if err != nil {
		return fmt.Errorf("the page cannot be written: %w", err)
	}
	return remove(f)
}

func remove(f *os.File) error {
	_ = f.Close()
	return os.Remove(f.Name())
}

// report writes the page, from the document or from those that were given. How the
// checks ended stays the exit code, unless there is no page.
func (c command) report(o options, doc *document.Document, out *printer) {
	shown := doc
	if len(o.from) > 0 {
		merged, err := merge(o.from)
		if err != nil {
			doc.End(document.Usage, exitUsage, o.misused(err))
			return
		}
		shown = merged
		doc.End(document.Passed, exitPassed, "page made from "+strings.Join(o.from, ", "))
	}
	write := func(w io.Writer) error { return page.Write(w, shown) }
	if o.page == "-" {
		if err := write(c.stdout); err != nil && out.err == nil {
			out.err = err
		}
		return
	}
	if err := bench.WriteFile(o.page, write); err != nil {
		if out.err == nil {
			out.err = err
		}
		return
	}
	out.text("page: " + o.page + "\n")
}

// merge is the first document, with the ladder of the first that has one.
func merge(paths []string) (*document.Document, error) {
	var all *document.Document
	for _, path := range paths {
		d, err := document.Read(path)
		switch {
		case err != nil:
			return nil, err
		case all == nil:
			all = d
		case all.Bench == nil:
			all.Bench = d.Bench
		}
	}
	return all, nil
}
