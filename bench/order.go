package bench

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"example.com/devevents/events"
)

// DefaultCoolLimit is how long a cool-down to a temperature may last.
const DefaultCoolLimit = time.Minute

const coolEvery = 250 * time.Millisecond // how often the temperature is read

// orderSettings are what options say of the order of cases and of what lies between them.
type orderSettings struct {
	shuffled  bool
	seed      int64
	cool      time.Duration
	coolTo    int
	coolLimit time.Duration // 0: no temperature is waited for
}

// Shuffle runs the cases of a group, all points of its axes together, in a random order
// that the seed decides, so that what changes while a program runs (temperature, clocks)
// does not favour the first or the last. The report keeps the order of definition; where
// each case came is in Result.Position. It is for the runner or a group.
func Shuffle(seed int64) Option {
	return func(s *settings) { s.order.shuffled, s.order.seed = true, seed }
}

// InOrder runs the cases in the order of definition, as is the default.
func InOrder() Option { return func(s *settings) { s.order.shuffled = false } }

// CoolDown pauses for d before each case but the first of a run.
func CoolDown(d time.Duration) Option { return func(s *settings) { s.order.cool = max(d, 0) } }

// CoolTo waits before each case but the first of a run, after the pause of CoolDown, until
// the device is not warmer than so many degrees Celsius, limit at most. A device without
// telemetry is not waited for, and the row says so.
func CoolTo(celsius int, limit time.Duration) Option {
	return func(s *settings) { s.order.coolTo, s.order.coolLimit = celsius, max(limit, 0) }
}

// CoolDownReport says how long a case was waited with, and why no longer.
type CoolDownReport struct {
	Took        time.Duration `json:"took_ns"`                 // as it was asked for
	Why         string        `json:"why_ended"`               // "time", "temperature", "limit", or why there was none to wait for
	Temperature *int          `json:"temperature_c,omitempty"` // when it ended
}

// orderFlags adds the flags of this file.
func orderFlags(fs *flag.FlagSet, option func(Option)) {
	fs.Func("shuffle", "order of a group's cases: `off`, on (a seed is chosen and printed), or a seed (default off)", func(text string) error {
		switch text {
		case "off":
			option(InOrder())
			return nil
		case "on":
			option(Shuffle(rand.Int64N(1 << 32))) // short enough to be typed again
			return nil
		}
		seed, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("there are off, on, and a seed, which is a number")
		}
		option(Shuffle(seed))
		return nil
	})
	fs.Func("cooldown", "pause for a `duration` before each case but the first", func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("must not be below 0")
		}
		if err == nil {
			option(CoolDown(d))
		}
		return err
	})
	fs.Func("cool-to", fmt.Sprintf("then wait until the device is not warmer than so many `degrees` Celsius, %v at most", DefaultCoolLimit), func(text string) error {
		celsius, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("must be a whole number of degrees")
		}
		option(CoolTo(celsius, DefaultCoolLimit))
		return nil
	})
	fs.BoolFunc("no-telemetry", "do not read clocks, temperature and power of the device", func(string) error { option(WithoutTelemetry()); return nil })
	fs.Func("retry-throttled", "take samples again that were taken while the device was held back, at most `n` times a case", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errors.New("must be a number from 0 on")
		}
		option(RetryThrottled(n))
		return nil
	})
}

// runAll runs the cases of a group, of which those that are compared come together.
func (r *Runner) runAll(set settings, units [][]*job) {
	family := 0 // comparisons
	for _, unit := range units {
		family += len(unit) - 1
	}
	order := set.order
	if !order.shuffled || r.listing || len(units) == 0 {
		for _, unit := range units {
			r.run(unit, family)
		}
		return
	}
	r.report.Provenance.Shuffle = &order.seed
	from := len(r.report.Results)
	var which []int // of each result: the unit that it is of
	defer func() { r.sortBy(from, which) }()
	for _, i := range permutation(order.seed, units[0][0].group, len(units)) {
		r.run(units[i], family)
		for len(r.report.Results) > from+len(which) {
			r.report.Results[from+len(which)].Position = len(which) + 1
			which = append(which, i)
		}
	}
}

// permutation is the order of n cases: another one in each group, and the same one
// whichever other groups there are.
func permutation(seed int64, group string, n int) []int {
	name := fnv.New64a()
	_, _ = name.Write([]byte(group)) // a hash never fails
	return rand.New(rand.NewPCG(uint64(seed), name.Sum64())).Perm(n)
}

// sortBy puts the results from a place on into the order of definition.
func (r *Runner) sortBy(from int, which []int) {
	tail := r.report.Results[from:]
	places := make([]int, len(which))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(which[a], which[b]) })
	sorted := make([]Result, 0, len(tail))
	for _, p := range places {
		sorted = append(sorted, tail[p])
	}
	copy(tail, sorted)
}

// coolDown waits before a case.
func (r *Runner) coolDown(j *job, res *Result) {
	order := j.set.order
	if !r.measured || r.overtime() || order.cool == 0 && order.coolLimit == 0 {
		return
	}
	c := &CoolDownReport{Why: "time"}
	wait := func(d time.Duration) {
		if r.total > 0 {
			d = min(d, max(r.total-time.Duration(r.clock()), 0))
		}
		r.pause(d)
		c.Took += d
	}
	if order.cool > 0 {
		wait(order.cool)
	}
	if order.coolLimit > 0 {
		c.Why = r.coolTo(j.set, c, wait)
		if c.Why == "limit" {
			res.Notes = append(res.Notes, fmt.Sprintf("not cool: still %d C after %v", *c.Temperature, round(c.Took)))
		}
	}
	res.CoolDown = c
}

// coolTo waits for a temperature, and says why it ended.
func (r *Runner) coolTo(set *settings, c *CoolDownReport, wait func(time.Duration)) string {
	if set.watch.off {
		return "telemetry is switched off"
	}
	reader, err := r.stateOf(set.backend)
	switch {
	case err != nil:
		return "no temperature: " + oneLine(err)
	case reader == nil:
		return "no temperature: the backend has no device"
	}
	for limit := c.Took + set.order.coolLimit; ; wait(coolEvery) {
		reading, err := r.readState(reader)
		switch {
		case err != nil:
			return "no temperature: " + oneLine(err)
		case !reading.Knows(events.TelemetryTemperature):
			return "no temperature: the device does not tell"
		}
		c.Temperature = &reading.Temperature
		switch {
		case reading.Temperature <= set.order.coolTo:
			return "temperature"
		case c.Took >= limit || r.overtime():
			return "limit"
		}
	}
}
