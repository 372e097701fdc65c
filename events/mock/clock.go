package mock

import (
	"math"
	"math/rand/v2"
	"slices"
)

// wanderStep is how long the drift stays the same while it wanders.
const wanderStep = 100_000_000

// clock maps host time to the device's clock: straight pieces between knots,
// made as far ahead as somebody asks. The past of a clock never changes.
type clock struct {
	wander float64
	seed   uint64
	knots  []knot
	steps  []step // by time
}

type knot struct {
	host   int64
	device int64
	drift  float64 // ppm, without wander
	walk   float64 // ppm, of wander alone
	steps  int     // how many steps have been taken
}

// step is a scripted change: of the drift, or of the reading.
type step struct {
	at    int64
	drift float64
	jump  int64
	isSet bool // drift counts
}

func newClock(c deviceConfig) clock {
	return clock{
		wander: c.wander,
		seed:   c.wanderSeed,
		knots:  []knot{{device: int64(c.offset), drift: c.drift}},
	}
}

func (k knot) ppm() float64 { return k.drift + k.walk }

func (k knot) at(host int64) int64 {
	dt := host - k.host
	return k.device + dt + int64(math.Floor(float64(dt)*k.ppm()*1e-6))
}

// add schedules a step. What had been worked out beyond it is forgotten.
func (c *clock) add(s step) {
	i := len(c.steps)
	for i > 0 && c.steps[i-1].at > s.at {
		i--
	}
	c.steps = slices.Insert(c.steps, i, s)
	n := len(c.knots)
	for n > 1 && c.knots[n-1].host > s.at {
		n--
	}
	c.knots = c.knots[:n]
}

// next is the host time of the first knot not made yet.
func (c *clock) next() int64 {
	last := &c.knots[len(c.knots)-1]
	t := int64(never)
	if c.wander != 0 {
		t = (last.host/wanderStep + 1) * wanderStep
	}
	if last.steps < len(c.steps) {
		t = min(t, c.steps[last.steps].at)
	}
	return t
}

func (c *clock) extend(host int64) {
	for t := c.next(); t <= host; t = c.next() {
		k := c.knots[len(c.knots)-1]
		k.device = k.at(t)
		k.host = t
		switch {
		case k.steps < len(c.steps) && c.steps[k.steps].at == t:
			s := c.steps[k.steps]
			k.steps++
			k.device += s.jump
			if s.isSet {
				k.drift = s.drift
			}
		default:
			// Drawn from the position, so that a clock worked out again after
			// add walks the same way.
			r := rand.New(rand.NewPCG(c.seed, uint64(t/wanderStep)))
			k.walk += r.NormFloat64() * c.wander * math.Sqrt(float64(wanderStep)/1e9)
		}
		c.knots = append(c.knots, k)
	}
}

// find gives the position of the knot that counts at host.
func (c *clock) find(host int64) int {
	c.extend(host)
	last := len(c.knots) - 1
	if host >= c.knots[last].host {
		return last
	}
	i, _ := slices.BinarySearchFunc(c.knots, host, func(k knot, t int64) int {
		if k.host <= t {
			return -1
		}
		return 1
	})
	return max(i-1, 0)
}

func (c *clock) at(host int64) int64 { return c.knots[c.find(host)].at(host) }

// after is the host time at which d has passed on the device since host. Jumps
// of the reading do not count: they stop no work.
func (c *clock) after(host, d int64) int64 {
	left := float64(d)
	for i := c.find(host); ; i++ {
		rate := 1 + c.knots[i].ppm()*1e-6
		need := math.Ceil(left / rate)
		var end int64
		if i+1 < len(c.knots) {
			end = c.knots[i+1].host
		} else if end = c.next(); end != never && need > float64(end-host) {
			c.extend(end)
		}
		if need <= float64(end-host) {
			return host + int64(need)
		}
		left -= float64(end-host) * rate
		host = end
	}
}
