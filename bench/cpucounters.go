package bench

// CPUCounters measures with the host's clock and the processor's counters: cycles,
// instructions, branches and cache misses of the calling thread in user space, in
// SectionCPU. Where the kernel refuses them it measures with the clock alone, and its
// label says "timing only".
func CPUCounters() Backend { return &cpuCounters{open: openCounters} }

// counterSet is a group of counters of one thread that start and stop together.
type counterSet interface {
	start() error
	stop() error
	// read adds the counts since start to into, as far as the processor could count
	// them; scaled is the share of the time that they were running, 0 to 1.
	read(into *counts) (scaled float64, err error)
	close() error
}

// counts are the counters of one sample. What the processor does not have is -1.
type counts struct {
	cycles, instructions, branches, branchMisses, cacheRefs, cacheMisses float64
}

type cpuCounters struct {
	wallClock
	open    func() (counterSet, error)
	set     counterSet
	refused error
	metrics []Metric
}

func (c *cpuCounters) Label() string {
	if c.set == nil && c.refused != nil {
		return "timing only"
	}
	return "timing + CPU counters"
}

func (c *cpuCounters) EmitsCPUDiagnostics() bool { return true }

// refusal is why there are no counters.
func (c *cpuCounters) refusal() error { return c.refused }

// beginCase opens the counters on the thread that will be measured: they belong to
// the thread that opens them.
func (c *cpuCounters) beginCase(*settings, int64) error {
	c.set, c.refused = c.open()
	return nil // without counters it is timing only
}

func (c *cpuCounters) endCase() {
	if c.set != nil {
		_ = c.set.close() // a file descriptor that only we know
		c.set = nil
	}
}

func (c *cpuCounters) Begin() error {
	if c.set == nil {
		return nil
	}
	return c.set.start()
}

func (c *cpuCounters) End() error {
	if c.set == nil {
		return nil
	}
	return c.set.stop()
}

func (c *cpuCounters) Collect(iv Interval) (Sample, error) {
	s := Sample{Duration: iv.Host}
	if c.set == nil {
		return s, nil
	}
	var n counts
	running, err := c.set.read(&n)
	if err != nil || running <= 0 { // they were never scheduled: a time without counts
		return s, err
	}
	c.metrics = c.metrics[:0]
	ops := float64(iv.Operations)
	c.add("cycles", "cycles/op", n.cycles/ops, n.cycles)
	c.add("instructions", "instructions/op", n.instructions/ops, n.instructions)
	if n.cycles > 0 {
		c.add("ipc", "instructions/cycle", n.instructions/n.cycles, n.instructions)
	}
	c.add("branches", "branches/op", n.branches/ops, n.branches)
	c.add("branch_misses", "misses/op", n.branchMisses/ops, n.branchMisses)
	c.add("cache_references", "references/op", n.cacheRefs/ops, n.cacheRefs)
	c.add("cache_misses", "misses/op", n.cacheMisses/ops, n.cacheMisses)
	s.Metrics = c.metrics
	return s, nil
}

// add adds a counter that the processor has.
func (c *cpuCounters) add(name, unit string, value, has float64) {
	if has >= 0 {
		c.metrics = append(c.metrics, Metric{Section: SectionCPU, Name: name, Unit: unit, Value: Float(value)})
	}
}
