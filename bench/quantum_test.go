package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockReadings are what a calibration reads from a clock that steps by q ns: spans from
// the first of 200 events, short spans of many lengths, and empty ones. Each is off by up
// to jitter.
func clockReadings(q, jitter float64, seed uint64) (paced, spread []time.Duration) {
	random := rand.New(rand.NewPCG(seed, 5))
	read := func(from, to float64) time.Duration {
		steps := math.Floor(to/q) - math.Floor(from/q)
		return time.Duration(math.Round(steps*q + jitter*(2*random.Float64()-1)))
	}
	cost := max(1280, q/3)
	for i := range 200 {
		at := 1e6 * random.Float64()
		paced = append(paced, read(1000, 1000+float64(i)*cost+40*random.Float64()), read(at, at+cost))
	}
	for i := range 20 {
		at := 1e6 * random.Float64()
		spread = append(spread, read(at, at+cost+1000+37*float64(i)))
	}
	return paced, spread
}

// The smallest difference between readings was taken for the clock's step, so that a
// clock of 24 MHz had one of 1 ns, and what it cannot tell was measured.
func TestClocksStepIsFoundBehindRoundingAndJitter(t *testing.T) {
	for _, c := range []struct{ step, jitter, within float64 }{
		{1, 0, 0}, {32, 0, 0}, {32, 1, 1}, {32, 2.5, 1}, {125.0 / 3, 0, 0.5}, {125.0 / 3, 2, 1},
		{500, 0, 0}, {500, 20, 10}, {1000, 0, 0}, {1000, 40, 20}, {10, 0, 0}, {52.083, 0, 0.5},
	} {
		t.Run(fmt.Sprintf("%.1f ns, off by %.1f", c.step, c.jitter), func(t *testing.T) {
			for seed := range uint64(20) {
				got := quantum(clockReadings(c.step, c.jitter, seed))
				require.InDelta(t, c.step, float64(got), c.within, "seed %d", seed)
			}
		})
	}
}

func TestReadingsWithoutAStepGiveANanosecond(t *testing.T) {
	require.EqualValues(t, 1, quantum(nil, nil))
	require.EqualValues(t, 1, quantum([]time.Duration{0, 0}, nil))
	require.EqualValues(t, 1, quantum([]time.Duration{1, 1}, nil))
	require.EqualValues(t, 2, quantum([]time.Duration{2, 4, 8, 14}, nil))
	require.EqualValues(t, 1280, quantum([]time.Duration{1280, 1280, 2560}, nil))
}
