package stats

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var printDipTable = flag.Bool("diptable", false, "print the rows of diptable.go instead of checking them; takes minutes")

// uniformDips are the dips of uniform samples, times sqrt(n), ascending.
func uniformDips(n, rounds int, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	dips := make([]float64, rounds)
	x := make([]float64, n)
	for round := range dips {
		for i := range x {
			x[i] = random.Float64()
		}
		slices.Sort(x)
		dips[round] = math.Sqrt(float64(n)) * dip(x)
	}
	slices.Sort(dips)
	return dips
}

func TestDipTableIsWhatUniformSamplesGive(t *testing.T) {
	if *printDipTable {
		for _, n := range tableN {
			dips := uniformDips(n, min(200_000, 100_000_000/n), 1)
			row := make([]string, len(tableP))
			for j, p := range tableP {
				row[j] = fmt.Sprintf("%.4f", Quantile(dips, 1-p))
			}
			fmt.Printf("\t\t{%s}, // %d\n", strings.Join(row, ", "), n)
		}
		return
	}
	require.Len(t, tableDip, len(tableN))
	for i, n := range tableN {
		if n > 500 {
			break // the larger ones take too long here
		}
		dips := uniformDips(n, 5000, 2)
		for j, p := range tableP[:6] { // 50 of 5000 lie beyond the sixth
			require.InEpsilon(t, Quantile(dips, 1-p), tableDip[i][j], 0.03, "n %d, p %v", n, p)
		}
	}
}
