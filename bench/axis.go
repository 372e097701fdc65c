package bench

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxAxis is how many values a range may have.
const maxAxis = 10_000

// AxisValue is where a case lies on one axis.
type AxisValue struct {
	Name  string `json:"name"`  // of the axis
	Value string `json:"value"` // as given, or as the range made it
}

// axis is a parameter of a group: each of its cases is measured once for every
// combination of the axes' values.
type axis struct {
	name   string
	values []string
}

// axisText is one axis on the command line: name=values, with [pow2] for powers of two.
var axisText = regexp.MustCompile(`^([^=\[\]\s]+)(\[pow2\])?\s*=\s*(.+)$`)

// parseAxis reads an axis from the command line, in the way of NVBench:
//
//	size=1024               one value
//	size=[1,2,5]            several
//	size=[16:64:16]         from, to (both included), step; the step is 1 if left out
//	size[pow2]=[10:20:2]    the same of exponents of two
//	type=[f32,f64]          words
func parseAxis(text string) (axis, error) {
	m := axisText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return axis{}, fmt.Errorf("axis %q: write name=value, name=[a,b,c], name=[from:to:step], or name[pow2] for powers of two", text)
	}
	a := axis{name: m[1]}
	list, bracketed := strings.CutPrefix(m[3], "[")
	if bracketed {
		var closed bool
		if list, closed = strings.CutSuffix(list, "]"); !closed {
			return axis{}, fmt.Errorf("axis %q: a bracket is not closed", text)
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		values, err := expand(part, bracketed, m[2] != "")
		if err != nil {
			return axis{}, fmt.Errorf("axis %q: %w", text, err)
		}
		if a.values = append(a.values, values...); len(a.values) > maxAxis {
			return axis{}, fmt.Errorf("axis %q: more than %d values", text, maxAxis)
		}
	}
	return a, nil
}

// expand turns one part of a list into values.
func expand(part string, ranges, pow2 bool) ([]string, error) {
	if part == "" {
		return nil, errors.New("an empty value")
	}
	if !ranges || !strings.Contains(part, ":") {
		return power(part, pow2)
	}
	bounds := strings.Split(part, ":")
	if len(bounds) > 3 {
		return nil, fmt.Errorf("%q is not from:to:step", part)
	}
	numbers := []float64{0, 0, 1}
	whole := true
	for i, b := range bounds {
		v, err := strconv.ParseFloat(strings.TrimSpace(b), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%q in %q is not a number", b, part)
		}
		numbers[i] = v
		whole = whole && v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	from, to, step := numbers[0], numbers[1], numbers[2]
	if step == 0 || (to-from)/step < 0 {
		return nil, fmt.Errorf("%q never gets from %v to %v", part, from, to)
	}
	n := math.Floor((to-from)/step*(1+1e-12)) + 1
	if n > maxAxis {
		return nil, fmt.Errorf("%q has more than %d values", part, maxAxis)
	}
	var values []string
	for i := range int(n) {
		v := from + float64(i)*step
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if whole {
			text = strconv.FormatInt(int64(v), 10)
		}
		more, err := power(text, pow2)
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	return values, nil
}

// power gives the value itself, or two to the power of it.
func power(text string, pow2 bool) ([]string, error) {
	if !pow2 {
		return []string{text}, nil
	}
	e, err := strconv.Atoi(text)
	if err != nil || e < 0 || e > 62 {
		return nil, fmt.Errorf("%q is no exponent of two from 0 to 62", text)
	}
	return []string{strconv.FormatInt(1<<e, 10)}, nil
}

// combinations are all points of the axes, the last axis the fastest. Without axes
// it is one point of no coordinates.
func combinations(axes []axis) [][]AxisValue {
	points := [][]AxisValue{nil}
	for _, a := range axes {
		var next [][]AxisValue
		for _, p := range points {
			for _, v := range a.values {
				next = append(next, append(p[:len(p):len(p)], AxisValue{Name: a.name, Value: v}))
			}
		}
		points = next
	}
	return points
}
