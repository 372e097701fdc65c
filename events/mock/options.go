package mock

import "time"

// Option sets up a System or, inside ForDevice, one of its devices.
type Option func(*config)

type config struct {
	devices int
	manual  bool
	auto    bool
	device  deviceConfig
	perDev  map[int][]Option
}

type deviceConfig struct {
	name          string
	offset        time.Duration
	hasOffset     bool
	drift         float64
	wander        float64
	wanderSeed    uint64
	tick          int64
	eventCost     int64
	launchLatency int64
	waitLatency   int64
	memoryLatency int64
	memory        int64
	emptyCost     int64
	cacheBytes    int64
	cacheSpeed    float64 // of what is in the cache, against memory; 0: the cache is not simulated
	driver        string
	runtime       string
	recordCost    int64
	queryCost     int64
	readCost      int64
	visibleAfter  int64
	exact         bool
	queueLimit    int
	off           Feature
	callLog       int
	unrelaxed     bool
}

func defaults() config {
	return config{
		devices: 1,
		device: deviceConfig{
			name:          "Simulated device",
			tick:          32,
			eventCost:     1280,
			launchLatency: 2400,
			waitLatency:   1450,
			memoryLatency: 1500,
			memory:        64 << 30,
			emptyCost:     1472,
			cacheBytes:    60 << 20,
			driver:        "simulated driver 1.0",
			runtime:       "simulated runtime 1.0",
			queueLimit:    1020,
		},
	}
}

// Devices sets how many devices the system has, at least 1. The default is 1.
func Devices(n int) Option { return func(c *config) { c.devices = max(n, 1) } }

// Manual makes time stand still between calls of System.Advance.
func Manual() Option { return func(c *config) { c.manual = true } }

// AutoAdvance is Manual, and a call that blocks moves the clock itself to the
// moment at which it can go on. A call that nothing can ever release (a hang)
// blocks all the same.
func AutoAdvance() Option { return func(c *config) { c.manual, c.auto = true, true } }

// ForDevice applies options to device i only, after those for all devices.
func ForDevice(i int, opts ...Option) Option {
	return func(c *config) { c.perDev[i] = append(c.perDev[i], opts...) }
}

// Ideal takes every cost away: events, launches, waits and memory operations
// take no time of their own, stamps are exact to the nanosecond and readings
// are not rounded. Options after it still apply.
func Ideal() Option {
	return func(c *config) {
		d := &c.device
		d.eventCost, d.launchLatency, d.waitLatency, d.memoryLatency, d.emptyCost = 0, 0, 0, 0, 0
		d.tick = 1
		d.exact = true
	}
}

// Named sets the product name that Identity gives.
func Named(name string) Option { return func(c *config) { c.device.name = name } }

// Offset is what the device's clock shows at host time 0. The default differs
// from device to device and is never 0.
func Offset(d time.Duration) Option {
	return func(c *config) { c.device.offset, c.device.hasOffset = d, true }
}

// Drift makes the device's clock run faster than the host's by so many parts
// per million. The default is 0.
func Drift(ppm float64) Option { return func(c *config) { c.device.drift = ppm } }

// Wander lets the drift walk at random, by ppm for every square root of a
// second, in steps of 100 ms. Equal seeds give equal walks.
func Wander(ppm float64, seed uint64) Option {
	return func(c *config) { c.device.wander, c.device.wanderSeed = ppm, seed }
}

// Tick is the step of event stamps, which are rounded down to it. The default
// is 32 ns.
func Tick(d time.Duration) Option {
	return func(c *config) { c.device.tick = max(int64(d), 1) }
}

// EventCost is the time that a timed event takes on its stream; the stamp is
// taken at the end of it. The default is 1.28 us. Events without a timestamp
// cost nothing.
func EventCost(d time.Duration) Option {
	return func(c *config) { c.device.eventCost = nonNegative(d) }
}

// LaunchLatency is the time from enqueueing to the earliest start, which shows
// only on a stream that has nothing else to do. The default is 2.4 us.
func LaunchLatency(d time.Duration) Option {
	return func(c *config) { c.device.launchLatency = nonNegative(d) }
}

// WaitLatency is the time from an event to the start of a stream that waits
// for it. The default is 1.45 us.
func WaitLatency(d time.Duration) Option {
	return func(c *config) { c.device.waitLatency = nonNegative(d) }
}

// Memory is the size of the device's memory. The default is 64 GiB.
func Memory(bytes int64) Option { return func(c *config) { c.device.memory = bytes } }

// CacheOf gives the device a last-level cache of so many bytes, from which reads are
// speed times as fast as from memory; a speed of 1 or less simulates no contents. By
// default there are 60 MiB without contents. It has lines of 64 KiB, takes in what is
// read and written, and drops first what was used longest ago.
func CacheOf(bytes int64, speed float64) Option {
	return func(c *config) {
		c.device.cacheBytes, c.device.cacheSpeed = bytes, speed
	}
}

// Versions are what events.Versioned answers.
func Versions(driver, runtime string) Option {
	return func(c *config) { c.device.driver, c.device.runtime = driver, runtime }
}

// EmptyCost is the time that an empty kernel takes on its stream. The default is 1.472 us.
func EmptyCost(d time.Duration) Option {
	return func(c *config) { c.device.emptyCost = nonNegative(d) }
}

// HostCost makes simulated time pass for the caller of EventRecord, of
// EventQuery or RoundQuery, and of a reading of the host's clock. It counts
// only where time is manual; half of the cost of a record or a query lies before its
// effect and half after, and a reading's after it. The default is 0.
func HostCost(record, query, read time.Duration) Option {
	return func(c *config) {
		c.device.recordCost = nonNegative(record)
		c.device.queryCost = nonNegative(query)
		c.device.readCost = nonNegative(read)
	}
}

// VisibleAfter delays the moment at which the host sees that something is done
// to d after it is. Stamps are not changed.
func VisibleAfter(d time.Duration) Option {
	return func(c *config) { c.device.visibleAfter = nonNegative(d) }
}

// ExactReadings switches the rounding of elapsed readings to float32
// milliseconds off.
func ExactReadings() Option { return func(c *config) { c.device.exact = true } }

// QueueLimit is how many operations a stream takes before enqueueing blocks.
// The default is 1020; 0 is no limit.
func QueueLimit(n int) Option { return func(c *config) { c.device.queueLimit = max(n, 0) } }

// Without switches abilities off: events.Ability does not find them, and their
// methods answer ErrUnsupported (or a zero value where they return no error).
func Without(features ...Feature) Option {
	return func(c *config) {
		for _, f := range features {
			c.device.off |= f
		}
	}
}

// CallLog keeps the newest n calls for Device.Calls. The default is 0, no log.
func CallLog(n int) Option { return func(c *config) { c.device.callLog = max(n, 0) } }

// Unrelaxed makes queries, waits and synchronizes behave like plain calls of
// the vendor's library: each kills every global capture of the process and is
// refused. By default they behave like calls from a relaxed thread.
func Unrelaxed(on bool) Option { return func(c *config) { c.device.unrelaxed = on } }

func nonNegative(d time.Duration) int64 { return max(int64(d), 0) }
