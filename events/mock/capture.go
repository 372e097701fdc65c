package mock

import (
	"fmt"
	"slices"
	"sync/atomic"

	"example.com/devevents/events"
)

// capture is a graph capture in progress.
type capture struct {
	origin  *queue
	members []*queue // origin among them
	mode    events.CaptureMode
	nodes   []op
	invalid bool
	ended   bool
}

// record notes that an event's last record fell into the capture.
func (k *capture) record(o Op, e *event, q *queue) error {
	if k.invalid {
		return refusal(o, CodeCaptureInvalidated)
	}
	e.queue, e.capture, e.capFrom, e.capNode = nil, k, q, q.capNodes
	return nil
}

// add makes an operation a node.
func (k *capture) add(o Op, q *queue, node op) error {
	if k.invalid {
		return refusal(o, CodeCaptureInvalidated)
	}
	q.capNodes++
	k.nodes = append(k.nodes, node)
	return nil
}

func (k *capture) join(q *queue) {
	q.capture, q.capNodes, q.capJoined = k, 0, 0
	k.members = append(k.members, q)
}

// captureWait is StreamWaitEvent where the stream or the event is captured.
func (d *Device) captureWait(o Op, q *queue, e *event) error {
	k, other := q.capture, e.capture
	switch {
	case k != nil && k.invalid, k == nil && other.invalid && !other.ended:
		return refusal(o, CodeCaptureInvalidated)
	case k != nil && (other == nil || other.ended):
		k.invalid = true
		return refusal(o, CodeCaptureIsolation)
	case k != nil && k != other:
		k.invalid, other.invalid = true, true
		return refusal(o, CodeCaptureMerge)
	case k == nil && other.ended:
		return e.captured(o)
	case k == nil:
		other.join(q)
	}
	if from := e.capFrom; from != q && from.capture == other {
		from.capJoined = max(from.capJoined, e.capNode)
		if from != other.origin {
			q.capNodes++ // what it waited for now has to be joined through q
		}
	}
	return nil
}

// captured is the answer to a poll of an event whose capture has ended.
func (e *event) captured(o Op) error {
	return fmt.Errorf("mock: %v: the last record of event %d went into a graph capture that has ended; record it again: %w (code %d)",
		o, e.id, events.ErrCapturing, CodeInvalidValue)
}

// pollCaptures is what a query, wait or synchronize does to captures, and what
// they do to it. e is the polled event, if any.
func (d *Device) pollCaptures(o Op, e *event) error {
	if d.unrelaxed {
		killed := false
		for _, k := range d.sys.captures {
			if k.mode == events.CaptureGlobal {
				k.invalid, killed = true, true
			}
		}
		if killed {
			return refusal(o, CodeCaptureUnsupported)
		}
	}
	if e == nil || e.capture == nil {
		return nil
	}
	if e.capture.ended {
		return e.captured(o)
	}
	e.capture.invalid = true
	return refusal(o, CodeCapturedEvent)
}

// StreamCapturing implements events.CaptureAsker.
func (d *Device) StreamCapturing(s Stream) (bool, error) {
	c := d.begin(OpStreamCapturing)
	c.stream = s.ID()
	captured, err := d.capturing(&c, s)
	return captured, d.end(&c, err)
}

func (d *Device) capturing(c *call, s Stream) (bool, error) {
	if err := d.need(FeatureCaptureAsker, c.op); err != nil {
		return false, err
	}
	if err := d.liveStream(c.op, s); err != nil {
		return false, err
	}
	if err := d.reach(c); err != nil {
		return false, err
	}
	return s.p.queue.capture != nil, nil
}

// CaptureBegin implements events.Graphs.
func (d *Device) CaptureBegin(s Stream, mode events.CaptureMode) error {
	if err := d.need(FeatureGraphs, OpCaptureBegin); err != nil {
		return err
	}
	return d.BeginCapture(s, mode)
}

// CaptureEnd implements events.Graphs.
func (d *Device) CaptureEnd(s Stream) (events.Graph[Stream], error) {
	if err := d.need(FeatureGraphs, OpCaptureEnd); err != nil {
		return nil, err
	}
	return d.EndCapture(s)
}

// BeginCapture starts to capture a stream as a foreign library would: it works
// also where the Graphs ability is switched off.
func (d *Device) BeginCapture(s Stream, mode events.CaptureMode) error {
	c := d.begin(OpCaptureBegin)
	c.stream = s.ID()
	return d.end(&c, d.beginCapture(&c, s, mode))
}

func (d *Device) beginCapture(c *call, s Stream, mode events.CaptureMode) error {
	if err := d.liveStream(c.op, s); err != nil {
		return err
	}
	if mode < events.CaptureGlobal || mode > events.CaptureRelaxed {
		return fmt.Errorf("mock: %v: capture mode %d: %w", c.op, mode, events.ErrInvalid)
	}
	if err := d.reach(c); err != nil {
		return err
	}
	q := s.p.queue
	if q.capture != nil {
		return refusal(c.op, CodeIllegalState)
	}
	k := &capture{origin: q, mode: mode}
	k.join(q)
	d.sys.captures = append(d.sys.captures, k)
	return nil
}

// InvalidateCapture breaks the capture in progress on a stream, as an unsafe
// call elsewhere does. It reports whether there was one.
func (d *Device) InvalidateCapture(s Stream) bool {
	d.sys.mu.Lock()
	defer d.sys.mu.Unlock()
	if s.p == nil || s.p.dev != d || s.p.queue.capture == nil {
		return false
	}
	s.p.queue.capture.invalid = true
	return true
}

// EndCapture ends what BeginCapture began.
func (d *Device) EndCapture(s Stream) (events.Graph[Stream], error) {
	c := d.begin(OpCaptureEnd)
	c.stream = s.ID()
	g, err := d.endCapture(&c, s)
	if err != nil {
		return nil, d.end(&c, err)
	}
	return g, d.end(&c, nil)
}

func (d *Device) endCapture(c *call, s Stream) (*graph, error) {
	if err := d.liveStream(c.op, s); err != nil {
		return nil, err
	}
	if err := d.reach(c); err != nil {
		return nil, err
	}
	q := s.p.queue
	k := q.capture
	if k == nil {
		return nil, refusal(c.op, CodeIllegalState)
	}
	if k.origin != q {
		k.invalid = true
		return nil, refusal(c.op, CodeCaptureUnmatched)
	}
	unjoined := slices.ContainsFunc(k.members, func(m *queue) bool { return m != q && m.capNodes > m.capJoined })
	k.ended = true
	for _, m := range k.members {
		m.capture = nil
	}
	d.sys.captures = slices.DeleteFunc(d.sys.captures, func(o *capture) bool { return o == k })
	switch {
	case k.invalid:
		return nil, refusal(c.op, CodeCaptureInvalidated)
	case unjoined:
		return nil, refusal(c.op, CodeCaptureUnjoined)
	}
	return &graph{dev: d, nodes: k.nodes}, nil
}

// EventRecordExternal implements events.Graphs. Outside a capture it is refused, as CUDA
// refuses it, with 401.
func (d *Device) EventRecordExternal(e Event, s Stream) error {
	c := d.begin(OpEventRecordExternal)
	c.event, c.stream = e.ID(), s.ID()
	return d.end(&c, d.recordExternal(&c, e, s))
}

func (d *Device) recordExternal(c *call, e Event, s Stream) error {
	if err := d.need(FeatureGraphs, c.op); err != nil {
		return err
	}
	if err := d.liveEvent(c.op, "event", e); err != nil {
		return err
	}
	err := d.liveStream(c.op, s)
	if err == nil {
		err = d.reach(c)
	}
	if err == nil && s.p.queue.capture == nil {
		err = refusal(c.op, CodeIllegalState)
	}
	if err == nil {
		o := op{kind: opRecord, ev: e.p}
		if !e.p.untimed {
			o.dur = d.cfg.eventCost
		}
		err = s.p.queue.capture.add(c.op, s.p.queue, o)
	}
	if err != nil {
		e.p.queue, e.p.capture = nil, nil
	}
	return err
}

// graph is captured work. Its nodes run one after another.
type graph struct {
	dev    *Device
	nodes  []op
	closed atomic.Bool
}

// Launch implements events.Graph.
func (g *graph) Launch(s Stream) error {
	d := g.dev
	c := d.begin(OpGraphLaunch)
	c.stream = s.ID()
	return d.end(&c, g.launch(&c, s))
}

func (g *graph) launch(c *call, s Stream) error {
	d := g.dev
	if g.closed.Load() {
		return fmt.Errorf("mock: %v: the graph: %w", c.op, events.ErrClosed)
	}
	if err := d.liveStream(c.op, s); err != nil {
		return err
	}
	if err := d.reach(c); err != nil {
		return err
	}
	q := s.p.queue
	if q.capture != nil {
		for _, n := range g.nodes {
			if err := q.capture.add(c.op, q, n); err != nil {
				return err
			}
		}
		return nil
	}
	if err := q.room(c); err != nil {
		return err
	}
	for _, n := range g.nodes {
		n.hung = n.hung || c.fx.hang
		d.sys.enqueue(q, n)
	}
	return nil
}

// Close implements events.Graph.
func (g *graph) Close() error {
	g.closed.Store(true)
	return nil
}
