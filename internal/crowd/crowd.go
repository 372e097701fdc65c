// Package crowd has a great many goroutines wait for fences at once. The tests of
// fences use it, and those of the backends beneath them.
package crowd

import (
	"context"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/fence"
)

// Device is what the goroutines wait on.
type Device[E any, S comparable] struct {
	API     events.EventApi[E, S]
	Streams []S
	// Busy queues work on a stream and says later whether that is over, by the
	// device's own account.
	Busy func(stream S) (over func() bool, err error)
	// Release ends the work of all streams; nil where it ends by itself.
	Release func()
}

const (
	fencesEach = 10
	// threadsMost is what the threads of a Source and those of the runtime itself come
	// to, beside one for each processor.
	threadsMost = 16 + 8
)

// Waits has so many goroutines wait at once. Each must wake, none before the work is
// over, and all on few threads. Threads of earlier tests count too, since Go gives none
// back: the test should run in a process of its own (package alone).
func Waits[E any, S comparable](t *testing.T, d Device[E, S], waiters int) {
	t.Helper()
	fences, err := fence.New(d.API)
	if err != nil {
		t.Fatal(err)
	}
	overs := make([]func() bool, len(d.Streams))
	all := make([][]*fence.Fence, len(d.Streams))
	for i, s := range d.Streams {
		if overs[i], err = d.Busy(s); err != nil {
			t.Fatal(err)
		}
		for range fencesEach {
			f, err := fences.Record(s)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = append(all[i], f)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var woken sync.WaitGroup
	var early atomic.Int64
	var slowest atomic.Int64 // when the last woke
	began := time.Now()
	for i := range waiters {
		woken.Go(func() {
			of := i % len(all)
			if err := all[of][i/len(all)%fencesEach].Wait(ctx); err != nil {
				t.Error(err)
			}
			if !overs[of]() {
				early.Add(1)
			}
			at := int64(time.Since(began))
			for last := slowest.Load(); at > last && !slowest.CompareAndSwap(last, at); last = slowest.Load() {
			}
		})
	}
	for fences.Stats().Waiting < waiters {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d wait after two minutes", fences.Stats().Waiting, waiters)
		}
		for i, over := range overs {
			if over() {
				t.Fatalf("stream %d was done before all waited: %d of %d", i, fences.Stats().Waiting, waiters)
			}
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // long enough for threads to take the waits over
	blocked, released := fences.Stats().Threads, time.Since(began)
	if d.Release != nil {
		d.Release()
	}
	woken.Wait()
	threads, most := pprof.Lookup("threadcreate").Count(), threadsMost+runtime.GOMAXPROCS(0)
	st := fences.Stats()
	t.Logf("%d goroutines on %d streams waited %v after the first began; %d threads in the driver, %d in the process (at most %d), %d polls; the last woke %v later",
		waiters, len(d.Streams), released.Round(time.Millisecond), blocked, threads, most, st.Polls, (time.Duration(slowest.Load()) - released).Round(time.Millisecond))
	if threads > most {
		t.Errorf("%d threads for %d waits; at most %d", threads, waiters, most)
	}
	if early.Load() > 0 {
		t.Errorf("%d woke early", early.Load())
	}
	if st.Waiting != 0 || st.Pending != 0 || st.Reached != uint64(len(d.Streams)*fencesEach) {
		t.Errorf("not every fence is accounted for: %+v", st)
	}
	if err := fences.Close(); err != nil {
		t.Error(err)
	}
}
