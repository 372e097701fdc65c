package mock

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// never is the time of what may never happen.
const never = math.MaxInt64

// System is a simulated process with its devices and its host clock.
type System struct {
	devices []*Device
	manual  bool
	auto    bool
	origin  time.Time    // of real time
	clock   atomic.Int64 // manual time, written with mu held

	hostHooked atomic.Bool // whether reading the host's clock does more than read
	readCost   int64

	mu         sync.Mutex
	closed     bool
	lastID     uint64
	blocked    []*queue   // queues with operations whose end is not known yet
	gates      []*gate    // closed ones
	captures   []*capture // begun and not ended
	hostFaults []*faultState
	waiting    int
	change     chan struct{} // closed and replaced when blocked calls must look again
}

// New makes a system. Without options it has one device and real time.
func New(opts ...Option) *System {
	c := defaults()
	c.perDev = map[int][]Option{}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	s := &System{manual: c.manual, auto: c.auto, change: make(chan struct{})}
	if !s.manual {
		s.origin = time.Now()
	}
	for i := range c.devices {
		own := config{device: c.device, perDev: map[int][]Option{}}
		for _, o := range c.perDev[i] {
			o(&own)
		}
		s.devices = append(s.devices, newDevice(s, i, own.device))
		s.readCost = max(s.readCost, own.device.readCost)
	}
	s.hostHooked.Store(s.manual && s.readCost > 0)
	return s
}

// NewDevice makes a system and gives its first device.
func NewDevice(opts ...Option) *Device { return New(opts...).devices[0] }

// Devices is how many devices the system has.
func (s *System) Devices() int { return len(s.devices) }

// Device gives device i, or nil where there is none.
func (s *System) Device(i int) *Device {
	if i < 0 || i >= len(s.devices) {
		return nil
	}
	return s.devices[i]
}

// Now is the host's monotonic time since the system was made. It is the truth:
// scripted preemptions and costs of reading the clock do not apply to it.
func (s *System) Now() time.Duration { return time.Duration(s.now()) }

// HostClock gives the host clock as the program under test should read it, in
// nanoseconds on the scale of Now. Costs and scripted preemptions apply.
func (s *System) HostClock() func() int64 { return s.hostRead }

// Advance moves manual time forward. With real time it does nothing.
func (s *System) Advance(d time.Duration) {
	s.mu.Lock()
	s.advanceTo(s.now() + nonNegative(d))
	s.mu.Unlock()
}

// AdvanceTo moves manual time forward to a value of Now. It never moves back.
func (s *System) AdvanceTo(t time.Duration) {
	s.mu.Lock()
	s.advanceTo(int64(t))
	s.mu.Unlock()
}

// Blocked is how many calls are blocked at this moment, so that a test knows
// when to advance.
func (s *System) Blocked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// Close ends every blocked call with events.ErrClosed and refuses all later
// ones. It exists for tests that must leave no goroutine behind.
func (s *System) Close() {
	s.mu.Lock()
	s.closed = true
	s.wake()
	s.mu.Unlock()
}

func (s *System) now() int64 {
	if s.manual {
		return s.clock.Load()
	}
	return int64(time.Since(s.origin))
}

// The methods below need mu held, hostRead excepted.

func (s *System) advanceTo(t int64) {
	if s.manual && t > s.clock.Load() {
		s.clock.Store(t)
		s.wake()
	}
}

// pass lets d go by for the caller. In real time others run meanwhile.
func (s *System) pass(d int64) {
	switch {
	case d <= 0:
	case s.manual:
		s.advanceTo(s.now() + d)
	default:
		s.mu.Unlock()
		time.Sleep(time.Duration(d))
		s.mu.Lock()
	}
}

func (s *System) wake() {
	if s.waiting > 0 {
		close(s.change)
		s.change = make(chan struct{})
	}
}

// pause blocks until host time t, or until something has changed that may let
// the caller go on sooner. The caller looks again, and may have to pause again.
func (s *System) pause(t int64) {
	for _, g := range s.gates {
		t = min(t, g.deadline)
	}
	if s.auto && t != never {
		s.advanceTo(t)
		return
	}
	change := s.change
	s.waiting++
	var due <-chan time.Time
	if !s.manual && t != never {
		timer := time.NewTimer(time.Duration(t - s.now()))
		defer timer.Stop()
		due = timer.C
	}
	s.mu.Unlock()
	select {
	case <-change:
	case <-due:
	}
	s.mu.Lock()
	s.waiting--
}

// settle works out the end of every operation for which it is known by now.
// Queues wait for each other, so it goes round until nothing moves.
func (s *System) settle(now int64) {
	for moved := true; moved && len(s.blocked) > 0; {
		moved = false
		s.blocked = slices.DeleteFunc(s.blocked, func(q *queue) bool {
			moved = q.resolve(now) || moved
			q.blocked = q.resolved < q.n
			return !q.blocked
		})
	}
	s.gates = slices.DeleteFunc(s.gates, func(g *gate) bool { return g.openAt != never || now >= g.deadline })
}

func (s *System) id() uint64 {
	s.lastID++
	return s.lastID
}

func (s *System) hostRead() int64 {
	if !s.hostHooked.Load() {
		return s.now()
	}
	s.mu.Lock()
	fx := s.applyFaults(s.hostFaults, OpHostRead, nil)
	t := s.now()
	if s.manual {
		s.pass(s.readCost)
	}
	s.pass(fx.after)
	s.mu.Unlock()
	return t
}
