package stats

// dip returns the dip statistic of ascending values (Hartigan and Hartigan 1985):
// the largest distance between their empirical distribution and the unimodal
// distribution that is nearest to it, between 1/(2n) and 1/4. Equal values count
// as a jump of the distribution.
//
// A distribution of one mode is convex up to the mode and concave after it. So the
// search takes the greatest convex minorant of the empirical distribution and its
// least concave majorant over an interval, first over all values. Where these are
// furthest apart is the next, smaller interval for the mode; left of it the
// minorant stays and right of it the majorant, and their distances from the
// distribution count. It ends when no gap inside is larger than those. All
// distances are in samples.
func dip(x []float64) float64 {
	found := 1.0 // the distribution's own jump
	low, high := 0, len(x)-1
	for low < high {
		minorant := hull(x, low, high, steeperBefore)
		majorant := hull(x, low, high, flatterBefore)
		gap, left, right := widestGap(x, minorant, majorant)
		if gap <= found {
			break
		}
		found = max(found, aboveMinorant(x, minorant, left), belowMajorant(x, majorant, right))
		low, high = left, right // smaller: at both old ends the gap is 1
	}
	return found / float64(2*len(x))
}

// hull returns the values from low to high, as indices, that are corners of the
// minorant (of the points x[i], i, where the distribution's jumps begin) or the
// majorant (of x[i], i+1, where they end). skip says whether b is no corner
// between a and c.
func hull(x []float64, low, high int, skip func(x []float64, a, b, c int) bool) []int {
	var corners []int
	for c := low; c <= high; c++ {
		for len(corners) >= 2 && skip(x, corners[len(corners)-2], corners[len(corners)-1], c) {
			corners = corners[:len(corners)-1]
		}
		corners = append(corners, c)
	}
	return corners
}

func steeperBefore(x []float64, a, b, c int) bool {
	return float64(b-a)*(x[c]-x[b]) >= float64(c-b)*(x[b]-x[a])
}

func flatterBefore(x []float64, a, b, c int) bool {
	return float64(b-a)*(x[c]-x[b]) <= float64(c-b)*(x[b]-x[a])
}

// line is the height of the line through the points of values a and b at value i,
// with x[a] <= x[i] <= x[b].
func line(x []float64, a, b, i int) float64 {
	if x[a] == x[b] {
		return float64(i)
	}
	return float64(a) + float64(b-a)*((x[i]-x[a])/(x[b]-x[a]))
}

// widestGap finds where majorant and minorant are furthest apart, which is at a
// corner of one of them, and the interval from a corner of the minorant to one of
// the majorant round it.
func widestGap(x []float64, minorant, majorant []int) (gap float64, left, right int) {
	widest := func(distance float64, l, r int) {
		if distance > gap {
			gap, left, right = distance, l, r
		}
	}
	s := 0
	for _, corner := range majorant {
		for minorant[s+1] < corner {
			s++
		}
		widest(float64(corner+1)-line(x, minorant[s], minorant[s+1], corner), minorant[s], corner)
	}
	s = 0
	for _, corner := range minorant {
		for majorant[s+1] < corner {
			s++
		}
		widest(line(x, majorant[s], majorant[s+1], corner)+1-float64(corner), corner, majorant[s+1])
	}
	return gap, left, right
}

// aboveMinorant is how far the distribution rises above its minorant, up to the
// corner right.
func aboveMinorant(x []float64, minorant []int, right int) float64 {
	var most float64
	for s := 0; s+1 < len(minorant) && minorant[s] < right; s++ {
		for i := minorant[s]; i <= minorant[s+1]; i++ {
			most = max(most, float64(i+1)-line(x, minorant[s], minorant[s+1], i))
		}
	}
	return most
}

// belowMajorant is how far the distribution stays below its majorant, from the
// corner left on.
func belowMajorant(x []float64, majorant []int, left int) float64 {
	var most float64
	for s := 0; s+1 < len(majorant); s++ {
		if majorant[s] < left {
			continue
		}
		for i := majorant[s]; i <= majorant[s+1]; i++ {
			most = max(most, line(x, majorant[s], majorant[s+1], i)+1-float64(i))
		}
	}
	return most
}
