package bench

import (
	"errors"
	"fmt"
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
func (d *DeviceEvents[E, S]) capture(n int, call func(i int) error) (_ replay, err error) {
	switch {
	case d.graphs == nil:
		return nil, fmt.Errorf("the backend has no graphs: %w", events.ErrUnsupported)
	case len(d.streams) > 1:
		return nil, fmt.Errorf("a graph is of one stream, and there are %d: %w", len(d.streams), events.ErrUnsupported)
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
				return nil, err
			}
			*list = append(*list, e)
		}
	}
	stream, fill := d.streams[0], d.fill()
	if err := d.graphs.CaptureBegin(stream, events.CaptureThreadLocal); err != nil {
		return nil, err
	}
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
	graph, ended := d.graphs.CaptureEnd(stream)
	if ended == nil {
		g.graph = graph
	}
	// What broke the capture says more than its end.
	if err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

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

// graphSize is how many iterations a graph has: it must go round a ring of buffers as a
// whole, or the next launch finds in the cache what the last one left there.
func (c *caseRun) graphSize(chunk int64) (int, error) {
	if c.set.cold != ColdRotate || c.set.ring.buffers < 2 {
		return graphIterations, nil
	}
	n := int64(c.set.ring.buffers)
	for k := int64(graphIterations); k <= graphLargest; k++ {
		if k*chunk%n == 0 {
			return int(k), nil
		}
	}
	return 0, fmt.Errorf("a graph of at most %d iterations of %d operations does not go round %d buffers: %w", graphLargest, chunk, n, events.ErrInvalid)
}

// captured captures the case.
func (c *caseRun) captured(chunk int64) (replay, []int64, error) {
	n, err := c.graphSize(chunk)
	if err != nil {
		return nil, nil, err
	}
	if c.perSample {
		return nil, nil, fmt.Errorf("what is to be done round each sample cannot be captured: %w", events.ErrUnsupported)
	}
	operations := make([]int64, n)
	g, err := c.st.capture(n, func(i int) error {
		it := Iters{N: chunk, Index: i}
		if !c.pinned {
			it.First = int64(i) * chunk
		}
		done, err := c.call(it)
		operations[i] = done.Operations
		if done.Operations <= 0 {
			operations[i] = chunk
		}
		return err
	})
	return g, operations, err
}

// graphs takes the samples from a graph, where that was asked for. False: they are to be
// taken on the stream.
func (c *caseRun) graphs(chunk int64) bool {
	if !c.set.graph || c.st == nil {
		return false
	}
	g, operations, err := c.captured(chunk)
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
	c.graph = len(operations)
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
		n := time.Duration(len(spans))
		for i, span := range spans {
			c.keep(Sample{
				Duration: span, Iterations: operations[i], Chunks: 1, OnDevice: true,
				Enqueue: queued / n, Complete: max(done/n, span), Leaked: No,
			})
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
	g, _, err := c.captured(chunk)
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
