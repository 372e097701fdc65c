package bench

import "time"

// What holds for a case where nothing else is said.
const (
	DefaultDeviceBudget = time.Second     // of measured time, over all samples of a case
	DefaultWallBudget   = 5 * time.Second // of a case, on the host
	DefaultMinSamples   = 20
	DefaultMaxSamples   = 20_000
	DefaultPrecision    = 0.005                 // half the interval of the median, as a part of the median
	DefaultWarmUpLeast  = 50 * time.Millisecond // of measured time
	DefaultWarmUpLimit  = 2 * time.Second       // on the host
	DefaultWatchdog     = 2 * time.Second       // on a stream that is held
)

// ColdMode says what the device's last-level cache holds when a sample begins.
type ColdMode uint8

// The modes of the cache.
const (
	ColdAuto   ColdMode = iota // ColdFlush for samples of one operation in the domain GPU, else ColdNone
	ColdNone                   // what the sample before has left there
	ColdFlush                  // overwritten outside the interval, persisting lines reset
	ColdRotate                 // what other buffers have left there: see Rotate
)

// String names the mode.
func (c ColdMode) String() string {
	switch c {
	case ColdNone:
		return "none"
	case ColdFlush:
		return "flush"
	case ColdRotate:
		return "rotate"
	}
	return "auto"
}

// settings are all that options set. Runner, group and case have a copy each.
type settings struct {
	backend    Backend
	domain     Domain
	work       Work
	peak       Work // a second
	chunk      int64
	calibrated bool
	cold       ColdMode
	flush      int64
	ring       ring
	graph      bool
	hot        time.Duration
	ungated    bool
	watchdog   time.Duration
	device     time.Duration
	wall       time.Duration
	minSamples int
	maxSamples int
	precision  float64
	rule       func() Rule
	warmMin    time.Duration
	warmMax    time.Duration
	profile    int
	match      matchSettings
	marks      marks
	watch      watchSettings
	order      orderSettings
}

func defaults() settings {
	return settings{
		watchdog:   DefaultWatchdog,
		device:     DefaultDeviceBudget,
		wall:       DefaultWallBudget,
		minSamples: DefaultMinSamples,
		maxSamples: DefaultMaxSamples,
		precision:  DefaultPrecision,
		warmMin:    DefaultWarmUpLeast,
		warmMax:    DefaultWarmUpLimit,
		match:      matchSettings{threshold: DefaultThreshold},
	}
}

// Option sets up a runner, a group or a case. The narrower one wins, and a flag of
// the command line wins over all.
type Option func(*settings)

func (s settings) with(opts []Option) settings {
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	return s
}

// On measures with backend. The default is CPUCounters in the domains CPU and
// Mixed, and WallClock in the others.
func On(backend Backend) Option { return func(s *settings) { s.backend = backend } }

// In says where the work runs. The default is CPU.
func In(domain Domain) Option { return func(s *settings) { s.domain = domain } }

// FixedChunk makes every sample n operations, at least 1.
func FixedChunk(n int64) Option {
	return func(s *settings) { s.chunk, s.calibrated = max(n, 1), false }
}

// CalibratedChunk finds the number of operations of a sample: the smallest that
// takes a hundred times the clock's quantum, twenty times what an empty sample
// reads, and 100 us by the host's clock. It is the default, except in the domain GPU, where a sample is one operation
// and begins with a cold cache.
func CalibratedChunk() Option {
	return func(s *settings) { s.chunk, s.calibrated = 0, true }
}

// Bytes is what one operation reads and writes, for GiB/s.
func Bytes(n int64) Option { return func(s *settings) { s.work.Bytes = n } }

// Flops is how many floating point operations one operation does, for TFLOP/s.
func Flops(n float64) Option { return func(s *settings) { s.work.Flops = n } }

// Items is how many items one operation handles, for items/s.
func Items(n int64) Option { return func(s *settings) { s.work.Items = n } }

// Peak is what the device can do in a second. Rates are given as a share of it
// too, and one above 105 % is flagged: cached, escaped or wrongly declared work.
func Peak(second Work) Option { return func(s *settings) { s.peak = second } }

// Cold sets what the last-level cache holds when a sample begins.
func Cold(mode ColdMode) Option { return func(s *settings) { s.cold = mode } }

// ring is the buffers that operations use in turn.
type ring struct {
	buffers int
	bytes   int64
}

// FlushBytes is how much is overwritten to make the cache cold. The default is twice the
// device's last-level cache, at least 64 MiB and at most 1 GiB; 256 MiB where the size is
// not known.
func FlushBytes(n int64) Option { return func(s *settings) { s.flush = max(n, 0) } }

// Rotate keeps the cache cold by the case's own buffers: operation i of the case works on
// buffer i modulo buffers, of which each is bytes large, all of it used by the operation.
// Iters.First is the number of a sample's first operation. Nothing is filled. A row is
// called cold only if the buffers together are twice the device's last-level cache or
// more: DeviceEvents.Ring says how many that takes.
func Rotate(buffers int, bytes int64) Option {
	return func(s *settings) { s.cold, s.ring = ColdRotate, ring{buffers, bytes} }
}

// AlsoHot measures the case a second time after its samples: batches of operations in a
// row, on the same buffers and with nothing done about the cache, at least 30 of them, or
// the largest number of samples if that is less, and for budget of measured time. They are in Result.Hot, with a distribution of their own.
// The function must do as many operations as it is asked for.
func AlsoHot(budget time.Duration) Option {
	return func(s *settings) { s.hot = max(budget, time.Millisecond) }
}

// AsGraph captures operations into a graph of the device, each between two events of its
// own and behind its own fill where the cache is to be cold, and launches the graph until
// there are samples enough. The function is called only to be captured: it queues work
// on the measured stream and waits for nothing. Where that fails, the case is measured on
// the stream, and a note says why.
func AsGraph() Option { return func(s *settings) { s.graph = true } }

// WithoutGate never holds the stream back. Launch latency then lies in the interval
// of short work; the row says how often.
func WithoutGate() Option { return func(s *settings) { s.ungated = true } }

// Watchdog is how long a stream may be held before it is let go all the same, and
// the case measured again without a hold.
func Watchdog(d time.Duration) Option {
	return func(s *settings) { s.watchdog = max(d, time.Millisecond) }
}

// DeviceBudget ends a case when its samples add up to d.
func DeviceBudget(d time.Duration) Option { return func(s *settings) { s.device = d } }

// WallBudget ends a case d after its first call. It cannot end a call.
func WallBudget(d time.Duration) Option { return func(s *settings) { s.wall = d } }

// Samples bounds the number of samples of a case. No rule is asked before the
// smallest, and nothing goes on beyond the largest.
func Samples(smallest, largest int) Option {
	return func(s *settings) {
		s.minSamples = max(smallest, 1)
		s.maxSamples = max(largest, s.minSamples)
	}
}

// Precision is how narrow the interval of the median must be for a case to end: half
// of it, as a part of the median. It is never sought below the clock's quantum.
func Precision(share float64) Option { return func(s *settings) { s.precision = share } }

// StopBy replaces the rule that ends a case; rule makes one for each case.
func StopBy(rule func() Rule) Option { return func(s *settings) { s.rule = rule } }

// WarmUp bounds the warm-up: it lasts at least shortest of measured time, ends when
// the times stand still, and ends in any case longest after it began.
func WarmUp(shortest, longest time.Duration) Option {
	return func(s *settings) { s.warmMin, s.warmMax = shortest, max(shortest, longest) }
}
