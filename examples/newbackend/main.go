// Command newbackend shows a backend that is made from nothing: backend.go has
// all of it, the test runs the conformance suite on it, and this program times
// some work with it.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"example.com/devevents/events"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "newbackend:", err)
		os.Exit(1)
	}
}

// run times pieces of work of known length, as a program on any backend would.
func run(out io.Writer) error {
	dev := Open(0, 2)
	stream, err := dev.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	for _, d := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		span, err := timed(dev, stream, func() error { return dev.Sleep(stream, d) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "work of %v read as %v\n", d, span.Round(10*time.Microsecond))
	}
	return dev.StreamDestroy(stream)
}

// timed knows no vendor: it works with any backend.
func timed[E any, S comparable](api events.EventApi[E, S], stream S, work func() error) (time.Duration, error) {
	start, err := events.New(api)
	if err != nil {
		return 0, err
	}
	defer func() { _ = start.Close() }()
	end, err := events.New(api)
	if err != nil {
		return 0, err
	}
	defer func() { _ = end.Close() }()
	if err := start.Record(stream); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := end.Record(stream); err != nil {
		return 0, err
	}
	if err := end.Wait(); err != nil {
		return 0, err
	}
	return events.Elapsed(start, end)
}
