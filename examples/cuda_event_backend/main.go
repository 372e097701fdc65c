// Command cuda_event_backend measures an asynchronous memset on the default stream
// with the device's own events: sixteen fills a sample, of a buffer that is allocated
// and freed round each sample.
//
//	go run ./examples/cuda_event_backend                    the simulated device, in CUDA's place
//	go run ./examples/cuda_event_backend -backend cuda      an NVIDIA GPU
//	go run ./examples/cuda_event_backend -format json       everything, raw samples too
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

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("cuda_event_backend", flag.ContinueOnError)
	backend := flags.String("backend", "mock", device.Backends)
	bytes := flags.Int64("bytes", 64<<20, "bytes that one operation fills")
	giveBack := func() error { return nil }
	code := bench.Run(flags, args, out, errOut, func(r *bench.Runner) {
		dev, closeDev, err := device.Open(*backend)
		if err != nil {
			r.Fail("CUDA/events", err)
			return
		}
		giveBack = closeDev
		measure(r, dev, *bytes)
	})
	if err := giveBack(); err != nil {
		fmt.Fprintln(errOut, "cuda_event_backend:", err)
	}
	return code
}

// fill is one sample's work.
type fill struct {
	scratch events.Scratch[events.AnyStream]
	stream  events.AnyStream
	buffer  events.Buffer
}

func (f *fill) Close() error { return f.scratch.ScratchFree(f.buffer) }

func measure(r *bench.Runner, dev events.AnyApi, bytes int64) {
	stream, err := defaultStream(dev)
	if err != nil {
		r.Fail("CUDA/events", err)
		return
	}
	timer := bench.NewDeviceEvents(dev, stream)
	if dev.Backend() == "mock" {
		timer.Named("CUDA") // what it simulates here
	}
	defer r.Release(timer)
	scratch, _ := events.Ability[events.Scratch[events.AnyStream]](dev)

	bench.Group(r, timer.Vendor()+"/events", func(g *bench.GroupOf[*fill]) {
		g.Set(bench.On(timer), bench.In(bench.GPU), bench.FixedChunk(16), bench.Bytes(bytes), bench.Flops(0), bench.WithoutTelemetry())
		g.PerSample(func(*bench.Case) (*fill, error) {
			if scratch == nil {
				return nil, bench.Skip("the backend has no memory to fill")
			}
			buffer, err := scratch.ScratchAlloc(bytes)
			return &fill{scratch, stream, buffer}, err
		})
		g.Bench("memset_async_default_stream", func(f *fill, it bench.Iters) error {
			for range it.N {
				if err := f.scratch.ScratchMemset(f.buffer, 0, f.buffer.Bytes, f.stream); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// defaultStream is the vendor's stream of handle 0, or one of ours where the vendor
// has no such stream.
func defaultStream(dev events.AnyApi) (events.AnyStream, error) {
	wrapper, ok := events.Ability[events.StreamWrapper[events.AnyStream]](dev)
	if !ok || dev.Backend() == "opencl" {
		return dev.StreamCreateNonBlocking()
	}
	stream := wrapper.WrapStream(0)
	if err := dev.StreamSynchronize(stream); err != nil {
		return stream, errors.Join(errors.New("the default stream does not answer"), err)
	}
	return stream, nil
}
