package mock

import (
	"errors"
	"math/rand/v2"
	"time"

	"example.com/devevents/events"
)

// Fault is something that goes wrong with calls of one kind. Which calls are
// hit: with Nth, that one and those after it until Count are hit (0 is 1);
// else with Every, each of that distance; else with Chance, at random; else
// every call. Except with Nth, a Count above 0 ends the fault after so many
// hits. Calls are counted from Script on; a call that the handle checks refuse
// does not reach the simulated library and is not counted.
//
// What happens to a call that is hit, in this order: Before passes, Hook runs,
// the device is lost, the call is refused; else it goes on, changed by Hang or
// Reading; After passes. In manual time, passing means that the clock moves.
type Fault struct {
	Op     Op      // which calls it is about
	Nth    int     // the first of them that it strikes, counted from 1
	Count  int     // how many it strikes
	Every  int     // each so-many-th
	Chance float64 // how likely each is struck, 0 to 1
	Seed   uint64  // for Chance and Vary

	Before time.Duration // delay before the call takes effect
	After  time.Duration // delay between the effect and the return
	Vary   bool          // each delay is scaled by a random factor below 1
	Hook   func()        // runs on the calling goroutine, without locks

	Lose bool   // the device is lost, for good
	Code int32  // refuse with this code of the simulated library
	Name string // the code's name, where the built-in one does not fit
	Kind error  // its sentinel, where the built-in one does not fit
	Err  error  // refuse with exactly this error

	// Hang makes what the call enqueues never complete, until ReleaseHangs.
	Hang bool
	// Reading changes what the library says that EventElapsed measured, in
	// milliseconds.
	Reading func(ms float32) float32
}

// Reads makes a Reading that is always the same. NaN also stands for a library
// that reports success and writes nothing.
func Reads(ms float32) func(float32) float32 { return func(float32) float32 { return ms } }

// PreemptEvery is a host that is interrupted for d after every n-th reading of
// its clock: the reading is old when the program sees it.
func PreemptEvery(n int, d time.Duration) Fault {
	return Fault{Op: OpHostRead, Every: n, After: d}
}

// PreemptRandomly is a host that is interrupted after a reading of its clock
// with probability p, for a random time below d.
func PreemptRandomly(p float64, d time.Duration, seed uint64) Fault {
	return Fault{Op: OpHostRead, Chance: p, After: d, Vary: true, Seed: seed}
}

// Script adds faults. Where several hit one call, all apply. Faults of
// OpHostRead apply to the whole system, whose host clock is one.
func (d *Device) Script(faults ...Fault) {
	s := d.sys
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		st := &faultState{Fault: f, rng: rand.New(rand.NewPCG(f.Seed, uint64(f.Op)))}
		if f.Op == OpHostRead {
			s.hostFaults = append(s.hostFaults, st)
			s.hostHooked.Store(true)
		} else {
			d.faults = append(d.faults, st)
		}
	}
}

// ClearScript takes all faults away, those of the host's clock included. What
// they have done stays.
func (d *Device) ClearScript() {
	s := d.sys
	s.mu.Lock()
	defer s.mu.Unlock()
	d.faults, s.hostFaults = nil, nil
	s.hostHooked.Store(s.manual && s.readCost > 0)
}

type faultState struct {
	Fault
	rng  *rand.Rand
	seen int
	hits int
}

// effect is what the faults that hit a call do to the rest of it.
type effect struct {
	err     error
	after   int64
	hang    bool
	reading func(float32) float32
}

func (f *faultState) hit(op Op) bool {
	if f.Op != op && f.Op != OpAny {
		return false
	}
	f.seen++
	switch {
	case f.Nth > 0:
		return f.seen >= f.Nth && f.seen < f.Nth+max(f.Count, 1)
	case f.Count > 0 && f.hits >= f.Count:
		return false
	case f.Every > 0 && f.seen%f.Every != 0:
		return false
	case f.Every <= 0 && f.Chance > 0 && f.rng.Float64() >= f.Chance:
		return false
	}
	f.hits++
	return true
}

func (f *faultState) delay(d time.Duration) int64 {
	if f.Vary {
		return int64(float64(d) * f.rng.Float64())
	}
	return int64(d)
}

func (f *faultState) refusal(op Op) error {
	if f.Err != nil {
		return f.Err
	}
	if f.Code == 0 {
		return nil
	}
	e := refusal(op, f.Code)
	if f.Name != "" {
		e.Name = f.Name
	}
	if f.Kind != nil {
		e.Kind = f.Kind
	}
	return e
}

// applyFaults needs the lock, and gives it back while a hook runs or real time
// passes.
func (s *System) applyFaults(faults []*faultState, op Op, d *Device) effect {
	var fx effect
	for _, f := range faults {
		if !f.hit(op) {
			continue
		}
		after := f.delay(f.After)
		s.pass(f.delay(f.Before))
		if f.Hook != nil {
			s.mu.Unlock()
			f.Hook()
			s.mu.Lock()
		}
		if f.Lose && d != nil {
			d.lose(f.Code)
		}
		if err := f.refusal(op); err != nil && fx.err == nil && !f.Lose {
			fx.err = err
		}
		fx.after += after
		fx.hang = fx.hang || f.Hang
		if f.Reading != nil {
			fx.reading = f.Reading
		}
	}
	return fx
}

// Lose makes the device fail for good: blocked calls end and all later ones
// are refused with an error that wraps events.ErrDeviceFault.
func (d *Device) Lose() {
	d.sys.mu.Lock()
	d.lose(CodeIllegalAddress)
	d.sys.mu.Unlock()
}

// Reset destroys the device's context: blocked calls end and all later ones
// are refused with an error that wraps events.ErrContextLost. A lost device
// does not come back by it either.
func (d *Device) Reset() {
	d.sys.mu.Lock()
	d.lost = CodeDevicesUnavailable
	d.sys.wake()
	d.sys.mu.Unlock()
}

func (d *Device) lose(code int32) {
	if d.lost == 0 {
		if _, kind := named(code); !errors.Is(kind, events.ErrDeviceFault) {
			code = CodeIllegalAddress
		}
		d.lost = code
		d.sys.wake()
	}
}

// ReleaseHangs lets everything that hangs on the device complete now.
func (d *Device) ReleaseHangs() {
	d.sys.mu.Lock()
	d.lift(d.sys.now())
	d.sys.mu.Unlock()
}

// SetDrift changes the drift of the device's clock at host time at, or at once
// (from the next nanosecond on) if that is not in the future.
func (d *Device) SetDrift(at time.Duration, ppm float64) {
	d.step(step{at: int64(at), drift: ppm, isSet: true})
}

// JumpClock makes the reading of the device's clock jump at host time at, or at
// once as with SetDrift, as a reset or a suspended machine does.
func (d *Device) JumpClock(at, by time.Duration) {
	d.step(step{at: int64(at), jump: int64(by)})
}

func (d *Device) step(s step) {
	d.sys.mu.Lock()
	s.at = max(s.at, d.sys.now()+1) // what was stamped until now stays
	d.clock.add(s)
	d.sys.mu.Unlock()
}
