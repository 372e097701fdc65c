package alarm

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fine is a timerfd that the runtime's poller watches.
type fine struct {
	fd    int
	file  *os.File // nil where there is none
	woken atomic.Bool
	count [8]byte // how often it has expired, which nobody wants to know
}

func (f *fine) open() {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return
	}
	f.fd, f.file = fd, os.NewFile(uintptr(fd), "timerfd")
	if f.file.SetReadDeadline(time.Time{}) != nil { // the poller does not take it
		f.close()
	}
}

// set makes the timer expire in d, and forgets earlier expirations.
func (f *fine) set(d time.Duration) error {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	return unix.TimerfdSettime(f.fd, 0, &at, nil)
}

// sleep reports whether it has slept, or was woken.
func (f *fine) sleep(d time.Duration) bool {
	if f.file == nil || f.set(d) != nil {
		return false
	}
	// A wake that came before the timer was set had its own setting undone.
	if f.woken.Swap(false) {
		return true
	}
	_, err := f.file.Read(f.count[:])
	f.woken.Store(false)
	return err == nil
}

func (f *fine) wake() bool {
	if f.file == nil {
		return false
	}
	f.woken.Store(true)
	return f.set(0) == nil
}

func (f *fine) close() {
	if f.file != nil {
		_ = f.file.Close() // a timer loses nothing
		f.file = nil
	}
}
