package cfamily

import (
	"fmt"
	"sync/atomic"

	"example.com/devevents/events"
)

// TimerQuestion is a kernel that waits on the device for the host to ask it what time it
// is. The host reads its own clock, asks, and reads its clock again once there is an
// answer: the answer lies between the two, and no event has a part in it. It is what
// placements by events can be held against.
type TimerQuestion struct {
	flag            *atomic.Uint64
	running, answer *atomic.Uint64
	given           atomic.Uint64
}

// Running reports whether the kernel is on the device and waits. It does not block.
func (q *TimerQuestion) Running() bool { return q.running.Load() != 0 }

// Ask lets the kernel go on, which it does by itself a second after it began. It does
// not block.
func (q *TimerQuestion) Ask() {
	q.flag.Store(1)
}

// Answer is what the device's timer showed, in its nanoseconds, once that is known.
// It does not block.
func (q *TimerQuestion) Answer() (timer uint64, answered bool) {
	if given := q.given.Load(); given != 0 {
		return given, true
	}
	timer = q.answer.Load()
	if timer == 0 {
		return 0, false
	}
	q.given.Store(timer)
	return timer, true
}

// TimerAsk queues a kernel on stream that answers what time it is when it is asked. At
// most 8 questions are open at a time; one more is ErrFull. It is for programs that
// check clocks, and ErrUnsupported where the backend has no such kernel.
func (d Device[V]) TimerAsk(stream Stream[V]) (*TimerQuestion, error) {
	if err := d.needs((*lib).spinnable, OpLaunch); err != nil {
		return nil, err
	}
	if d.lib.table.AskKernel == "" {
		return nil, d.unsupported(OpLaunch)
	}
	if err := stream.check(d.dev); err != nil {
		return nil, err
	}
	q, slot, err := d.prepareAsk()
	if err != nil {
		return nil, fmt.Errorf("a question to the device's timer: %w", err)
	}
	base := uint64(d.scratch.device) + uint64(askOffset+24*slot)
	err = d.queued(OpLaunch, stream, func(f *frame) int32 {
		f.launch.first, f.launch.second = base+16, base
		return callLaunch(d.lib.fn[OpLaunch], d.scratch.kernel.asker, stream.handle, oneThread, &f.launch)
	})
	if err != nil {
		d.scratch.mu.Lock()
		d.scratch.asks[slot] = nil
		d.scratch.mu.Unlock()
		return nil, fmt.Errorf("queueing a question to the device's timer: %w", err)
	}
	return q, nil
}

// prepareAsk makes what questions need, once, and claims the words of one.
func (d Device[V]) prepareAsk() (*TimerQuestion, int, error) {
	s := &d.scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := d.prepare(); err != nil {
		return nil, 0, err
	}
	if s.kernel.asker == 0 {
		kernel, err := d.kernelNamed(d.lib.table.AskKernel)
		if err != nil {
			return nil, 0, err
		}
		s.kernel.asker = kernel
	}
	for slot, last := range s.asks {
		if last != nil {
			if _, answered := last.Answer(); !answered {
				continue
			}
		}
		first := askOffset/8 + 3*slot
		q := &TimerQuestion{running: hostWord64(s.host, first), answer: hostWord64(s.host, first+1), flag: hostWord64(s.host, first+2)}
		q.running.Store(0)
		q.answer.Store(0)
		q.flag.Store(0)
		s.asks[slot] = q
		return q, slot, nil
	}
	return nil, 0, fmt.Errorf("%w: %d are not answered", events.ErrFull, askSlots)
}
