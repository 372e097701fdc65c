package clock

import "math"

// Config is what a Clock takes for granted.
type Config struct {
	// MaxRate is by how much of itself a host second may be longer or shorter than a
	// device second.
	MaxRate float64
	// Tick is the step of the device's stamps, in nanoseconds, or more: a stamp lies up
	// to so much before the moment that it is of. Once enough readings have turned out
	// to be multiples of it, others that are rounded by less than half of it are set
	// right; the first that cannot be one ends that.
	Tick int64
	// MinLink is the least distance, in nanoseconds, of anchors whose slopes are
	// compared: over a short one the brackets hide every rate.
	MinLink int64
	// MaxLink is the longest link, in nanoseconds, within which the rate changes at most
	// once, so that the links around it show by how much.
	MaxLink int64
	// Skew is how far behind the middle of a bracket stamps lie, in parts of the
	// bracket, as measured by other means; 0 where nobody has. It moves estimates and
	// no bound.
	Skew float64
}

// Links is how many links between anchors, on each side of a stamp, say how the rate
// behaves there.
const Links = 4

// Kept is how many anchors are remembered: the last ones all, 13 seconds of them at ten
// a second, and of older ones the fewer the older they are.
const Kept = 256

// FloatError is half a step of a float32 reading, in parts of it.
const FloatError = 6e-8

// Anchor is a moment of the device's clock between two readings of the host's.
type Anchor struct {
	Before, After int64 // host clock
	X             int64 // device clock, from the first anchor of the epoch
}

func (a Anchor) width() float64 { return float64(a.After - a.Before) }

// Clock knows how the device's clock lies to the host's. It is not safe for concurrent
// use, makes no calls and reads no time.
type Clock struct {
	cfg  Config
	all  []Anchor // of this epoch, oldest first
	main []int    // of those, in this order, the ones at least MinLink apart

	agreed  int // readings in a row that are multiples of the tick
	refuted bool
	epoch   uint32
}

// enough is how many readings must be multiples of the tick before one is corrected:
// of a tick that is twice too long, half of them are.
const enough = 32

// New makes a clock without an anchor.
func New(cfg Config) *Clock {
	return &Clock{cfg: cfg, all: make([]Anchor, 0, Kept), main: make([]int, 0, Kept)}
}

// SetTick replaces what is known of the stamps' step.
func (c *Clock) SetTick(tick int64) { c.cfg.Tick, c.agreed, c.refuted = tick, 0, false }

// Tick is the step of the stamps.
func (c *Clock) Tick() int64 { return c.cfg.Tick }

// Epoch counts how often the clocks were set apart.
func (c *Clock) Epoch() uint32 { return c.epoch }

// Len is the number of anchors of this epoch that are remembered.
func (c *Clock) Len() int { return len(c.all) }

// At is the i-th of them, the oldest first.
func (c *Clock) At(i int) Anchor { return c.all[i] }

// Victim is the anchor that the next one makes forgotten, -1 while there is room: of the
// older half that which leaves the least gap for its age. The oldest stays.
func (c *Clock) Victim() int {
	if len(c.all) < Kept {
		return -1
	}
	newest := c.all[len(c.all)-1].X
	victim, least := 1, math.Inf(1)
	for i := 1; i < Kept/2; i++ {
		if gap := float64(c.all[i+1].X-c.all[i-1].X) / float64(newest-c.all[i].X); gap < least {
			victim, least = i, gap
		}
	}
	return victim
}

// forget takes an anchor out.
func (c *Clock) forget(victim int) {
	c.all = append(c.all[:victim], c.all[victim+1:]...)
	kept := c.main[:0]
	for _, i := range c.main {
		switch {
		case i < victim:
			kept = append(kept, i)
		case i > victim:
			kept = append(kept, i-1)
		}
	}
	c.main = kept
}

// Snap sets a reading of a span right where its rounding lets no doubt, and says how far
// the result may be off otherwise.
func (c *Clock) Snap(span int64) (exact int64, slack float64) {
	slack = FloatError*math.Abs(float64(span)) + 0.5 // the nanosecond that it is rounded to
	tick := c.cfg.Tick
	if c.refuted || tick <= 1 || 2*slack >= float64(tick) {
		return span, slack
	}
	nearest := (span + tick/2) / tick * tick
	if math.Abs(float64(span-nearest)) > slack {
		c.refuted = true
		return span, slack
	}
	if c.agreed < enough {
		c.agreed++
		return span, slack
	}
	return nearest, 0
}

// Add takes an anchor whose reading is so far behind that of the last one, after Snap. It
// reports false, and takes nothing, if the two cannot both be true.
func (c *Clock) Add(before, after, span int64) bool {
	next := Anchor{Before: before, After: after}
	if n := len(c.all); n > 0 {
		last := c.all[n-1]
		dx := float64(span)
		slack := c.cfg.MaxRate*dx + FloatError*dx + float64(2*c.cfg.Tick)
		if float64(before-last.After)-slack > dx || float64(after-last.Before)+slack < dx {
			return false
		}
		next.X = last.X + span
	}
	if victim := c.Victim(); victim >= 0 {
		c.forget(victim)
	}
	c.all = append(c.all, next)
	c.enlist(len(c.all) - 1)
	return true
}

// enlist makes an anchor a main one if it lies far enough behind the last, or replaces
// that if it is narrower and lies far enough behind the one before.
func (c *Clock) enlist(i int) {
	far := func(place int) bool { return place < 0 || c.all[i].X-c.all[c.main[place]].X >= c.cfg.MinLink }
	switch n := len(c.main); {
	case far(n - 1):
		c.main = append(c.main, i)
	case far(n-2) && c.all[i].width() < c.all[c.main[n-1]].width():
		c.main[n-1] = i
	}
}

// Reset forgets everything: the clocks were set apart, and what was known before says
// nothing about now.
func (c *Clock) Reset() {
	c.all, c.main = c.all[:0], c.main[:0]
	c.epoch++
}

// Stamp is a moment of the device's clock and what its reader knows of it.
type Stamp struct {
	X     int64   // device clock
	Slack float64 // how far X may be off by the rounding of readings
	Known bool    // false: there is no X, and the host's times are all that is known
	// The moment lies at or after Low and at or before High on the host's clock,
	// whatever the anchors say.
	Low, High int64
}

// Quality says what a placement rests on.
type Quality uint8

// The qualities, the best last.
const (
	// Alone is a moment of which only its own host times are known.
	Alone Quality = iota
	// Causal is one with anchors before or behind it, by the largest rate that is
	// allowed: it holds whatever comes later.
	Causal
	// Settled is one with anchors on both sides and enough of them further out to
	// tell how the rate behaved: as narrow as it will get.
	Settled
)

// Placement is a moment on the host's clock.
type Placement struct {
	At      int64 // the estimate
	Bound   int64 // the moment lies within so many nanoseconds of At
	Quality Quality
	// Clamped says that the estimate by the anchors alone lay outside of what the
	// stamp's own host times allow.
	Clamped bool
}

// Settles reports whether a placement of a stamp at x, made now, would be Settled, or
// never will be.
func (c *Clock) Settles(x int64) bool {
	k, ok := c.link(x)
	if !ok {
		// Behind the last anchor more will come; before the first none will.
		return len(c.all) > 0 && x < c.all[0].X
	}
	return k+1+Links < len(c.main)
}

// link is the place in main of the last anchor at or before x, if one follows.
func (c *Clock) link(x int64) (k int, ok bool) {
	// The newest are the likeliest.
	for k = len(c.main) - 1; k >= 0 && c.all[c.main[k]].X > x; k-- {
	}
	return k, k >= 0 && k+1 < len(c.main)
}

// Place puts a moment on the host's clock. It reports false if what is known of it
// contradicts itself: the clocks were set apart meanwhile.
func (c *Clock) Place(s Stamp) (p Placement, ok bool) {
	// Host times count from Low here: a float64 does not hold every nanosecond of a
	// clock with a distant origin.
	low, high := 0.0, float64(s.High-s.Low)
	if high < low {
		return p, false
	}
	estimate := low + (high-low)/2
	if s.Known && len(c.all) > 0 {
		p.Quality = Causal
		low, high = c.near(s, low, high)
		estimate = low + (high-low)/2
		if at, err, skew, settled := c.between(s); !math.IsNaN(at) {
			low, high = math.Max(low, at-err), math.Min(high, at+err)
			estimate = at + skew
			if settled {
				p.Quality = Settled
			}
		}
		if low > high {
			return p, false
		}
		inside := math.Min(math.Max(estimate, low), high)
		p.Clamped = inside != estimate
		estimate = inside
	}
	at := math.Round(estimate)
	p.At = s.Low + int64(at)
	p.Bound = int64(math.Ceil(math.Max(high-at, at-low))) + 1
	return p, true
}

// near narrows an interval by the anchors on both sides of a stamp, each of which is
// believed as far as the clocks' rates can differ.
func (c *Clock) near(s Stamp, low, high float64) (float64, float64) {
	i := len(c.all)
	for i > 0 && c.all[i-1].X > s.X {
		i--
	}
	for _, a := range c.all[max(i-1, 0):min(i+1, len(c.all))] {
		dx := float64(s.X - a.X)
		slack := (c.cfg.MaxRate+FloatError)*math.Abs(dx) + s.Slack + float64(c.cfg.Tick)
		low = math.Max(low, float64(a.Before-s.Low)+dx-slack)
		high = math.Min(high, float64(a.After-s.Low)+dx+slack)
	}
	return low, high
}

// between interpolates between the anchors on both sides of a stamp. How far the rate
// may have strayed from the chord there is judged by how the slopes changed in the links
// around, and by what the brackets could have hidden of it. With Links links on either
// side the result is settled. While those behind the stamp are missing, a change within
// its own link shows by the links before it alone, and bounds less: once for the whole
// way from the anchor before. Without enough links before, err is infinite, and without
// anchors on both sides at is not a number.
func (c *Clock) between(s Stamp) (at, err, skew float64, settled bool) {
	k, ok := c.link(s.X)
	if !ok {
		return math.NaN(), 0, 0, false
	}
	a, b := c.all[c.main[k]], c.all[c.main[k+1]]
	delta := float64(b.X - a.X)
	lambda := float64(s.X-a.X) / delta
	// m + dx + dx*drift/delta, so that nothing large is multiplied.
	start := float64(a.Before-s.Low) + a.width()/2
	dx := float64(s.X - a.X)
	at = start + dx + dx*c.drift(k, k+1)/delta
	width := (1-lambda)*a.width() + lambda*b.width()
	skew = c.cfg.Skew * width
	if k < Links {
		return at, math.Inf(1), skew, false
	}
	settled = k+1+Links < len(c.main)
	last, change, part := k+1, c.slope(k, k+1), lambda
	hidden := c.resolution(k-Links, k) + c.resolution(k, k+1)
	if settled {
		last, change, part = k+1+Links, c.slope(k+1, k+1+Links), lambda*(1-lambda)
		hidden = c.resolution(k-Links, k) + c.resolution(k+1, k+1+Links)
	}
	for j := k - Links; j < last; j++ {
		if c.all[c.main[j+1]].X-c.all[c.main[j]].X > c.cfg.MaxLink {
			return at, math.Inf(1), skew, settled // a rate may have come and gone in it
		}
	}
	kappa := math.Abs(change-c.slope(k-Links, k)) + hidden
	for j := k - Links; j+2 <= last; j++ {
		kappa = math.Max(kappa, math.Abs(c.slope(j+1, j+2)-c.slope(j, j+1)))
	}
	err = width/2 + kappa*part*delta + s.Slack + float64(c.cfg.Tick) + FloatError*math.Min(dx, delta-dx)
	return at, err, skew, settled
}

// drift is by how much more the host's clock went on than the device's from one of the
// main anchors to another.
func (c *Clock) drift(i, j int) float64 {
	a, b := c.all[c.main[i]], c.all[c.main[j]]
	return float64(b.Before-a.Before-(b.X-a.X)) + (b.width()-a.width())/2
}

// slope is drift in parts of the time.
func (c *Clock) slope(i, j int) float64 {
	return c.drift(i, j) / float64(c.all[c.main[j]].X-c.all[c.main[i]].X)
}

// resolution is how much of a slope the brackets at its ends can hide.
func (c *Clock) resolution(i, j int) float64 {
	a, b := c.all[c.main[i]], c.all[c.main[j]]
	return (a.width() + b.width()) / 2 / float64(b.X-a.X)
}

// Drift is by how many parts per million the host's clock is faster than the device's,
// over all anchors that are remembered, and how far that may be off. Without two
// anchors it is 0, give or take everything that is allowed.
func (c *Clock) Drift() (ppm, uncertainty float64) {
	n := len(c.main)
	if n < 2 {
		return 0, c.cfg.MaxRate * 1e6
	}
	rounding := FloatError + float64(c.cfg.Tick)/float64(c.all[c.main[n-1]].X-c.all[c.main[0]].X)
	return c.slope(0, n-1) * 1e6, (c.resolution(0, n-1) + rounding) * 1e6
}

// Brackets are the narrowest of the anchors that are remembered and the last one's
// bracket, in nanoseconds; 0 without any.
func (c *Clock) Brackets() (best, last int64) {
	for i, a := range c.all {
		last = a.After - a.Before
		if i == 0 || last < best {
			best = last
		}
	}
	return best, last
}
