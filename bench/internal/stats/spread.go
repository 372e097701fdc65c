package stats

import (
	"math"
	"slices"
)

// madScale makes the MAD of normal samples their standard deviation: the inverse
// of the normal distribution's third quartile.
const madScale = 1.4826022185056018

// Mean returns the arithmetic mean, in the unit of the samples, 0 without any.
func Mean(samples []float64) float64 {
	kept, _ := Finite(samples)
	if len(kept) == 0 {
		return 0
	}
	return sum(kept) / float64(len(kept))
}

// Stddev returns the standard deviation in the unit of the samples, with n-1 in
// the denominator; 0 for fewer than two samples.
func Stddev(samples []float64) float64 {
	kept, _ := Finite(samples)
	if len(kept) < 2 {
		return 0
	}
	return math.Sqrt(squares(kept, Mean(kept)) / float64(len(kept)-1))
}

// squares is the sum of the squared distances from the mean.
func squares(samples []float64, mean float64) float64 {
	var total float64
	for _, x := range samples {
		total += (x - mean) * (x - mean)
	}
	return total
}

// MAD returns the median absolute deviation from the median, in the unit of the
// samples and not scaled. Of quantised samples it is often exactly 0.
func MAD(sorted []float64) float64 {
	sorted = trim(sorted)
	median := Median(sorted)
	away := make([]float64, len(sorted))
	for i, x := range sorted {
		away[i] = math.Abs(x - median)
	}
	slices.Sort(away)
	return Median(away)
}

// ScaledMAD is [MAD] times 1.4826, which estimates the standard deviation where
// the samples are normal but for outliers.
func ScaledMAD(sorted []float64) float64 { return madScale * MAD(sorted) }

// IQR returns the distance between the quartiles, in the unit of the samples.
func IQR(sorted []float64) float64 {
	return Quantile(sorted, 0.75) - Quantile(sorted, 0.25)
}

// Noise returns the spread of a single sample as a fraction of the median:
// [ScaledMAD], or the quantum if that is larger, over |median|. It is false
// without samples and for a median of 0.
func Noise(sorted []float64, quantum float64) (float64, bool) {
	median := Median(sorted)
	return ratio(max(ScaledMAD(sorted), tick(quantum, median)), math.Abs(median))
}

// Outliers counts the samples beyond Tukey's fences. Nothing is ever removed.
type Outliers struct {
	LowSevere  int `json:"low_severe"` // below q1 - 3 IQR
	LowMild    int `json:"low_mild"`   // below q1 - 1.5 IQR, not severe
	HighMild   int `json:"high_mild"`  // above q3 + 1.5 IQR, not severe
	HighSevere int `json:"high_severe"`
}

// Total is the number of outliers of all classes.
func (o Outliers) Total() int { return o.LowSevere + o.LowMild + o.HighMild + o.HighSevere }

// CountOutliers classes samples by Tukey's fences. The IQR counts as at least the
// quantum, so that in samples of which most are equal a neighbouring tick is no
// outlier.
func CountOutliers(sorted []float64, quantum float64) Outliers {
	sorted = trim(sorted)
	f := fencesOf(sorted, quantum)
	var o Outliers
	for _, x := range sorted {
		switch {
		case x < f.lowSevere:
			o.LowSevere++
		case x < f.lowMild:
			o.LowMild++
		case x > f.highSevere:
			o.HighSevere++
		case x > f.highMild:
			o.HighMild++
		}
	}
	return o
}

type fences struct{ lowSevere, lowMild, highMild, highSevere float64 }

func fencesOf(sorted []float64, quantum float64) fences {
	q1, q3 := Quantile(sorted, 0.25), Quantile(sorted, 0.75)
	width := max(q3-q1, tick(quantum, Median(sorted)))
	return fences{q1 - 3*width, q1 - 1.5*width, q3 + 1.5*width, q3 + 3*width}
}
