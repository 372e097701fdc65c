package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"example.com/devevents/bench/internal/stats"
)

// match is a number of cases that are measured in turn: the first one is the base.
type match struct {
	runner *Runner
	runs   []*caseRun
	set    *settings // of the base, whose budgets count for each
	seed   int64
	family int // comparisons of the group

	wall, device time.Duration // of all together
	random       *rand.Rand
	times        [][][]float64 // of a case and a block: nanoseconds an operation; nil where a sample is missing
	blocks       int
	looks        int
}

// match measures a unit of cases in turn, and compares all with the first.
func (r *Runner) match(jobs []*job, family int) {
	m := &match{runner: r, set: jobs[0].set, seed: jobs[0].set.seedOf(), family: family}
	results := make([]Result, len(jobs))
	for i, j := range jobs {
		results[i] = r.resultOf(j)
		if i > 0 && j.set.backend == nil && j.set.domain == jobs[0].set.domain {
			j.set.backend = jobs[0].set.backend // the default is one for all of them
		}
		m.runs = append(m.runs, r.caseOf(j, &results[i]))
	}
	r.coolDown(jobs[0], &results[0])
	if r.overtime() {
		for i := range results {
			r.late(&results[i])
		}
	} else {
		m.run()
		r.measured = true
	}
	r.progress.done()
	r.report.Results = append(r.report.Results, results...)
	m.compare()
}

func (m *match) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.open(0)
	for _, c := range m.runs {
		if c.dead == nil && c.res.Stop == "" {
			c.end(errors.New("not measured: the other cases of the comparison have failed"))
		}
		c.finish()
	}
}

// open opens the contexts of the cases from i on, measures, and closes them.
func (m *match) open(i int) {
	if i == len(m.runs) {
		m.measure()
		return
	}
	entered := false
	m.runs[i].opened(func() {
		entered = true
		m.open(i + 1)
	})
	if !entered { // the others are still worth measuring
		m.open(i + 1)
	}
}

// alive are the cases that have not failed.
func (m *match) alive() []int {
	var list []int
	for i, c := range m.runs {
		if c.dead == nil {
			list = append(list, i)
		}
	}
	return list
}

// measure is what measure is for one case, for all of them.
func (m *match) measure() {
	chunk := int64(1)
	for _, i := range m.alive() {
		c := m.runs[i]
		if c.set.graph {
			c.end(errors.New("not compared: graphs are not measured in turn; leave out AsGraph"))
			continue
		}
		if what := unlike(m.set, c.set); what != "" {
			c.end(fmt.Errorf("not compared: its %s is another one than that of %s; set it for the group", what, m.runs[0].res.Name()))
			continue
		}
		c.clock, c.began = hostClock(), c.now()
		found := c.enter()
		c.detach() // one case at a time: some backends hold what they count with
		chunk = max(chunk, found)
	}
	alive := m.alive()
	if len(alive) == 0 {
		return
	}
	lead := m.runs[alive[0]]
	for _, i := range alive {
		m.runs[i].res.Chunk = chunk
	}
	if !lead.attach(chunk) {
		return
	}
	defer func() {
		for _, i := range alive {
			if c := m.runs[i]; c.st != nil {
				c.facts()
			}
		}
		lead.detach()
	}()
	lead.clock, lead.began = hostClock(), lead.now()
	m.wall, m.device = m.set.wall*time.Duration(len(alive)), m.set.device*time.Duration(len(alive))
	for _, i := range alive {
		c := m.runs[i]
		c.clock, c.began, c.set.wall = lead.clock, lead.began, m.wall // they share the time
	}
	m.rehearse(chunk)
	runtime.GC()
	m.watch()
	m.loop(chunk)
	for _, i := range alive {
		m.runs[i].endWatch()
	}
	for _, i := range m.alive() {
		m.runs[i].lastLook()
		m.runs[i].judge(chunk)
	}
	for _, i := range alive {
		m.runs[i].conclude()
	}
}

// rehearse takes a sample of each case in the way of the timed ones, and forgets it.
func (m *match) rehearse(chunk int64) {
	m.runs[m.alive()[0]].stage(stageTimed)
	for _, i := range m.alive() {
		c := m.runs[i]
		before := c.exposed
		if c.rehearse(chunk); c.exposed && !before {
			m.exposed()
		}
	}
	m.start()
}

// exposed takes over for all cases that one of them cannot be held.
func (m *match) exposed() {
	for _, c := range m.runs {
		if !c.exposed {
			c.notes.add("launch-exposed: a case that this one is compared with waits for the device, so none of them is held")
		}
		c.exposed = true
		c.forget()
	}
}

// watch begins to read the device's state beside the samples.
func (m *match) watch() {
	for _, i := range m.alive() {
		m.runs[i].startWatch()
	}
}

// start begins with the first block.
func (m *match) start() {
	m.random = rand.New(rand.NewPCG(uint64(m.seed), 0))
	m.times = make([][][]float64, len(m.runs))
	m.blocks = 0
}

// loop measures blocks until there are enough.
func (m *match) loop(chunk int64) {
	for {
		alive := m.alive()
		if len(alive) == 0 {
			return
		}
		if why := m.over(len(alive)); why != "" {
			for _, i := range alive {
				m.runs[i].res.Stop, m.runs[i].res.Verdict = why, "compared"
			}
			return
		}
		if !m.block(alive, chunk) {
			m.exposed()
			m.start()
			m.watch()
			continue
		}
		for _, i := range alive { // what was taken while the device was held back is told, and stays
			if c := m.runs[i]; c.tag(false) {
				c.watch.from = len(c.samples)
			}
		}
	}
}

// over says why there are no more blocks, or is "".
func (m *match) over(cases int) string {
	lead := m.runs[m.alive()[0]]
	var sum time.Duration
	for _, c := range m.runs {
		sum += c.sum
	}
	least := max(DefaultBlocks, (m.set.minSamples+cases-1)/cases)
	most := max(1, m.set.maxSamples/cases)
	done := fmt.Sprintf("%d blocks with %d samples of each", m.blocks, m.blocks*cases)
	switch {
	case m.runner.overtime():
		return done + ": the time for all cases together is over"
	case m.blocks == 0:
		return ""
	case m.blocks >= most:
		return done + ", all that were asked for"
	case lead.spent() >= m.wall:
		return fmt.Sprintf("%s: wall budget, %v on the host", done, round(lead.spent()))
	case sum >= m.device:
		return fmt.Sprintf("%s: device budget, %v measured", done, round(sum))
	case !m.set.match.settle && m.blocks >= least:
		return done
	case m.set.match.settle && m.blocks >= least<<m.looks:
		m.looks++
		if m.clear() {
			return done + ": all is clear"
		}
	}
	return ""
}

// clear reports whether every comparison is, even if all others of the group are not.
func (m *match) clear() bool {
	effects := m.effects(m.looks)
	for _, f := range stats.Judge(effects, m.family) {
		if f.Change == Unclear {
			return false
		}
	}
	return true
}

// block measures each case as often as there are cases, at each place once: an order by
// lot, turned on by one from round to round. It is false if no case is held any more, and
// all has to begin again.
func (m *match) block(alive []int, chunk int64) bool {
	order := slices.Clone(alive)
	m.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	taken := make([][]float64, len(m.runs))
	for range alive {
		for _, i := range order {
			c := m.runs[i]
			if c.dead != nil {
				continue
			}
			s, err := c.one(Iters{N: chunk, Index: len(c.samples) + c.res.FailedCount})
			switch {
			case err == nil:
				c.inARow = 0
				c.keep(s)
				taken[i] = append(taken[i], c.perOp[len(c.perOp)-1])
				c.runner.progress.sample(c.res, len(c.samples))
			case c.degrade(err):
				return false
			default:
				c.failed(err)
			}
		}
		order = append(order[1:], order[0])
	}
	for i := range m.runs {
		if len(taken[i]) < len(alive) {
			taken[i] = nil
		}
		m.times[i] = append(m.times[i], taken[i])
	}
	m.blocks++
	return true
}

// effects are those of all cases against the first.
func (m *match) effects(look int) []stats.Effect {
	var list []stats.Effect
	base := m.runs[0]
	for i, c := range m.runs[1:] {
		q := stats.Question{Threshold: m.set.match.threshold, Look: look}
		var a, b [][]float64
		if base.dead == nil && c.dead == nil && len(c.samples) > 0 && len(base.samples) > 0 {
			q.Quantum = max(base.resolution(), c.resolution())
			a, b = m.times[0], m.times[i+1]
		}
		list = append(list, stats.CompareBlocks(a, b, q))
	}
	return list
}

// compare adds the comparisons to the report.
func (m *match) compare() {
	look := m.looks
	if m.set.match.settle {
		look = max(look, 1)
	}
	if m.looks > 0 && !m.clear() { // ended between two looks: this is another one
		look++
	}
	base := m.runs[0].res
	for i, e := range m.effects(look) {
		m.runner.effects = append(m.runner.effects, e)
		m.runner.report.Comparisons = append(m.runner.report.Comparisons, Comparison{
			Group: base.Group, Base: base.Name(), Other: m.runs[i+1].res.Name(),
			PerBlock: len(m.runs), Seed: m.seed, Looks: look,
		})
	}
	m.runner.judge()
}
