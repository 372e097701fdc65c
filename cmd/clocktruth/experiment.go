package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
	"example.com/devevents/profiler"
)

// experiment measures windows, and beside them what the host and the device's own timer
// say of the same moments.
type experiment struct {
	dev    cuda.Device
	prof   *profiler.Profiler[cuda.Stream]
	work   cuda.Stream
	track  *profiler.Track
	rivals rivals

	mu    sync.Mutex
	spans map[uint64]profiler.Span

	links   []link
	windows []*window
	empty   time.Duration // between two events with nothing between them
}

// window is one window of the experiment with a kernel in it.
type window struct {
	id     uint64
	spin   events.Spin
	mark   cuda.Event // recorded right before the window was opened, for the rivals
	opened time.Duration

	first, last uint64 // the kernel's own readings of the device's timer
	span        profiler.Span
	rival       [rivalCount]time.Duration // where each rival puts the start
	truth       interval                  // of the start, on the host's clock
}

type interval struct{ from, to time.Duration }

// link is one answer of the device's timer to the host.
type link struct {
	timer         uint64
	before, after time.Duration
}

func newExperiment(dev cuda.Device) (*experiment, error) {
	x := &experiment{dev: dev, spans: map[uint64]profiler.Span{}}
	var err error
	x.prof, err = profiler.New(dev, profiler.WithSink(profiler.SinkFunc(func(batch []profiler.Span) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range batch {
			x.spans[s.ID] = s
		}
		return nil
	})), profiler.WithSinkQueue(4096))
	if err != nil {
		return nil, err
	}
	if x.work, err = dev.StreamCreateNonBlocking(); err != nil {
		return nil, errors.Join(err, x.prof.Close())
	}
	x.track = x.prof.Track(x.work, "kernel")
	if err := x.rivals.open(x); err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

func (x *experiment) close() error {
	return errors.Join(x.prof.Close(), x.rivals.close(x.dev), x.dev.StreamDestroy(x.work))
}

// now is the host's monotonic clock, from the profiler's origin.
func (x *experiment) now() time.Duration { return time.Since(x.prof.Origin()) }

const (
	perRound   = 8 // windows queued behind each other
	kernelTime = 2 * time.Microsecond
	roundPause = 8 * time.Millisecond
	askEvery   = 10 * time.Millisecond
	askTries   = 4
)

// run makes windows for so long.
func (x *experiment) run(ctx context.Context, length time.Duration, load bool) error {
	if err := x.measureEmpty(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, length)
	defer stop()
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	failed := make(chan error, 64)
	others.Go(func() { x.ask(ctx, failed) })
	if load {
		loads(ctx, x.dev, &others, failed)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	told := time.Now()
	for ctx.Err() == nil {
		if err := x.round(load && rng.IntN(200) == 0, rng); err != nil {
			return err
		}
		select {
		case err := <-failed:
			return err
		case <-time.After(time.Duration(float64(roundPause) * (0.5 + rng.Float64()))):
		}
		if time.Since(told) > 20*time.Second {
			told = time.Now()
			fmt.Printf("%d windows, %d answers of the timer\n", len(x.windows), len(x.links))
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	time.Sleep(time.Second) // until the last are placed by what follows them
	return x.prof.Flush(ending)
}

func (x *experiment) measureEmpty() error {
	a, err := x.dev.EventCreate()
	if err != nil {
		return err
	}
	b, err := x.dev.EventCreate()
	if err != nil {
		return err
	}
	var all []time.Duration
	for range 50 {
		if _, err := x.dev.ScratchSpin(200*time.Microsecond, x.work); err != nil {
			return err
		}
		if err := errors.Join(x.dev.EventRecord(a, x.work), x.dev.EventRecord(b, x.work), x.dev.EventWait(b)); err != nil {
			return err
		}
		span, err := x.dev.EventElapsed(a, b)
		if err != nil {
			return err
		}
		all = append(all, span)
	}
	x.empty = median(all)
	return errors.Join(x.dev.EventDestroy(a), x.dev.EventDestroy(b))
}

// round queues some windows behind a little work, or a lot, waits for them, and reads
// what will not be there later.
func (x *experiment) round(deep bool, rng *rand.Rand) error {
	ahead := 100 * time.Microsecond
	if deep {
		ahead = time.Second + time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	if _, err := x.dev.ScratchSpin(ahead, x.work); err != nil {
		return err
	}
	var round []*window
	for i := range perRound {
		w := &window{mark: x.rivals.marks[i], opened: x.now()}
		if err := x.dev.EventRecord(w.mark, x.work); err != nil {
			return err
		}
		token := x.track.Start()
		var err error
		if w.spin, err = x.dev.ScratchSpin(kernelTime, x.work); err != nil {
			return err
		}
		x.track.Stop(token)
		if token.Err() != nil {
			continue // dropped: the profiler was full, or the stream captured
		}
		w.id = token.ID()
		round = append(round, w)
	}
	if err := x.dev.StreamSynchronize(x.work); err != nil {
		return err
	}
	for _, w := range round {
		times, ok := w.spin.(interface {
			Times() (first, last uint64, err error)
		})
		if !ok {
			return fmt.Errorf("spins of backend %s do not give their readings", x.dev.Backend())
		}
		var err error
		if w.first, w.last, err = times.Times(); err != nil {
			return err
		}
	}
	if err := x.rivals.place(x, round); err != nil {
		return err
	}
	x.windows = append(x.windows, round...)
	return nil
}

// ask compares the device's timer with the host's clock now and then, on a stream of its
// own: the narrowest of a few.
func (x *experiment) ask(ctx context.Context, failed chan<- error) {
	stream, err := x.dev.StreamCreateNonBlocking()
	if err != nil {
		failed <- err
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		var best link
		for range askTries {
			l, err := x.askOnce(stream)
			if err != nil {
				failed <- err
				return
			}
			if best.timer == 0 || l.after-l.before < best.after-best.before {
				best = l
			}
		}
		x.mu.Lock()
		x.links = append(x.links, best)
		x.mu.Unlock()
		time.Sleep(askEvery)
	}
	if err := x.dev.StreamDestroy(stream); err != nil {
		failed <- err
	}
}

func (x *experiment) askOnce(stream cuda.Stream) (l link, err error) {
	q, err := x.dev.TimerAsk(stream)
	if err != nil {
		return l, err
	}
	for began := x.now(); !q.Running(); {
		if x.now()-began > 10*time.Second {
			return l, fmt.Errorf("%w: the device has not begun to answer within 10s", events.ErrExpired)
		}
	}
	l.before = x.now()
	q.Ask()
	for answered := false; !answered; {
		l.timer, answered = q.Answer()
		l.after = x.now()
		if l.after-l.before > 10*time.Second {
			return l, fmt.Errorf("%w: the device has not answered within 10s", events.ErrExpired)
		}
	}
	return l, nil
}
