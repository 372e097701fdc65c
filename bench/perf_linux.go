package bench

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// perfEvents are the counters in the order of counts. The first leads the group.
var perfEvents = []uint64{
	unix.PERF_COUNT_HW_CPU_CYCLES,
	unix.PERF_COUNT_HW_INSTRUCTIONS,
	unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	unix.PERF_COUNT_HW_BRANCH_MISSES,
	unix.PERF_COUNT_HW_CACHE_REFERENCES,
	unix.PERF_COUNT_HW_CACHE_MISSES,
}

// perfGroup is a group of perf_event_open(2): all of its counters run at the same
// time, or none of them.
type perfGroup struct {
	fds   []int
	place []int  // where in counts each descriptor's value belongs
	buf   []byte // of read(2)
	was   times
}

// openCounters opens the counters of the calling thread. Cycles must be there; of the
// others those that the processor has.
func openCounters() (counterSet, error) {
	g := &perfGroup{}
	for i, config := range perfEvents {
		attr := unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_HARDWARE,
			Size:   unix.PERF_ATTR_SIZE_VER1,
			Config: config,
			Bits:   unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
			Read_format: unix.PERF_FORMAT_GROUP |
				unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		}
		leader := -1
		if i > 0 {
			leader = g.fds[0]
		} else {
			attr.Bits |= unix.PerfBitDisabled
		}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, leader, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			if i == 0 {
				return nil, fmt.Errorf("perf_event_open: %w (see /proc/sys/kernel/perf_event_paranoid)", err)
			}
			continue
		}
		g.fds = append(g.fds, fd)
		g.place = append(g.place, i)
	}
	g.buf = make([]byte, 8*(3+len(g.fds)))
	return g, nil
}

func (g *perfGroup) start() error {
	if err := unix.IoctlSetInt(g.fds[0], unix.PERF_EVENT_IOC_RESET, unix.PERF_IOC_FLAG_GROUP); err != nil {
		return err
	}
	return unix.IoctlSetInt(g.fds[0], unix.PERF_EVENT_IOC_ENABLE, unix.PERF_IOC_FLAG_GROUP)
}

func (g *perfGroup) stop() error {
	return unix.IoctlSetInt(g.fds[0], unix.PERF_EVENT_IOC_DISABLE, unix.PERF_IOC_FLAG_GROUP)
}

func (g *perfGroup) read(into *counts) (float64, error) {
	n, err := unix.Read(g.fds[0], g.buf)
	if err != nil {
		return 0, fmt.Errorf("reading the processor's counters: %w", err)
	}
	return decodeGroup(g.buf[:n], g.place, &g.was, into)
}

func (g *perfGroup) close() error {
	var errs []error
	for _, fd := range g.fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}
