package fence

import (
	"errors"
	"fmt"
	"time"

	"example.com/devevents/events"
)

// Source makes the fences of one device. S is the vendor's stream type, which
// only Record and WaitOn take. New makes one: a nil or zero Source is ErrInvalid in
// these two, and the other methods have nothing to do.
type Source[S comparable] struct {
	core   core
	port   port[S]
	lanes  map[S]*lane // guarded by core.mu
	purge  int         // how many lanes are enough to look for idle ones; likewise
	opened int         // lanes made; likewise
}

// AnySource makes fences over an erased device: events.Erase. It names no
// vendor.
type AnySource = Source[events.AnyStream]

// New makes the source of fences of one device. It does not touch the device,
// and starts nothing before somebody waits. Options out of range, a nil option and
// a nil device are ErrInvalid.
//
// Where the backend can, events are made without a timestamp and such that a
// blocked host wait sleeps; else they are ordinary ones.
func New[E any, S comparable](api events.EventApi[E, S], opts ...Option) (*Source[S], error) {
	cfg := defaults()
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("fence: %w: option %d is nil", events.ErrInvalid, i)
		}
		o.apply(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if api == nil {
		return nil, fmt.Errorf("fence: %w: no device", events.ErrInvalid)
	}
	d := newDevice(api, cfg.limit)
	if cfg.threads == 0 && !d.canQuery() {
		return nil, fmt.Errorf("fence: %w: no blocking threads, and backend %s cannot query: nobody would find out", events.ErrInvalid, api.Backend())
	}
	s := &Source[S]{port: d, lanes: map[S]*lane{}, purge: lanesKept}
	c := &s.core
	c.config, c.where, c.turn = cfg, name(api), make(chan struct{}, 1)
	if d.canQuery() {
		c.rounds, c.waiter = d, newPoller(c, d.untimed != nil)
	} else {
		c.waiter = &threads{core: c}
	}
	return s, nil
}

// name is how texts call a device.
func name[E any, S comparable](api events.EventApi[E, S]) string {
	text := api.Backend()
	if who, ok := events.Ability[events.Identifier](api); ok {
		if id := who.Identity(); id.Ordinal >= 0 {
			text += fmt.Sprintf(" device %d", id.Ordinal)
			if id.Name != "" {
				text += " (" + id.Name + ")"
			}
		}
	}
	return text
}

// Record records a fence on stream: it stands for all work queued there so far.
// Like the recording of an event it does not wait, except while the stream's
// queue is full, and for up to 1 ms when there are too many unfinished fences.
//
// There is a fence or an error, and nothing is left behind by an error. A
// stream that is being captured into a graph is ErrCapturing: the capture goes
// on unharmed, and the event that got into it is destroyed unasked. Too many
// unfinished fences are ErrFull; see WithLimit.
//
// A record that finds no event free asks the device about a few fences that others
// have dropped; see the package's documentation.
func (s *Source[S]) Record(stream S) (*Fence, error) {
	if !s.made() {
		return nil, notMade("record")
	}
	c := &s.core
	l, f, want, err := s.open(stream)
	if err != nil {
		return nil, fmt.Errorf("fence record: %w", err)
	}
	ev, err := s.take(l, want)
	if errors.Is(err, events.ErrFull) && s.port.made() >= c.config.limit {
		err = fmt.Errorf("%w; wait for fences or close them, or raise WithLimit", err)
	}
	if err != nil {
		s.release(l)
		return nil, fmt.Errorf("fence record: %s, %v: %w", c.where, l, err)
	}
	f.core, f.event, f.lane, f.at = c, ev, l, time.Now()
	l.recording.Lock()
	recorded := s.port.record(ev, stream)
	if err = recorded; err == nil {
		err = c.add(f)
	}
	l.recording.Unlock()
	if err == nil {
		return f, nil
	}
	if recorded != nil {
		// Never reached the device: as good as new, except in a capture, which
		// the pool sees.
		err = errors.Join(err, ev.Release())
		c.outOfUse(1)
	} else {
		err = errors.Join(err, c.discard(f))
	}
	s.release(l)
	return nil, fmt.Errorf("fence record: %s, %v: %w", c.where, l, err)
}

// WaitOn makes work queued on stream from now on wait, on the device, until f
// is reached. The host does not wait. The stream may be of another device than
// the fence where the vendor can do that; it belongs to the device of s, and a
// fence of another vendor is ErrDeviceMismatch.
//
// A fence that is known to be reached needs no wait, and none is queued. One
// that failed or was closed answers with that error, and a nil or zero Fence
// with ErrNotRecorded, since a wait for nothing would lose the dependency. A
// stream that is being captured is otherwise ErrCapturing in every case, also for a fence
// that is known to be reached: a wait for work outside would break the capture. After
// Close of s it is ErrClosed.
func (s *Source[S]) WaitOn(f *Fence, stream S) error {
	if !s.made() {
		return notMade("stream wait")
	}
	if !f.recorded() {
		return notRecorded("stream wait")
	}
	c := &s.core
	c.mu.Lock()
	err := c.enter()
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("fence stream wait: %w", err)
	}
	err = s.waitOn(f, stream)
	c.mu.Lock()
	c.stopped()
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("fence stream wait: a stream of %s for %s: %w", c.where, f.where(), err)
	}
	return nil
}

func (s *Source[S]) waitOn(f *Fence, stream S) error {
	if err := s.port.knows(f.event); err != nil {
		return err
	}
	f.core.mu.Lock()
	if f.settled {
		f.core.mu.Unlock()
		if f.err != nil {
			return f.err
		}
		captured, err := s.port.capturing(stream)
		if err == nil && captured {
			err = events.ErrCapturing
		}
		return err
	}
	// Taken before the lock is given up: afterwards the event may be another
	// fence's.
	err := f.event.Hold()
	f.core.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.port.waitOn(stream, f.event)
	if left := f.event.Release(); !errors.Is(left, events.ErrDestroyed) { // the source was closed meanwhile
		err = errors.Join(err, left)
	}
	return err
}

// Close closes all fences and destroys their events, reached or not: work that
// was made to wait for them still does. Waiters get ErrClosed at once. Calls in
// progress are waited for, but no longer than WithCloseTimeout says: a driver
// that does not return cannot hold Close up, and the error, which wraps
// ErrExpired, says what is left. The error also has what went wrong earlier
// where nobody could be told, such as a destroy that failed.
//
// After a device fault events cannot be destroyed; they are left to the driver,
// and backends count them (events.Stats). Further calls return the result of
// the first.
func (s *Source[S]) Close() error {
	if !s.made() {
		return nil
	}
	return s.core.close(s.port.drain)
}

// String names the device.
func (s *Source[S]) String() string {
	if !s.made() {
		return "no fences"
	}
	return "fences of " + s.core.where
}

// lanesKept is how many streams a source may have met before it forgets those
// without fences.
const lanesKept = 64

// lastSlab bounds how many fences are made at once, so that a record allocates next
// to nothing.
const lastSlab = 2048

// open counts a call of Record in, and an event for it, and finds or makes its lane. The
// fence is empty.
func (s *Source[S]) open(stream S) (*lane, *Fence, urgency, error) {
	made := s.port.made()
	c := &s.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, nil, none, err
	}
	want := none
	c.inUse++
	if 2*c.inUse > made && c.records >= c.nextEarly {
		want = early
		c.nextEarly = c.records + earlyPause
	}
	l := s.lanes[stream]
	if l == nil {
		if len(s.lanes) >= s.purge {
			s.forget()
		}
		s.opened++
		l = &lane{number: s.opened, ordered: true}
		if named, ok := any(stream).(interface{ Handle() uintptr }); ok {
			l.handle, l.handled = named.Handle(), true
		}
		if o, says := any(stream).(events.InOrder); says {
			l.ordered = o.InOrder()
		}
		s.lanes[stream] = l
		c.lanes = append(c.lanes, l)
	}
	if worth := len(l.fences) == 0 || len(l.fences) >= few || made >= min(roomy, c.config.limit/2); c.inUse > made && worth {
		want = needed
	}
	l.users++
	return l, c.blank.Next(lastSlab), want, nil
}

// forget drops the lanes that nothing needs.
func (s *Source[S]) forget() {
	c := &s.core
	clear(c.lanes)
	c.lanes = c.lanes[:0]
	for stream, l := range s.lanes {
		if l.idle() {
			delete(s.lanes, stream)
		} else {
			c.lanes = append(c.lanes, l)
		}
	}
	s.purge = max(lanesKept, 2*len(s.lanes))
}

func (s *Source[S]) release(l *lane) {
	s.core.mu.Lock()
	l.users--
	s.core.stopped()
	s.core.mu.Unlock()
}

// made reports whether New made s.
func (s *Source[S]) made() bool { return s != nil && s.port != nil }

func notMade(what string) error {
	return fmt.Errorf("fence %s: %w: a nil or zero Source; fence.New makes one", what, events.ErrInvalid)
}
