// Command bench-multistream measures work that is spread over several streams: one
// window begins on all of them and ends when the last one is done. The time is the
// makespan; below it are each stream's own time and how many ran at a time.
//
//	go run ./examples/bench-multistream -streams 4
//	go run ./examples/bench-multistream -a bytes[pow2]=[20:28:4] -backend cuda
//
// The tests beside it show the same device in a Go benchmark.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"example.com/devevents/bench"
	"example.com/devevents/events"
	"example.com/devevents/examples/internal/device"
)

const group = "fills on several streams"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("bench-multistream", flag.ContinueOnError)
	backend := flags.String("backend", "mock", device.Backends)
	streams := flags.Int("streams", 4, "how many streams")
	giveBack := func() error { return nil }
	code := bench.Run(flags, args, out, errOut, func(r *bench.Runner) {
		dev, closeDev, err := device.Open(*backend)
		if err != nil {
			r.Fail(group, err)
			return
		}
		giveBack = closeDev
		if err := measure(r, dev, *streams); err != nil {
			r.Fail(group, err)
		}
	})
	if err := giveBack(); err != nil {
		fmt.Fprintln(errOut, "bench-multistream:", err)
	}
	return code
}

// fan is one buffer for each stream.
type fan struct {
	scratch events.Scratch[events.AnyStream]
	streams []events.AnyStream
	buffers []events.Buffer
}

// newFan takes the buffers, or none of them.
func newFan(scratch events.Scratch[events.AnyStream], streams []events.AnyStream, bytes int64) (*fan, error) {
	f := &fan{scratch: scratch, streams: streams}
	for range streams {
		buffer, err := scratch.ScratchAlloc(bytes)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.buffers = append(f.buffers, buffer)
	}
	return f, nil
}

func (f *fan) Close() error {
	var errs []error
	for _, b := range f.buffers {
		errs = append(errs, f.scratch.ScratchFree(b))
	}
	return errors.Join(errs...)
}

// fill queues a fill on every stream.
func (f *fan) fill(it bench.Iters) error {
	for range it.N {
		for i, s := range f.streams {
			if err := f.scratch.ScratchMemset(f.buffers[i], 0, f.buffers[i].Bytes, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func measure(r *bench.Runner, dev events.AnyApi, n int) (err error) {
	scratch, ok := events.Ability[events.Scratch[events.AnyStream]](dev)
	if !ok || n < 1 {
		return errors.New("needs a backend with memory to fill, and at least one stream")
	}
	var streams []events.AnyStream
	defer func() {
		for _, s := range streams {
			err = errors.Join(err, dev.StreamDestroy(s))
		}
	}()
	for range n {
		s, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	timer := bench.NewDeviceEvents(dev, streams...)
	defer r.Release(timer) // before the streams are destroyed

	bench.Group(r, group, func(g *bench.GroupOf[*fan]) {
		g.Set(bench.On(timer), bench.In(bench.GPU), bench.FixedChunk(4))
		g.Axis("bytes", 1<<20, 64<<20)
		g.Context(func(c *bench.Case) (*fan, error) {
			bytes, err := c.Int("bytes")
			if err != nil {
				return nil, err
			}
			c.Set(bench.Bytes(bytes * int64(n)))
			return newFan(scratch, streams, bytes)
		})
		g.Bench("memset", (*fan).fill)
	})
	return nil
}
