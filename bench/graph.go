package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/devevents/events"
)

const (
	graphIterations = 20  // of a graph
	graphLargest    = 256 // where a ring of buffers needs more
)

// replay is a captured graph of iterations, each between two events of its own.
type replay interface {
	// run launches the graph and waits for it: the span of each iteration, and host time
	// until it was queued and until it was done.
	run() (spans []time.Duration, queued, done time.Duration, err error)
	close() error
}

// graphReplay is a captured graph on the measured stream.
type graphReplay[E any, S comparable] struct {
	d      *DeviceEvents[E, S]
	graph  events.Graph[S]
	starts []E
	ends   []E
	spans  []time.Duration
}

// capture implements staged: n iterations, each behind its fill and between its events.
// After an error nothing is being captured any more.
func (d *DeviceEvents[E, S]) capture(n int, call func(i int) error) (replay, error) {
	// Work that escapes a capture does so each time; a host that was held up looks like it once.
	for range 3 {
		g, busy, err := d.captureOnce(n, call)
		if err != nil {
			return nil, err
		}
		if busy <= d.idleWait(captureNoise) {
			return g, nil
		}
		// A driver may have something to do for a new graph, which is no work that escaped: it
		// has the same to do for one without the function.
		same, own, err := d.captureOnce(n, func(int) error { return nil })
		if err == nil {
			err = same.close()
		}
		if err == nil && busy <= 2*own {
			return g, nil
		}
		if err = errors.Join(err, g.close()); err != nil {
			return nil, err
		}
	}
	return nil, errRan
}

// captureOnce captures, and says how long the device went on behind that.
func (d *DeviceEvents[E, S]) captureOnce(n int, call func(i int) error) (_ replay, busy time.Duration, err error) {
	switch {
	case d.graphs == nil:
		return nil, 0, fmt.Errorf("the backend has no graphs: %w", events.ErrUnsupported)
	case len(d.streams) > 1:
		return nil, 0, fmt.Errorf("a graph is of one stream, and there are %d: %w", len(d.streams), events.ErrUnsupported)
	}
	g := &graphReplay[E, S]{d: d, spans: make([]time.Duration, n)}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	for range n {
		for _, list := range []*[]E{&g.starts, &g.ends} {
			e, err := d.api.EventCreate()
			if err != nil {
				return nil, 0, err
			}
			*list = append(*list, e)
		}
	}
	stream, fill := d.streams[0], d.fill()
	if err := d.graphs.CaptureBegin(stream, events.CaptureThreadLocal); err != nil {
		return nil, 0, err
	}
	open := true
	end := func() (err error) {
		open = false
		g.graph, err = d.graphs.CaptureEnd(stream)
		return err
	}
	defer func() {
		if open { // the function leaves through runtime.Goexit
			_ = errors.Join(end(), g.close())
		}
	}()
	err = guard(func() error {
		for i := range n {
			if fill > 0 {
				if err := d.scratch.ScratchMemset(d.buffer, 0, fill, stream); err != nil {
					return fmt.Errorf("filling the cache: %w", err)
				}
			}
			if err := d.graphs.EventRecordExternal(g.starts[i], stream); err != nil {
				return err
			}
			if err := call(i); err != nil {
				return err
			}
			if err := d.graphs.EventRecordExternal(g.ends[i], stream); err != nil {
				return err
			}
		}
		return nil
	})
	// What broke the capture says more than its end.
	if ended := end(); err == nil {
		err = ended
	}
	if err == nil && d.syncer != nil {
		busy, err = d.busy()
	}
	if err != nil {
		return nil, 0, err
	}
	return g, busy, nil
}

// captureNoise is how long a device may go on behind a capture without a question.
const captureNoise = 100 * time.Microsecond

var errRan = fmt.Errorf("work ran while it was captured, so it is on another stream than the captured one: %w", events.ErrInvalid)

func (g *graphReplay[E, S]) run() (spans []time.Duration, queued, done time.Duration, err error) {
	d := g.d
	if d.stuck != nil {
		return nil, 0, 0, d.stuck
	}
	if d.fill() > 0 {
		if err := d.resetLines(); err != nil {
			return nil, 0, 0, err
		}
	}
	before := d.now()
	if err := g.graph.Launch(d.streams[0]); err != nil {
		return nil, 0, 0, fmt.Errorf("launching the graph: %w", err)
	}
	queued = time.Duration(d.now() - before)
	if err := d.api.EventRecord(d.end, d.streams[0]); err != nil {
		return nil, 0, 0, err
	}
	if err := d.wait(d.end); err != nil {
		return nil, 0, 0, err
	}
	done = time.Duration(d.now() - before)
	for i := range g.spans {
		if g.spans[i], err = d.api.EventElapsed(g.starts[i], g.ends[i]); err != nil {
			return nil, 0, 0, err
		}
	}
	return g.spans, queued, done, nil
}

func (g *graphReplay[E, S]) close() error {
	var errs []error
	if g.graph != nil {
		errs = append(errs, g.graph.Close())
	}
	for _, list := range [][]E{g.starts, g.ends} {
		for _, e := range list {
			errs = append(errs, g.d.api.EventDestroy(e))
		}
	}
	g.graph, g.starts, g.ends = nil, nil, nil
	return errors.Join(errs...)
}

// graphSize is how many iterations a graph has, of which each takes so long: no more than
// fit into a twentieth of the wall budget, since a launch is waited for as a whole. It must
// go round a ring of buffers as a whole, or the next launch finds in the cache what the
// last one left there; for that it may take half of the budget.
func (c *caseRun) graphSize(chunk int64, each time.Duration) (int, error) {
	size := func(share time.Duration, most int64) int64 {
		if each <= 0 {
			return most
		}
		return min(max(int64(share/each), 1), most)
	}
	some, most := size(c.set.wall/20, graphIterations), size(c.set.wall/2, graphLargest)
	if c.set.cold != ColdRotate || c.set.ring.buffers < 2 {
		return int(some), nil
	}
	n := int64(c.set.ring.buffers)
	for k := some; k <= most; k++ {
		if k*chunk%n == 0 {
			return int(k), nil
		}
	}
	return 0, fmt.Errorf("a graph of at most %d iterations of %d operations does not go round %d buffers: %w", most, chunk, n, events.ErrInvalid)
}

// eachTakes is how long one sample takes on the host, its fill included.
func (c *caseRun) eachTakes(chunk int64) (time.Duration, error) {
	before := c.spent()
	_, err := c.one(Iters{N: chunk})
	return c.spent() - before, err
}

// captured captures n iterations of the case, and gives what the function said of each.
func (c *caseRun) captured(n int, chunk int64) (replay, []Done, error) {
	if c.perSample {
		return nil, nil, fmt.Errorf("what is to be done round each sample cannot be captured: %w", events.ErrUnsupported)
	}
	said := make([]Done, n)
	g, err := c.st.capture(n, func(i int) error {
		it := Iters{N: chunk, Index: i}
		if !c.pinned {
			it.First = int64(i) * chunk
		}
		done, err := c.call(it)
		if err == nil && done.Operations < 0 {
			err = fmt.Errorf("the function says that it did %d operations: %w", done.Operations, events.ErrInvalid)
		}
		if done.Operations == 0 {
			done.Operations = chunk
		}
		said[i] = Done{Operations: done.Operations, Metrics: slices.Clone(done.Metrics)}
		return err
	})
	return g, said, err
}

// graphs takes the samples from a graph, where that was asked for. False: they are to be
// taken on the stream.
func (c *caseRun) graphs(chunk int64) bool {
	if !c.set.graph || c.st == nil {
		return false
	}
	var (
		g    replay
		said []Done
		n    int
	)
	each, err := c.eachTakes(chunk)
	if err == nil {
		n, err = c.graphSize(chunk, each)
	}
	if err == nil {
		g, said, err = c.captured(n, chunk)
	}
	if err == nil {
		defer func() {
			if err := g.close(); err != nil {
				c.notes.add("the graph could not be closed cleanly: " + oneLine(err))
			}
		}()
		_, _, _, err = g.run() // the first launch uploads it
	}
	var stuck *lost
	switch {
	case errors.As(err, &stuck):
		c.failed(err)
		return true
	case err != nil:
		c.notes.add("not measured as a graph but on the stream: " + oneLine(err))
		return false
	}
	c.graph = n
	stop := c.stopper(chunk)
	for c.dead == nil {
		if c.runner.overtime() {
			c.res.Stop = "the time for all cases together is over"
			return true
		}
		spans, queued, done, err := g.run()
		if err != nil {
			c.failed(err)
			if d := stop.Fail(c.cost()); d.Stop() && c.dead == nil {
				c.res.Stop, c.res.Verdict = d.Reason, string(d.Verdict)
				return true
			}
			continue
		}
		c.inARow = 0
		for i, span := range spans {
			host := time.Duration(n)
			iv := Interval{Host: queued / host, Complete: max(done/host, span), Operations: said[i].Operations, Chunk: i, Work: c.set.work}
			s, err := c.complete(Sample{
				Duration: span, OnDevice: true, Enqueue: iv.Host, Complete: iv.Complete, Metrics: c.st.measures(nil, span, iv),
			}, iv, said[i].Metrics)
			if err != nil {
				c.failed(err)
				continue
			}
			c.keep(s)
			c.runner.progress.sample(c.res, len(c.samples))
			if d := stop.Add(c.perOp[len(c.perOp)-1], c.cost()); d.Stop() {
				c.res.Stop, c.res.Verdict = d.Reason, string(d.Verdict)
				return true
			}
		}
	}
	return true
}

// replayed is n samples of a graph of their own.
func (c *caseRun) replayed(n int, chunk int64) (taken []float64, err error) {
	g, _, err := c.captured(min(n, max(c.graph, 1)), chunk)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for len(taken) < n {
		spans, _, _, err := g.run()
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			taken = append(taken, float64(s))
		}
	}
	return taken, nil
}
