package stats

import "math"

// studentCDF is P(T <= x) for T of Student's distribution with so many degrees of
// freedom, which need not be a whole number; from a million on it is the normal one.
func studentCDF(x, df float64) float64 {
	switch {
	case !(df < 1e6):
		return math.Erfc(-x/math.Sqrt2) / 2
	case x == 0:
		return 0.5
	}
	tail := incompleteBeta(df/(df+x*x), df/2, 0.5) / 2
	if x > 0 {
		return 1 - tail
	}
	return tail
}

// studentQuantile is the p-quantile of Student's distribution, for p strictly
// between 0 and 1.
func studentQuantile(p, df float64) float64 {
	if p < 0.5 {
		return -studentQuantile(1-p, df)
	}
	lo, hi := 0.0, 1.0
	for studentCDF(hi, df) < p && hi < 1e9 {
		lo, hi = hi, 2*hi
	}
	for range 80 {
		mid := (lo + hi) / 2
		if studentCDF(mid, df) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// chiSquareQuantile is the p-quantile of the chi-square distribution by the cubes of
// Wilson and Hilferty (1931), to about a percent from five degrees of freedom on.
func chiSquareQuantile(p, df float64) float64 {
	v := 2 / (9 * df)
	c := max(0, 1-v+normalQuantile(p)*math.Sqrt(v))
	return df * c * c * c
}

// incompleteBeta is the regularised incomplete beta function, as the continued
// fraction of Abramowitz and Stegun 26.5.8 in the way of Lentz.
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - incompleteBeta(1-x, b, a)
	}
	lab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	apart := func(v float64) float64 { // from 0, which is divided by
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c := 1.0
	d := 1 / apart(1-(a+b)*x/(a+1))
	f := d
	for i := 1; i <= 500; i++ {
		m := float64(i)
		for _, k := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / apart(1+k*d)
			c = apart(1 + k/c)
			f *= c * d
		}
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return front * f
}
