// Package alarm sleeps for fractions of a millisecond and can be woken earlier.
//
// A Go timer below a millisecond may be late by one: while no goroutine runs, the
// runtime waits in epoll_wait, which counts in milliseconds. On Linux an Alarm waits
// for a timerfd through the same epoll_wait instead, which is late by some tens of
// microseconds (measured on a 2-core machine: a timer of 50us took 1.1 ms, a timerfd
// 104us). Elsewhere, and where no timerfd is to be had, it is a Go timer.
package alarm

import "time"

// Alarm is one goroutine's sleep. Any goroutine may call Wake.
type Alarm struct {
	fine  fine
	timer *time.Timer
	wake  chan struct{} // holds one
}

// New makes an Alarm, which Close gives back.
func New() *Alarm {
	a := NewCoarse()
	a.fine.open()
	return a
}

// NewCoarse makes an Alarm that keeps the time of Go's timers, which is what counts in
// a test whose time is not real.
func NewCoarse() *Alarm { return &Alarm{wake: make(chan struct{}, 1)} }

// Sleep returns after d, or at once if Wake is called or was called since the last
// Sleep ended.
func (a *Alarm) Sleep(d time.Duration) {
	if a.fine.sleep(d) {
		return
	}
	if a.timer == nil {
		a.timer = time.NewTimer(d)
	} else {
		a.timer.Reset(d)
	}
	select {
	case <-a.timer.C:
	case <-a.wake:
	}
}

// Wake ends the Sleep in progress or the next one. It does not wait.
func (a *Alarm) Wake() {
	if a.fine.wake() {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Close gives the system's timer back. Nobody may be in Sleep or Wake.
func (a *Alarm) Close() {
	a.fine.close()
	if a.timer != nil {
		a.timer.Stop()
	}
}
