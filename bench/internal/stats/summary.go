package stats

import "math"

// Options are what [Summarize] has to know beside the samples.
type Options struct {
	// Level of the confidence intervals, in (0, 1). Anything else is 0.95.
	Level float64
	// Quantum is the smallest difference that the clock can tell, in the unit of
	// the samples. 0, or anything that is no size, is "not known".
	Quantum float64
}

// DefaultLevel is the level of intervals where none is given.
const DefaultLevel = 0.95

func (o Options) clean() Options {
	if !fraction(o.Level) {
		o.Level = DefaultLevel
	}
	o.Quantum = cleanQuantum(o.Quantum)
	return o
}

// Summary is what can be said about the samples of one case. Times are in the unit
// of the samples, ns. A nil pointer is something that these samples do not allow
// to say; without a single sample all is zero but Refused. Every number is finite.
type Summary struct {
	N        int `json:"n"`        // samples reckoned with
	Refused  int `json:"refused"`  // NaN, infinite or beyond MaxMagnitude
	Zero     int `json:"zero"`     // exactly 0: below what the clock can tell
	Negative int `json:"negative"` // below 0: the clock or the events are at fault

	Min    float64  `json:"min"`
	Q1     float64  `json:"q1"`
	Median float64  `json:"median"`
	Mean   float64  `json:"mean"`
	Q3     float64  `json:"q3"`
	P95    *float64 `json:"p95,omitempty"` // from MinSamplesP95 samples
	P99    *float64 `json:"p99,omitempty"` // from MinSamplesP99 samples
	Max    float64  `json:"max"`

	MedianCI *Interval `json:"median_ci,omitempty"`

	Stddev    float64  `json:"stddev"`
	MAD       float64  `json:"mad"`        // not scaled
	ScaledMAD float64  `json:"mad_scaled"` // estimates Stddev without the outliers
	IQR       float64  `json:"iqr"`
	Noise     *float64 `json:"noise,omitempty"` // of one sample, a fraction of the median

	Outliers Outliers `json:"outliers"`
	// SlowFirst says that the first sample is a severe outlier: first-use cost that
	// the warm-up did not absorb.
	SlowFirst bool `json:"slow_first"`

	Lag1       *float64 `json:"lag1,omitempty"`
	Correlated bool     `json:"correlated"` // Lag1 is too far above 0 for chance
	Drift      Drift    `json:"drift"`
	Modes      Modes    `json:"modes"`

	// Detectable is the smallest relative change that a second run like this one
	// would show with 80 % power, see [Detectable].
	Detectable *float64 `json:"detectable,omitempty"`

	Level   float64 `json:"level"`   // asked of the intervals
	Quantum float64 `json:"quantum"` // 0: not known
}

// DefaultPower is the power for which [Summary] gives the detectable change.
const DefaultPower = 0.8

// Summarize describes samples, in the order in which they were taken.
func Summarize(samples []float64, options Options) Summary {
	options = options.clean()
	level, quantum := options.Level, options.Quantum
	kept, refused := Finite(samples)
	sorted, _ := Sorted(kept)
	n := len(sorted)
	s := Summary{N: n, Refused: refused, Level: level, Quantum: quantum, Drift: FindDrift(kept, quantum), Modes: FindModes(sorted, quantum)}
	if n == 0 {
		return s
	}
	for _, x := range kept {
		switch {
		case x == 0:
			s.Zero++
		case x < 0:
			s.Negative++
		}
	}
	s.Min, s.Max = sorted[0], sorted[n-1]
	s.Q1, s.Median, s.Q3 = Quantile(sorted, 0.25), Median(sorted), Quantile(sorted, 0.75)
	s.Mean, s.Stddev = Mean(kept), Stddev(kept)
	if n >= MinSamplesP95 {
		s.P95 = said(Quantile(sorted, 0.95), true)
	}
	if n >= MinSamplesP99 {
		s.P99 = said(Quantile(sorted, 0.99), true)
	}
	if ci, ok := MedianCI(sorted, level); ok {
		s.MedianCI = &ci
	}
	s.MAD = MAD(sorted)
	s.ScaledMAD = madScale * s.MAD
	s.IQR = s.Q3 - s.Q1
	s.Noise = said(Noise(sorted, quantum))
	s.Outliers = CountOutliers(sorted, quantum)
	s.SlowFirst = kept[0] > fencesOf(sorted, quantum).highSevere
	if lag1, ok := Lag1(kept); ok {
		s.Lag1, s.Correlated = &lag1, Correlated(lag1, n)
	}
	s.Detectable = said(Detectable(sorted, level, DefaultPower, quantum))
	return s
}

func said(x float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &x
}

// RelativeHalfWidth is half the width of the median's interval over |median|: the
// "±" of a report. It is false without an interval and for a median of 0.
func (s Summary) RelativeHalfWidth() (float64, bool) {
	if s.MedianCI == nil {
		return 0, false
	}
	return ratio(s.MedianCI.HalfWidth(), math.Abs(s.Median))
}
