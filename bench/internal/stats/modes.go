package stats

import (
	"math"
	"slices"
)

// Modes says whether samples come in two kinds, as they do when a device changes
// between two clocks or a call between two paths. Their mean is then the time of
// nothing, and their median jumps from one kind to the other.
type Modes struct {
	Two bool `json:"two"`
	// Dip is the dip statistic of the samples with their ticks smoothed out, and P
	// the probability of one as large in samples of one mode: at most that, for P
	// is that of the uniform distribution, the hardest to tell from two modes. It
	// is read from a table that ends at 0.5 and 0.001.
	Dip float64 `json:"dip"`
	P   float64 `json:"p"`
	// The medians of the two kinds, in the unit of the samples, and the share of
	// samples of the lower. Only if Two.
	Low      float64 `json:"low,omitempty"`
	High     float64 `json:"high,omitempty"`
	LowShare float64 `json:"low_share,omitempty"`
}

// What two modes take.
const (
	minSamplesModes = 20
	modesP          = 0.01
	modesShare      = 0.1 // of the samples, in the smaller
	modesTicks      = 3   // between the two
)

// FindModes looks for two modes with Hartigan's dip test. It finds two if P is at
// most 0.01, the smaller holds a tenth of the samples or more, and their medians
// are more than three quanta apart. Fewer than 20 samples are never two.
//
// The dip of quantised samples is large because each tick is a mode. So equal
// samples, those within half a quantum, are first spread evenly over one quantum,
// which leaves the histogram that the clock could tell. The smallest difference
// between samples takes the place of a quantum that is not known, and of one that
// is smaller than it, unless there are only two values: with an unknown quantum
// those are one mode, since they may be neighbouring ticks, and with a known one
// their distance says nothing about it.
func FindModes(sorted []float64, quantum float64) Modes {
	sorted = trim(sorted)
	n := len(sorted)
	if n < minSamplesModes || sorted[0] == sorted[n-1] {
		return Modes{P: tableP[0]}
	}
	quantum = cleanQuantum(quantum)
	if gap, distinct := smallestGap(sorted); quantum == 0 || distinct > 2 {
		quantum = max(quantum, gap)
	}
	step := tick(quantum, Median(sorted))
	smooth := spreadTicks(sorted, step)
	m := Modes{Dip: dip(smooth)}
	m.P = dipP(n, m.Dip)
	if m.P > modesP {
		return m
	}
	at := split(sorted)
	if float64(min(at, n-at)) < modesShare*float64(n) {
		return m
	}
	low, high := Median(sorted[:at]), Median(sorted[at:])
	if high-low <= modesTicks*step {
		return m
	}
	m.Two, m.Low, m.High, m.LowShare = true, low, high, float64(at)/float64(n)
	return m
}

// smallestGap is the smallest difference between samples that are not equal, and
// how many values they have.
func smallestGap(sorted []float64) (smallest float64, distinct int) {
	smallest, distinct = sorted[len(sorted)-1]-sorted[0], 1
	for i := 1; i < len(sorted); i++ {
		if gap := sorted[i] - sorted[i-1]; gap > 0 {
			smallest = min(smallest, gap)
			distinct++
		}
	}
	return smallest, distinct
}

// spreadTicks spreads each group of samples that one tick holds evenly over it,
// and returns the ascending outcome.
func spreadTicks(sorted []float64, step float64) []float64 {
	smooth := make([]float64, 0, len(sorted))
	for from := 0; from < len(sorted); {
		to := from
		for to < len(sorted) && sorted[to]-sorted[from] <= step/2 {
			to++
		}
		middle := Mean(sorted[from:to])
		for i := range to - from {
			share := (float64(i)+0.5)/float64(to-from) - 0.5
			smooth = append(smooth, middle+step*share)
		}
		from = to
	}
	slices.Sort(smooth)
	return smooth
}

// split returns how many of the samples are of the lower kind: the division into
// two groups whose means are worth most (Otsu 1979). A twentieth at either end
// counts as no further out than the rest, or outliers would decide. 0 if no
// division is worth anything.
func split(sorted []float64) int {
	n := len(sorted)
	floor, ceiling := sorted[n/20], sorted[n-1-n/20]
	clamped := make([]float64, n)
	for i, x := range sorted {
		clamped[i] = max(floor, min(ceiling, x)) - floor
	}
	total := sum(clamped)
	var lower, best float64
	at := 0
	for i := 1; i < n; i++ {
		lower += clamped[i-1]
		a, b := float64(i), float64(n-i)
		apart := lower/a - (total-lower)/b
		if worth := a * b * apart * apart; worth > best && sorted[i] != sorted[i-1] {
			best, at = worth, i
		}
	}
	return at
}

// dipP returns the probability of a dip as large as d among n uniform samples,
// from the table: sqrt(n) times the dip hardly depends on n, so both that and the
// logarithm of the probability are taken as straight between its entries.
func dipP(n int, d float64) float64 {
	scaled := math.Sqrt(float64(n)) * d
	row := 0
	for row+2 < len(tableN) && tableN[row+1] < n {
		row++
	}
	weight := math.Log(float64(n)/float64(tableN[row])) / math.Log(float64(tableN[row+1])/float64(tableN[row]))
	weight = max(0, min(1, weight))
	critical := func(i int) float64 {
		return (1-weight)*tableDip[row][i] + weight*tableDip[row+1][i]
	}
	if scaled < critical(0) {
		return tableP[0]
	}
	for i := 1; i < len(tableP); i++ {
		below, above := critical(i-1), critical(i)
		if scaled < above {
			w := (scaled - below) / (above - below)
			return math.Exp((1-w)*math.Log(tableP[i-1]) + w*math.Log(tableP[i]))
		}
	}
	return tableP[len(tableP)-1]
}
