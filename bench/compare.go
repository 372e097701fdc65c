package bench

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"example.com/devevents/bench/internal/stats"
)

// What holds for comparisons where nothing else is said.
const (
	DefaultThreshold = stats.DefaultThreshold // a difference of 1 % counts
	DefaultBlocks    = 30                     // in each of which every variant is measured as often
	maxVariants      = 16
)

// Change is the answer of a comparison.
type Change = stats.Change

// The answers, of what is compared with a base.
const (
	Same    = stats.Same    // the difference is below the threshold
	Faster  = stats.Faster  // beyond it
	Slower  = stats.Slower  // beyond it
	Unclear = stats.Unclear // the samples do not tell; how many would, is in the finding
)

// Finding is what a comparison has found. Every number in it is finite.
type Finding = stats.Finding

// Comparison is what was found about two rows that were measured in turn.
type Comparison struct {
	Group string `json:"group"`
	Base  string `json:"base"` // name of the row that ratios are to
	Other string `json:"other"`
	Finding
	PerBlock int   `json:"samples_per_block"` // of each; N and Needed count blocks
	Seed     int64 `json:"seed"`              // of the order within blocks: see BlockSeed
	Looks    int   `json:"looks,omitempty"`   // how often it was asked whether all is clear, with UntilSettled
}

// SamplesNeeded is how many samples of each row would settle an unclear answer, and
// false where no number would, or where the answer is clear.
func (c *Comparison) SamplesNeeded() (int, bool) {
	if c.Needed == nil {
		return 0, false
	}
	return *c.Needed * c.PerBlock, true
}

// matchSettings are what options say of comparisons.
type matchSettings struct {
	threshold float64
	settle    bool
	seed      int64
	seeded    bool
}

// Threshold is how large a difference must be to count in comparisons, 0.01 for 1 %,
// from 0 to below 1. With 0 nothing is ever the same.
func Threshold(share float64) Option { return func(s *settings) { s.match.threshold = share } }

// UntilSettled goes on with blocks until every comparison of the cases is clear, or a
// budget is spent. Looking at the answer before the end would make false alarms more
// frequent; so it is asked after 30 blocks and after each doubling, and each time must be surer.
func UntilSettled() Option { return func(s *settings) { s.match.settle = true } }

// BlockSeed decides the order in which variants are measured within blocks. The default
// is another one for each comparison, kept in the report.
func BlockSeed(seed int64) Option {
	return func(s *settings) { s.match.seed, s.match.seeded = seed, true }
}

// Compare measures cases of the group in turn and compares them, at each point of the
// axes: the first named is the base, and each of the others is compared with it. The
// cases must be defined by Bench or BenchSample as ever; at the place of the base they
// run together.
//
// They are measured in blocks, of which each takes every case as often, at every place
// in turn; for two it is ABBA or BAAB. A seeded coin decides which. What drifts, or slows
// the device for a while, so does it for all of them, and two cases that are the same
// are called so whatever their samples have in common.
//
// All cases have their contexts at the same time, and one number of operations a sample,
// the largest that any of them needs. DeviceBudget and WallBudget count once for each
// case; Samples bounds the samples of each. Backend, domain and what is done about cache
// and gate must be the same for all; there is no AsGraph. Under -profile they run one after
// the other.
func (g *GroupOf[C]) Compare(base string, others ...string) {
	g.matches = append(g.matches, append([]string{base}, others...))
}

// CompareAxis measures the points along an axis in turn and compares them, as Compare
// does with cases: each value of the axis with its first one, case by case and at each
// point of the other axes. It is for variants that are values of an axis: a block size, a layout.
func (g *GroupOf[C]) CompareAxis(axis string) { g.along = axis }

// variant is a case at a point of the axes.
type variant[C any] struct {
	c     caseOf[C]
	point []AxisValue
}

// units are the group's cases at all points, in order, together where they are compared.
func (g *GroupOf[C]) units(axes []axis) ([][]variant[C], error) {
	matches, err := g.checkedMatches(axes)
	if err != nil {
		return nil, err
	}
	var list [][]variant[C]
	for _, c := range g.cases {
		names := []string{c.name}
		if i := slices.IndexFunc(matches, func(m []string) bool { return slices.Contains(m, c.name) }); i >= 0 {
			if names = matches[i]; names[0] != c.name {
				continue // runs beside its base
			}
		}
		for _, points := range g.alongAxis(combinations(axes)) {
			var unit []variant[C]
			for _, name := range names {
				at := slices.IndexFunc(g.cases, func(c caseOf[C]) bool { return c.name == name })
				for _, p := range points {
					unit = append(unit, variant[C]{g.cases[at], p})
				}
			}
			list = append(list, unit)
		}
	}
	return list, nil
}

// alongAxis puts the points together that differ only on the axis of CompareAxis.
func (g *GroupOf[C]) alongAxis(points [][]AxisValue) [][][]AxisValue {
	var lists [][][]AxisValue
	index := map[string]int{}
	for i, p := range points {
		key := strconv.Itoa(i)
		if g.along != "" {
			key = fmt.Sprint(slices.DeleteFunc(slices.Clone(p), func(a AxisValue) bool { return a.Name == g.along }))
		}
		at, known := index[key]
		if !known {
			at = len(lists)
			index[key] = at
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], p)
	}
	return lists
}

// checkedMatches are the comparisons of the group, or those of the command line where it
// has all their cases.
func (g *GroupOf[C]) checkedMatches(axes []axis) ([][]string, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(g.cases, func(c caseOf[C]) bool { return c.name == name })
	}
	matches := g.matches
	if given := g.runner.versus; len(given) > 0 && !slices.ContainsFunc(given, func(n string) bool { return !has(n) }) {
		matches, g.runner.versusUsed = [][]string{given}, true
	}
	values := 1
	if g.along != "" {
		i := slices.IndexFunc(axes, func(a axis) bool { return a.name == g.along })
		if i < 0 {
			return nil, fmt.Errorf("CompareAxis: there is no axis %q", g.along)
		}
		if values = len(axes[i].values); len(matches) > 0 {
			return nil, errors.New("a group compares cases or values of an axis, not both: leave out Compare or CompareAxis")
		}
		if values > maxVariants {
			return nil, fmt.Errorf("CompareAxis: the axis %s has %d values; at most %d can be compared", g.along, values, maxVariants)
		}
	}
	seen := map[string]bool{}
	for _, m := range matches {
		if len(m) < 2 || len(m) > maxVariants {
			return nil, fmt.Errorf("comparing %s: name 2 to %d cases", strings.Join(m, ", "), maxVariants)
		}
		for _, name := range m {
			if !has(name) {
				return nil, fmt.Errorf("comparing %s: there is no case %q in the group", strings.Join(m, ", "), name)
			}
			if seen[name] {
				return nil, fmt.Errorf("comparing %s: %q is compared twice", strings.Join(m, ", "), name)
			}
			seen[name] = true
		}
	}
	return matches, nil
}

// unlike says what two cases are measured differently in, or is "".
func unlike(a, b *settings) string {
	switch {
	case !sameBackend(a.backend, b.backend):
		return "backend"
	case a.domain != b.domain:
		return "domain"
	case a.cold != b.cold, a.ring != b.ring, a.flush != b.flush, a.hot != b.hot:
		return "cache"
	case a.ungated != b.ungated, a.watchdog != b.watchdog:
		return "gate"
	case a.chunk != b.chunk, a.calibrated != b.calibrated:
		return "operations a sample"
	}
	return ""
}

// sameBackend compares backends; one of a type that cannot be compared is no other's.
func sameBackend(a, b Backend) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

// judge answers all comparisons so far together: more of them need surer answers.
func (r *Runner) judge() {
	for i, f := range stats.Judge(r.effects, len(r.effects)) {
		r.report.Comparisons[i].Finding = f
	}
}

// compareFlags adds the flags of this file.
func (r *Runner) compareFlags(fs *flag.FlagSet, option func(Option)) {
	fs.Func("compare", "measure `base,other,...` in turn, which are cases of a group, and compare them", func(text string) error {
		r.versus = strings.Split(text, ",")
		if len(r.versus) < 2 {
			return errors.New("name two cases or more, with commas between them")
		}
		return nil
	})
	fs.Func("threshold", "how large a `difference` must be to count in comparisons: 0.01 or 1% (default 1%)", func(text string) error {
		share, err := ParseShare(text)
		option(Threshold(share))
		return err
	})
	fs.BoolFunc("settle", "go on with comparisons until they are clear, within the budgets", func(string) error { option(UntilSettled()); return nil })
	fs.Func("seed", "`number` that decides the order within blocks of comparisons (default another one each time)", func(text string) error {
		seed, err := strconv.ParseInt(text, 10, 64)
		option(BlockSeed(seed))
		if err != nil {
			return errors.New("must be a whole number")
		}
		return nil
	})
}

// ParseShare reads a share from 0 to below 1, or to below 100 with a percent sign.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share < 1) {
		return 0, errors.New("must be a share from 0 to below 1, as 0.01 or 1%")
	}
	return share, nil
}

// seedOf is the seed of a comparison.
func (s *settings) seedOf() int64 {
	if s.match.seeded {
		return s.match.seed
	}
	return rand.Int64N(1 << 32) // short enough to be typed again
}
