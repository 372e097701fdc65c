package mock

import "slices"

type opKind uint8

const (
	opWork   opKind = iota // takes dur by the device's timer
	opRecord               // takes dur of host time and stamps ev
	opWait                 // waits for operation depSeq of dep
	opGate                 // waits for gate
	opHang                 // waits for hang to be lifted
)

// op is one operation in a queue.
type op struct {
	kind   opKind
	hung   bool  // never ends until the device's hangs are lifted
	ready  int64 // earliest start
	dur    int64
	end    int64 // once resolved
	ev     *event
	dep    *queue
	depSeq uint64
	depEnd int64 // where dep is nil
	gate   *gate
	spin   *spin
	moves  []access // of opWork: what it takes depends on the cache
}

// queue is a stream's work: a ring of operations that are not over. Ends are
// worked out as soon as they are known, which may be long before they come.
type queue struct {
	dev      *Device
	handle   uintptr
	ring     []op
	head     int
	n        int
	resolved int    // operations from head whose end is known
	firstSeq uint64 // sequence number of the operation at head
	lastEnd  int64  // of the last resolved operation
	blocked  bool   // is in System.blocked

	capture   *capture
	capNodes  int // nodes that this queue gave to the capture
	capJoined int // how many of them another queue of the capture waits for
}

func (q *queue) at(i int) *op { return &q.ring[(q.head+i)%len(q.ring)] }

// push appends o and gives its sequence number.
func (q *queue) push(o op) uint64 {
	if q.n == len(q.ring) {
		grown := make([]op, max(16, 2*q.n))
		for i := range q.n {
			grown[i] = *q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.n++
	*q.at(q.n - 1) = o
	return q.firstSeq + uint64(q.n-1)
}

// compact drops what the host can see to be over.
func (q *queue) compact(now int64) {
	for q.resolved > 0 && q.at(0).end+q.dev.cfg.visibleAfter <= now {
		*q.at(0) = op{}
		q.head = (q.head + 1) % len(q.ring)
		q.n--
		q.resolved--
		q.firstSeq++
	}
}

// endOf is the end of an operation, where it is known.
func (q *queue) endOf(seq uint64) (int64, bool) {
	if seq < q.firstSeq {
		return 0, true
	}
	i := int(seq - q.firstSeq)
	if i >= q.resolved {
		return 0, false
	}
	return q.at(i).end, true
}

// resolve works out ends from the first unknown one on, as far as they are
// known by now, and reports whether it found any.
func (q *queue) resolve(now int64) bool {
	before := q.resolved
	for q.resolved < q.n {
		o := q.at(q.resolved)
		start := max(q.lastEnd, o.ready)
		if o.hung || !q.finish(o, start, now) {
			break
		}
		q.lastEnd = o.end
		q.resolved++
		if o.spin != nil {
			o.spin.done(o.end + q.dev.cfg.visibleAfter)
		}
		if e := o.ev; e != nil && e.queue == q && e.seq == q.firstSeq+uint64(q.resolved-1) {
			e.end, e.known = o.end, true
		}
	}
	return q.resolved > before
}

func (q *queue) finish(o *op, start, now int64) bool {
	switch o.kind {
	case opWork:
		o.end = q.dev.clock.after(start, o.dur+q.dev.cache.run(o.moves))
	case opRecord:
		o.end = start + o.dur
	case opWait:
		dep := o.depEnd
		if o.dep != nil {
			end, known := o.dep.endOf(o.depSeq)
			if !known {
				return false
			}
			dep = end
		}
		o.end = start
		if dep > start {
			o.end = dep + q.dev.cfg.waitLatency
		}
	case opGate:
		if o.gate.openAt == never && now < o.gate.deadline {
			return false
		}
		o.end = max(start, min(o.gate.openAt, o.gate.deadline))
	case opHang:
		o.end = start
	}
	return true
}

// enqueue puts o on q, which must have room, and gives its sequence number.
func (s *System) enqueue(q *queue, o op) uint64 {
	now := s.now()
	o.ready = max(o.ready, now+q.dev.cfg.launchLatency)
	seq := q.push(o)
	if e := o.ev; e != nil {
		e.queue, e.seq, e.known, e.capture = q, seq, false, nil
	}
	if !q.blocked {
		q.resolve(now)
		if q.resolved < q.n {
			q.blocked = true
			s.blocked = append(s.blocked, q)
		}
	}
	s.refresh(now)
	q.compact(now)
	return seq
}

// refresh settles what time alone may have moved.
func (s *System) refresh(now int64) {
	if len(s.blocked) > 0 || len(s.gates) > 0 {
		s.settle(now)
	}
}

// room blocks until q takes another operation.
func (q *queue) room(c *call) error {
	s, limit := q.dev.sys, q.dev.cfg.queueLimit
	for limit > 0 && q.n >= limit {
		now := s.now()
		s.refresh(now)
		if q.compact(now); q.n < limit {
			return nil
		}
		if err := q.dev.alive(c.op); err != nil {
			return err
		}
		c.blocked = true
		at := int64(never)
		if q.resolved > 0 {
			at = q.at(0).end + q.dev.cfg.visibleAfter
		}
		s.pause(at)
	}
	return nil
}

// lift ends all hangs of a device at now.
func (d *Device) lift(now int64) {
	for _, q := range slices.Clone(d.sys.blocked) {
		if q.dev != d {
			continue
		}
		for i := q.resolved; i < q.n; i++ {
			if o := q.at(i); o.hung {
				o.hung = false
				o.ready = max(o.ready, now)
			}
		}
	}
	d.sys.settle(now)
	d.sys.wake()
}
