// Command clocktruth holds the profiler's placements on the host's clock against the
// device's own timer, which is read without any event.
//
//	clocktruth -for 2m -out DIR           on a machine with nothing else to do
//	clocktruth -for 2m -out DIR -load     beside everything that disturbs
//
// It writes summary.json, windows.csv.gz with every window, and pictures. The exit code is
// 1 if the truth lay outside of a bound. docs/accuracy.md explains what is compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"example.com/devevents/events/cuda"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("clocktruth", flag.ContinueOnError)
	length := flags.Duration("for", time.Minute, "how long to measure")
	load := flags.Bool("load", false, "beside busy processors, garbage collection, 32 busy streams, deep queues and a capture")
	out := flags.String("out", ".", "the folder for results")
	device := flags.Int("device", 0, "which CUDA device")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	summary, err := measure(ctx, *device, *length, *load, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clocktruth:", err)
		return 3
	}
	text, err := json.MarshalIndent(summary, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(*out, "summary.json"), append(text, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clocktruth:", err)
		return 3
	}
	summary.print(os.Stdout)
	if summary.Violations > 0 {
		return 1
	}
	return 0
}

func measure(ctx context.Context, ordinal int, length time.Duration, load bool, out string) (s *summary, err error) {
	rt, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	dev, err := rt.Device(ordinal)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	x, err := newExperiment(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.run(ctx, length, load); err != nil {
		return nil, err
	}
	s = x.judge()
	info := rt.Info()
	s.Device, s.Driver, s.Runtime, s.Load = dev.Identity().Name, info.Driver, info.RuntimeVersionText, load
	s.Date = time.Now().UTC().Format(time.DateOnly)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	return s, x.write(out)
}
