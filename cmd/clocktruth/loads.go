package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// loads disturbs: as many goroutines that compute as there are processors, one that
// makes garbage, 32 busy streams, and a graph capture that is held open.
func loads(ctx context.Context, dev cuda.Device, all *sync.WaitGroup, failed chan<- error) {
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for x := uint64(1); ctx.Err() == nil; {
				for range 1 << 16 {
					x = x*6364136223846793005 + 1
				}
			}
		})
	}
	all.Go(func() {
		var kept [][]byte
		for ctx.Err() == nil {
			kept = append(kept, make([]byte, 1<<20))
			if len(kept) > 256 {
				kept = kept[128:]
				runtime.GC()
			}
			time.Sleep(time.Millisecond)
		}
	})
	all.Go(func() {
		if err := busyStreams(ctx, dev); err != nil {
			failed <- err
		}
	})
	all.Go(func() {
		if err := heldCapture(ctx, dev); err != nil {
			failed <- err
		}
	})
}

func busyStreams(ctx context.Context, dev cuda.Device) error {
	var streams []cuda.Stream
	for range 32 {
		s, err := dev.StreamCreateNonBlocking()
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	for ctx.Err() == nil {
		for _, s := range streams {
			if _, err := dev.ScratchSpin(300*time.Microsecond, s); err != nil {
				return err
			}
		}
		for _, s := range streams {
			if err := dev.StreamSynchronize(s); err != nil {
				return err
			}
		}
	}
	for _, s := range streams {
		if err := dev.StreamDestroy(s); err != nil {
			return err
		}
	}
	return nil
}

// heldCapture holds a capture of the strictest mode open for a while, again and again:
// whatever breaks it is an error of the profiler or of this program.
func heldCapture(ctx context.Context, dev cuda.Device) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := dev.StreamCreateNonBlocking()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := dev.CaptureBegin(s, events.CaptureGlobal); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		graph, err := dev.CaptureEnd(s)
		if err != nil {
			return err
		}
		if err := graph.Close(); err != nil {
			return err
		}
	}
	return dev.StreamDestroy(s)
}
