package fence

// Stats are the counters of a Source. At any moment Recorded is the sum of Reached,
// Failed, Closed and Pending.
type Stats struct {
	Recorded uint64 // fences made
	Reached  uint64 // that the device was seen to reach
	Failed   uint64 // that ended with an error of the device
	Closed   uint64 // that ended as ErrClosed: closed before, each by itself, with the source or with the device
	Pending  uint64 // that have no result: nobody may have asked about some of them

	Waiting int    // waits in progress, those for a Done channel not counted
	GivenUp uint64 // waits that ended because their context was done
	Polls   uint64 // questions put to the device
	Threads int    // OS threads that wait inside the driver at this moment
}

// Stats gives the counters. It makes no call of the driver. A nil or zero Source has none.
func (s *Source[S]) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	c := &s.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Recorded: c.records,
		Reached:  c.fates.reached,
		Failed:   c.fates.failed,
		Closed:   c.fates.closed,
		Pending:  c.records - c.fates.reached - c.fates.failed - c.fates.closed,
		Waiting:  c.waiting,
		GivenUp:  c.gaveUp,
		Polls:    c.polls.Load(),
		Threads:  c.waiter.blocked(),
	}
}

func (c *core) countGivenUp() {
	c.mu.Lock()
	c.gaveUp++
	c.mu.Unlock()
}
